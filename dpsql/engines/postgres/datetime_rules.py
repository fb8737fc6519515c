"""Dates and timestamps of PostgreSQL, kept to the years 1 to 9999 wherever something is computed with them.

**Theorem.** No rule here raises. **Proof.** A stored moment that is computed with lies in the years 1 to 9999, or is
NULL: infinite ones are gone. What is added to it is limited (`YEARS`, `DAYS`), so that no result is before 4713 BC,
where PostgreSQL's calendar begins, or after the year 294276. Parts, truncations and differences of such moments exist.
**Requires** `TimeZone = UTC`, `DateStyle = ISO`. **Checked by** `tests/engines/test_postgres_total.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpsql.engines.postgres import number_rules
from dpsql.engines.postgres.syntax import called, cast, text
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.datetime_range import Calendar, moved
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import DATE, Kind

YEARS = 14_000
DAYS = 1_000_000
_PARTS = {
    "year": "year", "month": "month", "day": "day", "hour": "hour", "minute": "minute", "quarter": "quarter",
    "week": "week", "dow": "dow", "isodow": "isodow", "doy": "doy", "decade": "decade", "century": "century",
    "millennium": "millennium", "isoyear": "isoyear", "millisecond": "milliseconds", "microsecond": "microseconds",
    "second": "second",
}  # fmt: skip
_YEARLY = {"year", "quarter", "month", "isoyear", "decade", "century", "millennium"}
"""What depends on how years are counted."""
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_SPELLED = {"Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "M": "MI", "S": "SS", "j": "DDD", "f": "US", "%": '"%"'}


def _guard(made: str, wanted: str) -> str:
    return called(f"{wanted.lower()}_in", made)


_CALENDAR = Calendar(
    YEARS,
    DAYS,
    _guard,
    number_rules.attempted,
    lambda: RULES,
    {**comparison_rules.RULES, "cast": number_rules.RULES["cast"]},
)
calendar = _CALENDAR.of


def stamp(node: Expression, emit: Emit) -> str:
    """A moment as a timestamp: PostgreSQL has most functions for these only."""
    made = calendar(node, emit)
    return cast(made, "TIMESTAMP")


def _dated(node: Expression, emit: Emit) -> str:
    """A timestamp whose year is read; NULL if it lies before year 1, because PostgreSQL has no year 0."""
    made = stamp(node, emit)
    return called("from_year_1", made) if isinstance(node, Call) else made


def _add_days(sign: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        day, amount = call.args
        count = emit(amount, physical(amount.type))
        if amount.type.lower < -DAYS or amount.type.upper > DAYS:
            count = f"CASE WHEN {count} BETWEEN {-DAYS} AND {DAYS} THEN {cast(count, 'INTEGER')} END"
        return f"({calendar(day, emit)} {sign} {count})"

    return rule


def _days(call: Call, emit: Emit) -> str:
    return f"({calendar(call.args[0], emit)} - {calendar(call.args[1], emit)})"


def _shift(call: Call, emit: Emit) -> str:
    """A shifted date is a timestamp, as in DuckDB."""
    return f"({stamp(call.args[0], emit)} + {_span(call)})"


def _span(call: Call) -> str:
    months, days, micros = moved(call)
    return f"INTERVAL '{months} months {days} days {micros} microseconds'"


def _part(call: Call, emit: Emit) -> str:
    part = _PARTS[str(call.option)]
    moment = (_dated if part in _YEARLY else stamp)(call.args[0], emit)
    made = f"extract({part} FROM {moment})"
    return cast(f"floor({made})" if part in ("second", "milliseconds") else made, physical(call.type))


def _trunc(call: Call, emit: Emit) -> str:
    return f"date_trunc('{call.option}', {stamp(call.args[0], emit)})"


def _diff(call: Call, emit: Emit) -> str:
    """How many boundaries of a unit lie between two moments."""
    unit = str(call.option)
    end, start = ((_dated if unit in _YEARLY else stamp)(a, emit) for a in call.args)
    return cast(f"({_ordinal(unit, end)} - {_ordinal(unit, start)})", physical(call.type))


def _ordinal(unit: str, moment: str) -> str:
    """The number of the year, the month, …, that a moment lies in, counted from anywhere."""
    year = f"extract(year FROM {moment})"
    match unit:
        case "year":
            return year
        case "quarter":
            return f"({year} * 4 + extract(quarter FROM {moment}))"
        case "month":
            return f"({year} * 12 + extract(month FROM {moment}))"
        case "day":
            return f"(CAST({moment} AS date) - DATE '1970-01-01')"
    return f"div(extract(epoch FROM date_trunc('{unit}', {moment})), {_SECONDS[unit]})"


def _bucket(call: Call, emit: Emit) -> str:
    """Buckets of days and less begin on a Monday, as DuckDB's do."""
    made = f"date_bin({_span(call)}, {stamp(call.args[0], emit)}, TIMESTAMP '2000-01-03')"
    return cast(made, physical(call.type))


