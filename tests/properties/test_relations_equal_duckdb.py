"""Without noise, and on data that obeys the policy, set operations and windows below the aggregate are DuckDB's own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from property_joins import Shape, join_database, join_policy, join_world, write
from property_relations import BRACKETS, MARKS, SETS, WINDOWS
from property_world import Database
from test_equals_duckdb import EPSILON, differences


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Database]]:
    made = [join_world(random.Random(seed), tame=True) for seed in (1, 2)]
    policy = join_policy(100, 100)
    with join_database(made[0], policy) as one, join_database(made[1], policy) as two:
        yield [one, two]


@pytest.mark.parametrize(
    "shape", (*SETS, *WINDOWS, *MARKS, *BRACKETS), ids=lambda shape: f"{shape.source} {shape.where}".strip()
)
def test_it_equals_duckdb(shape: Shape, worlds: list[Database]) -> None:
    rng = random.Random(str(shape))
    for database in worlds:
        query = write(rng, shape)
        prepared = database.db.prepare(query.sql, epsilon=EPSILON, delta=query.delta, mechanism=query.mechanism)
        found = differences(database, query, prepared)
        assert not found, f"{query}\n" + "\n".join(found)
