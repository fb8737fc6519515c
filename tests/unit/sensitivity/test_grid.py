"""The values among which one is chosen: all that are listed, or so many equal intervals between public bounds."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

from dpsql.bounds.domain import Domain, finite, interval, number
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, Type, from_engine
from dpsql.sensitivity.grid import Grid, make_grid

MOST = 65_536
CENTS = from_engine("DECIMAL(9,2)")
assert CENTS is not None


def made(type_: Type, domain: Domain) -> Grid | None:
    return make_grid(Column(type_, name="x"), domain)


@pytest.mark.parametrize(("values", "there"), [(0, False), (1, True), (MOST, True), (MOST + 1, False)])
def test_so_many_listed_values_are_chosen_among(values: int, there: bool) -> None:
    grid = made(BIGINT, finite(range(values, 0, -1), BIGINT, nullable=False))
    assert (grid is not None) == there
    if grid is not None:
        assert grid.exact and grid.cells == values
        assert [grid.value(cell) for cell in (0, values - 1)] == [1, values]


@pytest.mark.parametrize(("span", "width"), [(0, 1), (MOST - 1, 1), (MOST, 2), (2 * MOST - 1, 2), (2 * MOST, 3)])
def test_whole_numbers_share_as_few_cells_as_needed(span: int, width: int) -> None:
    """No cell is wider than it must be, and the last holds the upper bound."""
    for low in (-7, 0, 10**9):
        grid = made(BIGINT, interval(low, low + span))
        assert grid is not None and (grid.width, grid.exact) == (width, width == 1)
        assert grid.cells == -(-(span + 1) // width) <= MOST
        assert grid.step == width
        shown = [grid.value(cell) for cell in (0, grid.cells - 1)]
        first = low + (grid.cells - 1) * width
        assert shown == [low + (min(span, width - 1)) // 2, (first + min(low + span, first + width - 1)) // 2]


@pytest.mark.parametrize(
    ("type_", "domain", "first", "last", "cells", "exact"),
    [
        (BOOLEAN, finite((True, False), BOOLEAN, nullable=True), False, True, 2, True),
        (TEXT, finite(("b", "é", "Z"), TEXT, nullable=True), "Z", "é", 3, True),
        (CENTS, interval(Decimal("-0.02"), Decimal("1.00")), Decimal("-0.02"), Decimal("1.00"), 103, True),
        (DATE, interval(number(date(2024, 2, 28)), number(date(2024, 3, 1))), date(2024, 2, 28), date(2024, 3, 1), 3, True),
        (DATE, interval(1.5, 1.9), date(1970, 1, 3), date(1970, 1, 3), 1, True),
        (DATE, interval(1.5, 3.5), date(1970, 1, 3), date(1970, 1, 4), 2, True),
        (DOUBLE, interval(0.0, 0.0), 0.0, 0.0, 1, False),
    ],
)  # fmt: skip
def test_the_cells_of_a_kind(type_: Type, domain: Domain, first: object, last: object, cells: int, exact: bool) -> None:
    grid = made(type_, domain)
    assert grid is not None
    assert (grid.value(0), grid.value(grid.cells - 1), grid.cells, grid.exact) == (first, last, cells, exact)


def test_a_double_has_as_many_cells_as_there_may_be_and_each_is_shown_by_its_middle() -> None:
    grid = made(DOUBLE, interval(0.0, 1024.0))
    assert grid is not None and not grid.exact and MOST // 2 < grid.cells <= MOST
    shown = [Fraction(grid.value(cell)) for cell in range(0, grid.cells, 1000)]  # type: ignore[arg-type]
    assert all(abs(x - (i * 1000 + Fraction(1, 2)) * grid.step) <= grid.step / 2 for i, x in enumerate(shown))


@pytest.mark.parametrize(
    ("type_", "domain"),
    [
        (BIGINT, interval(1, None)),
        (BIGINT, interval(None, 1)),
        (TEXT, Domain()),
        (TEXT, interval(1, 2)),
        (DATE, interval(0, 10**7)),
        (DATE, interval(-(10**7), 0)),
        (TEXT, finite((), TEXT, nullable=True)),
    ],
)
def test_without_values_and_without_both_bounds_of_a_calendar_there_is_no_grid(type_: Type, domain: Domain) -> None:
    assert made(type_, domain) is None


@pytest.mark.parametrize(("days", "step"), [(0, 1), (MOST - 1, 1), (MOST, 2)])
def test_the_step_of_dates_is_counted_in_days(days: int, step: int) -> None:
    grid = made(DATE, interval(0, days))
    assert grid is not None and grid.step == step
