"""Dates and timestamps: arithmetic only on moments of the years 1 to 9999, so that no result leaves its type."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.engines.duckdb import number_rules
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.datetime_range import FIRST, LAST, Calendar, moved, stored
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call
from dpsql.expressions.types import DATE, TIMESTAMP

MOST_YEARS = 200_000
"""Timestamps reach 290,000 years either way."""
MOST_DAYS = 9_999_999
"""A number of days has at most seven digits: 27,000 years."""


def _guarded(made: str, wanted: str) -> str:
    last = LAST if wanted == "TIMESTAMP" else LAST[:10]
    return f"CASE WHEN {made} BETWEEN {wanted} '{FIRST}' AND {wanted} '{last}' THEN {made} END"


def _attempted(made: str, given: str, wanted: str) -> str:
    return f"TRY_CAST({made} AS {wanted})"


_CALENDAR = Calendar(
    MOST_YEARS,
    MOST_DAYS,
    _guarded,
    _attempted,
    lambda: RULES,
    {**comparison_rules.RULES, "cast": number_rules.RULES["cast"]},
)
calendar = _CALENDAR.of


def _add_days(sign: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        day, amount = call.args
        if amount.type.lower >= -MOST_DAYS and amount.type.upper <= MOST_DAYS:
            days = emit(amount, "INTEGER")
        else:
            days = f"CAST(TRY_CAST({emit(amount, physical(amount.type))} AS DECIMAL(7,0)) AS INTEGER)"
        return f"({calendar(day, emit)} {sign} {days})"

    return rule


def _days(call: Call, emit: Emit) -> str:
    return f"({emit(call.args[0], 'DATE')} - {emit(call.args[1], 'DATE')})"


def _shift(call: Call, emit: Emit) -> str:
    months, days, micros = moved(call)
    span = f"INTERVAL '{months} months {days} days {micros} microseconds'"
    return f"({calendar(call.args[0], emit)} + {span})"


def _part(call: Call, emit: Emit) -> str:
    """Every part is total but those of ISO weeks, which step out of the range of dates at its lower end."""
    it = call.args[0]
    moment = calendar(it, emit) if call.option in ("week", "isoyear", "yearweek") else emit(it, stored(it))
    return f"CAST(date_part('{call.option}', {moment}) AS {physical(call.type)})"


def _trunc(call: Call, emit: Emit) -> str:
    return f"date_trunc('{call.option}', {calendar(call.args[0], emit)})"


def _diff(call: Call, emit: Emit) -> str:
    end, start = call.args
    wanted = "DATE" if end.type == start.type == DATE else physical(TIMESTAMP)
    return f"date_diff('{call.option}', {emit(start, wanted)}, {emit(end, wanted)})"


def _whole_units(call: Call, emit: Emit) -> str:
    """Dates count from midnight."""
    end, start = call.args
    sides = (f"TRY_CAST({calendar(a, emit)} AS TIMESTAMP)" for a in (start, end))
    return f"date_sub('{call.option}', {', '.join(sides)})"


def _bucket(call: Call, emit: Emit) -> str:
    months, days, micros = moved(call)
    span = f"INTERVAL '{months} months {days} days {micros} microseconds'"
    return f"time_bucket({span}, {calendar(call.args[0], emit)})"


def _make_date(call: Call, emit: Emit) -> str:
    """The first of a month, and then a day of it: NULL where the month has no such day."""
    year, month, day = (emit(a, "BIGINT") for a in call.args)
    first = (
        f"make_date(CASE WHEN {year} BETWEEN 1 AND 9999 THEN {year} END, "
        f"CASE WHEN {month} BETWEEN 1 AND 12 THEN {month} END, CAST(1 AS BIGINT))"
    )
    days = f"CAST(greatest(least({day}, 31), 1) AS INTEGER) - 1"
    return f"CASE WHEN {day} BETWEEN 1 AND date_part('day', last_day({first})) THEN {first} + ({days}) END"


RULES: Mapping[str, Rule] = _CALENDAR.within_reach({
    "add_days": _add_days("+"), "sub_days": _add_days("-"), "days": _days, "shift": _shift, "part": _part,
    "date_trunc": _trunc, "date_diff": _diff, "date_sub": _whole_units, "time_bucket": _bucket, "make_date": _make_date,
})  # fmt: skip