def _make_date(call: Call, emit: Emit) -> str:
    parts = [f"CASE WHEN {a} BETWEEN 1 AND 9999 THEN {cast(a, 'INTEGER')} END" for a in _numbers(call, emit)]
    return called("date_of", *parts)


def _numbers(call: Call, emit: Emit) -> list[str]:
    return [emit(a, "BIGINT") for a in call.args]


def _last_day(call: Call, emit: Emit) -> str:
    month = f"date_trunc('month', {stamp(call.args[0], emit)})"
    return cast(f"({month} + INTERVAL '1 month' - INTERVAL '1 day')", "DATE")


def _named(pattern: str) -> Rule:
    """English names: without the prefix TM the locale does not matter."""
    return lambda call, emit: f"(to_char({stamp(call.args[0], emit)}, '{pattern}') COLLATE \"C\")"


def _strftime(call: Call, emit: Emit) -> str:
    pattern = _pattern(call)
    assert pattern is not None
    return f'(to_char({_dated(call.args[0], emit)}, {text(pattern)}) COLLATE "C")'


def _pattern(call: Call) -> str | None:
    """The format in PostgreSQL's letters; None where it has none for a part of it."""
    said = call.args[1].value if isinstance(call.args[1], Literal) else None
    made = ""
    for word in re.findall(r"%.|[^%]+", str(said)):
        if not word.startswith("%"):
            made += '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
        elif word[1] in _SPELLED:
            made += _SPELLED[word[1]]
        else:
            return None
    return made


def _epoch(scale: int) -> Rule:
    """Milliseconds are rounded half away from zero, as DuckDB does, and microseconds are whole."""

    def rule(call: Call, emit: Emit) -> str:
        made = f"extract(epoch FROM {stamp(call.args[0], emit)})"
        return cast(made if scale == 1 else f"round({made} * {scale})", physical(call.type))

    return rule


def has_form(call: Call) -> bool:
    """Whether the option of a call is one that is computed here as DuckDB computes it."""
    match call.op:
        case "part":
            return str(call.option) in _PARTS
        case "date_diff":
            return call.option != "week"
        case "time_bucket":
            return moved(call)[0] == 0
        case "strftime":
            return _pattern(call) is not None
        case "epoch" | "epoch_ms" | "epoch_us":
            return call.args[0].type.temporal
        case "add_days" | "sub_days":
            return call.args[0].type == DATE and call.args[1].type.kind is Kind.INTEGER
    return True


RULES: Mapping[str, Rule] = _CALENDAR.within_reach({
    "add_days": _add_days("+"), "sub_days": _add_days("-"), "days": _days, "shift": _shift, "part": _part,
    "date_trunc": _trunc, "date_diff": _diff, "time_bucket": _bucket, "make_date": _make_date, "last_day": _last_day,
    "dayname": _named("FMDay"), "monthname": _named("FMMonth"), "strftime": _strftime,
    "epoch": _epoch(1), "epoch_ms": _epoch(1000), "epoch_us": _epoch(1_000_000),
})  # fmt: skip
