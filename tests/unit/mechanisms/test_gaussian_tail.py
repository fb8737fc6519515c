"""The discrete Gaussian law at every edge of its formulas: tails in fifty digits, the loss, the calibration."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy.special import bernoulli

from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteGaussian
from dpsql.mechanisms.gaussian import LIMIT, _euler_maclaurin, _root_up

SCALES = [
    Fraction(1, 2**20),
    Fraction(1, 16),
    Fraction(3, 8),
    Fraction(1),
    Fraction(47, 16),
    Fraction(3),
    Fraction(49, 16),
    Fraction(40),
    Fraction(511),
    Fraction(1023, 2),
    Fraction(512),
    Fraction(513),
    Fraction(1100),
]


@cache
def _sums(scale: Fraction) -> tuple[list[Decimal], Decimal]:
    """Σ exp(−z²/2σ²) over z >= x for x = 0 … 40σ, and over all z: each term from the one before, in fifty digits."""
    with localcontext(prec=60, Emin=-(10**9)):
        reach = math.ceil(40 * scale) + 2
        q = (-Decimal(scale.denominator**2) / (2 * scale.numerator**2)).exp()
        terms, term, ratio = [], Decimal(1), q
        for _ in range(reach + 1):
            terms.append(term)
            term, ratio = term * ratio, ratio * q * q
        sums = [Decimal(0)]
        for each in reversed(terms):
            sums.append(sums[-1] + each)
        sums.reverse()
        return sums, 2 * sums[0] - 1


def _tail(scale: Fraction, x: int) -> Decimal:
    sums, total = _sums(scale)
    with localcontext(prec=60, Emin=-(10**9)):
        return 1 - _tail(scale, 1 - x) if x <= 0 else sums[x] / total


@pytest.mark.parametrize("scale", SCALES)
def test_the_survival_is_that_of_the_law_up_to_its_documented_error(scale: Fraction) -> None:
    """P[Z >= x] at every hundredth of sigma up to 37 of them, in both tails, within 3 parts in 10**13."""
    noise = DiscreteGaussian(scale)
    places = {*range(8), *(math.ceil(scale * i / 100) for i in range(0, 3700, 37))}
    for x in sorted(places):
        if x < 37 * scale:
            assert abs(Decimal(noise.survival(x)) / _tail(scale, x) - 1) < Decimal("3e-13")
            assert abs(Decimal(noise.survival(-x)) / _tail(scale, -x) - 1) < Decimal("3e-13")


@pytest.mark.parametrize("scale", [s for s in SCALES if s >= 1])
def test_the_probabilities_next_to_the_centre_add_up_to_one(scale: Fraction) -> None:
    noise = DiscreteGaussian(scale)
    assert noise.survival(0) + noise.survival(1) == pytest.approx(1, abs=1e-15)
    middle = noise.survival(0) - noise.survival(1)
    assert middle == pytest.approx(float(1 / _sums(scale)[1]), rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(300), Fraction(512), Fraction(LIMIT - 1)])
@pytest.mark.parametrize("x", [10**12, 2**60, 2**61 + 1, 10**40])
def test_beyond_all_floats_there_is_nothing_left(scale: Fraction, x: int) -> None:
    assert DiscreteGaussian(scale).survival(x) == 0.0
    assert DiscreteGaussian(scale).survival(-x) == 1.0


@pytest.mark.parametrize("u", [0.5, 1.0, 3.0, 9.0, 38.0])
@pytest.mark.parametrize("sigma", [1.0, 2.5, 512.0])
def test_the_sum_differs_from_the_integral_by_three_terms_with_bernoulli_numbers(u: float, sigma: float) -> None:
    """½ − Σ B₂ₖ/(2k)!·f⁽²ᵏ⁻¹⁾(x)/f(x), where the n-th derivative of f at uσ is (−1/σ)ⁿ·Heₙ(u) times f."""
    numbers = bernoulli(6)
    terms = [
        numbers[2 * k] / math.factorial(2 * k) * hermite_e.hermeval(u, [0] * (2 * k - 1) + [1]) / sigma ** (2 * k - 1)
        for k in (1, 2, 3)
    ]
    assert _euler_maclaurin(u, sigma) == pytest.approx(0.5 + math.fsum(terms), rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [s for s in SCALES if s >= Fraction(1, 16)])
def test_the_variance_is_the_mean_square(scale: Fraction) -> None:
    sums, total = _sums(scale)
    with localcontext(prec=60, Emin=-(10**9)):
        squares = 2 * sum((2 * z - 1) * sums[z] for z in range(1, len(sums)))
        assert abs(Decimal(DiscreteGaussian(scale).variance()) * total / squares - 1) < Decimal("1e-13")


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(1023, 64)])
@pytest.mark.parametrize("shift", [-5, 0, 1, 7])
def test_the_loss_is_the_logarithm_of_the_ratio_of_two_probabilities(scale: Fraction, shift: int) -> None:
    for z in (-9, -1, 0, 1, 4, 30):
        loss = DiscreteGaussian(scale).loss(z, shift)
        assert loss == Fraction(z * z) / (2 * scale**2) - Fraction((z - shift) ** 2) / (2 * scale**2)


def test_a_root_is_rounded_up_to_the_least_whole_number() -> None:
    for x in [Fraction(n, d) for n in range(1, 130) for d in (1, 2, 7)] + [Fraction(10**40 + 1), Fraction(1, 10**40)]:
        root = _root_up(x)
        assert (root - 1) ** 2 < x <= root**2


@pytest.mark.parametrize("l2", [Fraction(1, 1000), Fraction(1, 2), 1, 3])
@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(50)])
def test_a_sigma_is_the_least_that_costs_no_more(l2: int | Fraction, rho: Fraction) -> None:
    noise = DiscreteGaussian.for_rho(l2, rho)
    assert noise.rho(l2) == Fraction(l2) ** 2 / (2 * noise.scale**2) <= rho
    places = max(2**k for k in range(21) if k == 0 or noise.scale * 2**k < LIMIT)
    less = noise.scale - Fraction(1, places)
    assert less <= 0 or Fraction(l2) ** 2 / (2 * less**2) > rho


@pytest.mark.parametrize(("l2", "rho"), [(0, 1), (-1, 1), (1, 0), (1, -1), (0, 0)])
def test_no_sigma_is_for_nothing(l2: int, rho: int) -> None:
    with pytest.raises(InternalError, match="positive sensitivity and a positive rho"):
        DiscreteGaussian.for_rho(l2, Fraction(rho))


@pytest.mark.parametrize(("scale", "size"), [(Fraction(5, 4), 4000), (Fraction(9, 2), 4000)])
def test_draws_are_near_their_variance_on_both_sides_of_zero(scale: Fraction, size: int) -> None:
    drawn = DiscreteGaussian(scale).sample(size)
    variance = DiscreteGaussian(scale).variance()
    assert abs(float(np.mean(drawn))) < 6 * math.sqrt(variance / size)
    assert abs(float(np.mean(drawn.astype(float) ** 2)) - variance) < 6 * variance * math.sqrt(2 / size)
