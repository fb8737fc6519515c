"""Every function, operator and cast over the edge values of every type, with a row and without: the same outcome."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.audit.outcome import Outcome, Progress
from dpsql.audit.settings import Settings
from dpsql.audit.totality.forms import forms, written
from dpsql.audit.totality.sweep import Query, Sweep, counted, filtered, grouped, summed
from dpsql.audit.world import World


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """As arguments of a count and of a sum; a part of them, or in the long version all, as conditions and as keys."""
    every = list(forms())
    some = every if settings.long else every[:: 1 + len(every) // 150]
    numbers = [form for form in every if form.gives.numeric][:: 1 if settings.long else 3]
    plan: list[tuple[Query, Sequence[object], int]] = [
        (counted, every, 60), (summed, numbers, 40), (filtered, some, 40), (grouped, some, 1),
    ]  # fmt: skip
    total, done, sweep = sum(len(each) for _, each, _ in plan), 0, Sweep()
    try:
        for query, chosen, together in plan:
            for count in sweep.run(chosen, query, together):  # type: ignore[arg-type]
                done += count
                progress(done, total)
    finally:
        sweep.close()
    figures = (
        ("forms", len(written())),
        ("forms × types", len(every)),
        ("expressions on neighbours", sweep.done),
        ("refused alike", sweep.refused),
        ("slowest (s)", round(sweep.slowest[0], 2)),
    )
    notes = (f"slowest: {sweep.slowest[1][:200]}",)
    few = "" if 2 * sweep.refused < sweep.done else f"{sweep.refused:,} of {sweep.done:,} were refused"
    return Outcome("totality", figures, tuple(sweep.findings), notes=notes, incomplete=few)
