"""Dates and timestamps: arithmetic only on moments of the years 1 to 9999, so that no result leaves its type.

±infinity and extreme years, which a stored column may hold, become NULL where DuckDB would raise on some of them.
"""

from __future__ import annotations

from dpsql.engines.duckdb import numbers
from dpsql.engines.sql import compare
from dpsql.engines.sql.physical import physical
from dpsql.engines.sql.rule import Emit, Rule
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import DATE, TIMESTAMP, Kind

FIRST, LAST = "0001-01-01", "9999-12-31 23:59:59.999999"
MOST_YEARS = 200_000
"""Timestamps reach 290,000 years either way."""
MOST_DAYS = 9_999_999
"""A number of days has at most seven digits: 27,000 years."""
_CHOICES = {"case", "coalesce", "greatest", "least", "nullif"}


def calendar(node: Expression, emit: Emit) -> str:
    """A moment within `years(node)`, or NULL. The guards stand at the leaves, so the SQL stays short."""
    wanted = _stored(node)
    if years(node) > MOST_YEARS:
        raise UnsupportedQuery("these intervals add up to more than 200,000 years", span=node.span)
    if node.type.kind is Kind.NULL or isinstance(node, Literal) or (isinstance(node, Call) and node.op in RULES):
        return emit(node, wanted)
    if isinstance(node, Call) and (node.op in _CHOICES or (node.op == "cast" and node.args[0].type.temporal)):
        return _rebuilt(node, emit, wanted)
    return _guarded(emit(node, wanted), wanted)


def _guarded(made: str, wanted: str) -> str:
    last = LAST if wanted == "TIMESTAMP" else LAST[:10]
    return f"CASE WHEN {made} BETWEEN {wanted} '{FIRST}' AND {wanted} '{last}' THEN {made} END"


def _rebuilt(node: Call, emit: Emit, wanted: str) -> str:
    """A choice between moments, each of them guarded."""

    def inner(child: Expression, type_: str) -> str:
        if child.type.temporal:
            made, given = calendar(child, emit), _stored(child)
            return made if given == type_ else f"TRY_CAST({made} AS {type_})"
        return emit(child, type_)

    return {**numbers.RULES, **compare.RULES}[node.op](node, inner)


def _stored(node: Expression) -> str:
    return "TIMESTAMP" if node.type.kind is Kind.NULL else physical(node.type)


def years(node: Expression) -> int:
    """How far from the year 0 a guarded moment can lie."""
    if not isinstance(node, Call):
        return 10_000
    below = max((years(a) for a in node.args if a.type.temporal), default=10_000)
    return below + 1 + _days_moved(node) // 365


def _days_moved(node: Call) -> int:
    if node.op in ("add_days", "sub_days"):
        amount = node.args[1].type
        return min(MOST_DAYS, max(abs(amount.lower), abs(amount.upper)))
    if node.op != "shift":
        return 0
    months, days, micros = moved(node)
    return 31 * abs(months) + abs(days) + abs(micros) // (86_400 * 10**6)


def moved(node: Call) -> tuple[int, int, int]:
    """The months, days and microseconds of a shift."""
    match node.option:
        case (int(months), int(days), int(micros)):
            return months, days, micros
    raise InternalError(f"{node} has no interval")


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
    moment = calendar(it, emit) if call.option in ("week", "isoyear", "yearweek") else emit(it, _stored(it))
    return f"CAST(date_part('{call.option}', {moment}) AS {physical(call.type)})"


def _trunc(call: Call, emit: Emit) -> str:
    return f"date_trunc('{call.option}', {calendar(call.args[0], emit)})"


def _diff(call: Call, emit: Emit) -> str:
    end, start = call.args
    wanted = "DATE" if end.type == start.type == DATE else physical(TIMESTAMP)
    return f"date_diff('{call.option}', {emit(start, wanted)}, {emit(end, wanted)})"


def _whole_units(call: Call, emit: Emit) -> str:
    end, start = call.args
    if end.type == start.type == DATE:
        return f"date_sub('{call.option}', {calendar(start, emit)}, {calendar(end, emit)})"
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


RULES: dict[str, Rule] = {
    "add_days": _add_days("+"), "sub_days": _add_days("-"), "days": _days, "shift": _shift, "part": _part,
    "date_trunc": _trunc, "date_diff": _diff, "date_sub": _whole_units, "time_bucket": _bucket, "make_date": _make_date,
}  # fmt: skip
