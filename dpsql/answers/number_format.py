"""Numbers for people: an answer is shown with the digits that its error bar supports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

SYMMETRIC = 0.05
"""An interval whose arms differ by less than this part of its half width is written with ±."""


def plain(value: Any) -> str:
    """A value without error bar. A whole number is mostly a key (a year, a code), so it has no separators."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:,.10g}"
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case _:
            return str(value)


def with_error(value: Any, low: float, high: float) -> str:
    """`1,234 ± 56`, or `1,234 (1,200 to 1,310)` where the interval is lopsided."""
    if value is None or math.isnan(value):
        return "NULL"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{plain(value)} ± ?"
    half = (high - low) / 2
    half, places = (math.ceil(half), 0) if isinstance(value, int) else (half, decimals(half))
    if abs((high - value) - (value - low)) <= SYMMETRIC * half:
        return f"{value:,.{places}f} ± {half:,.{places}f}"
    return f"{value:,.{places}f} ({low:,.{places}f} to {high:,.{places}f})"


def decimals(half: float) -> int:
    """As many places as show two digits of the error."""
    return 2 if half <= 0 else max(0, min(9, 1 - math.floor(math.log10(half))))


def as_precise_as(value: Any, half: float) -> str:
    """A value without noise beside one with an error bar, to the same digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.{decimals(half)}f}" if isinstance(value, float) else plain(value)


def numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers and nothing else but NULL."""
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values if each is not None)
