"""Domains: what they admit, alone and put together, for every small one; and the axes on which their ends lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dpsql.bounds.domain import (
    DAY,
    LARGEST,
    ONLY_NULL,
    UNKNOWN,
    Domain,
    endless,
    ends,
    finite,
    grid,
    intersect,
    interval,
    magnitude,
    number,
    span,
    tidy,
    to_float,
    union,
    value_at,
)
from dpsql.bounds.infer import AT_MOST, aggregate_domain
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, TEXT, TIMESTAMP, Type, from_engine

CENTS = from_engine("DECIMAL(9,2)")
assert CENTS is not None
POINTS: list[int] = [-9, 1, 2, 3, 9]
INTERVALS = [
    interval(low, high, nullable=False) for low, high in product((None, 1, 2, 3), repeat=2) if (low or 1) <= (high or 3)
]
LISTS = [finite([v for v in (1, 2, 3) if bits >> v & 1], BIGINT, nullable=False) for bits in range(2, 16, 2)]
FLAGS = [(False, False), (True, False), (False, True)]
SMALL = [Domain(d.lower, d.upper, d.values, null, nan) for d in (*INTERVALS, *LISTS) for null, nan in FLAGS]
WORDS = [finite(words, TEXT, nullable=False) for words in ((), ("a",), ("b", "a"), ("a", "b", "c"))] + [
    Domain(nullable=False)
]


def _admits(domain: Domain, point: int) -> bool:
    between = (domain.lower is None or domain.lower <= point) and (domain.upper is None or point <= domain.upper)
    return between and (domain.values is None or point in domain.values)


def _flags(domain: Domain) -> tuple[bool, bool]:
    return domain.nullable, domain.nan


@pytest.mark.parametrize("one", SMALL)
def test_a_union_admits_what_either_does_and_no_wider_interval(one: Domain) -> None:
    for two in SMALL:
        made = union((one, two))
        either = [p for p in POINTS if _admits(one, p) or _admits(two, p)]
        listed = one.values is not None and two.values is not None
        assert [p for p in POINTS if _admits(made, p)] == (
            either if listed else [p for p in POINTS if either[0] <= p <= either[-1]]
        )
        assert (made.values is not None) == listed
        assert _flags(made) == (one.nullable or two.nullable, one.nan or two.nan)


@pytest.mark.parametrize("one", SMALL)
def test_an_intersection_admits_what_both_do(one: Domain) -> None:
    """One that is empty keeps a point at most, of an interval just one."""
    for two in SMALL:
        made = intersect(one, two)
        both = [p for p in POINTS if _admits(one, p) and _admits(two, p)]
        listed = one.values is not None or two.values is not None
        assert (made.values is not None) == listed
        assert _flags(made) == (one.nullable and two.nullable, one.nan and two.nan)
        if both:
            assert [p for p in POINTS if _admits(made, p)] == both
        else:
            assert sum(_admits(made, p) for p in POINTS) <= 1
            assert listed or made.lower == made.upper is not None


@pytest.mark.parametrize(("one", "two"), list(product(WORDS, repeat=2)))
def test_texts_have_no_ends_and_keep_the_order_of_the_first(one: Domain, two: Domain) -> None:
    every, both = union((one, two)), intersect(one, two)
    assert every.lower is every.upper is both.lower is both.upper is None
    if one.values is not None and two.values is not None:
        assert every.values == tuple(dict.fromkeys((*one.values, *two.values)))
        assert both.values == tuple(v for v in one.values if v in two.values)
    else:
        assert both.values == (two.values if one.values is None else one.values)


def test_an_intersection_is_explained_by_what_narrowed_it() -> None:
    one = interval(1, 5, origin=("one",))
    assert intersect(one, interval(0, 6, origin=("two",))).origin == ("one",)
    assert intersect(one, interval(2, 6, origin=("two",))).origin == ("one", "two")
    assert intersect(one, interval(0, 4, origin=("two", "one"))).origin == ("one", "two")
    words = finite(("a", "b"), TEXT, nullable=True, origin=("one",))
    assert intersect(words, finite(("b", "a"), TEXT, nullable=False, origin=("two",))).origin == ("one",)
    assert intersect(words, finite(("a",), TEXT, nullable=False, origin=("two",))).origin == ("one", "two")


def test_a_union_of_nothing_is_only_null_if_one_is() -> None:
    assert union(()) == Domain(values=(), nullable=False)
    assert union((ONLY_NULL, ONLY_NULL)) == ONLY_NULL
    assert union((ONLY_NULL, interval(1, 2, nullable=False, origin=("x",)))) == interval(1, 2, origin=("x",))


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (1, 2, (1, 2)),
        (2, 2, (2, 2)),
        (3, 2, (3, 3)),
        (None, 2, (None, 2)),
        (1, None, (1, None)),
        (-math.inf, math.inf, (None, None)),
        (math.inf, 2.0, (None, 2.0)),
        (math.nan, 2.0, (None, 2.0)),
        (1.0, math.nan, (1.0, None)),
        (1.0, math.inf, (1.0, None)),
        (0, 0, (0, 0)),
        (Decimal("0.5"), Decimal("0.7"), (Decimal("0.5"), Decimal("0.7"))),
    ],
)
def test_the_ends_of_an_interval_are_finite_and_in_order(low: Any, high: Any, wanted: tuple[Any, Any]) -> None:
    made = interval(low, high)
    assert (made.lower, made.upper) == wanted
    assert (made.values, made.nullable, made.nan, made.origin) == (None, True, False, ())


@pytest.mark.parametrize(
    ("low", "high", "bounded"),
    [
        (0, 1, True),
        (None, 1, False),
        (0, None, False),
        (-LARGEST, LARGEST, True),
        (-LARGEST - 1, 0, False),
        (0, LARGEST + 1, False),
        (float(2**901), float(2**902), False),
        (-1.0, float(2**900), True),
    ],
)
def test_a_domain_is_bounded_where_no_total_can_leave_the_floats(low: Any, high: Any, bounded: bool) -> None:
    assert interval(low, high).bounded is bounded
    assert LARGEST == 2**900


def test_what_is_empty_and_what_no_row_has() -> None:
    assert ONLY_NULL.empty and not ONLY_NULL.impossible and ONLY_NULL.nullable and not ONLY_NULL.nan
    assert Domain(values=(), nullable=False).impossible
    assert not Domain(values=(), nan=True, nullable=False).empty
    assert not Domain(values=(), nan=True, nullable=False).impossible
    assert not Domain(values=(1,), nullable=False).empty and not Domain(nullable=False).empty
    assert UNKNOWN.nan and UNKNOWN.nullable and not UNKNOWN.bounded and UNKNOWN.values is None
    assert interval(1, 2, origin=("a", "b", "a")).because("b", "c").origin == ("a", "b", "c")


PLACES: list[tuple[Any, Type, Any]] = [
    (date(1970, 1, 1), DATE, 0),
    (date(1969, 12, 31), DATE, -1),
    (date(2024, 2, 29), DATE, 19_782),
    (datetime(1970, 1, 1), TIMESTAMP, 0),
    (datetime(1970, 1, 1, 0, 0, 0, 1), TIMESTAMP, 1),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999), TIMESTAMP, -1),
    (datetime(1970, 1, 2), TIMESTAMP, 86_400_000_000),
    (date.max, DATE, 2_932_896),
    (date.min, DATE, -719_162),
    (False, BOOLEAN, 0),
    (True, BOOLEAN, 1),
    (7, BIGINT, 7),
    (0.5, DOUBLE, 0.5),
    (Decimal("1.50"), CENTS, Decimal("1.5")),
]


@pytest.mark.parametrize(("value", "type_", "place"), PLACES)
def test_each_value_has_its_place_on_the_axis(value: Any, type_: Type, place: Any) -> None:
    assert number(value) == place and type(number(value)) is type(place)
    assert value_at(place, type_) == value and type(value_at(place, type_)) is type(value)


def test_moments_of_other_zones_are_read_in_utc() -> None:
    assert number(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
    assert number(datetime(1970, 1, 1, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    ("place", "type_"),
    [(2_932_897, DATE), (-719_163, DATE), (10**30, DATE), (10**18, TIMESTAMP), (-(10**18), TIMESTAMP)],
)
def test_a_place_outside_the_calendar_has_no_value(place: int, type_: Type) -> None:
    assert value_at(place, type_) is None


@pytest.mark.parametrize("value", ["a", None])
def test_texts_and_null_have_no_place(value: Any) -> None:
    with pytest.raises(TypeError):
        number(value)


def test_a_list_keeps_its_order_and_knows_its_ends() -> None:
    made = finite((3, 1, 3, 2), BIGINT, nullable=False, origin=("a", "a", "b"))
    assert (made.values, made.lower, made.upper, made.origin) == ((3, 1, 2), 1, 3, ("a", "b"))
    assert finite((True, False), BOOLEAN, nullable=True) == Domain(0, 1, (True, False), True)
    days = finite((date(1970, 1, 3), date(1970, 1, 2)), DATE, nullable=False)
    assert (days.lower, days.upper) == (1, 2)
    assert finite(("b", "a"), TEXT, nullable=False) == Domain(None, None, ("b", "a"), False)
    assert finite((), BIGINT, nullable=True) == ONLY_NULL
    assert finite((None,), NULL, nullable=True) == Domain(None, None, (None,), True)


@pytest.mark.parametrize(
    ("type_", "low", "high", "wanted"),
    [
        (DOUBLE, 1, Decimal("2.5"), (1.0, 2.5)),
        (DOUBLE, None, 10**400, (-math.inf, math.inf)),
        (DOUBLE, -(10**400), None, (-math.inf, math.inf)),
        (BIGINT, 1, None, (Fraction(1), math.inf)),
        (CENTS, Decimal("-0.01"), Decimal("0.02"), (Fraction(-1, 100), Fraction(1, 50))),
    ],
)
def test_ends_are_exact_where_the_type_is(type_: Type, low: Any, high: Any, wanted: tuple[Any, Any]) -> None:
    made = ends(Domain(low, high), type_)
    assert made == wanted and [type(m) for m in made] == [type(w) for w in wanted]


def test_the_largest_distance_from_zero() -> None:
    assert timedelta(days=1) // timedelta(microseconds=1) == DAY
    assert (magnitude(-3, 2), magnitude(-2, 3), magnitude(0), magnitude(-1)) == (3, 3, 0, 1)
    assert (to_float(Fraction(1, 4)), to_float(10**400), to_float(-(10**400))) == (0.25, math.inf, -math.inf)


@pytest.mark.parametrize(
    ("type_", "low", "high", "wanted"),
    [
        (BIGINT, Fraction(1, 2), Fraction(5, 2), (1, 2)),
        (BIGINT, Fraction(-5, 2), Fraction(-1, 2), (-2, -1)),
        (BIGINT, -math.inf, 3, (None, 3)),
        (BIGINT, 3, math.inf, (3, None)),
        (BIGINT, 1.5, 2.5, (2, 2)),
        (DATE, Fraction(7, 2), 5, (4, 5)),
        (CENTS, Fraction(1, 3), Fraction(2, 3), (Decimal("0.34"), Decimal("0.66"))),
        (CENTS, Fraction(-2, 3), Fraction(-1, 3), (Decimal("-0.66"), Decimal("-0.34"))),
        (CENTS, Fraction(2), Fraction(3), (2, 3)),
        (DOUBLE, Fraction(1, 2), 10**400, (0.5, None)),
        (DOUBLE, 1, 2, (1.0, 2.0)),
        (DOUBLE, -math.inf, math.nan, (None, None)),
    ],
)
def test_ends_are_rounded_inwards_to_where_values_are(
    type_: Type, low: Any, high: Any, wanted: tuple[Any, Any]
) -> None:
    made = span(low, high, type_, ())
    assert (made.lower, made.upper) == wanted
    assert [type(end) for end in (made.lower, made.upper)] == [type(end) for end in wanted]


@pytest.mark.parametrize(("null", "nan"), list(product((False, True), repeat=2)))
def test_an_operation_is_null_or_nan_if_an_operand_is(null: bool, nan: bool) -> None:
    plain, other = (
        interval(1, 2, nullable=False, origin=("a",)),
        interval(1, 2, nullable=null, nan=nan, origin=("b", "a")),
    )
    for like in ((plain, other), (other, plain)):
        made = span(1, 2, DOUBLE, like)
        assert _flags(made) == (null, nan) and set(made.origin) == {"a", "b"} and len(made.origin) == 2
    assert _flags(span(1, 2, DOUBLE, (plain,), nan=nan, null=null)) == (null, nan)
    assert endless((plain,)) == interval(None, None, nullable=False, origin=("a",))
    assert endless((plain,), nan=nan, null=null) == interval(None, None, nullable=null, nan=nan, origin=("a",))
    assert _flags(endless((plain, other))) == (null, nan)


@pytest.mark.parametrize("scale", [0, 1, 2, 18, 40])
def test_the_grid_is_met_from_either_side(scale: int) -> None:
    step = Fraction(1, 10**scale)
    for at, off in product((-7, 0, 12_345), (Fraction(0), step / 3, step * 2 / 3)):
        place = at * step + off
        assert Fraction(grid(place, scale, up=False)) == at * step
        assert Fraction(grid(place, scale, up=True)) == (at + bool(off)) * step


@pytest.mark.parametrize(
    ("type_", "domain", "wanted"),
    [
        (BIGINT, interval(0.5, 2.5), (1, 2)),
        (DOUBLE, interval(1, 2), (1.0, 2.0)),
        (CENTS, interval(0.001, 2), (Decimal("0.01"), 2)),
        (DATE, interval(None, 5), (None, 5)),
        (TEXT, interval(0.5, 2.5), (0.5, 2.5)),
        (BOOLEAN, interval(0.5, 2.5), (0.5, 2.5)),
        (NULL, interval(0.5, 2.5), (0.5, 2.5)),
        (BIGINT, Domain(0.5, 2.5, (1, 2)), (0.5, 2.5)),
    ],
)
@pytest.mark.parametrize(("null", "nan"), FLAGS)
def test_a_declared_domain_gets_ends_of_its_type(
    type_: Type, domain: Domain, wanted: Any, null: bool, nan: bool
) -> None:
    made = tidy(Domain(domain.lower, domain.upper, domain.values, null, nan, ("policy",)), type_)
    assert (made.lower, made.upper) == wanted and [type(made.lower), type(made.upper)] == [type(end) for end in wanted]
    assert (made.values, *_flags(made), made.origin) == (domain.values, null, nan, ("policy",))


AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum, "min": min, "max": max, "avg": lambda rows: math.fsum(rows) / len(rows),
}  # fmt: skip


@pytest.mark.parametrize("function", AGGREGATES)
@pytest.mark.parametrize(("low", "high"), [(-2, 3), (1, 3), (-3, -1), (0, 0), (None, 2), (-2, None), (0, 2), (-2, 0)])
@pytest.mark.parametrize("nullable", [False, True])
def test_an_aggregate_of_up_to_three_rows_ends_where_its_values_do(
    function: str, low: int | None, high: int | None, nullable: bool
) -> None:
    made = aggregate_domain(function, interval(low, high, nullable=nullable, origin=("policy",)), 3)
    points = [v for v in range(-3, 4) if (low is None or low <= v) and (high is None or v <= high)]
    every = [AGGREGATES[function](list(rows)) for count in (1, 2, 3) for rows in product(points, repeat=count)]
    assert made.lower == (None if low is None else min(every))
    assert made.upper == (None if high is None else max(every))
    assert (made.nullable, made.nan, made.values) == (nullable, False, None)
    assert made.origin == ("policy", *([f"{AT_MOST}3 rows per unit"] if function == "sum" else []))


def test_a_count_has_a_row_unless_values_can_be_null() -> None:
    assert aggregate_domain("count", None, 3) == interval(1, 3, nullable=False, origin=(f"{AT_MOST}3 rows per unit",))
    for nullable in (False, True):
        made = aggregate_domain("count", interval(5, 6, nullable=nullable), 3)
        assert (made.lower, made.upper, made.nullable) == (0 if nullable else 1, 3, False)
    assert aggregate_domain("sum", None, 3) == UNKNOWN
