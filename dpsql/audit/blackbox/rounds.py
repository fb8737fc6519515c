"""One black-box audit: ask in rounds, choose events on the earlier runs, test them on the new ones; Holm over all.

**Theorem.** If every query keeps its promise, the chance that any of them is flagged is at most `level`.
**Proof.** Runs are independent: each draws fresh noise, replay is off. A round asks as many new runs as there were
before. Its events are chosen by the earlier runs only, so on the new ones their p-values are valid
(`dpsql.audit.blackbox.promise_test`). Whether another round follows depends on what was seen, but there are at most R
of them, and each p-value counts R times: the chance that any round's is at most x is at most R·(x/R). Holm's procedure
keeps the chance of any false rejection among all tests, of all queries and both directions, at the level, however they
depend on each other.

**Theorem** (power). If a test's `factor` is f < 1, the same answers would have been flagged for a query whose promise
calls for 1/f times the noise. In other words, f times the right noise, or less, would have been noticed.
**Proof.** The test refutes, at its level, every promise below `lower`. Additive noise and choices cost ε in proportion
to 1/scale, and ρ in proportion to 1/scale²: the promise at `lower` calls for value/lower times the scale, or its root.
**Requires** nothing; but where a pair of neighbours uses less than the whole promise, f is smaller than it could be.
**Checked by** `tests/audit/test_blackbox.py`, `tests/audit/black_box.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from dpsql.audit.blackbox.event_choice import Event, choose
from dpsql.audit.blackbox.observations import (
    Observation,
    Observe,
    ask_until,
    features_of,
    names_in,
    opened,
    remember_integers,
    tabulate,
    through,
    through_session,
    varying_words,
)
from dpsql.audit.blackbox.promise_test import Counts, Limit, lower_bound, p_value, promised
from dpsql.audit.outcome import Door
from dpsql.audit.world import Unit, World

LEVEL = 0.01
LASTS = 200
"""Runs of one session: at δ = 1e-3 each they stay below what any policy allows."""
FIRST = 400
"""Runs of the first round, at least."""
ENOUGH = 0.6
"""Runs are enough if this share of the right noise would have been flagged, and nothing hints at a breach."""


@dataclass(frozen=True, slots=True)
class BlackBoxCase:
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
class EventTest:
    """An event that was chosen before, and its counts on fresh runs; `p` counts once for each possible round."""

    case: str
    event: str
    direction: str
    limit: Limit
    counts: Counts
    q: float
    p: float
    rounds: int = 1

    def lower(self, level: float) -> float:
        """The least that the query costs, in the currency of its limit, with confidence 1 − level."""
        return lower_bound(self.counts, self.limit, self.q, level / self.rounds)

    def factor(self, level: float) -> float:
        """The share of the right noise up to which the query would have been flagged; from 1 on, it is flagged."""
        share = self.lower(level) / self.limit.value
        return share if self.limit.kind == "epsilon" else share**0.5


@dataclass(frozen=True, slots=True)
class Audited:
    """The tests of one case, how long its runs took, and how many were answered on the side with fewer answers."""

    case: BlackBoxCase
    runs: int
    tests: tuple[EventTest, ...]
    seconds: float
    answered: int = 0

    def factor(self, level: float) -> float:
        """The largest share of the right noise that one of the tests would have flagged."""
        return max((test.factor(level) for test in self.tests), default=0.0)


def audit(
    case: BlackBoxCase, runs: int, told: Callable[[int], None], door: Door | None = None, level: float = LEVEL / 2
) -> Audited:
    """Ask both neighbours in rounds, `runs` times at most, through a door or in this process, until it is clear.

    `level` is that of one test: the level of the whole audit, divided by the number of its tests.
    """
    started = perf_counter()
    with _opened(case, door) as (seen, ask):
        totals = rounds(runs)
        for total in totals:
            ask(total, told)
            tests = tuple(
                replace(t, p=min(1.0, t.p * len(totals)), rounds=len(totals)) for t in judged(case.name, seen)
            )
            if settled(tests, level):
                break
    answered = min(sum(not each.error for each in side) for side in seen.sides)
    return Audited(case, total, tests, perf_counter() - started, answered)


def rounds(runs: int) -> list[int]:
    """The number of runs at the end of each round; half of them are new in it."""
    totals = [runs]
    while totals[0] >= 2 * FIRST:
        totals.insert(0, totals[0] // 2)
    return totals


def settled(tests: Sequence[EventTest], level: float) -> bool:
    """Whether a test is flagged; or nothing hints at a breach, and `ENOUGH` of the right noise would be flagged.

    With too little noise, an event that was badly chosen may show no more than the right noise shows by a good one. So
    every p-value below 1 is a hint: with four rounds, each that was below a quarter.
    """
    least = min((test.p for test in tests), default=1.0)
    return least <= level or (least >= 1 and any(test.factor(level) >= ENOUGH for test in tests))


@contextmanager
def _opened(
    case: BlackBoxCase, door: Door | None
) -> Iterator[tuple[Seen, Callable[[int, Callable[[int], None]], None]]]:
    """What was promised and seen so far, and a function that asks both sides until each has a number of answers."""
    with ExitStack() as stack:
        with_unit, without = (_observer(each, door, stack) for each in (case.world, case.world.without(case.unit)))
        with opened(case.world) as db:
            prepared, charged = db.prepare(case.sql), db.query(case.sql).cost
        sides: tuple[list[Observation], list[Observation]] = ([], [])
        seen = Seen(sides, [output.noisy for output in prepared.plan.outputs], promised(prepared, charged))
        yield seen, lambda total, told: ask_until(total, (with_unit, without), sides, case.sql, told)


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


def judged(case: str, answers: Seen) -> tuple[EventTest, ...]:
    """Learn on a quarter of the runs, pick the events on the next, test them on the other half: the last round."""
    seen = [[features_of(each, answers.noisy) for each in side] for side in answers.sides]
    runs = min(map(len, seen))
    quarter, half = runs // 4, runs // 2
    names = names_in([each for side in seen for each in side[:half]])
    words = varying_words([each for side in seen for each in side[:half]], names)
    parts = [
        (tabulate(seen[0][cut], names, words), tabulate(seen[1][cut], names, words))
        for cut in (slice(0, quarter), slice(quarter, half), slice(half, runs))
    ]
    events = choose(parts[0], parts[1], answers.limits)
    return tuple(_test(case, event, parts[2]) for event in events if event is not None)


def _test(case: str, event: Event, fresh: tuple[object, object]) -> EventTest:
    hits = [event.happened(side) for side in fresh]  # type: ignore[arg-type]
    likelier, other = hits if event.with_unit else hits[::-1]
    counts = Counts(int(np.sum(likelier)), len(likelier), int(np.sum(other)), len(other))
    direction = "with the unit" if event.with_unit else "without the unit"
    p = p_value(counts, event.limit, event.q)
    return EventTest(case, event.name, direction, event.limit, counts, event.q, p)


def refuted(tests: Sequence[EventTest], level: float = LEVEL) -> list[EventTest]:
    """Holm: the smallest p-value against level/m, the next against level/(m − 1), … until one is too large."""
    found: list[EventTest] = []
    for place, test in enumerate(sorted(tests, key=lambda test: test.p)):
        if test.p > level / (len(tests) - place):
            break
        found.append(test)
    return found
