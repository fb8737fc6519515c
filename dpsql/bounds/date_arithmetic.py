"""Dates and timestamps. All functions of one timestamp here are increasing, so the endpoints give the interval.

A moment without bounds may be ±infinity or beyond the calendar: the result can then be NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache

from dpsql.bounds import calendar
from dpsql.bounds.domain import DAY, Domain, End, Number, Rule, endless, ends, finite, magnitude, number, span, value_at
from dpsql.expressions.expression import Call
from dpsql.expressions.types import DATE, DOUBLE, TIMESTAMP, Type

MOST_PERIODS = 100_000
SLACK = 1e-12
"""Relative: the last digits of a count of seconds as DOUBLE."""
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond")
MOST_DAYS = 9_999_999
"""The emitted SQL adds no more days than that."""


def _at(end: Number | None, type_: Type) -> datetime | None:
    """An endpoint as a calendar timestamp."""
    moment = None if end is None else value_at(end, type_)
    return calendar.at_midnight(moment) if isinstance(moment, date) else None


def _ends(domain: Domain, type_: Type) -> tuple[datetime | None, datetime | None]:
    return _at(domain.lower, type_), _at(domain.upper, type_)


def _mapped(function: Callable[[datetime], End], domain: Domain, type_: Type) -> tuple[End, End]:
    """The ends of a rising function."""
    low, high = _ends(domain, type_)
    return _try(function, low, -math.inf), _try(function, high, math.inf)


def _try(function: Callable[[datetime], End], moment: datetime | None, otherwise: End) -> End:
    try:
        return otherwise if moment is None else function(moment)
    except (OverflowError, ValueError):
        return otherwise


def _part(call: Call, args: tuple[Domain, ...]) -> Domain:
    type_, name, domain = call.args[0].type, str(call.option), args[0]
    if type_ == DATE and name in _CLOCK:
        return span(0, 0, call.type, args, null=not domain.bounded)
    low, high = _ends(domain, type_)
    if name in calendar.RISING or (low and high and _one_period(low, high, name)):
        return span(*_mapped(calendar.PARTS[name], domain, type_), call.type, args, null=not domain.bounded)
    return endless(args, null=not domain.bounded)


def _one_period(low: datetime, high: datetime, name: str) -> bool:
    unit = calendar.WITHIN.get(name)
    return unit is not None and calendar.truncated(low, unit) == calendar.truncated(high, unit)


def _trunc(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A list of the starts of all periods, as long as it is not too long."""
    type_, unit, domain = call.args[0].type, str(call.option), args[0]
    low, high = _ends(domain, type_)
    starts = _periods(low, high, unit) if low and high else None
    if starts:
        return replace(starts, nullable=domain.nullable, origin=domain.origin)
    made = _mapped(lambda t: number(calendar.truncated(t, unit)), domain, type_)  # type: ignore[arg-type, return-value]
    return span(*made, call.type, args, null=not domain.bounded)


@lru_cache(maxsize=64)
def _periods(low: datetime, high: datetime, unit: str) -> Domain | None:
    starts = calendar.periods(low, high, unit, MOST_PERIODS)
    return finite(starts, TIMESTAMP, nullable=False) if starts else None


def _days(call: Call, args: tuple[Domain, ...]) -> Domain:
    (al, au), (bl, bu) = (ends(d, DATE) for d in args)
    return span(al - bu, au - bl, call.type, args)


def _add_days(call: Call, args: tuple[Domain, ...]) -> Domain:
    (low, high), (least, most) = ends(args[0], DATE), ends(args[1], call.args[1].type)
    null = not args[0].bounded or magnitude(least, most) > MOST_DAYS
    if call.op == "sub_days":
        least, most = -most, -least
    return span(low + least, high + most, call.type, args, null=null)


def _shift(call: Call, args: tuple[Domain, ...]) -> Domain:
    match call.option:
        case (int(months), int(days), int(micros)):
            made = _mapped(
                lambda t: number(calendar.shifted(t, months, days, micros)), args[0], call.args[0].type  # type: ignore[arg-type, return-value]
            )  # fmt: skip
            return span(*made, call.type, args, null=not args[0].bounded)
    return endless(args, null=True)


