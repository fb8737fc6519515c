"""Costs: read as written, rounded up, and never free."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budget import FREE, UNIT, Caps, Charge, Cost, Request, exact, pure_charge, pure_rho, zcdp_charge
from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import LARGEST, float_down, float_up, positive, probability, units_up

BAD = [
    math.nan,
    math.inf,
    -math.inf,
    -0.5,
    0,
    0.0,
    5e-324,
    1e-310,
    1e200,
    Fraction(-1, 3),
    Decimal("NaN"),
    "1",
    None,
]


def test_a_float_is_the_number_that_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10) == exact(np.float64(0.1)) == exact(Decimal("0.1"))
    assert exact(np.int64(3)) == 3


def test_ten_tenths_are_one() -> None:
    tenth, one = pure_charge(0.1), pure_charge(1)
    assert tenth.epsilon is not None
    assert one.epsilon == 10 * tenth.epsilon


def test_charges_are_rounded_up() -> None:
    third = zcdp_charge(Fraction(1, 3), Fraction(1, 3))
    assert third.rho * UNIT > Fraction(1, 3) > (third.rho - 1) * UNIT
    assert third.delta == third.rho
    assert zcdp_charge(Fraction(1, 10**50)).rho == 1


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_price_is_refused(bad: float) -> None:
    for build in (zcdp_charge, pure_charge, lambda value: pure_charge(1, value)):
        if bad is None and build is not zcdp_charge and build is not pure_charge:
            continue
        with pytest.raises(ProgrammingError):
            build(bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-9, 5e-324, 1, 2])
def test_a_bad_delta_is_refused_but_zero_is_fine(bad: float) -> None:
    with pytest.raises(ProgrammingError):
        zcdp_charge(1, bad)
    assert zcdp_charge(1, 0.0).delta == 0


@pytest.mark.parametrize("fields", [(0,), (-1,), (1.0,), (True,), (1, -1), (1, 0, 0), (1, 1, 1), (1, 0, 0.5), (1, 0.0)])
def test_a_charge_is_made_of_positive_integers_and_a_pure_one_has_no_delta(fields: tuple[int, ...]) -> None:
    with pytest.raises(ProgrammingError):
        Charge(*fields)


def test_a_sum_is_pure_only_if_both_parts_are() -> None:
    assert Charge(1, 0, 2) + Charge(3, 0, 4) == Charge(4, 0, 6)
    assert Charge(1, 0, 2) + Charge(3, 5) == Charge(4, 5, None)


def test_costs_read_well() -> None:
    assert str(Cost(0.5, 1e-8, 0.00664)) == "ε = 0.5, δ = 1e-08, ρ = 0.00664"
    assert str(Cost(0.5, 0, 0)) == "ε = 0.5"
    with pytest.raises(ProgrammingError):
        Cost(math.nan, 0, 0)


@pytest.mark.parametrize("epsilon", [math.inf, math.nan, -1.0])
def test_a_request_of_no_cost_is_none(epsilon: float) -> None:
    with pytest.raises(ProgrammingError, match="not"):
        Request("ana", pure_charge(1), Cost(epsilon, 0.0, 0.0), Caps(1), None, "SELECT 1", ())
    with pytest.raises(ProgrammingError, match="not the cost"):
        Request("ana", None, Cost(1.0, 0.0, 0.0), Caps(1), None, "SELECT 1", ())  # type: ignore[arg-type]


def test_a_charge_has_no_delta_and_is_not_pure_unless_it_says_so() -> None:
    assert Charge(5) == Charge(5, 0, None) == zcdp_charge(5 * UNIT)
    assert Charge(5, epsilon=7).delta == 0


@pytest.mark.parametrize(("good", "bad"), [(LARGEST, LARGEST + 1), (sys.float_info.min, exact(sys.float_info.min) / 2)])
def test_a_price_is_neither_tiny_nor_huge(good: float, bad: float) -> None:
    assert LARGEST == 10**12
    assert positive(good) == exact(good)
    with pytest.raises(ProgrammingError, match="neither tiny nor huge"):
        positive(bad)


def test_a_probability_is_below_one() -> None:
    assert probability(math.nextafter(1, 0)) < 1
    for bad in (1, 1.0, Fraction(1)):
        with pytest.raises(ProgrammingError, match="below 1"):
            probability(bad)


@given(st.fractions(0, 10**13) | st.floats(1e-300, 1e12).map(exact) | st.integers(0, 10**60).map(lambda n: n * UNIT))
def test_a_number_is_shown_as_the_next_float_on_the_safe_side(value: Fraction) -> None:
    """Not nearer: what is spent is shown as no less, what is left as no more, and neither by more than it must."""
    up, down = float_up(value), float_down(value)
    assert exact(down) <= value <= exact(up)
    assert exact(math.nextafter(up, -math.inf)) < value or up == 0
    assert exact(math.nextafter(down, math.inf)) > value
    assert up in (down, math.nextafter(down, math.inf))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("bad", [-1e-300, -1.0, math.nan])
def test_no_part_of_a_cost_is_negative_or_unknown_and_all_may_be_nothing(place: int, bad: float) -> None:
    parts = [0.0, 0.0, 0.0]
    assert Cost(*parts) == FREE
    parts[place] = bad
    with pytest.raises(ProgrammingError, match="not a cost"):
        Cost(*parts)


def test_a_pure_charge_has_the_price_of_any_pure_event_unless_a_better_one_is_known() -> None:
    assert pure_charge(1) == Charge(units_up(pure_rho(1)), 0, units_up(exact(1)))
    assert pure_charge(1, Fraction(1, 8)) == Charge(units_up(Fraction(1, 8)), 0, units_up(exact(1)))
    assert zcdp_charge(1, 1e-8).epsilon is None


@pytest.mark.parametrize("fields", [(1, True), (1, 0, True), (1, 0, -1), ("1",), (None,), (1, None)])
def test_nothing_but_whole_numbers_is_charged(fields: tuple[Any, ...]) -> None:
    with pytest.raises(ProgrammingError, match=r"not (a|the) cost"):
        Charge(*fields)


def test_one_unit_of_each_is_the_least_charge() -> None:
    assert Charge(1, 0, 1) + Charge(1, 0, 1) == Charge(2, 0, 2)


def test_a_request_that_releases_nothing_now_says_what_it_would_cost() -> None:
    """All that it shows was released for others: the analyst's own accounts are asked for the whole."""
    whole = (pure_charge(1), Cost(1.0, 0.0, 0.0))
    shown = Request("ana", None, Cost(0.0, 0.0, 0.0), Caps(1), None, "SELECT 1", (), asked=whole)
    assert (shown.charge, shown.whole) == (None, whole)
    paid = Request("ana", *whole, Caps(1), None, "SELECT 1", ())
    assert paid.whole == whole
