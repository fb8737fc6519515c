"""Random statements: no error but dpsql's own, no stored value in any text, bounded time, and DuckDB's own answers."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.audit.fuzz.run import Run
from dpsql.audit.outcome import Outcome, Progress
from dpsql.audit.settings import Settings
from dpsql.audit.world import World

SHORT, LONG = 3_000, 100_000


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """The part of the statements that the settings ask for, over a world of canaries."""
    many = LONG if settings.long else SHORT
    first, last = (many * (settings.part - 1) // settings.parts, many * settings.part // settings.parts)
    run = Run(settings.seed, first, last)
    judge = run.run(progress)
    figures = (("statements", last - first), *sorted(judge.seen.items()), ("slowest (s)", round(judge.slowest[0], 2)))
    unasked = "" if judge.seen["compared with DuckDB"] else "no answer was compared with DuckDB's"
    return Outcome("fuzz", figures, tuple(run.findings), incomplete=unasked)
