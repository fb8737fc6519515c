"""The discrete Laplace law: draws, tails, error bars, calibration."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteLaplace

SIZE = 40_000
SCALES = [
    Fraction(1, 2), Fraction(1), Fraction(5, 4), Fraction(10), Fraction(1023, 64), Fraction(12_345),
    Fraction(2**21 - 1), Fraction(2**39 + 7, 2**20), Fraction(2**40 - 1),
]  # fmt: skip


def _law(scale: Fraction | float) -> Callable[[int], float]:
    """P[Z >= x], by the closed form in floats."""
    q = math.exp(-1 / float(scale))
    return lambda x: q**x / (1 + q) if x > 0 else 1 - q ** (1 - x) / (1 + q)


def _exact_tail(scale: Fraction, x: int) -> Decimal:
    """P[Z >= x] to 60 digits."""
    with localcontext(prec=60):

        def power(n: int) -> Decimal:
            return (-Decimal(n) * scale.denominator / scale.numerator).exp()

        return power(x) / (1 + power(1)) if x > 0 else 1 - power(1 - x) / (1 + power(1))


@pytest.mark.parametrize("scale", SCALES)
def test_draws_fit_their_scale_and_no_other(scale: Fraction, fits: Callable[..., bool]) -> None:
    drawn = DiscreteLaplace(scale).sample(SIZE)
    assert drawn.dtype == np.int64
    assert fits(drawn, _law(scale))
    assert not fits(drawn, _law(scale * Fraction(4, 5)))
    assert not fits(drawn, _law(scale * Fraction(5, 4)))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 4), Fraction(3)])
def test_each_integer_has_its_own_probability(scale: Fraction) -> None:
    """At small scales the bins of the fit are single integers: 0 and both signs are weighed exactly."""
    drawn = DiscreteLaplace(scale).sample(200_000)
    q = math.exp(-1 / float(scale))
    for z in range(-3, 4):
        p = (1 - q) / (1 + q) * q ** abs(z)
        assert stats.binomtest(np.count_nonzero(drawn == z), 200_000, p).pvalue > 1e-9


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(40)])
def test_draws_agree_with_another_sampler(scale: Fraction, same_law: Callable[..., bool]) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    other = np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * SIZE))
    assert same_law(DiscreteLaplace(scale).sample(SIZE), other)
    assert not same_law(DiscreteLaplace(scale * Fraction(5, 4)).sample(SIZE), other)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 70_000])
def test_as_many_draws_as_asked_for(n: int) -> None:
    assert DiscreteLaplace(Fraction(7, 2)).sample(n).shape == (n,)


def test_repeated_draws_differ() -> None:
    noise = DiscreteLaplace(Fraction(2**30))
    assert not np.array_equal(noise.sample(10), noise.sample(10))


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1, 2**20), Fraction(2**40 - 1, 2**20)])
def test_tail_is_an_upper_bound_and_tight(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    reach = max(1, int(scale))
    for x in {-50 * reach, -reach, -1, 0, 1, 2, 3, reach, 7 * reach, 100 * reach, 600 * reach}:
        exact = _exact_tail(scale, x)
        bound = Decimal(noise.tail(x))
        assert exact <= bound
        assert bound <= exact * (1 + Decimal("1e-12")) + Decimal("1e-321")
    assert 0 < noise.tail(10**30) < 1e-300
    assert noise.tail(-(10**30)) == 1


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 4), Fraction(9)])
def test_tail_is_the_sum_of_the_probabilities(scale: Fraction) -> None:
    with localcontext(prec=50):
        q = (-Decimal(scale.denominator) / scale.numerator).exp()
        weights = {z: q ** abs(z) for z in range(-900, 901)}
        total = sum(weights.values(), Decimal(0))
        for x in (-6, -1, 0, 1, 4, 15):
            share = sum((w for z, w in weights.items() if z >= x), Decimal(0)) / total
            assert abs(Decimal(DiscreteLaplace(scale).tail(x)) / share - 1) < Decimal("1e-12")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", [1e-9, 0.5, 0.9, 0.95, 0.999999])
def test_half_width_is_the_smallest_that_covers(scale: Fraction, confidence: float) -> None:
    w = DiscreteLaplace(scale).half_width(confidence)
    missed = 1 - Decimal(confidence)
    assert 2 * _exact_tail(scale, w + 1) <= missed
    assert w == 0 or 2 * _exact_tail(scale, w) > missed * (1 - Decimal("1e-12"))


@pytest.mark.parametrize("scale", SCALES)
def test_cdf_and_variance(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    for x in (-30, -1, 0, 1, 30, int(scale)):
        assert noise.cdf(x) == pytest.approx(float(1 - _exact_tail(scale, x + 1)), rel=1e-12)
    q = Decimal(-1) / (Decimal(scale.numerator) / scale.denominator)
    with localcontext(prec=60):
        exact = 2 * q.exp() / (1 - q.exp()) ** 2
    assert noise.variance() == pytest.approx(float(exact), rel=1e-9)


def test_the_smallest_scale_makes_no_noise() -> None:
    noise = DiscreteLaplace(Fraction(1, 2**20))
    assert not noise.sample(1000).any()
    assert noise.variance() == 0


sensitivities = st.integers(1, 10**9)
budgets = st.fractions(Fraction(1, 10**4), Fraction(50))


@given(l1=sensitivities, epsilon=budgets)
def test_calibration_never_costs_more_than_allowed(l1: int, epsilon: Fraction) -> None:
    if l1 / epsilon >= 2**40 - 1:
        return
    noise = DiscreteLaplace.for_epsilon(l1, epsilon)
    assert noise.epsilon(l1) == Fraction(l1) / noise.scale <= epsilon


@given(l1=sensitivities, epsilon=budgets)
def test_calibration_takes_the_smallest_scale(l1: int, epsilon: Fraction) -> None:
    if l1 / epsilon >= 2**40 - 1:
        return
    scale = DiscreteLaplace.for_epsilon(l1, epsilon).scale
    fine = max(2**k for k in range(21) if k == 0 or scale * 2**k < 2**40)
    assert (scale * fine).denominator == 1
    assert scale - Fraction(1, fine) < l1 / epsilon


@pytest.mark.parametrize(
    "scale",
    [Fraction(0), Fraction(-1), Fraction(1, 3), Fraction(2**40), Fraction(1, 2**21), Fraction(3, 2**41)],
)
def test_scales_outside_the_grid_are_refused(scale: Fraction) -> None:
    with pytest.raises(InternalError):
        DiscreteLaplace(scale)


@pytest.mark.parametrize(
    ("l1", "epsilon"), [(0, Fraction(1)), (-3, Fraction(1)), (1, Fraction(0)), (2**40, Fraction(1))]
)
def test_impossible_calibrations_are_refused(l1: int, epsilon: Fraction) -> None:
    with pytest.raises(InternalError):
        DiscreteLaplace.for_epsilon(l1, epsilon)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_impossible_confidences_are_refused(confidence: float) -> None:
    with pytest.raises(InternalError):
        DiscreteLaplace(Fraction(1)).half_width(confidence)


def test_many_draws_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a million draws fast (see tests/bench/noise.py): few and large requests for random bytes, no loop over draws."""
    asked: list[int] = []
    source = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: (asked.append(count), source(count))[1])
    DiscreteLaplace(Fraction(2**20 + 1, 16)).sample(10**5)
    assert len(asked) < 1000


@pytest.mark.parametrize("scale", SCALES)
def test_a_tail_is_a_bound_by_its_documented_error_and_no_more(scale: Fraction) -> None:
    """Relative below one part in 10**12 and no less than 3 in 10**13; 2**-1070 where no double tells the rest."""
    law = DiscreteLaplace(scale)
    for x in (1, math.ceil(scale), math.ceil(5 * scale)):
        assert 3e-13 < law.tail(x) / law.survival(x) - 1 < 1e-12
    assert law.tail(math.ceil(2000 * scale)) == 2.0**-1070
    assert law.tail(-math.ceil(2000 * scale)) == 1.0
