"""Functions of dates and timestamps over many intervals: they end where DuckDB's values do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from small_worlds import Axis, World, inside

from dpsql.bounds import infer
from dpsql.bounds.calendar import PARTS, WITHIN, truncated
from dpsql.bounds.domain import Domain, RowDomains, interval, number

TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2019, 12, 31, 23, 59, 59, 999_999), datetime(2020, 1, 1),
    datetime(2020, 1, 1, 0, 0, 0, 1_500), datetime(2020, 1, 1, 0, 0, 30, 500_000), datetime(2020, 1, 1, 0, 59, 59),
    datetime(2020, 1, 1, 12, 30), datetime(2020, 1, 6), datetime(2020, 1, 31), datetime(2020, 2, 29, 1),
    datetime(2020, 3, 31, 23), datetime(2020, 12, 31, 12),
]  # fmt: skip
DAYS = sorted({t.date() for t in TIMES})


def _axis(stored: str, points: list[Any]) -> Axis:
    places = [number(p) for p in points]
    pairs: list[tuple[Any, Any]] = [(p, p) for p in places] + list(pairwise(places[1:]))
    pairs += [(places[2], places[5]), (places[1], places[-1]), (None, places[3]), (places[3], None), (None, None)]
    return Axis(
        stored, tuple(points), tuple(interval(low, high, nullable=False, origin=("policy",)) for low, high in pairs)
    )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    few = Axis(
        "TIMESTAMP",
        (TIMES[2], TIMES[9]),
        (interval(number(TIMES[2]), number(TIMES[9]), nullable=False), Domain(nullable=False)),
    )
    made = World(
        c=_axis("TIMESTAMP", TIMES), a=_axis("DATE", DAYS), e=few,
        n=Axis("BIGINT", (-3, 0, 40), (interval(-3, 40, nullable=False), interval(0, 0, nullable=False), interval(40, 40))),
    )  # fmt: skip
    yield made
    made.database.close()


UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
RISING = [
    *(f"date_part('{part}', c)" for part in ("year", "decade", "century", "millennium", "isoyear", "yearweek", "era")),
    *(f"c {lapse}" for lapse in ("+ INTERVAL 1 MONTH", "- INTERVAL 13 MONTH", "+ INTERVAL 3 DAY", "- INTERVAL 30 HOUR")),
    *(f"date_trunc('{unit}', c)" for unit in UNITS[:5]), *(f"date_trunc('{unit}', a)" for unit in ("year", "week", "day")),
    *(f"date_diff('{unit}', TIMESTAMP '2020-01-15 10:20:30', c)" for unit in UNITS),
    *(f"time_bucket(INTERVAL {width}, c)" for width in ("1 DAY", "2 MONTH", "5 YEAR")), "time_bucket(INTERVAL 10 DAY, a)",
    "a - DATE '2020-01-15'", "a + 10", "a - 10", "year(a)", "a + INTERVAL 1 MONTH",
]  # fmt: skip
ALWAYS_NULL = [
    "epoch(c)",
    "epoch_ms(c)",
    "epoch_us(c)",
    "epoch_ns(c)",
    "julian(c)",
    "last_day(c)",
    "last_day(a)",
    "epoch(a)",
]


@pytest.mark.parametrize("text", [*RISING, *ALWAYS_NULL])
def test_what_rises_with_time_ends_where_its_values_do(world: World, text: str) -> None:
    """Floats as close as their last digits, milliseconds as close as any way to round them. Without bounds a moment
    may be infinite or beyond the calendar, and the result NULL.
    """
    for known, made, values in world.answers(text):
        [domain] = known.columns.values()
        assert all(inside(v, made) for v in values), known
        assert made.nullable == (text in ALWAYS_NULL or (not domain.bounded and text != "a - DATE '2020-01-15'")), known
        assert made.nan is False
        assert made.origin[:1] == ("policy",) or "era" in text
        places = [number(v) for v in values]
        off = 1 if "_ms" in text else 0
        for end, bound, wanted in ((domain.lower, made.lower, min(places)), (domain.upper, made.upper, max(places))):
            if end is None:
                assert bound is None or "era" in text or "mille" in text, known
            elif "bucket" in text and not domain.bounded:
                assert bound is None, known
            elif isinstance(wanted, float):
                assert bound == pytest.approx(wanted, rel=3e-12, abs=0), known
            else:
                assert bound is not None and abs(bound - wanted) <= off, known


@pytest.mark.parametrize("text", ["epoch(c)", "julian(c)"])
def test_a_count_as_a_float_has_the_slack_of_its_last_digits(world: World, text: str) -> None:
    for known, made, values in world.answers(text):
        if known.columns["c"].bounded:
            low, high = min(values), max(values)
            assert made.lower == pytest.approx(low - abs(low) * 1e-12, rel=4e-16, abs=0)
            assert made.upper == pytest.approx(high + abs(high) * 1e-12, rel=4e-16, abs=0)


def test_milliseconds_may_be_rounded_either_way(world: World) -> None:
    for known, made, _ in world.answers("epoch_ms(c)"):
        low, high = known.columns["c"].lower, known.columns["c"].upper
        assert made.lower == (None if low is None else low // 1000)
        assert made.upper == (None if high is None else -(-high // 1000))


@pytest.mark.parametrize(
    "part", [p for p in PARTS if p not in ("year", "decade", "century", "millennium", "isoyear", "yearweek", "era")]
)
def test_a_part_that_comes_again_has_bounds_of_its_own_within_one_period(world: World, part: str) -> None:
    nothing = infer(world.expression(f"date_part('{part}', c)"), RowDomains({"c": Domain(nullable=False)}))
    for known, made, values in world.answers(f"date_part('{part}', c)"):
        domain = known.columns["c"]
        assert all(inside(v, made) for v in values), known
        assert made.nullable is not domain.bounded
        inner = [t for t in TIMES if inside(t, domain)]
        unit = WITHIN.get(part)
        if domain.bounded and unit is not None and truncated(inner[0], unit) == truncated(inner[-1], unit):
            assert (made.lower, made.upper) == (min(values), max(values)), known
        else:
            assert (made.lower, made.upper) == (nothing.lower, nothing.upper), known


@pytest.mark.parametrize("part", ["hour", "minute", "second", "millisecond", "microsecond"])
def test_a_date_is_at_midnight(world: World, part: str) -> None:
    for known, made, values in world.answers(f"date_part('{part}', a)"):
        assert (made.lower, made.upper, made.nullable) == (0, 0, not known.columns["a"].bounded)
        assert set(values) == {0}


@pytest.mark.parametrize("unit", UNITS)
def test_the_periods_and_the_buckets_are_listed(world: World, unit: str) -> None:
    """All of them, and no other."""
    low = datetime(2019, 12, 30, 23, 58, 59)
    high = low + timedelta(**{"year": {"days": 900}, "quarter": {"days": 400}, "month": {"days": 100}, "week": {"days": 22}, "day": {"days": 4},
                              "hour": {"hours": 5}}.get(unit, {"seconds": 130}))  # fmt: skip
    known = RowDomains({"c": interval(number(low), number(high), nullable=False)})
    steps = [low + (high - low) * at / 4000 for at in range(4001)]
    made = infer(world.expression(f"date_trunc('{unit}', c)"), known)
    assert made.values is not None and set(made.values) == {truncated(t, unit) for t in steps}
    buckets = infer(world.expression(f"time_bucket(INTERVAL 1 {unit}, c)"), known)
    starts = world.database.execute(
        f"SELECT DISTINCT time_bucket(INTERVAL 1 {unit}, t::TIMESTAMP)::TIMESTAMP FROM (SELECT unnest(?::TIMESTAMP[]) AS t)",
        [steps],
    ).fetchall()
    assert buckets.values is not None and set(buckets.values) == {t for (t,) in starts}


@pytest.mark.parametrize("form", ["a + n", "a - n"])
def test_a_date_and_a_number_of_days(world: World, form: str) -> None:
    for known, made, values in world.answers(form):
        domain = known.columns["a"]
        assert all(inside(v, made) for v in values), known
        assert made.lower == (None if domain.lower is None else min(number(v) for v in values if v is not None)), known
        assert made.upper == (None if domain.upper is None else max(number(v) for v in values if v is not None)), known
        assert made.nullable == (not domain.bounded or known.columns["n"].nullable)


@pytest.mark.parametrize(
    ("days", "null"), [(9_999_999, False), (10_000_000, True), (-9_999_999, False), (-10_000_000, True)]
)
@pytest.mark.parametrize("form", ["a + n", "a - n"])
def test_so_many_days_can_be_added(world: World, form: str, days: int, null: bool) -> None:
    for low, high in ((days, days), (min(days, 0), max(days, 0))):
        known = RowDomains({"a": interval(0, 5, nullable=False), "n": interval(low, high, nullable=False)})
        assert infer(world.expression(form), known).nullable is null


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", ["date_diff('{}', e, c)", "date_sub('{}', e, c)", "date_sub('{}', c, e)"])
def test_the_distance_of_two_moments(world: World, form: str, unit: str) -> None:
    """Of whole units up to zero too, for a boundary between the moments need not make one."""
    for known, made, values in world.answers(form.format(unit)):
        assert all(inside(v, made) for v in values), known
        bounded = all(d.bounded for d in known.columns.values())
        assert made.nullable is not bounded
        if bounded and "diff" in form:
            assert (made.lower, made.upper) == (min(values), max(values)), known
        elif bounded:
            diffs = infer(world.expression(form.format(unit).replace("date_sub", "date_diff")), known)
            assert (made.lower, made.upper) == (min(diffs.lower, 0), max(diffs.upper, 0)), known  # type: ignore[type-var]


def test_days_between_dates(world: World) -> None:
    for known, made, values in world.answers("CAST(e AS DATE) - a"):
        assert all(inside(v, made) for v in values), known
        if all(d.bounded for d in known.columns.values()):
            assert (made.lower, made.upper) == (min(values), max(values)), known
        assert made.nullable is False


OUTSIDE = interval(number(datetime(9999, 12, 1)), number(datetime(9999, 12, 31, 23)), nullable=False)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("c + INTERVAL 20 DAY", number(datetime(9999, 12, 21)), None),
        ("c + INTERVAL 1 YEAR", None, None),
        ("date_trunc('month', c)", number(datetime(9999, 12, 1)), number(datetime(9999, 12, 1))),
        ("year(c)", 9999, 9999),
        ("last_day(c)", number(date(9999, 12, 31)), number(date(9999, 12, 31))),
    ],
)
def test_what_leaves_the_calendar_has_no_end(world: World, text: str, low: Any, high: Any) -> None:
    made = infer(world.expression(text), RowDomains({"c": OUTSIDE}))
    assert (made.lower, made.upper) == (low, high)


def test_buckets_beyond_the_calendar_are_not_listed(world: World) -> None:
    made = infer(world.expression("time_bucket(INTERVAL 1 MONTH, c)"), RowDomains({"c": OUTSIDE}))
    assert made.values is None and made.nullable and not made.bounded