_INDEX: dict[str, Callable[[datetime], int]] = {
    "year": lambda t: t.year, "quarter": lambda t: t.year * 4 + (t.month - 1) // 3,
    "month": lambda t: t.year * 12 + t.month, "week": lambda t: t.toordinal(), "day": lambda t: t.toordinal(),
    "hour": lambda t: t.toordinal() * 24 + t.hour, "minute": lambda t: t.toordinal() * 1440 + t.hour * 60 + t.minute,
    "second": lambda t: t.toordinal() * 86_400 + t.hour * 3600 + t.minute * 60 + t.second,
}  # fmt: skip


def _diff(call: Call, args: tuple[Domain, ...]) -> Domain:
    """The number of boundaries between two timestamps: a difference of running numbers; for weeks, whole weeks."""
    unit = str(call.option)
    (el, eu), (sl, su) = (_mapped(_INDEX[unit], d, a.type) for d, a in zip(args, call.args, strict=True))
    low, high = (_weeks(end) if unit == "week" else end for end in (el - su, eu - sl))
    return span(low, high, call.type, args, null=not all(d.bounded for d in args))


def _whole_units(call: Call, args: tuple[Domain, ...]) -> Domain:
    """The number of boundaries between the timestamps, or one fewer: nearer to zero."""
    made = _diff(call, args)
    low, high = ends(made, call.type)
    return span(min(low, 0), max(high, 0), call.type, args, null=made.nullable)


def _micros(moment: datetime) -> int:
    return int(number(moment))


_AXES: dict[str, Callable[[datetime], End]] = {
    "epoch": lambda t: _micros(t) / 10**6, "epoch_ms": lambda t: Fraction(_micros(t), 1000), "epoch_us": _micros,
    "epoch_ns": lambda t: _micros(t) * 1000, "julian": lambda t: t.toordinal() + 1721425 + (_micros(t) % DAY) / DAY,
    "last_day": lambda t: int(number(calendar.month_end(t))),
}  # fmt: skip


def _axis(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A count that rises with time; floats get the slack of their own rounding, milliseconds any way to round."""
    low, high = _mapped(_AXES[call.op], args[0], call.args[0].type)
    if call.op == "epoch_ms":
        low, high = _outwards(low, high)
    if call.type == DOUBLE:
        low, high = float(low) - abs(float(low)) * SLACK, float(high) + abs(float(high)) * SLACK
    return span(low, high, call.type, args, null=True)


def _outwards(low: End, high: End) -> tuple[End, End]:
    return math.floor(low) if math.isfinite(low) else low, math.ceil(high) if math.isfinite(high) else high


def _bucket(call: Call, args: tuple[Domain, ...]) -> Domain:
    """The starts of all buckets, as long as they are not too many."""
    match call.option:
        case (int(months), int(days), int(micros)):
            low, high = _ends(args[0], call.args[0].type)
            starts = _buckets(low, high, (months, days, micros)) if low and high else None
            if starts is not None:
                values = [s.date() for s in starts] if call.type == DATE else starts
                return finite(values, call.type, nullable=args[0].nullable, origin=args[0].origin)
    return endless(args, null=True)


@lru_cache(maxsize=64)
def _buckets(low: datetime, high: datetime, width: tuple[int, int, int]) -> list[datetime] | None:
    try:
        start, found = calendar.bucket(low, *width), []
        while start <= high:
            found.append(start)
            if len(found) > MOST_PERIODS:
                return None
            start = calendar.shifted(start, *width)
    except (OverflowError, ValueError):
        return None
    return found


def _weeks(days: End) -> End:
    return days if math.isinf(days) else math.trunc(days / 7)


RULES: dict[str, Rule] = {
    "part": _part, "date_trunc": _trunc, "days": _days, "add_days": _add_days, "sub_days": _add_days,
    "shift": _shift, "date_diff": _diff, "date_sub": _whole_units, "time_bucket": _bucket,
    **dict.fromkeys(_AXES, _axis),
}  # fmt: skip
