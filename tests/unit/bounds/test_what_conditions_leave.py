"""What a comparison leaves to one side, on the grid of its type: found by trying each place near the other side."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from dpsql.bounds.domain import DAY, Domain, finite, intersect, interval
from dpsql.bounds.predicates import NEGATED, SWAPPED, excluded, limited
from dpsql.expressions.expression import Column
from dpsql.expressions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    Type,
    from_engine,
    integer,
)

TENTHS, CENTS = from_engine("DECIMAL(9,1)"), from_engine("DECIMAL(9,2)")
assert TENTHS is not None and CENTS is not None
OPS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
ORDER = ["eq", "lt", "le", "gt", "ge"]
HALF = DAY // 2
SIDES: list[tuple[Type, Type, Fraction, list[Any], Fraction]] = [
    (BIGINT, BIGINT, Fraction(1), [-2, -1, 0, 2], Fraction(1)),
    (BIGINT, TENTHS, Fraction(1), [Decimal(v) for v in ("-1.5", "-1", "0", "0.1", "1.9")], Fraction(1)),
    (TENTHS, BIGINT, Fraction(1, 10), [-1, 0, 1], Fraction(1)),
    (TENTHS, CENTS, Fraction(1, 10), [Decimal(v) for v in ("-0.25", "-0.2", "0", "0.01", "0.1", "0.19")], Fraction(1)),
    (CENTS, TENTHS, Fraction(1, 100), [Decimal(v) for v in ("-0.1", "0", "0.2")], Fraction(1)),
    (DATE, DATE, Fraction(1), [-2, 0, 3], Fraction(1)),
    (DATE, TIMESTAMP, Fraction(1), [-DAY, -1, 0, 1, HALF, DAY, 2 * DAY - 1], Fraction(1, DAY)),
    (TIMESTAMP, TIMESTAMP, Fraction(1), [-2, 0, 3], Fraction(1)),
]
"""My type, its type, the step of my grid, places of the other side, and what makes one of them a place of mine."""


@pytest.mark.parametrize(
    ("mine", "its", "step", "places", "scale"), SIDES, ids=lambda v: str(v) if isinstance(v, Type) else ""
)
@pytest.mark.parametrize("op", ORDER)
def test_a_comparison_leaves_the_places_of_my_grid_that_can_stand_so(
    op: str, mine: Type, its: Type, step: Fraction, places: list[Any], scale: Fraction
) -> None:
    one, two = Column(mine, name="x"), Column(its, name="y")
    grid = [at * step for at in range(-45, 46)]
    for low, high in combinations_with_replacement(places, 2):
        made = limited(op, one, two, interval(low, high))
        least, most = Fraction(low) * scale, Fraction(high) * scale
        fits = [v for v in grid if (OPS[op](v, least) or OPS[op](v, most) or (op == "eq" and least <= v <= most))]
        assert made.lower == (min(fits, default=made.lower) if op in ("eq", "gt", "ge") else None), (low, high)
        assert made.upper == (max(fits, default=made.upper) if op in ("eq", "lt", "le") else None), (low, high)
        assert (made.values, made.nullable, made.nan) == (None, True, op in ("gt", "ge"))


def test_a_day_stands_for_its_midnight_on_the_axis_of_moments() -> None:
    one, two = Column(TIMESTAMP, name="x"), Column(DATE, name="y")
    made = {op: limited(op, one, two, interval(-1, 2)) for op in ORDER}
    assert (made["eq"].lower, made["eq"].upper) == (-DAY, 2 * DAY)
    assert (made["gt"].lower, made["ge"].lower) == (-DAY + 1, -DAY)
    assert (made["lt"].upper, made["le"].upper) == (2 * DAY - 1, 2 * DAY)


@pytest.mark.parametrize("op", ORDER)
def test_an_end_that_is_not_there_leaves_none(op: str) -> None:
    one, two = Column(BIGINT, name="x"), Column(BIGINT, name="y")
    made = limited(op, one, two, Domain())
    assert made.lower is made.upper is made.values is None
    half = limited(op, one, two, interval(None, 5))
    assert half.lower is None and half.upper == {"eq": 5, "le": 5, "lt": 4}.get(op)


@pytest.mark.parametrize("op", ORDER)
def test_a_float_takes_the_end_itself_as_long_as_there_is_such_a_float(op: str) -> None:
    one, two = Column(DOUBLE, name="x"), Column(CENTS, name="y")
    made = limited(op, one, two, interval(Decimal("0.10"), Decimal("0.30")))
    assert made.lower == (0.1 if op in ("eq", "gt", "ge") else None)
    assert made.upper == (0.3 if op in ("eq", "lt", "le") else None)
    assert all(isinstance(end, float) for end in (made.lower, made.upper) if end is not None)
    beyond = limited(op, one, Column(BIGINT, name="y"), Domain(-(10**400), 10**400))
    assert beyond.lower is beyond.upper is None


def test_equality_hands_over_a_list_of_the_same_kind() -> None:
    whole, tenth, word, other = (Column(t, name="x") for t in (BIGINT, TENTHS, TEXT, DOUBLE))
    listed = finite((1, 3), BIGINT, nullable=False)
    assert limited("eq", whole, Column(BIGINT, name="y"), listed).values == (1, 3)
    assert limited("eq", other, Column(BIGINT, name="y"), listed).values is None
    assert limited("le", whole, Column(BIGINT, name="y"), listed).values is None
    finer = finite((Decimal("0.10"), Decimal("0.15")), CENTS, nullable=False)
    assert limited("eq", tenth, Column(CENTS, name="y"), finer).values == (Decimal("0.1"),)
    words = finite(("b", "a"), TEXT, nullable=True)
    assert limited("eq", word, Column(TEXT, name="y"), words) == Domain(values=("b", "a"))
    assert limited("eq", word, Column(TEXT, name="y"), Domain()) == Domain()
    assert limited("lt", word, Column(TEXT, name="y"), words) == Domain()
    assert limited("gt", Column(NULL, name="x"), Column(TEXT, name="y"), words) == Domain(nan=True)


@pytest.mark.parametrize("type_", [BIGINT, DATE])
def test_a_single_value_at_an_end_or_in_a_list_can_be_excluded(type_: Type) -> None:
    one, two = Column(type_, name="x"), Column(type_, name="y")
    said = {
        at: finite((date(1970, 1, 1 + at) if type_ is DATE else at,), type_, nullable=False) for at in (0, 1, 2, 3, 4)
    }
    for (low, high), at in product([(1, 3), (1, 1), (None, 3), (1, None), (None, None)], said):
        left = excluded(one, interval(low, high), two, said[at])
        assert left.nan and left.nullable and left.values is None
        made = intersect(interval(low, high), left)
        if (low, high) != (1, 1):
            assert made.lower == (low + 1 if low == at else low) if low is not None else made.lower is None
            assert made.upper == (high - 1 if high == at else high) if high is not None else made.upper is None
        assert made.nullable and made.nan is False
    values = tuple(v for at in (1, 2, 3) for v in (said[at].values or ()))
    for at, point in said.items():
        made = excluded(one, finite(values, type_, nullable=False), two, point)
        assert made.values == tuple(v for v in values if v not in (point.values or ())), at
        assert (made.lower, made.upper, made.nan) == (None, None, True)


@pytest.mark.parametrize(
    ("one", "two", "other"),
    [
        (BIGINT, BIGINT, interval(1, 1)),
        (BIGINT, BIGINT, finite((1, 3), BIGINT, nullable=False)),
        (BIGINT, BIGINT, Domain(1, 1, (1,), False, True)),
        (BIGINT, DOUBLE, finite((1.0,), DOUBLE, nullable=False)),
        (TENTHS, TENTHS, finite((Decimal(1),), TENTHS, nullable=False)),
        (DOUBLE, DOUBLE, finite((1.0,), DOUBLE, nullable=False)),
        (TIMESTAMP, TIMESTAMP, finite((datetime(1970, 1, 1),), TIMESTAMP, nullable=False)),
    ],
)
def test_what_is_not_one_value_of_a_countable_kind_excludes_nothing(one: Type, two: Type, other: Domain) -> None:
    assert excluded(Column(one, name="x"), interval(1, 3), Column(two, name="y"), other) == Domain(nan=True)


def test_every_comparison_has_its_opposite_and_its_mirror() -> None:
    for op, (a, b) in product(OPS, product(range(3), repeat=2)):
        assert OPS[NEGATED[op]](a, b) == (not OPS[op](a, b))
        assert OPS[SWAPPED[op]](b, a) == OPS[op](a, b)


def test_truths_are_numbers_too() -> None:
    one, two = Column(BOOLEAN, name="x"), Column(BOOLEAN, name="y")
    made = limited("gt", one, two, finite((False,), BOOLEAN, nullable=False))
    assert (made.lower, made.upper) == (1, None)


@pytest.mark.parametrize("place", [1.0, -7.0, 2.0**53 - 1, 2.0**53, -(2.0**53), 2.0**60, -(2.0**60)])
def test_beside_a_float_a_whole_number_has_a_margin_from_where_floats_have_gaps(place: float) -> None:
    """There a strict comparison is as good as one that is not, for the number was rounded before."""
    one, two = Column(BIGINT, name="x"), Column(DOUBLE, name="y")
    made = {op: limited(op, one, two, interval(place, place)) for op in ORDER}
    at, margin = int(place), 0 if abs(place) < 2**53 else abs(int(place)) // 2**50
    assert (made["ge"].lower, made["le"].upper) == (at - margin, at + margin) == (made["eq"].lower, made["eq"].upper)
    step = 0 if margin else 1
    assert (made["gt"].lower, made["lt"].upper) == (at - margin + step, at + margin - step)


@pytest.mark.parametrize(
    "places", [(Decimal("0.5"), 0), (Decimal("-0.5"), 0), (Decimal(2**52), 4), (Decimal(-(2**52)), 4)]
)
def test_beside_a_float_a_decimal_has_a_margin_everywhere(places: tuple[Decimal, int]) -> None:
    at, margin = places
    wide = from_engine("DECIMAL(18,2)")
    assert wide is not None
    one, two = Column(wide, name="x"), Column(DOUBLE, name="y")
    made = {op: limited(op, one, two, interval(float(at), float(at))) for op in ORDER}
    assert (made["ge"].lower, made["le"].upper) == (at - margin, at + margin) == (made["gt"].lower, made["lt"].upper)


@pytest.mark.parametrize(("mine", "its"), [(CENTS, TENTHS), (BIGINT, CENTS), (DATE, TIMESTAMP), (BOOLEAN, BOOLEAN)])
def test_what_is_compared_exactly_has_no_margin(mine: Type, its: Type) -> None:
    place = 2**60 * (DAY if its is TIMESTAMP else 1)
    made = limited("gt", Column(mine, name="x"), Column(its, name="y"), interval(place, place))
    assert made.lower == 2**60 + (Decimal("0.01") if mine is CENTS else 1)


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("low", [False, True])
def test_a_number_of_more_than_38_digits_on_either_side_of_zero_is_compared_as_a_float(over: int, low: bool) -> None:
    """A strict comparison is one no more, for what was rounded may have been at the end."""
    wide = 10**22 - 1 + over
    its = integer(-wide, 5) if low else integer(-5, wide)
    mine = Type(Kind.DECIMAL, -(10**17), 10**17, 16)
    made = limited("gt", Column(mine, name="x"), Column(its, name="y"), interval(Decimal("0.5"), None))
    assert made.lower == (Decimal("0.4999999999999996") if over else Decimal("0.5000000000000001"))
