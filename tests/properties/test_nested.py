"""Results with noise below another aggregate: DuckDB's own answers without noise, and claims that hold with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from property_joins import join_database, join_policy, join_world, without
from property_nested import EPSILON, KEYED, QUERIES, answer, inner, moved_too_far, seen
from property_world import Database

from dpsql.plan.nodes.released_scan import content_of

ROWS = 100


@pytest.fixture(scope="module")
def tame() -> Iterator[Database]:
    with join_database(join_world(random.Random(5), tame=True), join_policy(ROWS, ROWS)) as database:
        yield database


@dataclass(frozen=True, slots=True)
class Around:
    """A database and neighbours that lack one unit each (and one visit)."""

    whole: Database
    neighbours: tuple[Database, ...]


@pytest.fixture(scope="module")
def wild() -> Iterator[Around]:
    rng = random.Random(7)
    tables = join_world(rng, tame=False)
    with ExitStack() as stack:
        made = [stack.enter_context(join_database(tables, join_policy()))]
        made += [stack.enter_context(join_database(without(tables, u, u, rng), join_policy())) for u in (1, 3)]
        yield Around(made[0], tuple(made[1:]))


def _plain(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Without groups that DuckDB does not show: those of NULL or zero."""

    def number(value: object) -> object:
        return round(float(value), 3) if isinstance(value, int | float) and not isinstance(value, bool) else value

    shown = [tuple(number(v) for v in row) for row in rows]
    return sorted((row for row in shown if len(row) == 1 or any(v not in (0.0, None) for v in row[1:])), key=str)


@pytest.mark.parametrize("sql", QUERIES)
def test_without_noise_a_nested_query_equals_duckdb(sql: str, tame: Database) -> None:
    prepared = tame.db.prepare(sql, epsilon=EPSILON, delta=1e-6, mechanism="laplace")
    assert _plain(answer(tame, prepared)) == _plain(tame.raw.execute(sql).fetchall())


@pytest.mark.parametrize("sql", [*QUERIES, *KEYED])
def test_neighbours_that_read_the_same_results_move_within_the_claims(sql: str, wild: Around) -> None:
    mechanism = "laplace" if len(sql) % 2 and sql not in KEYED else "gaussian"
    tables = inner(wild.whole, sql, mechanism)
    assert moved_too_far(sql, wild.whole, wild.neighbours, mechanism, tables) == []
    assert seen(wild.whole, sql, mechanism) == seen(wild.neighbours[0], sql, mechanism)


def test_the_claims_hold_for_whatever_was_released(wild: Around) -> None:
    """The inner result may be anything: far outside what the data could give, NULL, or no number."""
    sql = "SELECT kind, sum(least(greatest(x - (SELECT avg(x) FROM people), -5), 5)) FROM orders GROUP BY kind"
    for value in ("1e300", "-1e300", "nan", "inf", None, "0.25"):
        assert moved_too_far(sql, wild.whole, wild.neighbours, "laplace", {"_n0": content_of([(value,)])}) == []


def test_released_rows_that_multiply_are_weighed_down(wild: Around) -> None:
    """A released table with many rows for one key: a unit still counts no more than it may."""
    sql = "SELECT count(*) FROM orders o, (SELECT kind, note, count(*) AS c FROM items GROUP BY kind, note) a WHERE a.kind = o.kind"
    rows = content_of([("a", str(i), "1") for i in range(50)])
    assert moved_too_far(sql, wild.whole, wild.neighbours, "laplace", {"_n0": rows}) == []
