"""Smooth sensitivity by brute force: the ladder of scales, the level of each database, what is released."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import SmoothMedian
from dpsql.mechanisms.textbook import smooth_median
from dpsql.mechanisms.textbook.smooth_median import _PARTS, CELLS, local_sensitivity_at

TOP = 6
LADDERS = [(1.0, 1e-3), (0.7, 0.05), (4.0, 0.5)]


def brute(rows: list[int], k: int) -> int:
    """A_k by its definition, with the ends standing beyond the data."""
    m, n = (len(rows) - 1) // 2, len(rows)

    def at(i: int) -> int:
        return 0 if i < 0 else TOP if i >= n else rows[i]

    return max(at(m + t) - at(m + t - k - 1) for t in range(k + 2))


DATABASES = [list(rows) for n in range(1, 5) for rows in combinations_with_replacement((0, 1, 4, TOP), n)]


def test_the_local_sensitivity_at_every_distance_is_that_of_the_definition() -> None:
    for rows in DATABASES:
        for k in range(7):
            assert local_sensitivity_at(np.array(rows), k, TOP) == brute(rows, k)


@pytest.mark.parametrize(("epsilon", "delta"), LADDERS)
def test_scales_grow_from_the_least_to_the_largest_that_is_needed_as_fast_as_they_may(
    epsilon: float, delta: float
) -> None:
    scales = SmoothMedian(0, TOP, epsilon, delta, grid=1).scales
    exact = Fraction(str(epsilon))
    assert scales[0] == max(_PARTS, math.ceil(_PARTS / exact))
    assert scales[-1] == max(scales[0], math.ceil(2 * TOP * _PARTS / exact))
    growth = 1 + epsilon / (2 * math.log(2 / delta))
    for here, there in pairwise(scales):
        assert here < there <= here * growth
        assert there + 1 > here * growth * (1 - 1e-9) or there == scales[-1]
    assert len(scales) > 2


@pytest.mark.parametrize(("epsilon", "delta"), LADDERS)
def test_a_level_is_the_first_whose_scale_is_twice_the_change_over_epsilon(epsilon: float, delta: float) -> None:
    mechanism = SmoothMedian(0, TOP, epsilon, delta, grid=1)
    for change in range(TOP + 1):
        needed = 2 * change * _PARTS / Fraction(str(epsilon))
        level = mechanism._needed(change)
        assert mechanism.scales[level] >= needed
        assert level == 0 or mechanism.scales[level - 1] < needed


@pytest.mark.parametrize(("epsilon", "delta"), LADDERS)
def test_the_level_of_data_is_the_largest_over_all_distances_less_the_distance(epsilon: float, delta: float) -> None:
    mechanism = SmoothMedian(0, TOP, epsilon, delta, grid=1)
    for rows in DATABASES:
        level = max(0, *(mechanism._needed(brute(rows, k)) - k for k in range(len(rows) + 2)))
        assert mechanism._level(np.array(rows)) == level
        assert mechanism.law(rows) == (rows[(len(rows) - 1) // 2], Fraction(mechanism.scales[level], _PARTS))


@pytest.mark.parametrize("noise", [0, 1, -5])
def test_the_median_is_released_with_noise_of_its_scale_in_steps_above_the_lower_end(
    noise: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Fraction, int]] = []

    class Drawn:
        def __init__(self, scale: Fraction) -> None:
            self.scale = scale

        def sample(self, n: int) -> np.ndarray[Any, Any]:
            asked.append((self.scale, n))
            return np.array([noise] * n)

    monkeypatch.setattr(smooth_median, "DiscreteLaplace", Drawn)
    mechanism = SmoothMedian(10, 14, 1, 1e-3, grid=0.5)
    values = [13.9, 11.2, 99, 12.6, -5]
    assert mechanism.release(values) in (10 + (5 + noise) / 2, 10 + (5 - noise) / 2)
    assert asked == [(mechanism.law(values)[1], 1)]


def test_values_are_rounded_down_and_moved_to_the_nearer_end() -> None:
    mechanism = SmoothMedian(-1, 1, 1, 1e-3, grid=0.25)
    assert mechanism.top == 8
    centres = [mechanism.law([value])[0] for value in (-7, -1, -0.76, -0.75, 0, 0.99, 1, 7)]
    assert centres == [0, 0, 0, 1, 4, 7, 8, 8]
    assert mechanism.law([1, -1])[0] == 0
    assert mechanism.law([0, 1, -1])[0] == 4


def test_the_range_has_2_to_the_16_steps_unless_a_grid_is_declared() -> None:
    assert SmoothMedian(0, 3, 1, 1e-3).step == Fraction(3, CELLS)
    assert CELLS == 2**16
    assert SmoothMedian(0, 3, 1, 1e-3).top == CELLS
    assert SmoothMedian(0, 3, 1, 1e-3, grid=1).step == 1


@pytest.mark.parametrize("delta", [0.5, Fraction(1, 2)])
def test_a_delta_of_a_half_is_the_most(delta: Any) -> None:
    assert SmoothMedian(0, 1, 1, delta, grid=1).scales
    with pytest.raises(ProgrammingError, match="at most 1/2"):
        SmoothMedian(0, 1, 1, delta + Fraction(1, 10**9), grid=1)


def test_a_ladder_that_could_not_grow_is_refused() -> None:
    """δ of 1e-222 is the last at which a thousandth of a scale is a part; one step of the ladder needs none."""
    assert len(SmoothMedian(0, 8, 1, 1e-222, grid=1).scales) > 2
    with pytest.raises(ProgrammingError, match="too small for smooth"):
        SmoothMedian(0, 8, 1, 1e-223, grid=1)
    assert len(SmoothMedian(0, 1, 2, 1e-300, grid=1).scales) == 1


@pytest.mark.parametrize(("epsilon", "delta"), LADDERS)
def test_data_that_are_calm_for_long_have_the_least_scale(epsilon: float, delta: float) -> None:
    mechanism = SmoothMedian(0, TOP, epsilon, delta, grid=1)
    levels = len(mechanism.scales)
    assert mechanism.law([3] * (2 * levels + 3)) == (3, Fraction(mechanism.scales[0], _PARTS))
    assert mechanism.law([0, 3, TOP])[1] > Fraction(mechanism.scales[0], _PARTS)


def test_a_scale_that_is_a_part_too_small_is_not_enough() -> None:
    """A change of one step needs 2048/0.7 = 2925.7 parts."""
    mechanism = SmoothMedian(0, TOP, 0.7, 0.05, grid=1)
    object.__setattr__(mechanism, "scales", (1463, 2925, 2926, 17555))
    assert [mechanism._needed(change) for change in (0, 1, TOP)] == [0, 2, 3]
