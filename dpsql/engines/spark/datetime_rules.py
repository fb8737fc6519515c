"""Dates and timestamps: arithmetic only on moments of the years 1 to 9999, so that no result leaves its type.

Spark stores years far beyond, and some of its functions raise there; such moments become NULL before they are used.
Timestamps have no zone here: the session's is UTC, so that a stored one with a zone is read in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.engines.spark.number_rules import guarded
from dpsql.engines.spark.type_names import spark_type
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.datetime_range import Calendar, moved, stored
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Call, Expression

MOST_YEARS = 200_000
"""Timestamps reach 290,000 years either way."""
MOST_DAYS = 9_999_999
"""A number of days has at most seven digits: 27,000 years."""
SECOND = 10**6
DAY = 86_400 * SECOND


def _attempted(made: str, given: str, wanted: str) -> str:
    return f"CAST({made} AS {spark_type(wanted)})"


def _choices() -> Mapping[str, Rule]:
    return {**comparison_rules.RULES, "cast": lambda node, emit: emit(node.args[0], physical(node.type))}


_CALENDAR = Calendar(MOST_YEARS, MOST_DAYS, guarded, _attempted, lambda: RULES, _choices())
calendar = _CALENDAR.of


def timestamp(node: Expression, emit: Emit) -> str:
    """A guarded moment as a timestamp."""
    made = calendar(node, emit)
    return made if stored(node) == "TIMESTAMP" else _attempted(made, "DATE", "TIMESTAMP")


def micros(made: str) -> str:
    """The microseconds since 1970 of a timestamp."""
    return f"unix_micros(CAST({made} AS TIMESTAMP))"


def from_micros(made: str) -> str:
    """The timestamp of so many microseconds since 1970."""
    return f"CAST(timestamp_micros({made}) AS TIMESTAMP_NTZ)"


def floor_of(count: str, unit: int) -> str:
    """⌊count/unit⌋ of whole numbers of 64 bits."""
    return f"(({count} - pmod({count}, {unit}L)) div {unit}L)"


def _add_days(name: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        day, amount = call.args
        if amount.type.lower >= -MOST_DAYS and amount.type.upper <= MOST_DAYS:
            days = emit(amount, "INTEGER")
        else:
            made = emit(amount, physical(amount.type))
            days = f"CAST(CASE WHEN {made} BETWEEN -{MOST_DAYS} AND {MOST_DAYS} THEN {made} END AS INT)"
        return f"{name}({calendar(day, emit)}, {days})"

    return rule


def days_between(end: str, start: str) -> str:
    """The whole days from one date to another: Spark's own difference of dates has 32 bits, and wraps."""
    return f"(CAST(unix_date({end}) AS BIGINT) - CAST(unix_date({start}) AS BIGINT))"


def _days(call: Call, emit: Emit) -> str:
    return days_between(*(emit(a, "DATE") for a in call.args))


def _shift(call: Call, emit: Emit) -> str:
    """Months first, then days, then what is less than a day."""
    months, days, rest = moved(call)
    made = timestamp(call.args[0], emit)
    made = f"({made} + INTERVAL '{months}' MONTH)" if months else made
    seconds = days * 86_400 + rest // SECOND
    return f"({made} + INTERVAL '{seconds}.{rest % SECOND:06d}' SECOND)" if rest or days >= 0 else _back(made, days)


def _back(made: str, days: int) -> str:
    return f"({made} - INTERVAL '{-days * 86_400}.000000' SECOND)"


_PARTS = {
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "quarter": "quarter({0})", "hour": "hour({0})",
    "minute": "minute({0})", "second": "second({0})", "week": "weekofyear({0})", "dow": "dayofweek({0}) - 1",
    "isodow": "weekday({0}) + 1", "doy": "dayofyear({0})", "decade": "year({0}) div 10",
    "century": "(year({0}) + 99) div 100", "millennium": "(year({0}) + 999) div 1000", "era": "sign(year({0}))",
    "isoyear": "extract(YEAROFWEEK FROM {0})", "yearweek": "extract(YEAROFWEEK FROM {0}) * 100 + weekofyear({0})",
    "millisecond": "extract(SECOND FROM {0}) * 1000", "microsecond": "extract(SECOND FROM {0}) * 1000000",
}  # fmt: skip
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond")


def _part(call: Call, emit: Emit) -> str:
    it = call.args[0]
    value = timestamp(it, emit) if call.option in _CLOCK else calendar(it, emit)
    return f"CAST({_PARTS[str(call.option)].format(value)} AS {spark_type(physical(call.type))})"


def _trunc(call: Call, emit: Emit) -> str:
    return f"CAST(date_trunc('{call.option}', {timestamp(call.args[0], emit)}) AS TIMESTAMP_NTZ)"


_LENGTHS = {"day": DAY, "hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND}


def _diff(call: Call, emit: Emit) -> str:
    """How many borders of the unit lie between two moments: the difference of their numbers; weeks are whole ones."""
    unit = "day" if call.option == "week" else str(call.option)
    end, start = (_number(unit, timestamp(a, emit)) for a in call.args)
    return f"(({end} - {start}) div 7L)" if call.option == "week" else f"({end} - {start})"


def _number(unit: str, value: str) -> str:
    """The number of the year, month, day, … in which a timestamp lies."""
    if unit in _LENGTHS:
        return floor_of(micros(value), _LENGTHS[unit])
    months = {"year": "0", "quarter": f"quarter({value})", "month": f"month({value})"}[unit]
    factor = {"year": 1, "quarter": 4, "month": 12}[unit]
    return f"CAST(year({value}) * {factor} + {months} AS BIGINT)"


_MONDAY = 10_959 * DAY
"""Buckets of days and less are counted from 2000-01-03."""


def _bucket(call: Call, emit: Emit) -> str:
    """Of days and less; as DuckDB's, in the type of the moment."""
    _, days, rest = moved(call)
    width = days * DAY + rest
    since = f"({micros(timestamp(call.args[0], emit))} - {_MONDAY}L)"
    return f"CAST({from_micros(f'({floor_of(since, width)} * {width}L + {_MONDAY}L)')} AS {spark_type(stored(call))})"


def _make_date(call: Call, emit: Emit) -> str:
    """NULL where the month has no such day, as Spark does without ANSI mode."""
    year, month, day = (emit(a, "BIGINT") for a in call.args)
    parts = ((year, 9999), (month, 12), (day, 31))
    listed = [f"CAST(CASE WHEN {made} BETWEEN 1 AND {most} THEN {made} END AS INT)" for made, most in parts]
    return f"make_date({', '.join(listed)})"


RULES: Mapping[str, Rule] = _CALENDAR.within_reach({
    "add_days": _add_days("date_add"), "sub_days": _add_days("date_sub"), "days": _days, "shift": _shift,
    "part": _part, "date_trunc": _trunc, "date_diff": _diff, "time_bucket": _bucket, "make_date": _make_date,
})  # fmt: skip


def computed(node: Call) -> bool:
    """Is there a total form of this very operation?"""
    if node.op == "time_bucket":
        months, days, rest = moved(node)
        return not months and days * DAY + rest < 10**17
    return node.op != "part" or node.option in _PARTS
