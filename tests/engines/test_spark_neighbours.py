"""Two neighbouring databases on Spark: no vector moves further than claimed, and order and partitions do not matter.

Where no hash of the engine's own chooses, the integers are DuckDB's as well, for which thousands of pairs were tried.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest
import spark_session
from attack.worlds import joins, kinds
from stores import SparkStore

import dpsql
from dpsql.audit.comparison import compare, compare_equal, paid, prepare, vectors
from dpsql.audit.grammar.query_writer import Query, Writer
from dpsql.audit.neighbour_search import neighbours_of
from dpsql.audit.world import World
from dpsql.errors import Error, UnsupportedQuery
from dpsql.query_draft import PreparedQuery

if (reason := spark_session.absent()) is not None:
    pytest.skip(reason, allow_module_level=True)

QUERIES = 6 if os.environ.get("DPSQL_SPARK") == "all" else 2
"""Spark takes seconds for each pair; all of them with DPSQL_SPARK=all."""


def bare(world: World) -> World:
    """The same tables without constraints, which Spark does not have."""
    return replace(world, tables={name: replace(t, constraints=()) for name, t in world.tables.items()})


def taken(writer: Writer, db: dpsql.Connection, seen: Counter[str]) -> tuple[Query, PreparedQuery]:
    """The next query that dpsql takes and Spark computes, and that is not bounded by the only rule seen so far."""
    while True:
        query = writer.any()
        try:
            prepared = prepare(db, query)
            for priced in prepared.bill.releases:
                db.engine.emit(priced, b"")
        except UnsupportedQuery:
            continue
        except Error:
            continue
        rules = {priced.bounded.rule for priced in prepared.bill.releases}
        if len(seen) != 1 or rules - set(seen):
            return query, prepared


def chosen(prepared: PreparedQuery) -> bool:
    """Does a hash of the engine's own decide what a unit keeps?"""
    bounded = [priced.bounded for priced in prepared.bill.releases]
    return any(b.selection is not None or any(s.part.distinct for s in b.statistics) for b in bounded)


@pytest.mark.parametrize("make", [kinds, joins], ids=["kinds", "joins"])
def test_no_unit_moves_anything_further_than_claimed(make: object) -> None:
    rng = random.Random(7)
    world = bare(make(rng))  # type: ignore[operator]
    [(_, other)] = neighbours_of(world, rng, 1)
    store, seen = SparkStore(), Counter[str]()
    with ExitStack() as stack:
        whole, less, same = (
            stack.enter_context(store.open(each.tables, world.endless))
            for each in (world, other, world.without_unowned().reordered(rng))
        )
        reference, writer = stack.enter_context(world.open(steward=True)), Writer.over(world, rng)
        for number in range(QUERIES):
            query, prepared = taken(writer, whole, seen)
            larger, inner = vectors(whole, prepared)
            assert compare(larger, vectors(less, prepared, inner)[0], paid(query)).violations == [], query.sql
            if number % 4 == 0:
                assert compare_equal(larger, vectors(same, prepared, inner)[0]) == [], query.sql
            if not chosen(prepared):
                assert repr(larger) == repr(vectors(reference, prepared, inner)[0]), query.sql
            seen.update(release.rule for release in larger or ())
    assert len(seen) >= 2, seen
