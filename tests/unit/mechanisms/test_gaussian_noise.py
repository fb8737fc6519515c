"""The discrete Gaussian law: draws, tails, error bars, calibration."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteGaussian
from dpsql.mechanisms.gaussian import _accept

SIZE = 40_000
SCALES = [
    Fraction(1, 2), Fraction(1), Fraction(5, 4), Fraction(10), Fraction(1023, 64), Fraction(300),
    Fraction(4096), Fraction(2**23 + 7, 2**20), Fraction(2**24 - 1),
]  # fmt: skip


@cache
def _suffix_sums(scale: Fraction) -> tuple[int, np.ndarray]:
    """P[Z >= x] for x = -reach … reach, summed in floats from the small end."""
    reach = math.ceil(12 * scale) + 2
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-z * z / (2 * float(scale) ** 2))
    return reach, np.cumsum(weights[::-1])[::-1] / weights.sum()


def _law(scale: Fraction) -> Callable[[int], float]:
    """P[Z >= x]: sums below sigma = 2000, the normal law with half-integer ends above (error < 1e-8)."""
    if scale > 2000:
        return lambda x: float(stats.norm.sf((x - 0.5) / float(scale)))
    reach, sums = _suffix_sums(scale)
    return lambda x: 1.0 if x < -reach else 0.0 if x > reach else float(sums[x + reach])


def _density(scale: Fraction, z: int) -> Decimal:
    square = 2 * scale * scale
    return (-Decimal(z * z) * square.denominator / square.numerator).exp()


@cache
def _mass(scale: Fraction) -> Decimal:
    with localcontext(prec=40):
        reach = math.ceil(14 * scale) + 3
        return 2 * sum((_density(scale, z) for z in range(1, reach)), Decimal(0)) + 1


def _exact_tail(scale: Fraction, x: int) -> Decimal:
    """P[Z >= x] to about 40 digits, for scales at which a sum is feasible."""
    if x <= 0:
        return 1 - _exact_tail(scale, 1 - x)
    with localcontext(prec=40):
        reach = x + min(math.ceil(14 * scale), math.ceil(80 * scale * scale / x)) + 3
        return sum((_density(scale, z) for z in range(x, reach)), Decimal(0)) / _mass(scale)


@pytest.mark.parametrize("scale", SCALES)
def test_draws_fit_their_scale_and_no_other(scale: Fraction, fits: Callable[..., bool]) -> None:
    drawn = DiscreteGaussian(scale).sample(SIZE)
    assert drawn.dtype == np.int64
    assert fits(drawn, _law(scale))
    assert not fits(drawn, _law(scale * Fraction(4, 5)))
    assert not fits(drawn, _law(scale * Fraction(5, 4)))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 4), Fraction(3)])
def test_each_integer_has_its_own_probability(scale: Fraction) -> None:
    drawn = DiscreteGaussian(scale).sample(200_000)
    for z in range(-3, 4):
        p = float(_density(scale, z) / _mass(scale))
        assert stats.binomtest(np.count_nonzero(drawn == z), 200_000, p).pvalue > 1e-9


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(40)])
def test_draws_agree_with_another_sampler(scale: Fraction, same_law: Callable[..., bool]) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    other = np.array(dp.m.make_gaussian(*space, scale=float(scale))([0] * SIZE))
    assert same_law(DiscreteGaussian(scale).sample(SIZE), other)
    assert not same_law(DiscreteGaussian(scale * Fraction(5, 4)).sample(SIZE), other)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 70_000])
def test_as_many_draws_as_asked_for(n: int) -> None:
    assert DiscreteGaussian(Fraction(7, 2)).sample(n).shape == (n,)


@pytest.mark.parametrize("a", [1, 3, 1000, 2**24 - 1])
@pytest.mark.parametrize("multiple", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 4), Fraction(13, 5)])
def test_acceptance_is_the_gaussian_factor(a: int, multiple: Fraction) -> None:
    """All parities of m and all carries: the split exponent is d²/(2a²) for every d."""
    distance = round(multiple * a)
    hits = int(_accept(np.full(30_000, distance, np.int64), a).sum())
    assert stats.binomtest(hits, 30_000, math.exp(-(distance**2) / (2 * a * a))).pvalue > 1e-9


@given(a=st.integers(1, 2**24 - 1), m=st.integers(0, 2**22 - 1), r=st.integers(0, 2**24))
def test_the_exponent_is_split_without_overflow(a: int, m: int, r: int) -> None:
    """The arithmetic of `_accept`, on 64-bit integers, against rationals."""
    whole: list[int] = []
    rest: list[int] = []
    d = a * m + r % a
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsql.mechanisms.gaussian.geometric", lambda size: _Recorder(whole))
        patch.setattr(
            "dpsql.mechanisms.gaussian.bernoulli_exp_fraction",
            lambda num, den: _Recorder(rest) >= num,
        )
        _accept(np.array([d], np.int64), a)
    assert 0 <= rest[0] < 2 * a * a
    assert whole[0] + Fraction(rest[0], 2 * a * a) == Fraction(d * d, 2 * a * a)


class _Recorder:
    """Stands for a geometric draw that reaches everything, and notes what it was compared with."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def __ge__(self, other: np.ndarray) -> np.ndarray:
        self.seen.extend(other.tolist())
        return np.ones(other.size, np.bool_)


