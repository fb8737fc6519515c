"""The threshold hides a unit's own keys up to delta, and is the smallest that does."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, Noise, selection_weights, threshold


def _exact_tail(noise: Noise, x: int) -> Decimal:
    """P[Z >= x] summed from the probabilities, to about 40 digits."""
    power = 1 if isinstance(noise, DiscreteLaplace) else 2
    rate = 1 / (power * noise.scale**power)
    reach = math.ceil(noise.scale * (100 if power == 1 else 15)) + 5

    def weight(z: int) -> Decimal:
        return (-Decimal(abs(z) ** power) * rate.numerator / rate.denominator).exp()

    total = 1 + 2 * sum((weight(z) for z in range(1, reach)), Decimal(0))
    upper = sum((weight(z) for z in range(abs(x) if x > 0 else 1 - x, abs(x) + reach)), Decimal(0)) / total
    return upper if x > 0 else 1 - upper


def _exposures(noise: Noise, weights: tuple[int, ...], at: int) -> list[Decimal]:
    with localcontext(prec=60):
        return [1 - (1 - _exact_tail(noise, at - w)) ** g for g, w in enumerate(weights, start=1)]


SETTINGS = [
    (DiscreteLaplace(Fraction(2)), (1,), 1e-6),
    (DiscreteLaplace(Fraction(1, 2)), (1, 1, 1), 1e-8),
    (DiscreteLaplace(Fraction(21, 4)), (1,) * 10, 1e-5),
    (DiscreteLaplace(Fraction(3)), (1,), 0.49),
    (DiscreteGaussian(Fraction(5, 2)), (1,), 1e-6),
    (DiscreteGaussian(Fraction(9)), (1,) * 8, 1e-8),
    (DiscreteGaussian(Fraction(70)), selection_weights(12, bits=5), 1e-8),
    (DiscreteGaussian(Fraction(20)), selection_weights(40, bits=8), 1e-7),
    (DiscreteGaussian(Fraction(2)), (3, 9, 1), 1e-9),
]


@pytest.mark.parametrize(("noise", "weights", "delta"), SETTINGS)
def test_the_threshold_suffices_and_one_less_does_not(noise: Noise, weights: tuple[int, ...], delta: float) -> None:
    least = threshold(noise, weights, delta)
    assert max(_exposures(noise, weights, least)) <= Decimal(delta)
    assert max(_exposures(noise, weights, least - 1)) > Decimal(delta)


def _continuous(noise: Noise, delta: float) -> int:
    """The threshold for one key of weight 1 by the continuous formula, rounded up to an integer."""
    law = stats.laplace if isinstance(noise, DiscreteLaplace) else stats.norm
    return math.ceil(1 + float(noise.scale) * float(law.isf(delta)))


@pytest.mark.parametrize(
    ("noise", "delta", "excess"),
    [
        (DiscreteLaplace(Fraction(1)), 1e-5, 1.2),
        (DiscreteLaplace(Fraction(2)), 1e-7, 1.1),
        (DiscreteLaplace(Fraction(1, 2)), 1e-8, 1.3),
        (DiscreteGaussian(Fraction(1)), 1e-6, 1.4),
        (DiscreteGaussian(Fraction(5)), 1e-7, 1.6),
        (DiscreteGaussian(Fraction(20)), 1e-9, 1.1),
    ],
)
def test_the_continuous_threshold_would_be_caught(noise: Noise, delta: float, excess: float) -> None:
    continuous = _continuous(noise, delta)
    assert _exposures(noise, (1,), continuous)[0] > Decimal(delta * excess)
    assert threshold(noise, (1,), delta) > continuous


def test_a_released_key_of_one_unit_is_as_rare_as_delta_says() -> None:
    noise, weights, delta = DiscreteGaussian(Fraction(3)), (4, 3, 2), 0.02
    least = threshold(noise, weights, delta)
    shown = [
        np.any(noise.sample(3 * 20_000).reshape(-1, 3)[:, :g] + w >= least, axis=1)
        for g, w in zip((1, 2, 3), weights, strict=True)
    ]
    for hits in shown:
        assert stats.binomtest(int(hits.sum()), 20_000, delta, alternative="greater").pvalue > 1e-8


def test_more_groups_and_smaller_deltas_raise_the_threshold() -> None:
    noise = DiscreteGaussian(Fraction(50))
    assert threshold(noise, (1,) * 20, 1e-6) > threshold(noise, (1,), 1e-6)
    assert threshold(noise, (1,), 1e-9) > threshold(noise, (1,), 1e-6)


@pytest.mark.parametrize("delta", [0.0, -1e-9, 0.5, 1.0, math.nan])
def test_impossible_deltas_are_refused(delta: float) -> None:
    with pytest.raises(InternalError):
        threshold(DiscreteLaplace(Fraction(1)), (1,), delta)


@pytest.mark.parametrize("weights", [(), (1, -1)])
def test_impossible_weights_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(InternalError):
        threshold(DiscreteLaplace(Fraction(1)), weights, 1e-6)


@given(groups=st.integers(1, 200), bits=st.integers(0, 30))
def test_weights_stay_in_the_unit_ball_and_are_the_largest_that_do(groups: int, bits: int) -> None:
    weights = selection_weights(groups, bits)
    assert len(weights) == groups
    assert weights[0] == 2**bits
    for g, w in enumerate(weights, start=1):
        assert g * w * w <= 4**bits < g * (w + 1) ** 2


def test_a_set_union_costs_less_than_a_cap() -> None:
    """The point of the weights: at the same noise per unit norm, the threshold in units is lower."""
    groups, delta = 50, 1e-8
    rho = Fraction(1, 10)
    union = DiscreteGaussian.for_rho(2**10, rho)
    capped = DiscreteGaussian.for_rho(math.isqrt(groups * 4**10) + 1, rho)
    assert threshold(union, selection_weights(groups, bits=10), delta) < threshold(capped, (2**10,) * groups, delta) / 2
