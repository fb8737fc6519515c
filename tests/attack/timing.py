"""How much longer an answer takes with one heavy unit: a figure, never a verdict.

Time is no part of the promise (docs/security.md). Two doors are opened, with and without a unit that is as
heavy as it can be, and asked in turn; the figure is the shift of the middle answer and how often a single answer of one
side is slower than one of the other (a half means that time tells nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.blackbox.observations import opened
from dpsql.audit.outcome import AuditCheck, Outcome, PlotSeries, Progress, Settings
from dpsql.audit.world import Row, StoredTable, World

RUNS, LONG_RUNS = 12, 200
ROWS, LONG_ROWS = 20_000, 100_000
PADS = (None, 0.25)
QUESTIONS = {
    "many rows": "SELECT sum(x) AS s, count(*) AS n FROM visits",
    "many rows, by group": "SELECT kind, avg(x) AS a FROM visits GROUP BY kind",
    "many private keys": "SELECT note, count(*) AS n FROM visits GROUP BY note",
    "median": "SELECT median(x) AS m FROM visits",
}

NOTES = (
    "times are measured, not promised: read them on a quiet machine, or with --long",
    "told apart by one answer: 0.5 is guessing, 1 means that a single answer tells whether the unit is there",
    "the unit here is far heavier than most are; where analysts may hold a clock, let replies wait for the next"
    " multiple of a time that is longer than they take: `limits: {pad: 5}` in the policy, in seconds",
)


@dataclass(frozen=True, slots=True)
class Residual:
    """Milliseconds of the middle answer with and without the unit, and how often one with it is the slower."""

    name: str
    pad: float | None
    with_unit: float
    without: float
    slower: float

    @property
    def label(self) -> str:
        """The question, and how replies were padded."""
        return self.name if self.pad is None else f"{self.name}, padded to {self.pad:g} s"


def check(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """The residual of each question, as it is and padded."""
    started, runs = perf_counter(), LONG_RUNS if settings.long else RUNS
    world = heavy(LONG_ROWS if settings.long else ROWS)
    asked = [(name, sql, pad) for pad in PADS for name, sql in QUESTIONS.items()]
    found = []
    for number, (name, sql, pad) in enumerate(asked):
        progress(number, len(asked))
        found.append(residual(name, world, sql, pad, runs if pad is None else min(runs, 40)))
    progress(len(asked), len(asked))
    figures = [(f"{each.label}: later by, in ms", round(each.with_unit - each.without, 2)) for each in found]
    figures += [(f"{each.label}: told apart by one answer", round(each.slower, 3)) for each in found]
    series = PlotSeries(
        "the middle answer is later with the unit", "question", "ms",
        tuple((each.label, each.with_unit - each.without) for each in found),
    )  # fmt: skip
    return Outcome("timing", tuple(figures), (), (series,), (*NOTES, f"answers of each side: {runs}"),
                   perf_counter() - started, judged=False)  # fmt: skip


def residual(name: str, world: World, sql: str, pad: float | None, runs: int) -> Residual:
    """Ask both sides in turn, once to warm up, and compare."""
    limits = world.policy.limits.model_copy(update={"pad": pad})
    padded = replace(world, policy=world.policy.model_copy(update={"limits": limits}))
    with ExitStack() as stack:
        doors = [stack.enter_context(opened(each)) for each in (padded, padded.without(UNIT))]
        taken: tuple[list[float], list[float]] = ([], [])
        for number in range(runs + 1):
            for door, times in zip(doors, taken, strict=True):
                begun = perf_counter()
                door.query(sql)
                if number:
                    times.append(1000 * (perf_counter() - begun))
    one, two = np.array(taken[0]), np.array(taken[1])
    return Residual(name, pad, float(np.median(one)), float(np.median(two)), _slower(one, two))


def _slower(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The share of pairs in which the first is the larger: Mann and Whitney's statistic, which outliers do not bend."""
    return float(np.mean((one[:, None] > two[None, :]) + 0.5 * (one[:, None] == two[None, :])))


UNIT = "0"


def heavy(rows: int) -> World:
    """A few hundred plain units, and one with so many rows, each with a note of its own."""
    visits: list[Row] = [(unit, unit % 10, "ab"[unit % 2], "common") for unit in range(1, 400)]
    visits += [(0, number % 10, "ab"[number % 2], f"note {number}") for number in range(rows)]
    types = {"id": "INTEGER", "x": "INTEGER", "kind": "VARCHAR", "note": "VARCHAR"}
    columns = {"x": {"min": 0, "max": 9}, "kind": {"values": ["a", "b"]}, "note": {}}
    policy = {
        "dataset": "heavy",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "1e-3"},
        "defaults": {"delta": "1e-6"},
        "limits": {"delta": "1e-5"},
        "tables": {"visits": {"unit": "id", "max_rows_per_unit": 5, "max_groups_per_unit": 3, "columns": columns}},
    }
    return World.made("heavy", policy, {"visits": StoredTable(types, tuple(visits))})


TIMING = AuditCheck("How much longer an answer takes with one heavy unit: a figure, never a verdict.", check)