@pytest.mark.parametrize("scale", [Fraction(1, 2**20), *(s for s in SCALES if s <= 300), Fraction(511), Fraction(512)])
def test_tail_is_an_upper_bound_and_tight(scale: Fraction) -> None:
    noise = DiscreteGaussian(scale)
    reach = max(1, int(scale))
    for x in {-9 * reach, -reach, -1, 0, 1, 2, 3, reach, 7 * reach, 20 * reach, 37 * reach}:
        exact = _exact_tail(scale, x)
        bound = Decimal(noise.tail(x))
        assert exact <= bound
        assert bound <= exact * (1 + Decimal("1e-12")) + Decimal("1e-321")
    assert 0 < noise.tail(10**30) < 1e-300
    assert noise.tail(-(10**30)) == 1


@pytest.mark.parametrize("x", [1, 2999, 30_000, 100_000])
def test_tail_at_a_large_scale_is_the_sum_of_the_probabilities(x: int) -> None:
    exact = _exact_tail(Fraction(3000), x)
    bound = Decimal(DiscreteGaussian(Fraction(3000)).tail(x))
    assert exact <= bound <= exact * (1 + Decimal("1e-12"))


def test_the_largest_scale_approaches_the_normal_law() -> None:
    noise = DiscreteGaussian(Fraction(2**24 - 1))
    for u in (0.1, 1, 3, 6, 20):
        x = int(u * 2**24)
        middle = float(stats.norm.sf((x - 0.5) / (2**24 - 1)))
        assert noise.tail(x) == pytest.approx(middle, rel=1e-10)


@pytest.mark.parametrize("scale", [s for s in SCALES if s <= 300])
@pytest.mark.parametrize("confidence", [1e-9, 0.5, 0.95, 0.999999])
def test_half_width_is_the_smallest_that_covers(scale: Fraction, confidence: float) -> None:
    w = DiscreteGaussian(scale).half_width(confidence)
    missed = 1 - Decimal(confidence)
    assert 2 * _exact_tail(scale, w + 1) <= missed
    assert w == 0 or 2 * _exact_tail(scale, w) > missed * (1 - Decimal("1e-12"))


def test_half_width_at_the_largest_scale() -> None:
    w = DiscreteGaussian(Fraction(2**24 - 1)).half_width(0.95)
    assert abs(w - 1.959963984540054 * (2**24 - 1)) <= 1


@pytest.mark.parametrize(
    "scale", [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(191, 64), Fraction(3), Fraction(20)]
)
def test_variance_is_that_of_the_discrete_law(scale: Fraction) -> None:
    with localcontext(prec=40):
        squares = sum((2 * z * z * _density(scale, z) for z in range(1, 15 * math.ceil(scale))), Decimal(0))
        exact = squares / _mass(scale)
    assert DiscreteGaussian(scale).variance() == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10), Fraction(300)])
def test_cdf(scale: Fraction) -> None:
    for x in (-30, -1, 0, 1, 30):
        exact = float(_exact_tail(scale, -x))
        assert DiscreteGaussian(scale).cdf(x) == pytest.approx(exact, rel=1e-12, abs=1e-320)


sensitivities = st.integers(1, 10**5)
budgets = st.fractions(Fraction(1, 10**4), Fraction(50))


@given(l2=sensitivities, rho=budgets)
def test_calibration_never_costs_more_than_allowed(l2: int, rho: Fraction) -> None:
    noise = DiscreteGaussian.for_rho(l2, rho)
    assert noise.rho(l2) == Fraction(l2**2) / (2 * noise.scale**2) <= rho


@given(l2=sensitivities, rho=budgets)
def test_calibration_takes_the_smallest_scale(l2: int, rho: Fraction) -> None:
    scale = DiscreteGaussian.for_rho(l2, rho).scale
    fine = max(2**k for k in range(21) if k == 0 or scale * 2**k < 2**24)
    less = scale - Fraction(1, fine)
    assert (scale * fine).denominator == 1
    assert less <= 0 or Fraction(l2**2) / (2 * less**2) > rho


def test_a_sensitivity_may_be_a_fraction() -> None:
    root_of_two = Fraction(1_414_214, 10**6)
    assert DiscreteGaussian.for_rho(root_of_two, Fraction(1, 100)).rho(root_of_two) <= Fraction(1, 100)
    assert DiscreteGaussian(Fraction(2)).rho(Fraction(1, 2)) == Fraction(1, 32)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(1, 3), Fraction(2**24), Fraction(1, 2**21)])
def test_scales_outside_the_grid_are_refused(scale: Fraction) -> None:
    with pytest.raises(InternalError):
        DiscreteGaussian(scale)


@pytest.mark.parametrize(
    ("l2", "rho"), [(0, Fraction(1)), (-3, Fraction(1)), (1, Fraction(0)), (2**25, Fraction(1, 2))]
)
def test_impossible_calibrations_are_refused(l2: int, rho: Fraction) -> None:
    with pytest.raises(InternalError):
        DiscreteGaussian.for_rho(l2, rho)


def test_many_draws_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a million draws fast (see tests/bench/noise.py): few and large requests for random bytes, no loop over draws."""
    asked: list[int] = []
    source = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: (asked.append(count), source(count))[1])
    DiscreteGaussian(Fraction(5_000_001, 2**10)).sample(10**5)
    assert len(asked) < 1000


@pytest.mark.parametrize("scale", SCALES)
def test_a_tail_is_a_bound_by_its_documented_error_and_no_more(scale: Fraction) -> None:
    """Relative below one part in 10**12 and no less than 3 in 10**13; 2**-1070 where no double tells the rest."""
    law = DiscreteGaussian(scale)
    for x in (1, math.ceil(scale), math.ceil(5 * scale)):
        assert 3e-13 < law.tail(x) / law.survival(x) - 1 < 1e-12
    assert law.tail(math.ceil(2000 * scale)) == 2.0**-1070
    assert law.tail(-math.ceil(2000 * scale)) == 1.0
