"""Joins that differ in aliases, in the order of FROM or in brackets only are one release."""

from __future__ import annotations

import random

import duckdb
import pytest
from test_joins import POLICY, TABLES

import dpsql
from dpsql.audit import trace
from dpsql.plan.canonical import describe_relation

SAME = (
    ("SELECT sum(o.total) FROM people p JOIN orders o ON p.id = o.id", "SELECT sum(b.total) FROM orders b, people a WHERE a.id = b.id", "SELECT sum(total) FROM (people x JOIN orders y USING (id))", "SELECT sum(total) FROM orders z JOIN people AS a ON a.id = z.id"),
    ("SELECT a.area, count(*) FROM people p LEFT JOIN areas a ON p.area = a.area GROUP BY 1", "SELECT y.area, count(*) FROM people z LEFT JOIN areas y ON z.area = y.area GROUP BY 1"),
    ("SELECT count(*) FROM people p FULL JOIN orders o USING (id) WHERE id > 3", "SELECT count(*) FROM people z FULL JOIN orders a USING (id) WHERE id > 3"),
    ("SELECT count(*) FROM items i JOIN orders o USING (oid) JOIN people p USING (id) WHERE p.age > 30 AND i.qty = 2", "SELECT count(*) FROM people a, orders b, items c WHERE c.qty = 2 AND a.id = b.id AND b.oid = c.oid AND a.age > 30"),
)  # fmt: skip
OTHER = (
    ("SELECT count(*) FROM orders a JOIN orders b ON a.id = b.id WHERE a.total > 1", "SELECT count(*) FROM orders a JOIN orders b ON a.id = b.id WHERE a.area = 'n'"),
    ("SELECT count(*) FROM people p LEFT JOIN orders o ON p.id = o.id", "SELECT count(*) FROM orders o LEFT JOIN people p ON p.id = o.id"),
    ("SELECT count(p.area) FROM people p JOIN orders o ON p.id = o.id", "SELECT count(o.area) FROM people p JOIN orders o ON p.id = o.id"),
)  # fmt: skip


@pytest.fixture(scope="module")
def db() -> dpsql.Connection:
    data = duckdb.connect()
    data.execute(TABLES)
    return dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True)


def described(db: dpsql.Connection, sql: str) -> object:
    [release] = db.prepare(sql, epsilon=1.0, delta=1e-6, mechanism="laplace").plan.releases
    return describe_relation(release.source), release.keys, release.aggregates


@pytest.mark.parametrize("queries", SAME, ids=lambda q: q[0])
def test_the_same_join_is_one_release(db: dpsql.Connection, queries: tuple[str, ...]) -> None:
    first, *others = (described(db, sql) for sql in queries)
    assert all(other == first for other in others)
    totals = {str([s.values for s in trace(db, sql, salt=b"s", epsilon=1.0)[0].statistics]) for sql in queries}
    assert len(totals) == 1


@pytest.mark.parametrize("queries", OTHER, ids=lambda q: q[0])
def test_another_join_is_another_release(db: dpsql.Connection, queries: tuple[str, ...]) -> None:
    one, two = (described(db, sql) for sql in queries)
    assert one != two


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT count(*) FROM people a JOIN orders b ON a.id = b.id", {"people.id", "orders.id", "people.area", "orders.area"}),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.id = b.id", {"orders.id", "orders.id'"}),
        ("SELECT count(*) FROM people a LEFT JOIN orders b ON a.id = b.id", {"people.id", "orders.id"}),
        ("SELECT count(*) FROM people a JOIN (SELECT id, count(*) AS age FROM orders GROUP BY id) b ON a.id = b.id", {"people.age", "orders.age"}),
    ],
)  # fmt: skip
def test_columns_that_several_tables_have_are_called_after_the_stored_tables(
    db: dpsql.Connection, sql: str, names: set[str]
) -> None:
    [release] = db.prepare(sql, epsilon=1.0, delta=1e-6, mechanism="laplace").plan.releases
    shown = {field.name for field in release.source.fields}
    assert names <= shown, shown
    assert {name.partition(".")[0] for name in shown if "." in name} <= {"people", "orders"}


def test_aliases_do_not_decide_what_is_free(db: dpsql.Connection) -> None:
    names = random.Random(7).sample(["a", "b", "c", "people", "orders", "z"], 6)
    db.query("SELECT count(*) FROM people p JOIN orders o ON p.id = o.id AND o.total > 2", epsilon=1)
    for one, two in zip(names[::2], names[1::2], strict=True):
        sql = f"SELECT count(*) FROM orders {one}, people {two} WHERE {two}.id = {one}.id AND {one}.total > 2"
        assert db.query(sql, epsilon=1).replayed
