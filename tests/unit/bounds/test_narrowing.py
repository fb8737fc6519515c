"""What a condition says of columns, for every small domain of theirs: the rows that pass in DuckDB, and no more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from small_worlds import BEYOND, FAR, Axis, World, has_nan, hull, inside, some

from dpsql.bounds.domain import Domain, RowDomains, finite, interval, number
from dpsql.expressions.types import BIGINT, BOOLEAN, TEXT, Type


def _intervals(points: list[Any], pairs: list[tuple[int | None, int | None]], nan: bool = False) -> tuple[Domain, ...]:
    """From one point to another, by their places in the list, with NULL and without."""
    ends = [tuple(None if at is None else number(points[at]) for at in pair) for pair in pairs]
    return tuple(interval(*pair, nullable=null, nan=nan and null) for pair in ends for null in (False, True))


def _listed(stored: str, values: tuple[Any, ...], type_: Type) -> Axis:
    some_of = [tuple(v for at, v in enumerate(values) if bits >> at & 1) for bits in range(1, 2 ** len(values))]
    lists = [finite(chosen, type_, nullable=null) for chosen in some_of for null in (False, True)]
    return Axis(stored, (*values, None), (*lists, Domain(values=())))


NUMBERS = [0, 1, 2, 3]
TENTHS = [Decimal(v).scaleb(-1) for v in (0, 14, 15, 16, 20)]
REALS = [1.0, 1.5, 2.0]
DAYS = [date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 31), date(2024, 2, 1), date(2024, 12, 31),
        date(2025, 1, 1)]  # fmt: skip
TIMES = [
    datetime(2023, 12, 31, 23, 59, 59, 999_999), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1),
    datetime(2024, 1, 1, 12), datetime(2024, 1, 31, 23, 59, 59, 999_999), datetime(2024, 2, 1),
    datetime(2024, 12, 31, 23, 59, 59, 999_999), datetime(2025, 1, 1),
]  # fmt: skip
WAYS: list[tuple[int | None, int | None]] = [(None, None), (None, 1), (2, None), (1, 1), (0, 3)]
AXES = {
    "p": _listed("BOOLEAN", (False, True), BOOLEAN), "q": _listed("BOOLEAN", (False, True), BOOLEAN),
    "s": _listed("VARCHAR", ("a", "b", "c"), TEXT), "t": _listed("VARCHAR", ("c",), TEXT),
    "k": _listed("BIGINT", (1, 2, 3), BIGINT), "l": _listed("BIGINT", (2,), BIGINT),
    "i": Axis("BIGINT", (None, -FAR, *NUMBERS, FAR), _intervals(NUMBERS, WAYS)),
    "j": Axis("BIGINT", (None, -FAR, *NUMBERS, FAR), _intervals(NUMBERS, [(None, None), (2, None), (1, 2)])),
    "m": Axis("DECIMAL(9,1)", (None, -FAR, *TENTHS, FAR), _intervals(TENTHS, [(None, None), (0, 4), (2, None)])),
    "x": Axis("DOUBLE", (None, -math.inf, *REALS, math.inf, math.nan), _intervals(REALS, [(None, None), (None, 1), (1, None), (0, 2), (2, 2)], nan=True)),
    "y": Axis("DOUBLE", (None, -math.inf, *REALS, math.inf, math.nan), _intervals(REALS, [(None, None), (0, 1)], nan=True)),
    "a": Axis("DATE", (None, date.min, *DAYS, date.max), _intervals(DAYS, [(None, None), (0, 7), (1, 3), (None, 2)])),
    "c": Axis("TIMESTAMP", (None, datetime.min, *TIMES, datetime(9999, 1, 1)), _intervals(TIMES, [(None, None), (0, 7), (1, 4), (3, 3)])),
}  # fmt: skip
FURTHEST = {"a": 10**5, "c": 10**16}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(**AXES)
    yield made
    made.database.close()


def _sound(known: RowDomains, made: RowDomains, values: dict[str, list[Any]]) -> None:
    for name, found in values.items():
        assert all(inside(v, made.columns[name]) for v in found), (name, known)


def _tight(known: RowDomains, made: RowDomains, values: dict[str, list[Any]], ends: bool) -> None:
    """Just the NULL and NaN that can be, and the ends or the list; an end that was missing may be so still."""
    for name, found in values.items():
        domain, before = made.columns[name], known.columns[name]
        if not found:
            continue
        assert (domain.nullable, domain.nan) == (None in found, has_nan(found)), (name, known)
        if not some(found) or not ends:
            continue
        if domain.values is not None:
            assert set(domain.values) == {v for v in found if v is not None}, (name, known)
        elif len(values) == 1:
            assert (domain.lower, domain.upper) == hull(found, FURTHEST.get(name, BEYOND)), (name, known)
        else:
            low, high = hull(found, FURTHEST.get(name, BEYOND))
            assert domain.lower == low or domain.lower is before.lower is None, (name, known)
            assert domain.upper == high or domain.upper is before.upper is None, (name, known)


ORDER = ["<", "<=", ">", ">="]
SIGNS = ["=", "<>", *ORDER, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
EITHER_WAY = [
    *(f"i {sign} 2" for sign in SIGNS), *(f"1 {sign} i" for sign in SIGNS), *(f"i {sign} 1.5" for sign in SIGNS),
    *(f"k {sign} l" for sign in SIGNS), *(f"s {sign} 'b'" for sign in SIGNS), "i <= j", "i >= j",
    *(f"s {sign} t" for sign in ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")),
    *(f"p {sign} q" for sign in ("AND", "OR", *SIGNS)), "p", "NOT p", "p IS TRUE", "p IS NOT TRUE", "p IS FALSE",
    "p IS NOT FALSE", "NOT (p IS TRUE)", "p IS NULL", "NOT (p OR NOT q)", "NOT (p AND q)",
    "i IS NULL", "i IS NOT NULL", "x IS NULL", "s IS NULL", "i NOT IN (1, NULL)", "k IN (1, 3)", "k NOT IN (1, 3)", "s IN ('a', 'c')",
    "s NOT IN ('a')", "s IN ('a', NULL)", *(f"m {sign} 1.5" for sign in ORDER), *(f"m {sign} 1.55" for sign in SIGNS),
    *(f"a {sign} DATE '2024-01-02'" for sign in ORDER), "x <= 1.5e0", "isnan(x)",
]  # fmt: skip


@pytest.mark.parametrize("text", EITHER_WAY)
@pytest.mark.parametrize("holds", [True, False])
def test_a_condition_leaves_just_the_rows_that_pass(world: World, text: str, holds: bool) -> None:
    """Or, where it did not hold, those for which it was FALSE or NULL."""
    strict = text == "x <= 1.5e0" and not holds
    for known, made, values in world.narrowed(text, holds):
        _sound(known, made, values)
        _tight(known, made, values, ends=not strict)


WHERE_TRUE = [
    "i = j", "i IS NOT DISTINCT FROM j", "i < j", "i > j", "i BETWEEN 1 AND 2", "i IN (1, 3)", "i IN (3, NULL)",
    "i + 3 = 5", "i + 3 < 5", "i - 3 >= -2", "i + 3 BETWEEN 4 AND 5", "i < 2 AND j > i AND j < 3", "x = 1.5e0", "x >= 1.5e0", "x = y",
    "x <= y", "x >= y", "NOT isnan(x)", "m = 1.5", "a = DATE '2024-01-02'", *(f"a {sign} TIMESTAMP '2024-01-01 12:00:00'" for sign in ORDER),
    *(f"c {sign} DATE '2024-01-01'" for sign in ("=", *ORDER)), *(f"year(a) {sign} 2024" for sign in ("=", *ORDER)),
    *(f"year(c) {sign} 2024" for sign in ("=", "<", "<=", ">=")), *(f"date_trunc('month', a) {sign} DATE '2024-01-01'" for sign in ("=", "<", "<=", ">=")),
    *(f"date_trunc('month', c) {sign} DATE '2024-01-01'" for sign in ("=", "<", "<=", ">=")),
    *(f"CAST(a AS TIMESTAMP) {sign} TIMESTAMP '2024-01-01 12:00:00'" for sign in ("=", *ORDER)),
    *(f"CAST(a AS TIMESTAMP) {sign} TIMESTAMP '2024-01-02 00:00:00'" for sign in ("=", *ORDER)),
]  # fmt: skip


@pytest.mark.parametrize("text", WHERE_TRUE)
def test_a_condition_that_holds_leaves_just_the_rows_that_pass(world: World, text: str) -> None:
    for known, made, values in world.narrowed(text, True):
        _sound(known, made, values)
        _tight(known, made, values, ends=True)
    for known, made, values in world.narrowed(text, False):
        _sound(known, made, values)


LOOSE = [
    *(f"x {sign} y" for sign in SIGNS), *(f"m {sign} x" for sign in SIGNS[:6]), *(f"i {sign} x" for sign in SIGNS[:6]),
    *(f"i {sign} m" for sign in SIGNS[:6]), *(f"a {sign} c" for sign in SIGNS), *(f"s {sign} t" for sign in ORDER), "i < 2 AND j > i",
    "a IN (TIMESTAMP '2024-01-01 00:00:00')", "i IN (1, 1.5)", "x < 1.5e0", "x > 1.5e0", "m <> 1.5", "year(a) <> 2024", "date_trunc('month', c) > DATE '2024-01-01'",
]  # fmt: skip


@pytest.mark.parametrize("text", LOOSE)
@pytest.mark.parametrize("holds", [True, False])
def test_a_condition_leaves_each_row_that_passes(world: World, text: str, holds: bool) -> None:
    """Where floats, which have no next one, or other axes meet, the ends may reach further, but NULL and NaN not.

    Of two texts one is told nothing by the other where they stand in order; where they do not, each value is tried.
    """
    for known, made, values in world.narrowed(text, holds):
        _sound(known, made, values)
        _tight(known, made, values, ends=text.startswith("s") and not holds)


CHAINS = [
    "i < 1 OR j < 1",
    "NOT (i < 2 AND j < 2)",
    "i < 2 OR i > 2",
    "i < 1 OR i IS NULL",
    "p OR i < 2",
    "NOT (p AND i < 2)",
]


@pytest.mark.parametrize("text", CHAINS)
@pytest.mark.parametrize("holds", [True, False])
def test_what_either_condition_says_holds_for_both(world: World, text: str, holds: bool) -> None:
    for known, made, values in world.narrowed(text, holds):
        _sound(known, made, values)
        if not holds:
            _tight(known, made, values, ends=True)


def test_over_floats_a_strict_comparison_keeps_its_end(world: World) -> None:
    for strict, plain in (("x < 1.5e0", "x <= 1.5e0"), ("x > 1.5e0", "x >= 1.5e0")):
        for (_, one, _), (_, two, _) in zip(world.narrowed(strict, True), world.narrowed(plain, True), strict=True):
            assert (one.columns["x"].lower, one.columns["x"].upper) == (two.columns["x"].lower, two.columns["x"].upper)
