"""The whole-vector clip and the search for norms on every engine: the integers are Python's own."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import STORES, Store

sys.path.insert(0, str(Path(__file__).parents[1] / "properties"))
import property_vectors as worlds
import test_distinct_norms as values
from test_vector_clip import QUERIES, counted, members, shown

import dpsql
from dpsql.sensitivity.bound import norm_search

TABLES = worlds.world(random.Random(11))
OTHERS = sorted(set(STORES) - {"duckdb"})
FEW = tuple(sql for _, sql in QUERIES[1::3])
"""Spark takes seconds for a query: of these it computes the totals at one clip, and the norms."""


@pytest.fixture(scope="module", params=OTHERS)
def placed(request: pytest.FixtureRequest) -> Iterator[tuple[Store, dpsql.Connection]]:
    store = STORES[request.param]()
    if (reason := store.absent()) is not None:
        pytest.skip(reason)
    try:
        with store.open(worlds.stored(TABLES, constraints=store.constraints), worlds.POLICY) as db:
            yield store, db
    finally:
        store.close()


@pytest.mark.parametrize(("table", "sql"), QUERIES, ids=[sql for _, sql in QUERIES])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_totals_and_norms_are_those_of_python(
    placed: tuple[Store, dpsql.Connection], table: str, sql: str, mechanism: str
) -> None:
    store, db = placed
    slow = store.name == "spark" and os.environ.get("DPSQL_SPARK") != "all"
    if slow and (sql not in FEW or mechanism == "laplace"):
        pytest.skip("Spark takes seconds for each: all with DPSQL_SPARK=all")
    bounded, units = worlds.bounded_by(db, sql, mechanism), worlds.units_of(table, TABLES[table])
    found = counted(worlds.run(db, worlds.priced_at(worlds.searched(bounded), mechanism)))
    assert found == worlds.histogram(bounded, units)
    for norm, floored in [(1000.0, True)] if slow else [(1.0, True), (1000.0, False), (1e9, True), (2.0**50, False)]:
        clipped = worlds.clipped_at(bounded, norm)
        priced = worlds.priced_at(clipped, mechanism, floored=floored)
        totals, shifts = worlds.totals(clipped, units), [noised.shift for noised in priced.noised]
        wanted = {at: value >> shifts[at[1]] for at, value in totals.items() if value >> shifts[at[1]]}
        assert shown(worlds.run(db, priced), members(bounded)) == wanted


@pytest.mark.parametrize("sql", values.QUERIES)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_different_values_are_those_of_python(placed: tuple[Store, dpsql.Connection], sql: str, mechanism: str) -> None:
    """Which pairs a unit keeps is the engine's own choice, but not how many of them fit."""
    store, db = placed
    slow = store.name == "spark" and os.environ.get("DPSQL_SPARK") != "all"
    if slow and (sql != values.QUERIES[4] or mechanism == "laplace"):
        pytest.skip("Spark takes seconds for each: all with DPSQL_SPARK=all")
    bounded, owned = values.bounded_by(db, sql, mechanism), worlds.units_of("trips", TABLES["trips"])
    whole, cut = (values.clipped_at(bounded, norm) for norm in (1000.0, 2.0**1.5))
    made, less = (worlds.run(db, worlds.priced_at(each, mechanism)) for each in (whole, cut))
    for vector in values.vectors(bounded):
        found = counted(worlds.run(db, worlds.priced_at(norm_search(bounded, vector), mechanism)))
        assert found == values.histogram(bounded, vector, owned)
        [place], every = vector.members, [row for rows in owned for row in rows]
        numbers = Counter(group for group, _ in values.pairs_of(bounded, vector, every))
        steps, fewer = values.steps_of(whole, place), values.steps_of(cut, place)
        assert shown(made, [place]) == {(group, place): n * steps for group, n in numbers.items()}
        most = 8 if vector.norm == "l2" and not vector.one_group else 2
        totals = {at: value // fewer for at, value in shown(less, [place]).items()}
        assert all(0 < n <= numbers[group] for (group, _), n in totals.items())
        assert len(owned) / 2 < sum(totals.values()) <= most * len(owned)
