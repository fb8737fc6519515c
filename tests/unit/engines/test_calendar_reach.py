"""Moments that are computed with: none leaves its type, extreme ones are NULL, and ordinary ones are what DuckDB says."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb.datetime_rules import _CALENDAR, MOST_DAYS, MOST_YEARS
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.datetime_range import moved
from dpsql.engines.sql.expression_rules import Emit
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BIGINT, DATE, TEXT, TIMESTAMP, Type, integer

DAY = 86_400 * 10**6
D, T, S = Column(DATE, name="d"), Column(TIMESTAMP, name="t"), Column(TEXT, name="s")


class Row:
    def column(self, node: exp.Column) -> Expression:
        return {"d": D, "t": T, "s": S}.get(node.name) or Column(integer(-(2**31), 2**31 - 1), name=node.name)


def expression(text: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())


def emitted(node: Expression | str) -> str:
    return DUCKDB.sql(expression(node) if isinstance(node, str) else node, DUCKDB.quote)


def shift(months: int = 0, days: int = 0, micros: int = 0, of: Expression = T) -> Call:
    return Call(TIMESTAMP, op="shift", args=(of,), option=(months, days, micros))


def moved_by(amount: Type, op: str = "add_days") -> Call:
    return Call(DATE, op=op, args=(D, Column(amount, name="n")))


@pytest.mark.parametrize(
    ("node", "years"),
    [
        (shift(35), 2),
        (shift(36), 3),
        (shift(-36), 3),
        (shift(1, 333), 0),
        (shift(1, 334), 1),
        (shift(-1, -334), 1),
        (shift(1, -334), 1),
        (shift(0, -365), 1),
        (shift(0, 364, DAY), 1),
        (shift(0, 364, DAY - 1), 0),
        (shift(0, 0, 365 * DAY), 1),
        (shift(0, 0, -365 * DAY), 1),
        (shift(0, 0, 365 * DAY - 1), 0),
        (Call(TIMESTAMP, op="time_bucket", args=(T,), option=(24, 0, 0)), 2),
        (Call(TIMESTAMP, op="date_trunc", args=(T,), option="week"), 0),
        (Call(DATE, op="make_date", args=(Column(BIGINT, name="n"),) * 3), 0),
        (moved_by(integer(0, 729)), 1),
        (moved_by(integer(-730, -400)), 2),
        (moved_by(integer(400, 730)), 2),
        (moved_by(integer(0, 730)), 2),
        (moved_by(integer(-730, 0)), 2),
        (moved_by(integer(-730, 10)), 2),
        (moved_by(integer(-10, 730), "sub_days"), 2),
        (moved_by(BIGINT), MOST_DAYS // 365),
        (moved_by(integer(0, MOST_DAYS + 365)), MOST_DAYS // 365),
    ],
)
def test_a_move_leads_as_many_years_further_as_its_days_may_have(node: Call, years: int) -> None:
    """And every operation counts as one more."""
    assert _CALENDAR.reach(node) == 10_001 + years


def test_a_choice_reaches_as_far_as_the_furthest_of_its_moments() -> None:
    near, far = shift(0, 365), shift(0, 365 * 7)
    for args in ((near, far, T), (T, far, near)):
        assert _CALENDAR.reach(Call(TIMESTAMP, op="coalesce", args=args)) == _CALENDAR.reach(far) + 1


def test_the_furthest_move_is_written_and_one_further_is_refused_also_where_nothing_stands_around_it() -> None:
    longest = 365 * (MOST_YEARS - 10_001)
    assert _CALENDAR.reach(shift(0, longest)) == MOST_YEARS
    for sign in (1, -1):
        made = emitted(shift(0, sign * longest))
        ends = "(TIMESTAMP '0001-01-01'), (TIMESTAMP '9999-12-31 23:59:59.999999')"
        assert duckdb.sql(f"SELECT count({made}) FROM (VALUES {ends}) AS r(t)").fetchall() == [(2,)]
        with pytest.raises(UnsupportedQuery, match="200,000 years"):
            emitted(shift(0, sign * (longest + 365)))
    cut = Call(TIMESTAMP, op="date_trunc", args=(shift(0, longest),), option="day")
    assert "date_trunc" in emitted(cut)
    with pytest.raises(UnsupportedQuery, match="200,000 years"):
        emitted(Call(TIMESTAMP, op="date_trunc", args=(cut,), option="day"))
    bucket = Call(TIMESTAMP, op="time_bucket", args=(T,), option=(0, longest + 365, 0))
    with pytest.raises(UnsupportedQuery, match="200,000 years"):
        emitted(bucket)


def test_rules_that_move_are_kept_within_reach_and_others_are_left_as_they_are() -> None:
    def rule(call: Call, emit: Emit) -> str:
        return f"{call.op} written"

    def emit(node: Expression, wanted: str) -> str:
        return ""

    kept = _CALENDAR.within_reach({"shift": rule, "part": rule})
    assert kept["part"] is rule
    assert kept["shift"](shift(0, 1), emit) == "shift written"
    with pytest.raises(UnsupportedQuery, match="200,000 years"):
        kept["shift"](shift(0, 365 * MOST_YEARS), emit)


def test_a_move_without_an_interval_is_an_error() -> None:
    with pytest.raises(InternalError, match="no interval"):
        moved(Call(TIMESTAMP, op="shift", args=(T,), option="day"))
    assert moved(shift(1, 2, 3)) == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "guards"),
    [
        ("DATE '2020-01-01' + INTERVAL 1 DAY", 0),
        ("TIMESTAMP '2020-01-01' + INTERVAL 1 DAY", 0),
        ("d + INTERVAL 1 DAY", 1),
        ("d + INTERVAL 1 DAY + INTERVAL 1 DAY", 1),
        ("coalesce(d, DATE '2020-01-01') + INTERVAL 1 DAY", 1),
        ("greatest(d, d) + INTERVAL 1 DAY", 2),
    ],
)
def test_each_stored_moment_is_guarded_once_and_constants_are_not(text: str, guards: int) -> None:
    assert emitted(text).count(" BETWEEN ") == guards


@pytest.mark.parametrize(
    ("text", "casts"), [("coalesce(d, d) + 1", 0), ("coalesce(t, t) + INTERVAL 1 DAY", 0), ("coalesce(d, t) + INTERVAL 1 DAY", 1)]
)  # fmt: skip
def test_dates_become_timestamps_only_beside_timestamps(text: str, casts: int) -> None:
    assert emitted(text).count("TRY_CAST") == casts


ODD = ["'infinity'", "'-infinity'", "'5881580-07-10'", "'0044-03-15 (BC)'", "'10000-01-01'"]
CHOICES = {
    "greatest(d, DATE '2020-01-01') + 1": date(2020, 1, 2),
    "least(d, DATE '2020-01-01') + 1": date(2020, 1, 2),
    "coalesce(d, DATE '2020-01-01') - 1": date(2019, 12, 31),
    "CASE WHEN d IS NOT NULL THEN d END + 1": None,
    "nullif(d, DATE '2020-01-01') + 1": None,
    "d + 1": None,
    "d - n": None,
    "d + INTERVAL 1 MONTH": None,
    "CAST(d AS TIMESTAMP) + INTERVAL 1 DAY": None,
    "CAST(s AS DATE) + 1": None,
    "date_trunc('week', d)": None,
    "extract(week FROM d)": None,
    "extract(isoyear FROM d)": None,
}


@pytest.mark.parametrize("text", CHOICES)
def test_an_extreme_moment_is_null_before_anything_is_computed_with_it(text: str) -> None:
    """The guards stand at the stored moments: a choice beside one that is NULL still has the other."""
    made = emitted(text)
    rows = ", ".join(f"({odd}::DATE, {odd}, 3)" for odd in ODD)
    found = duckdb.sql(f"SELECT {made} FROM (VALUES {rows}) AS r(d, s, n)").fetchall()
    assert found == [(CHOICES[text],)] * len(ODD)


@pytest.mark.parametrize("end", [date(1, 1, 1), date(9999, 12, 31)])
def test_the_first_and_the_last_day_of_the_calendar_can_be_computed_with(end: date) -> None:
    step = timedelta(days=1 if end.year == 1 else -1)
    sign = "+" if end.year == 1 else "-"
    source = f"(SELECT DATE '{end}' AS d, TIMESTAMP '{end}' AS t, 1 AS n)"
    for text in (f"d {sign} 1", f"d {sign} n", f"t {sign} INTERVAL 1 DAY"):
        [(found,)] = duckdb.sql(f"SELECT CAST({emitted(text)} AS DATE) FROM {source}").fetchall()
        assert found == end + step
    last = datetime(9999, 12, 31, 23, 59, 59, 999999)
    text = emitted("t - INTERVAL 1 MICROSECOND") if end.year > 1 else emitted("t + INTERVAL 1 MICROSECOND")
    moment = f"TIMESTAMP '{last}'" if end.year > 1 else f"TIMESTAMP '{datetime(1, 1, 1)}'"
    [(found,)] = duckdb.sql(f"SELECT {text} FROM (SELECT {moment} AS t)").fetchall()
    assert abs(found - (last if end.year > 1 else datetime(1, 1, 1))) == timedelta(microseconds=1)


@pytest.mark.parametrize("sign", ["+", "-"])
def test_so_many_days_are_added_and_more_give_null(sign: str) -> None:
    """A number whose type holds no more is taken as it is; another is read in seven digits."""
    for type_, name in ((integer(-MOST_DAYS, MOST_DAYS), "INTEGER"), (BIGINT, "BIGINT"), (integer(0, MOST_DAYS + 1), "BIGINT"),
                        (integer(-MOST_DAYS - 1, 0), "BIGINT")):  # fmt: skip
        made = emitted(moved_by(type_, "add_days" if sign == "+" else "sub_days"))
        assert ("DECIMAL(7,0)" in made) == (type_.lower < -MOST_DAYS or type_.upper > MOST_DAYS)
        values = [0, 5, -5, MOST_DAYS, -MOST_DAYS, MOST_DAYS + 1, -MOST_DAYS - 1]
        rows = ", ".join(f"({value}::{name})" for value in values)
        asked = (
            f"SELECT n, {made} - DATE '2020-01-01' FROM (SELECT DATE '2020-01-01' AS d, n FROM (VALUES {rows}) AS v(n))"
        )
        for value, days in duckdb.sql(asked).fetchall():
            wanted = value if sign == "+" else -value
            assert days == wanted or (days is None and abs(value) > MOST_DAYS)
            assert days is None or abs(value) <= MOST_DAYS or name == "INTEGER"


UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]


@pytest.mark.parametrize("unit", UNITS)
def test_whole_units_and_borders_between_two_moments_are_those_of_duckdb(unit: str) -> None:
    moments = ["2024-02-29 12:34:56", "2023-02-28 23:59:59", "2020-01-01 00:00:00", "2024-12-31 00:00:01"]
    rows = ", ".join(f"(TIMESTAMP '{one}', DATE '{two[:10]}', DATE '{one[:10]}')" for one in moments for two in moments)
    for form in (f"date_diff('{unit}', {{}}, {{}})", f"date_sub('{unit}', {{}}, {{}})"):
        for pair in (("d", "e"), ("t", "d"), ("d", "t"), ("t", "t")):
            text = form.format(*pair)
            made = emitted(convert_with(text))
            plain = text.replace("d,", "d::TIMESTAMP,").replace("d)", "d::TIMESTAMP)") if "t" in pair else text
            found = duckdb.sql(f"SELECT {made}, {plain} FROM (VALUES {rows}) AS r(t, d, e)").fetchall()
            assert [ours for ours, _ in found] == [theirs for _, theirs in found]


def convert_with(text: str) -> Expression:
    class Two(Row):
        def column(self, node: exp.Column) -> Expression:
            return Column(DATE, name="e") if node.name == "e" else super().column(node)

    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Two())


@pytest.mark.parametrize("text", ["time_bucket(INTERVAL 1 MONTH, d)", "time_bucket(INTERVAL 36 HOUR, t)", "d - e", "t + INTERVAL '14 months'",
                                  "t - INTERVAL 3 DAY", "extract(week FROM t)", "extract(yearweek FROM d)", "date_trunc('quarter', t)"])  # fmt: skip
def test_an_ordinary_moment_gives_what_duckdb_gives(text: str) -> None:
    rows = "(TIMESTAMP '2024-02-29 12:34:56', DATE '2024-12-31', DATE '1969-07-20'), (NULL, NULL, DATE '2000-01-01')"
    found = duckdb.sql(f"SELECT {emitted(convert_with(text))}, {text} FROM (VALUES {rows}) AS r(t, d, e)").fetchall()
    assert [ours for ours, _ in found] == [theirs for _, theirs in found]
