"""How a number of the budget is read and rounded: against rationals, at the very edges."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import (
    LARGEST,
    UNIT,
    digits_down,
    digits_up,
    exact,
    float_down,
    float_up,
    positive,
    probability,
    units_down,
    units_up,
)

LEAST = Fraction(sys.float_info.min)
TINY = Fraction(1, 10**400)


def test_a_cost_is_counted_in_units_of_ten_to_the_minus_forty_and_is_at_most_a_trillion() -> None:
    assert Fraction(1, UNIT) == 10**40
    assert LARGEST == 10**12


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (3, Fraction(3)),
        (-3, Fraction(-3)),
        (0, Fraction(0)),
        (np.int64(7), Fraction(7)),
        (Fraction(1, 3), Fraction(1, 3)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (1e-300, Fraction(1, 10**300)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Decimal("1e-45"), Fraction(1, 10**45)),
    ],
)
def test_a_number_is_read_as_it_is_written(written: float | Decimal | Fraction, read: Fraction) -> None:
    found = exact(written)
    assert isinstance(found, Fraction)
    assert found == read


@pytest.mark.parametrize("wrong", [True, False, "1", None, math.nan, math.inf, -math.inf, Decimal("NaN"), 1j])
def test_what_is_no_finite_number_is_no_cost(wrong: object) -> None:
    with pytest.raises(ProgrammingError, match="epsilon must be a finite number"):
        exact(wrong, "epsilon")  # type: ignore[arg-type]


@pytest.mark.parametrize("allowed", [LEAST, sys.float_info.min, 1, LARGEST, LARGEST - TINY])
def test_a_price_reaches_from_the_least_normal_float_to_a_trillion(allowed: float | Fraction) -> None:
    assert positive(allowed) == exact(allowed)


@pytest.mark.parametrize("wrong", [0, -1, 5e-324, LEAST - TINY, LARGEST + TINY, LARGEST + 1, math.inf, -LARGEST])
def test_what_is_smaller_or_larger_is_no_price(wrong: float | Fraction) -> None:
    with pytest.raises(ProgrammingError, match="rho must be"):
        positive(wrong, "rho")


@pytest.mark.parametrize("wrong", [1, 1.0, 1 + TINY, 2, 0])
def test_a_probability_lies_strictly_between_0_and_1(wrong: float | Fraction) -> None:
    assert probability(1 - TINY) == 1 - TINY
    with pytest.raises(ProgrammingError, match="beta must be"):
        probability(wrong, "beta")


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (Fraction(0), 0, 0),
        (UNIT, 1, 1),
        (7 * UNIT, 7, 7),
        (7 * UNIT + TINY, 7, 8),
        (7 * UNIT - TINY, 6, 7),
        (Fraction(1), 10**40, 10**40),
        (-UNIT / 2, -1, 0),
    ],
)
def test_costs_are_rounded_up_to_units_and_caps_down(value: Fraction, down: int, up: int) -> None:
    assert (units_down(value), units_up(value)) == (down, up)


VALUES = [Fraction(1, 10), Fraction(1, 3), Fraction(2, 3), Fraction(1), Fraction(22, 7), Fraction(10**30 + 1, 7)]


@pytest.mark.parametrize("value", [v * (1 + d * Fraction(1, 2**60)) for v in VALUES for d in range(-12, 13)])
def test_a_float_is_the_nearest_on_its_side_of_the_value(value: Fraction) -> None:
    """As it is read again: the least that is not below, and the greatest that is not above."""
    up, down = float_up(value), float_down(value)
    assert exact(math.nextafter(up, -math.inf)) < value <= exact(up)
    assert exact(down) <= value < exact(math.nextafter(down, math.inf))


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (0.12341, 0.1234, 0.1235),
        (0.12349, 0.1234, 0.1235),
        (0.1234, 0.1234, 0.1234),
        (0.1, 0.1, 0.1),
        (98765.0, 98760.0, 98770.0),
        (99999.0, 99990.0, 100000.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_four_digits_are_shown_rounded_to_the_safe_side(value: float, down: float, up: float) -> None:
    assert (digits_down(value), digits_up(value)) == (down, up)


@pytest.mark.parametrize(("digits", "down", "up"), [(1, 0.1, 0.2), (2, 0.12, 0.13), (6, 0.123456, 0.123457)])
def test_as_many_digits_are_shown_as_asked_for(digits: int, down: float, up: float) -> None:
    assert (digits_down(0.1234567, digits), digits_up(0.1234567, digits)) == (down, up)
