"""Casts over many small intervals: what DuckDB gives lies in the bounds, which end where the values do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from small_worlds import Axis, World, axis, hull, inside

from dpsql.bounds import infer
from dpsql.bounds.casts import widened
from dpsql.bounds.domain import Domain, RowDomains, finite, interval, number, of_type
from dpsql.expressions.expression import Call, Column
from dpsql.expressions.types import BIGINT, DATE, DOUBLE, NULL, TEXT, TIMESTAMP, from_engine

WHOLES = [-129, -128, -127, -100, -3, -1, 0, 1, 3, 99, 100, 126, 127, 128]
CENTS = [
    Decimal(v)
    for v in [
        "-999.96",
        "-999.95",
        "-999.90",
        "-128.50",
        "-128.49",
        "-9.96",
        "-9.95",
        "-2.50",
        "-1.50",
        "-0.50",
        "-0.05",
        "-0.04",
        "0.00",
        "0.04",
        "0.05",
        "0.50",
        "1.50",
        "2.50",
        "9.94",
        "9.95",
        "127.00",
        "127.49",
        "127.50",
        "999.90",
        "999.94",
        "999.95",
    ]
]
FLOATS = [float(v) for v in CENTS]
DAYS = [date(1969, 12, 30), date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2), date(2024, 2, 29)]
TIMES = [
    datetime(1969, 12, 30, 23, 59, 59, 999_999), datetime(1969, 12, 31), datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1),
    datetime(1970, 1, 1, 12), datetime(1970, 1, 1, 23, 59, 59, 999_999), datetime(1970, 1, 2), datetime(2024, 2, 29, 1, 2, 3),
]  # fmt: skip


def _each(stored: str, points: list[Any]) -> Axis:
    """Each point alone, each two neighbours, and from the first on, up to the last, and everywhere."""
    places = [number(p) for p in points]
    pairs = [*((p, p) for p in places), *itertools.pairwise(places)]
    return axis(stored, points, [*pairs, (None, places[-1]), (places[0], None), (None, None)])


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(
        i=_each("BIGINT", WHOLES), k=_each("SMALLINT", WHOLES), d=_each("DECIMAL(9,2)", CENTS), f=_each("DOUBLE", FLOATS),
        q=axis("DOUBLE", [math.nan, 1.0], [(1.0, 1.0)], nan=True), a=_each("DATE", DAYS), t=_each("TIMESTAMP", TIMES),
    )  # fmt: skip
    yield made
    made.database.close()


TARGETS = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "DECIMAL(4,1)",
    "DECIMAL(4,0)",
    "DECIMAL(3,2)",
    "DECIMAL(9,2)",
    "DECIMAL(9,3)",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("column", "ikdf")
def test_a_number_is_rounded_to_the_places_of_its_target(world: World, column: str, target: str) -> None:
    """Of floats that become decimals the last place is not certain. What does not fit is NULL, and only that."""
    source, wanted = world.axes[column].type, from_engine(target)
    assert wanted is not None
    step = Decimal(1).scaleb(-wanted.scale) if column == "f" and target.startswith("DECIMAL") else 0
    least, most = Decimal(wanted.lower).scaleb(-wanted.scale), Decimal(wanted.upper).scaleb(-wanted.scale)
    always = column == "k" and target in ("SMALLINT", "INTEGER", "BIGINT", "DECIMAL(9,2)", "DECIMAL(9,3)")
    always = always or (column, target) in (("i", "BIGINT"), ("d", "DECIMAL(9,2)"))
    for known, made, values in world.answers(f"CAST({column} AS {target})"):
        assert all(inside(v, made) for v in values), known
        domain = known.columns[column]
        low, high = domain.lower, domain.upper
        fits = low is not None and high is not None and least <= low and high <= most
        assert made.nullable == (not fits and not always), known
        assert made.nan is False
        if fits:
            least_made, most_made = hull(values)
            assert least_made is not None and least_made - step <= made.lower <= least_made, known  # type: ignore[operator]
            assert most_made is not None and most_made <= made.upper <= most_made + step, known  # type: ignore[operator]
        elif source.upper - source.lower >= 2**16 and wanted.upper - wanted.lower >= 2**16:
            assert (low is None) == (made.lower is None) and (high is None) == (made.upper is None), known


@pytest.mark.parametrize("column", "id")
def test_an_exact_number_as_double_keeps_its_ends(world: World, column: str) -> None:
    for known, made, _ in world.answers(f"CAST({column} AS DOUBLE)"):
        low, high = known.columns[column].lower, known.columns[column].upper
        assert (made.lower, made.upper) == (None if low is None else float(low), None if high is None else float(high))
        assert (made.nullable, made.nan) == (False, False)


@pytest.mark.parametrize("target", ["INTEGER", "DECIMAL(9,2)"])
def test_nan_has_no_exact_number(world: World, target: str) -> None:
    for _, made, values in world.answers(f"CAST(q AS {target})"):
        assert None in values and made.nullable and not made.nan
        assert (made.lower, made.upper) == (1, 1)


def test_a_day_is_its_midnight_and_a_moment_belongs_to_its_day(world: World) -> None:
    """A date without bounds may be infinite or beyond the timestamps."""
    for text, column in (("CAST(a AS TIMESTAMP)", "a"), ("CAST(t AS DATE)", "t")):
        for known, made, values in world.answers(text):
            domain = known.columns[column]
            places = [number(v) for v in values]
            assert made.lower == (None if domain.lower is None else min(places)), known
            assert made.upper == (None if domain.upper is None else max(places)), known
            assert made.nullable == (column == "a" and not domain.bounded), known


def test_other_casts_know_only_the_type(world: World) -> None:
    for _, made, _ in world.answers("CAST(f AS BOOLEAN)"):
        assert (made.lower, made.upper, made.nullable) == (0, 1, True)
    many, words = interval(0, 20_000, nullable=False), finite(("a", "2020-01-01"), TEXT, nullable=False)
    for asked, domain in ((Call(TEXT, op="cast", args=(Column(DATE, name="a"),)), many),
                          (Call(TIMESTAMP, op="cast", args=(Column(TEXT, name="a"),)), words),
                          (Call(DATE, op="cast", args=(Column(TEXT, name="a"),)), words),
                          (Call(BIGINT, op="cast", args=(Column(TEXT, name="a"),)), words),
                          (Call(DOUBLE, op="cast", args=(Column(TEXT, name="a"),)), words)):  # fmt: skip
        assert infer(asked, RowDomains({"a": domain})) == of_type(asked.type)


WIDE = from_engine("DECIMAL(9,2)")
assert WIDE is not None


@pytest.mark.parametrize(
    ("domain", "source", "target", "wanted"),
    [
        (interval(1, 2, origin=("x",)), BIGINT, BIGINT, interval(1, 2, origin=("x",))),
        (interval(1, 2, origin=("x",)), BIGINT, DOUBLE, interval(1.0, 2.0, origin=("x",))),
        (interval(1, None), BIGINT, WIDE, interval(1, None)),
        (interval(None, 3, nullable=False), DATE, TIMESTAMP, interval(None, 3 * 86_400_000_000, nullable=False)),
        (interval(-2, 3), DATE, DATE, interval(-2, 3)),
        (
            finite((1, 2), BIGINT, nullable=False, origin=("x",)),
            BIGINT,
            DOUBLE,
            Domain(1.0, 2.0, (1.0, 2.0), False, origin=("x",)),
        ),
        (Domain(1.0, 2.0, (1.0, 2.0), True, True), DOUBLE, DOUBLE, Domain(1.0, 2.0, (1.0, 2.0), True, True)),
        (Domain(1, 2, (1, 2), True, True), BIGINT, DOUBLE, Domain(1.0, 2.0, (1.0, 2.0), True, True)),
        (interval(1.0, 2.0, nan=True), DOUBLE, DOUBLE, interval(1.0, 2.0, nan=True)),
        (Domain(values=()), NULL, TEXT, Domain(values=())),
        (Domain(values=(), origin=("x",)), BIGINT, DOUBLE, Domain(values=(), origin=("x",))),
        (
            finite((date(1970, 1, 2),), DATE, nullable=True),
            DATE,
            TIMESTAMP,
            Domain(86_400_000_000, 86_400_000_000, (datetime(1970, 1, 2),)),
        ),
    ],
)
def test_a_domain_on_the_axis_of_a_wider_type(domain: Domain, source: Any, target: Any, wanted: Domain) -> None:
    made = widened(domain, source, target)
    assert made == wanted
    assert [type(end) for end in (made.lower, made.upper)] == [type(end) for end in (wanted.lower, wanted.upper)]
