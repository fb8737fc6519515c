"""The search for neighbours that a query moves too far: blocks of a seed, each a small world, some queries, some pairs.

A block depends on nothing but its number and the seed, so blocks can be done in any order, on any machine, and again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from dpsql.audit.compare import compare, compare_equal, rules_of
from dpsql.audit.constructs import constructs_of, shapes_of
from dpsql.audit.file_writers import installed_writers, on_files, writers_of, written_again
from dpsql.audit.grammar.query import Query
from dpsql.audit.grammar.writer import Writer
from dpsql.audit.neighbourhood import drawn, neighbours_of, part_of, settled
from dpsql.audit.outcome import Finding
from dpsql.audit.pairs import (
    ANSWERED,
    MOVED,
    ORDER,
    SEEN,
    Case,
    answered,
    differences,
    forget_searches,
    paid,
    prepare,
    refused,
    vectors,
    visible,
)
from dpsql.audit.pruning import PruningQueries, readings
from dpsql.audit.shrink import finding_of
from dpsql.audit.tally import Tally
from dpsql.audit.world import Unit, World
from dpsql.errors import EngineError, Error, InternalError
from dpsql.query_draft import PreparedQuery
from dpsql.session import Connection

NEIGHBOURS, QUERIES, SEARCHED = 6, 40, 2
LOOKED_AT = 0.15
"""The share of queries whose plan, text and answer are compared as well."""


PRUNED = 0.75
"""The share of blocks over files whose world and queries are made for an engine that reads by statistics."""


class Draws(Protocol):
    """What draws queries."""

    def any(self) -> Query:
        """The next one."""


Drawing = Callable[[World, random.Random], Draws]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A world that is open, with neighbours by the units that they lack, and one that dpsql must not tell from it."""

    world: World
    whole: Connection
    neighbours: tuple[tuple[tuple[Unit, ...], Connection], ...]
    same: Connection


def run_block(seed: int, number: int, own: Sequence[World] = (), queries: int = QUERIES) -> Tally:
    """One block: over the built-in worlds, or over parts of the steward's own."""
    rng = random.Random(f"{seed} {number}")
    world = written_again(part_of(rng.choice(own), rng), rng) if own else drawn(rng)
    return _examined(world, rng, queries)


def run_file_block(seed: int, number: int, queries: int = QUERIES) -> Tally:
    """One block over files of one writer; the writers take turns, and most worlds are those of `pruning`."""
    rng, writers = random.Random(f"{seed} {number} files"), installed_writers()
    pruned = rng.random() < PRUNED
    world = on_files(readings(rng) if pruned else drawn(rng), writers[number % len(writers)], rng)
    return _examined(world, rng, queries, PruningQueries if pruned else Writer.over)


def _examined(world: World, rng: random.Random, queries: int, draws: Drawing = Writer.over) -> Tally:
    """Compare the policy's searches, then queries; count the pairs for the writers of the world's files, if any."""
    tally = examine_searches(world, rng) if world.policy.searched() else Tally()
    if not tally.findings:
        world = settled(world, rng)
        tally = tally.plus(examine(world, rng, queries, writer=draws(world, rng)))
    return tally.counted_for(writers_of(world))


def examine(
    world: World, rng: random.Random, queries: int = QUERIES, neighbours: int = NEIGHBOURS, writer: Draws | None = None
) -> Tally:
    """Random queries over one world and its neighbours; the first finding ends it."""
    tally = Tally()
    writer = writer or Writer.over(world, rng)
    with ExitStack() as stack:
        where = _opened(world, rng, neighbours, stack)
        for _ in range(queries if where.neighbours else 0):
            taken = _taken(writer, where, tally)
            if taken is None or tally.findings:
                break
            _compare(taken[0], taken[1], where, tally, rng)
    return tally


def examine_searches(world: World, rng: random.Random) -> Tally:
    """The private searches for bounds that the policy leaves open: they are releases like any other."""
    tally = Tally()
    with ExitStack() as stack:
        where = _opened(world, rng, SEARCHED, stack)
        for subject in world.policy.searched():
            prepared = PreparedQuery(str(subject), *where.whole.searches.search(subject), ())
            whole, _ = vectors(where.whole, prepared)
            for gone, database in where.neighbours:
                made = compare(whole, vectors(database, prepared)[0])
                tally.add(rules_of(whole), ["private search"], made)
                said = f"a search for {subject}, without {gone}: "
                tally.findings += [Finding(said + each, world.script()) for each in made.violations]
    return tally


def _opened(world: World, rng: random.Random, many: int, stack: ExitStack) -> Neighbourhood:
    def enter(each: World) -> Connection:
        return stack.enter_context(each.open(steward=True))

    near = tuple((gone, enter(each)) for gone, each in neighbours_of(world, rng, many))
    return Neighbourhood(world, enter(world), near, enter(world.without_unowned().reordered(rng)))


def _taken(writer: Draws, where: Neighbourhood, tally: Tally) -> tuple[Query, PreparedQuery] | None:
    """A query that dpsql takes; None if it fails on one otherwise than by refusing it, or refuses all."""
    for _ in range(200):
        query = writer.any()
        try:
            prepared = prepare(where.whole, query)
            for priced in prepared.bill.releases:
                where.whole.engine.emit(priced, None)
        except (InternalError, EngineError) as failure:
            tally.findings.append(Finding(f"planning failed: {failure.message}", query.sql))
            return None
        except Error:
            tally.counted["queries refused"] += 1
            continue
        tally.counted["queries"] += 1
        return query, prepared
    return None


def _compare(query: Query, prepared: PreparedQuery, where: Neighbourhood, tally: Tally, rng: random.Random) -> None:
    whole, inner = vectors(where.whole, prepared)
    constructs = constructs_of(query.sql) | shapes_of(whole or [])
    rules, price = rules_of(whole), paid(query)
    for gone, database in where.neighbours:
        made = compare(whole, vectors(database, prepared, inner)[0], price)
        tally.add(rules, constructs, made)
        if made.violations:
            tally.findings.append(finding_of(Case(MOVED, query, where.world, gone), made.violations[0]))
            return
    if found := compare_equal(whole, vectors(where.same, prepared, inner)[0]):
        tally.findings.append(finding_of(Case(ORDER, query, where.world, ()), found[0]))
        return
    if rng.random() < LOOKED_AT and where.neighbours:
        _look(query, where, *rng.choice(where.neighbours), tally)


def _look(query: Query, where: Neighbourhood, gone: tuple[Unit, ...], database: Connection, tally: Tally) -> None:
    for each in (where.whole, database):
        forget_searches(each, f"look {tally.counted['looks']}")
    tally.counted["looks"] += 1
    for kind, look in ((SEEN, visible), (ANSWERED, answered)):
        one, two = look(where.whole, query), look(database, query)
        tally.counted["pairs refused" if refused(one) else f"pairs {kind}"] += 1
        if found := differences(one, two):
            tally.findings.append(finding_of(Case(kind, query, where.world, gone), found[0]))
            return
