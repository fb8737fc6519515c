"""The search for a pair of neighbouring databases that moves a traced vector by more than its claim."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from property_checks import Comparison, compare, compare_equal, is_private, traced, visible
from property_queries import Query, Writer
from property_world import (
    Database,
    Row,
    make_policy,
    opened,
    reordered,
    tame_world,
    wild_world,
    without_unit,
    without_unowned,
)

from dpsql.audit import ReleaseTrace
from dpsql.errors import Error

RULES = ("row", "single_row", "one_group", "clip", "selection")
NEIGHBOURS, QUERIES = 5, 16


@dataclass(slots=True)
class Tally:
    """Pairs by rule, those in which the unit's rows mattered, the largest part of each claim, and all violations."""

    pairs: Counter[str] = field(default_factory=Counter)
    touched: Counter[str] = field(default_factory=Counter)
    ratios: dict[tuple[str, str], float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def add(self, rules: set[str], comparison: Comparison, where: str) -> None:
        """Count one pair."""
        self.pairs.update(rules | {"all"})
        self.touched.update(comparison.touched | ({"all"} if comparison.touched else set()))
        for key, ratio in comparison.ratios.items():
            self.ratios[key] = max(ratio, self.ratios.get(key, 0.0))
        self.violations += [f"{where}\n    {violation}" for violation in comparison.violations]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A database, its neighbours by the unit that each lacks, and one that dpsql must not tell from it."""

    whole: Database
    neighbours: tuple[tuple[str, Database], ...]
    same: Database


def search(seed: int, pairs: int) -> Tally:
    """Random worlds and queries until `pairs` pairs were really touched by the unit that is removed."""
    rng, tally = random.Random(seed), Tally()
    while tally.touched["all"] < pairs and not tally.violations:
        with ExitStack() as stack:
            where = _neighbourhood(rng, stack)
            for _ in range(QUERIES):
                _examine(_accepted(where.whole, rng), where, tally, looked_at=rng.random() < 0.2)
                if tally.touched["all"] >= pairs or tally.violations:
                    break
    return tally


def _neighbourhood(rng: random.Random, stack: ExitStack) -> Neighbourhood:
    tables = wild_world(rng) if rng.random() < 0.85 else tame_world(rng, 8)
    policy = make_policy(unit=rng.choice(("id", {"id": "people.id"})))

    def enter(chosen: dict[str, list[Row]]) -> Database:
        return stack.enter_context(opened(chosen, policy))

    neighbours = []
    for unit in rng.sample(range(1, 8), NEIGHBOURS):
        visit = rng.randrange(len(tables["visits"]))
        neighbours.append((f"unit {unit}, visit {visit}", enter(without_unit(tables, unit, visit, rng))))
    return Neighbourhood(enter(tables), tuple(neighbours), enter(reordered(without_unowned(tables), rng)))


def _accepted(database: Database, rng: random.Random) -> Query:
    """A query that dpsql takes."""
    while True:
        writer = Writer(rng)
        query = writer.nested() if rng.random() < 0.08 else writer.query()
        query = replace(query, clipped=rng.random() < 0.25)
        try:
            database.db.prepare(query.sql, query.epsilon, query.delta, query.mechanism, clipped=query.clipped)
        except Error:
            continue
        return query


def _examine(query: Query, where: Neighbourhood, tally: Tally, *, looked_at: bool) -> None:
    whole = traced(where.whole, query)
    rules = rules_of(whole)
    for unit, database in where.neighbours:
        tally.add(rules, compare(whole, traced(database, query)), f"{query}\n    without {unit}")
    tally.violations += [
        f"{query}\n    other order, no unowned rows: {v}" for v in compare_equal(whole, traced(where.same, query))
    ]
    if looked_at and visible(where.whole, query) != visible(where.neighbours[0][1], query):
        tally.violations.append(f"{query}\n    an analyst can see which database it is")


def rules_of(releases: list[ReleaseTrace] | None) -> set[str]:
    """The rules that bound the releases."""
    return {r.rule for r in releases or ()} | {"selection" for r in releases or () if is_private(r)}
