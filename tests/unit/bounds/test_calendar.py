"""The calendar of the bounds is that of DuckDB: every part, period, shift and bucket of many moments."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

import duckdb
import pytest

from dpsql.bounds import calendar

RNG = random.Random(5)
EDGES = [datetime(1999, 12, 31, 23, 59, 59, 999999), datetime(2000, 1, 1), datetime(2000, 2, 29, 12), datetime(2001, 1, 1),
         datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 12, 30), datetime(1, 1, 1),
         datetime(1900, 3, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2010, 10, 31, 1, 2, 3, 4)]  # fmt: skip
MOMENTS = EDGES + [
    datetime(1700, 1, 1) + timedelta(days=RNG.randint(0, 150_000), microseconds=RNG.randint(0, 86_399_999_999))
    for _ in range(300)
]
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


@pytest.fixture(scope="module")
def moments() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE TABLE m (i INTEGER, t TIMESTAMP)")
    connection.executemany("INSERT INTO m VALUES (?, ?)", list(enumerate(MOMENTS)))
    return connection


def _asked(moments: duckdb.DuckDBPyConnection, expression: str) -> list[object]:
    return [row[0] for row in moments.execute(f"SELECT {expression} FROM m ORDER BY i").fetchall()]


@pytest.mark.parametrize("part", calendar.PARTS)
def test_parts(moments: duckdb.DuckDBPyConnection, part: str) -> None:
    assert [calendar.PARTS[part](t) for t in MOMENTS] == _asked(moments, f"date_part('{part}', t)")


@pytest.mark.parametrize("unit", UNITS)
def test_the_start_of_a_period(moments: duckdb.DuckDBPyConnection, unit: str) -> None:
    mine = [calendar.truncated(t, unit) for t in MOMENTS]
    said = [calendar.at_midnight(t) for t in _asked(moments, f"date_trunc('{unit}', t)")]  # type: ignore[arg-type]
    assert mine == said


@pytest.mark.parametrize("unit", UNITS)
def test_the_next_period_starts_where_this_one_ends(unit: str) -> None:
    for moment in (t for t in MOMENTS if t.year < 9999):
        start = calendar.truncated(moment, unit)
        after = calendar.following(start, unit)
        assert start <= moment < after
        assert calendar.truncated(after, unit) == after
        assert calendar.truncated(after - timedelta(microseconds=1), unit) == start


@pytest.mark.parametrize(
    ("months", "days", "micros"), [(1, 0, 0), (13, 0, 0), (-1, 0, 0), (-25, 3, 5), (0, 40, 0), (0, 0, -7)]
)
def test_shifts(moments: duckdb.DuckDBPyConnection, months: int, days: int, micros: int) -> None:
    inside = [t for t in MOMENTS if 10 < t.year < 9990]
    said = _asked(moments, f"t + INTERVAL ({months}) MONTH + INTERVAL ({days}) DAY + INTERVAL ({micros}) MICROSECOND")
    kept = [each for each, t in zip(said, MOMENTS, strict=True) if 10 < t.year < 9990]
    assert [calendar.shifted(t, months, days, micros) for t in inside] == kept


@pytest.mark.parametrize(
    ("months", "days", "micros"), [(1, 0, 0), (5, 0, 0), (24, 0, 0), (0, 1, 0), (0, 10, 0), (0, 0, 3_600_000_000)]
)
def test_buckets(moments: duckdb.DuckDBPyConnection, months: int, days: int, micros: int) -> None:
    inside = [t for t in MOMENTS if 10 < t.year < 9990]
    width = f"INTERVAL {months} MONTH" if months else f"INTERVAL {days} DAY + INTERVAL {micros} MICROSECOND"
    said = _asked(moments, f"time_bucket({width}, t)")
    kept = [calendar.at_midnight(each) for each, t in zip(said, MOMENTS, strict=True) if 10 < t.year < 9990]  # type: ignore[arg-type]
    assert [calendar.bucket(t, months, days, micros) for t in inside] == kept


def test_the_end_of_a_month(moments: duckdb.DuckDBPyConnection) -> None:
    assert [calendar.month_end(t) for t in MOMENTS] == _asked(moments, "last_day(t)")


def test_the_first_and_the_last_moment() -> None:
    assert (datetime.min, datetime.max) == (calendar.FIRST, calendar.LAST)
    assert calendar.at_midnight(date(2020, 5, 6)) == datetime(2020, 5, 6)


@pytest.mark.parametrize("unit", UNITS)
def test_all_periods_between_two_moments(unit: str) -> None:
    low = datetime(2019, 12, 30, 22, 58, 58, 7)
    high = low + {"year": 900, "quarter": 400, "month": 200, "week": 60, "day": 9}.get(unit, 1) * timedelta(days=1)
    high = min(high, low + timedelta(minutes=3)) if unit in ("minute", "second") else high
    starts = calendar.periods(low, high, unit, 10_000)
    assert (
        starts is not None
        and starts[0] == calendar.truncated(low, unit)
        and starts[-1] == calendar.truncated(high, unit)
    )
    assert [calendar.following(t, unit) for t in starts[:-1]] == list(starts[1:])
    assert len(calendar.periods(low, high, unit, len(starts)) or ()) == len(starts)
    assert not calendar.periods(low, high, unit, len(starts) // 2)


SHORTEST = {"year": 12 * 28, "quarter": 3 * 28, "month": 28, "week": 7, "day": 1, "hour": 1 / 24}


@pytest.mark.parametrize("unit", UNITS)
def test_as_many_periods_are_listed_as_the_shortest_would_fill_the_limit(unit: str) -> None:
    """Whether they are too many is settled before the first of them is made."""
    shortest = timedelta(days=SHORTEST[unit]) if unit in SHORTEST else timedelta(**{f"{unit}s": 1})
    low = datetime(2019, 12, 30)
    last = low + 1000 * shortest
    assert (calendar.periods(low, last, unit, 1000) or [None])[-1] == calendar.truncated(last, unit)
    assert calendar.periods(low, last + timedelta(seconds=1), unit, 1000) is None
