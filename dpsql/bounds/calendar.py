"""The calendar that DuckDB and Python share: proleptic Gregorian, ISO weeks, years 1 to 9999."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta

FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda t: t.year, "month": lambda t: t.month, "day": lambda t: t.day, "hour": lambda t: t.hour,
    "minute": lambda t: t.minute, "second": lambda t: t.second, "quarter": lambda t: (t.month + 2) // 3,
    "week": lambda t: t.isocalendar().week, "dow": lambda t: t.isoweekday() % 7, "isodow": lambda t: t.isoweekday(),
    "doy": lambda t: t.timetuple().tm_yday, "decade": lambda t: t.year // 10, "century": lambda t: (t.year + 99) // 100,
    "millennium": lambda t: (t.year + 999) // 1000, "era": lambda t: 1, "isoyear": lambda t: t.isocalendar().year,
    "yearweek": lambda t: t.isocalendar().year * 100 + t.isocalendar().week,
    "millisecond": lambda t: t.second * 1000 + t.microsecond // 1000,
    "microsecond": lambda t: t.second * 10**6 + t.microsecond,
}  # fmt: skip
RISING = ("year", "decade", "century", "millennium", "era", "isoyear", "yearweek")
"""Parts that never fall as time goes on."""
WITHIN = {"month": "year", "quarter": "year", "doy": "year", "day": "month", "hour": "day", "minute": "hour",
          "second": "minute", "isodow": "week", "millisecond": "minute", "microsecond": "minute"}  # fmt: skip
"""Parts that rise inside one period."""


def at_midnight(moment: date) -> datetime:
    """A date as a timestamp."""
    return moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)


def truncated(moment: datetime, unit: str) -> datetime:
    """The start of the period that contains the timestamp."""
    day = datetime(moment.year, moment.month, moment.day)
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=day.weekday())
        case "day":
            return day
        case "hour":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return moment.replace(second=0, microsecond=0)
    return moment.replace(microsecond=0)


def shifted(moment: datetime, months: int, days: int, micros: int) -> datetime:
    """The timestamp plus an interval: months first, with the day cut to the month's length."""
    count = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(count, 12)
    day = min(moment.day, monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day) + timedelta(days=days, microseconds=micros)


def bucket(moment: datetime, months: int, days: int, micros: int) -> datetime:
    """The start of the bucket that contains the timestamp; DuckDB counts months from 2000-01-01, days from a Monday
    then.
    """
    if months:
        start = ((moment.year - 2000) * 12 + moment.month - 1) // months * months
        return datetime(2000 + start // 12, start % 12 + 1, 1)
    width, origin = timedelta(days=days, microseconds=micros), datetime(2000, 1, 3)
    return origin + (moment - origin) // width * width


def month_end(moment: datetime) -> date:
    """The last day of the month."""
    return date(moment.year, moment.month, monthrange(moment.year, moment.month)[1])


_STEPS = {"year": (12, 0), "quarter": (3, 0), "month": (1, 0), "week": (0, 7 * 86_400), "day": (0, 86_400),
          "hour": (0, 3600), "minute": (0, 60), "second": (0, 1)}  # fmt: skip


def following(start: datetime, unit: str) -> datetime:
    """The start of the next period."""
    months, seconds = _STEPS[unit]
    return shifted(start, months, 0, seconds * 10**6)


def periods(first: datetime, last: datetime, unit: str, limit: int) -> list[datetime] | None:
    """The starts of all periods from one that holds `first` to one that holds `last`; None beyond the limit."""
    months, seconds = _STEPS[unit]
    if (last - first).total_seconds() / (seconds or months * 28 * 86_400) > limit:
        return None
    return list(_walk(truncated(first, unit), last, unit))


def _walk(start: datetime, last: datetime, unit: str) -> Iterator[datetime]:
    while start <= last:
        yield start
        try:
            start = following(start, unit)
        except (OverflowError, ValueError):
            return
