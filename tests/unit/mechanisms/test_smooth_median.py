"""Smooth sensitivity: every pair of neighbours over a small universe, and what a local scale would give away."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import FiniteLaw, SmoothMedian, delta_between, local_sensitivity
from dpsql.mechanisms.discrete_noise import LIMIT
from dpsql.mechanisms.textbook.smooth_median import _PARTS, local_sensitivity_at

UNIVERSE = (0, 3, 4, 8)
DATABASES = [np.array(rows, dtype=np.int64) for rows in combinations_with_replacement(UNIVERSE, 5)]


def median(rows: tuple[int, ...]) -> int:
    return sorted(rows)[(len(rows) - 1) // 2]


def neighbours(here: np.ndarray) -> list[np.ndarray]:
    return [np.sort(np.array([*here[:i], new, *here[i + 1 :]])) for i in range(len(here)) for new in UNIVERSE]


def law(mechanism: SmoothMedian, rows: np.ndarray) -> FiniteLaw:
    centre, scale = mechanism.law(rows)
    reach = math.ceil(40 * scale)
    z = np.arange(-reach, reach + 1)
    masses = math.tanh(float(1 / (2 * scale))) * np.exp(-np.abs(z) / float(scale))
    return FiniteLaw(dict(zip((z + centre).tolist(), masses.tolist(), strict=True)), missing=2 * math.exp(-40))


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-3), (2, 0.05)])
def test_every_pair_of_neighbours_meets_the_claim(epsilon: float, delta: float) -> None:
    mechanism = SmoothMedian(0, 8, epsilon, delta, grid=1)
    laws = {tuple(rows): law(mechanism, rows) for rows in DATABASES}
    worst = max(
        delta_between(laws[tuple(here)], laws[tuple(there)], epsilon).value
        for here in DATABASES
        for there in neighbours(here)
    )
    assert worst <= delta


def test_the_scale_moves_by_one_level_at_most() -> None:
    mechanism = SmoothMedian(0, 8, 1, 1e-6, grid=1)
    levels = {tuple(rows): mechanism._level(rows) for rows in DATABASES}
    assert max(abs(levels[tuple(here)] - levels[tuple(there)]) for here in DATABASES for there in neighbours(here)) == 1
    growth = [b / a for a, b in zip(mechanism.scales, mechanism.scales[1:], strict=False)]
    assert max(growth) <= 1 + 1 / (2 * math.log(2e6))


def test_the_local_sensitivity_at_a_distance_is_the_largest_there() -> None:
    ends = (0, 8)
    for here in DATABASES[::5]:
        reached = {tuple(here)}
        for k in range(3):
            true = max(float(local_sensitivity(median, rows, sorted({*UNIVERSE, *ends})).value) for rows in reached)
            assert local_sensitivity_at(here, k, 8) == true
            reached |= {tuple(there) for rows in reached for there in neighbours(np.array(rows))}


def test_noise_of_the_local_sensitivity_itself_would_be_seen() -> None:
    """Five equal values have local sensitivity 0, a neighbour at distance two has 8: no scale fits both."""
    mechanism = SmoothMedian(0, 8, 1, 1e-3, grid=1)
    calm, edge = np.array([0] * 5), np.array([0, 0, 0, 8, 8])
    assert local_sensitivity_at(calm, 0, 8) == 0
    assert local_sensitivity_at(edge, 0, 8) == 8
    assert mechanism.law(calm)[1] > Fraction(mechanism.scales[0], _PARTS) * 5
    assert mechanism.law(edge)[1] >= 16


def test_calm_data_have_little_noise() -> None:
    values = np.random.default_rng(1).normal(0.5, 0.05, 2001)
    mechanism = SmoothMedian(0, 1, 1, 1e-6)
    centre, scale = mechanism.law(values)
    assert float(scale * mechanism.step) < 0.01
    assert abs(float(centre * mechanism.step) - np.median(values)) < 1e-4
    assert abs(mechanism.release(values) - np.median(values)) < 0.1


def test_there_is_no_public_error_bar() -> None:
    assert not hasattr(SmoothMedian(0, 1, 1, 1e-6), "accuracy")


def test_what_is_refused() -> None:
    for wrong in ((1, 0, 1, 1e-6), (0, 1, 0, 1e-6), (0, 1, 1, 0), (0, 1, 1, 0.6), (0, 1, 1e-9, 1e-6)):
        with pytest.raises(ProgrammingError):
            SmoothMedian(*wrong)
    with pytest.raises(ProgrammingError, match="no values"):
        SmoothMedian(0, 1, 1, 1e-6).release([])


def test_a_grid_that_does_not_divide_the_range_reaches_over_its_upper_end() -> None:
    mechanism = SmoothMedian(0, 10, 1, 1e-6, grid=4)
    assert mechanism.top == 3
    assert mechanism.law([99] * 9)[0] == 3 and mechanism.law([10] * 9)[0] == 2 and mechanism.law([-99] * 9)[0] == 0
    assert Fraction(mechanism.scales[-1], _PARTS) == 2 * mechanism.top
    assert mechanism.law([-99, 99])[1] == 2 * mechanism.top


def test_a_tiny_delta_has_a_ladder_of_scales_and_a_grid_that_is_too_fine_has_none() -> None:
    assert len(SmoothMedian(0, 8, 1, 1e-200, grid=1).scales) > 1
    assert SmoothMedian(0, 1, 1, 1e-6).step == Fraction(1, 2**16)
    steps = LIMIT // (2 * _PARTS)
    assert SmoothMedian(0, steps - 1, 1, 1e-6, grid=1).top == steps - 1
    with pytest.raises(ProgrammingError, match="too fine"):
        SmoothMedian(0, steps, 1, 1e-6, grid=1)


@pytest.mark.parametrize("delta", [0.5, 0.3, 0.1, 0.01, 1e-4, 1e-9])
def test_no_scale_is_more_than_the_growth_allows_above_the_one_before(delta: float) -> None:
    """In forty digits, on scales of so many parts that the twelfth digit of the growth shows."""
    with localcontext(Context(prec=40)):
        growth = 1 + 1 / (2 * (2 / Decimal(delta)).ln())
        scales = SmoothMedian(0, LIMIT // (2 * _PARTS) - 1, 1, delta, grid=1).scales
        assert all(b <= a * growth for a, b in pairwise(scales))
