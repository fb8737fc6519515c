"""One black-box audit: ask, choose events on one half of the runs, test them on the other; and Holm over all tests.

**Theorem.** If every query keeps its promise, the chance that any of them is flagged is at most `level`.
**Proof.** Runs are independent: each draws fresh noise, replay is off. An event is chosen by the first half of the
runs only, so on the other half its p-value is valid (`dpsql.audit.blackbox.binomial`). Holm's procedure keeps the
chance of any false rejection among all tests, of all queries and both directions, at the level, however they depend
on each other.
**Checked by** `tests/audit/test_blackbox.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from dpsql.audit.blackbox.binomial import Counts, lower_bound, p_value
from dpsql.audit.blackbox.choose import Event, choose
from dpsql.audit.blackbox.features import names_in, seen_in, tabulate, words_in
from dpsql.audit.blackbox.observe import (
    Observation,
    Observe,
    asked_often,
    opened,
    remember_integers,
    through,
    through_session,
)
from dpsql.audit.blackbox.promise import Limit, promised
from dpsql.audit.settings import Door
from dpsql.audit.world import Unit, World

LEVEL = 0.05
LASTS = 200
"""Runs of one session: at δ = 1e-3 each they stay below what any policy allows."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question to a world with and without a unit. The price stands in the SQL, as a hint."""

    name: str
    world: World
    unit: Unit
    sql: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The answers with and without the unit; which columns have noise; what was promised."""

    sides: tuple[Sequence[Observation], Sequence[Observation]]
    noisy: Sequence[bool]
    limits: Sequence[Limit]


@dataclass(frozen=True, slots=True)
class Verdict:
    """An event that was chosen before, and its counts on fresh runs."""

    case: str
    event: str
    direction: str
    limit: Limit
    counts: Counts
    q: float
    p: float

    def lower(self, level: float) -> float:
        """The least that the query costs, in the currency of its limit, with confidence 1 − level."""
        return lower_bound(self.counts, self.limit, self.q, level)


@dataclass(frozen=True, slots=True)
class Audited:
    """The tests of one case, how long its runs took, and how many were answered on the side with fewer answers."""

    case: Case
    runs: int
    tests: tuple[Verdict, ...]
    seconds: float
    answered: int = 0


def audit(case: Case, runs: int, told: Callable[[int], None], door: Door | None = None) -> Audited:
    """Ask both neighbours so many times, through a door, or in this process; then test."""
    started = perf_counter()
    seen = asked(case, runs, told, door)
    answered = min(sum(not each.error for each in side) for side in seen.sides)
    return Audited(case, runs, judged(case.name, seen), perf_counter() - started, answered)


def asked(case: Case, runs: int, told: Callable[[int], None], door: Door | None = None) -> Seen:
    """All answers of both sides, with what was promised."""
    with ExitStack() as stack:
        observers = [_observer(each, door, stack) for each in (case.world, case.world.without(case.unit))]
        with opened(case.world) as db:
            limits, noisy = promised(db.prepare(case.sql)), [o.noisy for o in db.prepare(case.sql).plan.outputs]
        return Seen(asked_often(observers[0], observers[1], case.sql, runs, told), noisy, limits)


def _observer(world: World, door: Door | None, stack: ExitStack) -> Observe:
    if door is not None:
        return through(stack.enter_context(door(world)))
    return _renewed(world, stack.enter_context(ExitStack()))


def _renewed(world: World, stack: ExitStack) -> Observe:
    """A session for so many runs, then a new one: what thresholds cost in δ adds up, and would end any budget."""
    runs, observe = 0, None

    def asked(sql: str) -> Observation:
        nonlocal runs, observe
        if observe is None or runs % LASTS == 0:
            stack.close()
            db = stack.enter_context(opened(world))
            remember_integers(db)
            observe = through_session(db)
        runs += 1
        return observe(sql)

    return asked


def judged(case: str, answers: Seen) -> tuple[Verdict, ...]:
    """Learn on a quarter of the runs, pick the events on the next, test them on the other half."""
    seen = [[seen_in(each, answers.noisy) for each in side] for side in answers.sides]
    runs = min(map(len, seen))
    quarter, half = runs // 4, runs // 2
    names = names_in([each for side in seen for each in side[:half]])
    words = words_in([each for side in seen for each in side[:half]], names)
    parts = [
        (tabulate(seen[0][cut], names, words), tabulate(seen[1][cut], names, words))
        for cut in (slice(0, quarter), slice(quarter, half), slice(half, runs))
    ]
    events = choose(parts[0], parts[1], answers.limits)
    return tuple(_test(case, event, parts[2]) for event in events if event is not None)


def _test(case: str, event: Event, fresh: tuple[object, object]) -> Verdict:
    hits = [event.happened(side) for side in fresh]  # type: ignore[arg-type]
    likelier, other = hits if event.with_unit else hits[::-1]
    counts = Counts(int(np.sum(likelier)), len(likelier), int(np.sum(other)), len(other))
    direction = "with the unit" if event.with_unit else "without the unit"
    p = p_value(counts, event.limit, event.q)
    return Verdict(case, event.name, direction, event.limit, counts, event.q, p)


def refuted(tests: Sequence[Verdict], level: float = LEVEL) -> list[Verdict]:
    """Holm: the smallest p-value against level/m, the next against level/(m − 1), … until one is too large."""
    found: list[Verdict] = []
    for place, test in enumerate(sorted(tests, key=lambda test: test.p)):
        if test.p > level / (len(tests) - place):
            break
        found.append(test)
    return found
