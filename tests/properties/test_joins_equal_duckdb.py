"""Without noise, and on data that obeys the policy, a join's answer is DuckDB's own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from property_joins import SHAPES, Shape, join_database, join_policy, join_world, write
from property_world import Database
from test_equals_duckdb import EPSILON, answer, differences

from dpsql.audit.grammar.query_writer import Query

CLIPPED = ("people p, stores s",)
"""One row per unit is declared, and the join makes more of it: those are down-weighted, as they must be."""

ROWS = 100


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Database]]:
    made = [join_world(random.Random(seed), tame=True) for seed in (1, 2)]
    policy = join_policy(ROWS, ROWS)
    with join_database(made[0], policy) as one, join_database(made[1], policy) as two:
        yield [one, two]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.source} {shape.where}".strip())
def test_a_join_equals_duckdb(shape: Shape, worlds: list[Database]) -> None:
    if shape.source in CLIPPED:
        return
    rng = random.Random(str(shape))
    for database in worlds:
        for _ in range(2):
            query = write(rng, shape)
            prepared = database.db.prepare(query.sql, epsilon=EPSILON, delta=query.delta, mechanism=query.mechanism)
            found = differences(database, query, prepared)
            assert not found, f"{query}\n" + "\n".join(found)


FIXED = (
    "SELECT count(*) FROM orders JOIN people USING (id) WHERE id > 2",
    "SELECT count(*), sum(n) FROM (SELECT * FROM orders o JOIN people p USING (id)) AS t",
    "SELECT count(*) FROM (SELECT p.* FROM people p LEFT JOIN orders o USING (id)) AS t WHERE kind = 'a'",
    "SELECT count(id) FROM people FULL JOIN orders USING (id)",
    "SELECT count(*), count(c), sum(c) FROM (SELECT id, count(*) AS c FROM people FULL JOIN orders USING (id) GROUP BY id) AS t",
    "SELECT count(DISTINCT p.id) FROM people p, orders o WHERE p.id = o.id",
    "SELECT count(DISTINCT o.id) FROM items i JOIN orders o ON o.oid = i.oid",
    "SELECT count(id) FROM orders RIGHT JOIN people USING (id)",
    "SELECT count(*) FROM items i, orders o JOIN people p ON p.id = o.id LEFT JOIN stores s ON s.store = o.store WHERE i.oid = o.oid AND s.size IS NULL",
    "WITH a AS (SELECT id, count(*) AS c FROM orders GROUP BY id) SELECT count(*), sum(x.c * y.c) FROM a AS x JOIN a AS y ON x.id = y.id",
    "WITH s AS (SELECT store, size FROM stores WHERE region = 'north') SELECT count(*), sum(size) FROM orders JOIN s USING (store)",
    "SELECT avg(total) FROM (SELECT o.oid, sum(i.n) AS total FROM orders o JOIN items i USING (oid) GROUP BY o.oid) AS t",
    "SELECT count(*) FROM people p WHERE p.id IN (SELECT o.id FROM orders o SEMI JOIN items i ON i.oid = o.oid)",
    "SELECT count(*) FROM orders WHERE (store IN (SELECT store FROM stores) AND oid IN (SELECT oid FROM items)) AND NOT (kind IN (SELECT kind FROM prices WHERE kind IS NOT NULL))",
    "SELECT count(*) FROM (SELECT a.oid FROM items a, items b WHERE a.oid = b.oid AND a.n < b.n GROUP BY a.oid) AS t",
)  # fmt: skip


@pytest.mark.parametrize("sql", FIXED)
def test_names_and_nesting_mean_what_they_mean_to_duckdb(sql: str, worlds: list[Database]) -> None:
    for database in worlds:
        shown = answer(database, database.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace"))
        wanted = database.raw.execute(sql).fetchall()
        assert [[round(float(v or 0), 4) for v in row] for row in shown] == [
            [round(float(v or 0), 4) for v in row] for row in wanted
        ]


def test_the_comparison_can_fail(worlds: list[Database]) -> None:
    query = Query("SELECT count(*) AS a0 FROM people p JOIN orders o ON p.id = o.id", 0, "laplace", 1.0)
    prepared = worlds[0].db.prepare(
        "SELECT count(*) AS a0 FROM people", epsilon=EPSILON, delta=1e-6, mechanism="laplace"
    )
    assert differences(worlds[0], query, prepared)
