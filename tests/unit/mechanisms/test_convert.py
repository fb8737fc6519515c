"""The conversions hold, are tight, and round to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import UNIT
from dpsql.mechanisms.zcdp_conversion import delta_for, epsilon_for, rho_for

KNOWN = {0.5: 0.00664, 1: 0.02436, 2: 0.08815, 3: 0.18507, 5: 0.46307, 8: 1.0524}
EPSILONS = st.floats(1e-6, 100)
DELTAS = st.floats(1e-15, 0.1)


def brute_delta(rho: float, epsilon: float) -> float:
    """The bound over a dense grid of orders: a little above the true minimum, never below it."""
    a = 1 + np.exp(np.linspace(-15, 30, 200_001))
    logs = (a - 1) * (a * rho - epsilon) - np.log(a - 1) + a * np.log1p(-1 / a)
    return min(1.0, float(np.exp(logs.min())))


@pytest.mark.parametrize(("epsilon", "rho"), KNOWN.items())
def test_known_values_at_delta_one_in_a_million(epsilon: float, rho: float) -> None:
    assert float(rho_for(epsilon, 1e-6)) == pytest.approx(rho, rel=6e-4)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 4, 20])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_rho_is_the_largest_that_brute_force_allows(epsilon: float, delta: float) -> None:
    rho = float(rho_for(epsilon, delta))
    assert brute_delta(rho, epsilon) == pytest.approx(delta, rel=1e-5)
    assert brute_delta(rho * 1.001, epsilon) > delta
    assert delta_for(rho, epsilon) == pytest.approx(brute_delta(rho, epsilon), rel=1e-5)


@given(EPSILONS, DELTAS)
@settings(max_examples=150, deadline=None)
def test_the_three_functions_are_inverse_and_safe(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= epsilon_for(rho, delta) <= epsilon * (1 + 1e-9)
    assert delta * (1 - 1e-9) <= delta_for(rho, epsilon) <= delta * (1 + 1e-9)
    above = rho * Fraction(1_000_001, 1_000_000)
    assert delta_for(above, epsilon) > delta
    assert epsilon_for(above, delta) > epsilon


@given(EPSILONS, DELTAS)
@settings(max_examples=60, deadline=None)
def test_rho_is_a_whole_number_of_units_so_that_a_cap_can_be_spent_exactly(epsilon: float, delta: float) -> None:
    assert (rho_for(epsilon, delta) / UNIT).denominator == 1


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_gaussian_noise_at_this_rho_keeps_its_exact_delta(epsilon: float) -> None:
    """The exact δ of Gaussian noise with ρ = 1/(2σ²) stays below the bound, and is not far below it."""
    sigma = math.sqrt(1 / (2 * float(rho_for(epsilon, 1e-6))))
    exact = norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)
    assert 1e-8 < exact < 1e-6


def test_more_budget_never_buys_less() -> None:
    rhos = [rho_for(epsilon, 1e-6) for epsilon in np.geomspace(1e-6, 1e6, 60).tolist()]
    assert all(a < b for a, b in pairwise(rhos))


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-15), (1e12, 1e-300), (1e-12, 1e-3), (1, 0.999)])
def test_extremes(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert epsilon_for(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert delta_for(rho, epsilon) == pytest.approx(delta, rel=1e-9)


def test_nothing_spent_is_nothing() -> None:
    assert epsilon_for(0, 1e-6) == 0 == delta_for(0, 1)


def test_a_delta_too_small_for_floats_is_rounded_up() -> None:
    assert 0 < delta_for(1e-9, 5) < 1e-300


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 5e-324, 1e300, True])
def test_meaningless_epsilons_are_refused(bad: float) -> None:
    with pytest.raises(ProgrammingError, match="epsilon"):
        rho_for(bad, 1e-6)


@pytest.mark.parametrize("bad", [0, -1e-6, math.nan, 1, 2, 5e-324])
def test_meaningless_deltas_are_refused(bad: float) -> None:
    with pytest.raises(ProgrammingError, match="delta"):
        rho_for(1, bad)


def test_a_rho_below_one_unit_is_refused_rather_than_free() -> None:
    with pytest.raises(ProgrammingError, match="too small"):
        rho_for(1e-25, 1e-40)


def test_the_least_price_is_one_unit() -> None:
    low, high = 1e-25, 1e-10
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _has_a_price(middle) else (middle, high)
    assert rho_for(high, 1e-40) == UNIT


def _has_a_price(epsilon: float) -> bool:
    try:
        return rho_for(epsilon, 1e-40) > 0
    except ProgrammingError:
        return False
