"""What a check of the audit gives: figures, what it found, and what is worth a plot. Plain values, for any report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Figure = str | int | float
Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that breaks the promise: what was seen, and what shows it again."""

    what: str
    again: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points worth a plot; `limit` is what they must stay below."""

    title: str
    x: str
    y: str
    points: tuple[tuple[str | float, float], ...]
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A table of figures: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Figure, ...], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one check. It passes if it found nothing where there was something to find.

    `incomplete` says why it looked at less than it was asked to: nothing found is then no evidence.
    `judged` says that it can fail: a check that only measures shows figures, for people to read.
    `saved` is what the check needs to add up the outcomes of parts: plain values, for its own `merged`.
    """

    check: str
    figures: tuple[tuple[str, Figure], ...]
    findings: tuple[Finding, ...] = ()
    series: tuple[Series, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    saved: Mapping[str, Any] = field(default_factory=dict)
    incomplete: str = ""
    judged: bool = True
    table: Figures | None = None

    @property
    def passed(self) -> bool:
        """All was looked at, and nothing was found."""
        return not self.findings and not self.incomplete

    @property
    def verdict(self) -> str:
        """In a word."""
        return "failed" if not self.passed else "passed" if self.judged else "measured"
