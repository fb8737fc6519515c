"""Calendar windows (UTC) after which an analyst's own account resets.

A window is a weaker guarantee than a cap: what is learned over many windows adds up, and only the dataset's cap, which
never resets, bounds it.
"""

from __future__ import annotations

from datetime import date, timedelta

from dpsql.errors import ProgrammingError

CALENDAR_WINDOWS = ("day", "week", "month", "quarter", "year")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_INSIDE = {
    "day": CALENDAR_WINDOWS,
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}
"""For each window, the windows that contain it completely."""


def check_window(every: str | None) -> str | None:
    """The window, if it is one."""
    if every is not None and every not in CALENDAR_WINDOWS:
        raise ProgrammingError(f"unknown window {every!r}", hint=f"use one of {', '.join(CALENDAR_WINDOWS)}")
    return every


def window_start(day: date, every: str) -> date:
    """The first day of the window that holds a day; weeks begin on Monday."""
    if every == "day":
        return day
    if every == "week":
        return day - timedelta(days=day.weekday())
    months = _MONTHS[every]
    return date(day.year, (day.month - 1) // months * months + 1, 1)


def next_window_start(day: date, every: str) -> date:
    """The first day of the next window."""
    first = window_start(day, every)
    if every in ("day", "week"):
        return first + timedelta(days=1 if every == "day" else 7)
    months = first.month - 1 + _MONTHS[every]
    return date(first.year + months // 12, months % 12 + 1, 1)


def stricter_window(one: str | None, other: str | None) -> str | None:
    """The window under which both promises are kept: the longer of two that nest, otherwise none (never afresh).

    A week may lie in two months, so of a weekly and a monthly account neither implies the other.

    >>> stricter("month", "quarter"), stricter("week", "month"), stricter(None, "day")
    ('quarter', None, None)
    """
    if one is None or other is None:
        return None
    if other in _INSIDE[one]:
        return other
    return one if one in _INSIDE[other] else None
