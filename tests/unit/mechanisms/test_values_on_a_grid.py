"""Values on the grid of an additive mechanism: how they are read, rounded and given back, with noise or next to none."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import Gaussian, Laplace, histogram
from dpsql.mechanisms.textbook.additive import (
    FINE,
    coordinates,
    fine_grid,
    least_positive,
    missed_by_each,
    rational,
    stored,
)
from dpsql.mechanisms.textbook.laplace_mechanism import laplace_noise

QUIET = 10**5
"""At this ε the noise of whole steps is never anything but nothing."""


@pytest.mark.parametrize(
    ("grid", "value", "given"),
    [
        (1, 7, 7),
        (1, 7.9, 7),
        (1, -0.1, -1),
        (2, 7, 6),
        (5, -1, -5),
        (Fraction(1, 4), 0.8, 0.75),
        (Fraction(3, 2), 4, 3.0),
        (0.5, Decimal("-0.75"), -1.0),
    ],
)
def test_a_value_is_rounded_down_to_the_grid_and_given_in_its_own_unit(
    grid: float | Fraction, value: Any, given: float
) -> None:
    mechanism = Laplace(100, QUIET, grid=grid)
    assert mechanism.release(value) == given
    assert type(mechanism.release(value)) is type(given)
    law = mechanism.law(value)
    assert (law.centre * law.step, law.step, law.noise) == (given, Fraction(grid), mechanism.noise)
    many = Laplace(100, QUIET, grid=grid, touched=3).release([value, 0, value])
    assert many.tolist() == [given, 0, given]


def test_the_noise_is_that_of_the_law_in_steps_of_the_grid() -> None:
    drawn = Laplace(1, 1, grid=Fraction(1, 2), touched=1).release(np.zeros(4000))
    assert np.all(drawn * 2 == np.round(drawn * 2))
    assert np.mean(np.abs(drawn)) == pytest.approx(1, rel=0.2)
    one_by_one = np.array([Laplace(8, 1, grid=8).release(0) for _ in range(500)])
    assert set(np.mod(one_by_one, 8).tolist()) == {0}
    assert 4 < np.mean(np.abs(one_by_one)) < 12


@pytest.mark.parametrize("values", [[1, 2], np.array([1, 2]), (1, 2)])
def test_whole_numbers_need_no_word_of_how_many_move_with_laplace_noise_on_their_grid(values: Any) -> None:
    assert Laplace(1, QUIET, grid=1).release(values).tolist() == [1, 2]
    assert Laplace(1, QUIET, grid=Fraction(1, 2)).release(values).tolist() == [1, 2]
    with pytest.raises(ProgrammingError, match="may move several"):
        Gaussian(1, 1, 1e-6).release(values)
    with pytest.raises(ProgrammingError, match="may move several"):
        Laplace(1, QUIET, grid=Fraction(3, 2)).release(values)


@pytest.mark.parametrize("values", [[1, 0.5], [0.5, 1], [0.25, 0.5], [Fraction(1, 2), 1]])
def test_other_numbers_do_and_one_number_never(values: list[Any]) -> None:
    with pytest.raises(ProgrammingError, match="may move several"):
        Laplace(1, QUIET, grid=1).release(values)
    for value in values:
        assert Laplace(1, QUIET, grid=1).release(value) == math.floor(value)
        assert Laplace(1, QUIET, grid=1).release([value]).tolist() == [math.floor(value)]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (3, Fraction(3)),
        (True, Fraction(1)),
        (np.int8(-3), Fraction(-3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (0.1, Fraction(3602879701896397, 2**55)),
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.float64(-0.5), Fraction(-1, 2)),
        (Decimal("0.1"), Fraction(1, 10)),
    ],
)
def test_a_value_of_the_data_is_read_as_it_is_stored(value: Any, read: Fraction) -> None:
    assert rational(value) == read


@pytest.mark.parametrize("wrong", [math.nan, -math.inf, np.float32("inf"), Decimal("NaN"), "1", None, 1j])
def test_what_is_no_finite_number_has_no_place_on_a_grid(wrong: Any) -> None:
    with pytest.raises(ProgrammingError, match="finite numbers"):
        rational(wrong)


def test_a_length_is_positive_and_stored_exactly() -> None:
    assert stored(0.1, "grid") == Fraction(0.1) != Fraction(1, 10)
    for wrong in (0, -1, math.nan):
        with pytest.raises(ProgrammingError, match="grid"):
            stored(wrong, "grid")


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, "2"])
def test_coordinates_are_counted_from_1_which_is_meant_where_nothing_is_said(wrong: Any) -> None:
    assert (coordinates(None), coordinates(1), coordinates(7)) == (1, 1, 7)
    with pytest.raises(ProgrammingError, match="at least 1, not"):
        coordinates(wrong)


@pytest.mark.parametrize("k", [1, 2, 30])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.9])
def test_independent_draws_hold_together_as_often_as_asked(beta: float, k: int) -> None:
    each = missed_by_each(beta, k)
    assert math.log1p(-each) * k == pytest.approx(math.log1p(-beta), rel=1e-12, abs=0)
    for wrong in (0, -1):
        with pytest.raises(ProgrammingError, match="at least 1, not"):
            missed_by_each(beta, wrong)


@pytest.mark.parametrize("k", [1, 5])
def test_the_accuracy_is_the_least_distance_that_is_missed_no_more_often(k: int) -> None:
    mechanism = Laplace(1, 1, grid=Fraction(1, 8))
    alpha = mechanism.accuracy(0.05, k)
    steps = int(alpha * 8)
    assert steps == alpha * 8
    assert 2 * mechanism.noise.tail(steps + 1) <= missed_by_each(0.05, k) < 2 * mechanism.noise.tail(steps)


@pytest.mark.parametrize("alpha", [0.5, 30])
def test_an_epsilon_for_an_accuracy_is_the_least(alpha: float) -> None:
    mechanism = Laplace(3, 1)
    epsilon = mechanism.epsilon_for(alpha, 0.05)
    assert epsilon == pytest.approx(3 / alpha * math.log(20), rel=1e-5)
    assert mechanism.at(epsilon).accuracy(0.05) <= alpha
    with pytest.raises(ProgrammingError, match="alpha"):
        mechanism.epsilon_for(0, 0.05)


WANTED = [2.0**k * x for k in (-19, -11, -10, 0, 5, 18) for x in (1.0, 1.1, 1.5, 1.9, 1.99999)]


@pytest.mark.parametrize("wanted", WANTED)
def test_the_least_number_is_found_to_one_part_in_ten_to_the_eleven_and_not_asked_for_beyond(wanted: float) -> None:
    asked: list[float] = []
    found = least_positive(lambda tried: asked.append(tried) is None and tried >= wanted)
    assert 1 <= found / wanted < 1 + 1.05e-11
    assert min(asked) >= 2.0**-20
    assert max(asked) <= 2 * max(wanted, 2.0**-10)
    assert len(asked) < 75


def test_a_million_is_the_last_number_that_is_tried() -> None:
    asked: list[float] = []
    with pytest.raises(ProgrammingError, match="no epsilon is enough for that"):
        least_positive(lambda tried: asked.append(tried) is not None)
    assert asked == [2.0**k for k in range(-10, 21)]
    with pytest.raises(ProgrammingError, match="no patience is enough"):
        least_positive(lambda tried: False, "patience")


def test_a_fine_grid_is_a_power_of_two_with_a_million_steps_to_the_scale() -> None:
    """More than a million and at most twice as many."""
    for scale in (1.0, 1.5, 1.999, 2.0, 3e-9, 7e12):
        step = fine_grid(Fraction(10**30), scale, 2**40)
        assert math.frexp(float(step))[0] == 0.5
        assert FINE <= scale / float(step) < 2 * FINE
    assert FINE == 2**20
    assert fine_grid(Fraction(1024), float(FINE), 1) == 1
    assert fine_grid(Fraction(1023), float(FINE), 1) == 1023


@pytest.mark.parametrize("most", [1, 2**11, 2**12, 3000, 2**21, 2**40])
@pytest.mark.parametrize("scale", [2048.0, 2049.0, 3000.0, 4096.0, 1e5, 1e9])
@pytest.mark.parametrize("sensitivity", [Fraction(1), Fraction(1, 3)])
def test_where_the_scale_is_long_the_sensitivity_is_halved_as_often_as_the_scale_can_be_drawn(
    sensitivity: Fraction, scale: float, most: int
) -> None:
    """Up to ten times, and as long as the scale has no more than `most` steps."""
    steps = sensitivity / fine_grid(sensitivity, scale * float(sensitivity), most)
    assert steps == max((2**h for h in range(11) if scale * 2**h <= most), default=1)


def test_noise_that_cannot_be_drawn_is_refused_in_the_words_of_its_caller() -> None:
    assert laplace_noise(2**39, Fraction(1)).scale == 2**39
    with pytest.raises(ProgrammingError, match="more than can be drawn"):
        laplace_noise(2**40, Fraction(1))


@pytest.mark.parametrize(("touched", "steps"), [(None, 3), (1, 3), (2, 4), (10, 12)])
def test_laplace_noise_is_for_the_steps_of_a_sensitivity_and_one_for_each_further_coordinate(
    touched: int | None, steps: int
) -> None:
    mechanism = Laplace(2.5, 0.5, grid=1, touched=touched)
    assert mechanism.noise.scale == 2 * steps
    assert mechanism.scale == 2.0 * steps
    assert Laplace(2.5, 0.5, grid=Fraction(1, 4), touched=touched).scale == (10 + (touched or 1) - 1) / 2


def test_a_histogram_has_noise_for_one_row_in_one_cell() -> None:
    """The mean size of discrete Laplace noise of scale 1 is 2q/(1 − q²) with q = 1/e: 0.85."""
    noisy = np.array(list(histogram([], range(3000), 1).values()))
    assert np.mean(np.abs(noisy)) == pytest.approx(0.851, abs=0.12)
    assert set(np.mod(noisy, 2).tolist()) == {0, 1}
