"""How good each number of an answer is, by its error bar: reliable, rough, or noise. Post-processing only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any, Literal

Quality = Literal["exact", "reliable", "rough", "noise"]
Qualities = Sequence[Quality | None]

RELIABLE, ROUGH = 0.1, 0.5
"""The largest errors of a reliable and of a rough number, as parts of the number."""
SMALLEST_SHARE = 0.2
"""Smaller shares are judged as this one: within 2 percentage points one is reliable, within 10 rough."""
_BOUNDS: dict[Quality, str] = {
    "reliable": f" (within {RELIABLE:.0%})", "rough": f" (within {ROUGH:.0%})", "noise": ""
}  # fmt: skip


def quality_of(value: Any, low: float, high: float, whole: float = 0.0) -> Quality | None:
    """The verdict on a number by the further end of its interval; None without a number or an interval.

    `whole` is what a share is a share of (1, or 100 in percent). Zero is reliable only if it is exact.
    """
    if value is None or isnan(number := float(value)) or isnan(low) or isnan(high):
        return None
    error, size = max(high - number, number - low), max(abs(number), SMALLEST_SHARE * whole)
    return "reliable" if error <= RELIABLE * size else "rough" if error <= ROUGH * size else "noise"


def quality_words(qualities: Qualities) -> list[str] | None:
    """The words that stand beside the numbers of a column: those of numbers that are not reliable, if there are any."""
    words = [each if each in ("rough", "noise") else "" for each in qualities]
    return list(map(str, words)) if any(words) else None


def quality_line(columns: Iterable[Qualities | None]) -> str | None:
    """How many numbers of an answer are reliable, rough and noise; None if none has an error bar."""
    counts = Counter(each for column in columns for each in column or () if each is not None)
    many = counts.total()
    if len(counts) == 1:
        [word] = counts
        said = {1: "the number is", 2: "both numbers are"}.get(many, f"all {many:,} numbers are")
        return f"{said} {word}{_BOUNDS[word]}"
    parts = [f"{counts[word]:,} {word}{bound}" for word, bound in _BOUNDS.items() if counts[word]]
    return f"of {many:,} numbers {', '.join(parts[:-1])} and {parts[-1]}" if parts else None
