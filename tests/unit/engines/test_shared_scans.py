"""Several choices of one query are made from one statement: with the integers of a statement for each."""

from __future__ import annotations

import random
from datetime import date, timedelta

import duckdb
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.sql.histogram import branches

KINDS = [None, "a", "b", "c", "d", "e", "f"]
POLICY = {
    "dataset": "scans",
    "search": False,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "defaults": {"epsilon": 1, "delta": 1e-8},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 99}, "town": {}}},
        "orders": {
            "unit": "person",
            "max_rows_per_unit": 3,
            "max_groups_per_unit": 2,
            "columns": {
                "amount": {"min": -50, "max": 50}, "qty": {"min": 0, "max": 9}, "kind": {"values": KINDS[1:]},
                "day": {"min": date(2024, 1, 1), "max": date(2024, 12, 31)}, "town": {},
            },
        },
        "visits": {"unit": "row", "columns": {"seconds": {"min": 0, "max": 60}, "kind": {"values": KINDS[1:4]}}},
    },
}  # fmt: skip
ORDERS = [
    "SELECT median(amount), min(amount), max(amount), sum(amount) FROM orders",
    "SELECT median(amount), min(qty), max(day), mode(kind), quantile_cont(amount, 0.9) FROM orders",
    "SELECT kind, median(amount), min(amount), max(amount), mode(qty), avg(qty) FROM orders GROUP BY kind",
    "SELECT town, median(amount), max(amount), count(*) FROM orders GROUP BY town",
    "SELECT qty, mode(kind), min(kind), median(amount) FROM orders WHERE amount > -20 GROUP BY qty",
    "SELECT median(amount), max(n) FROM (SELECT person, sum(amount) AS amount, count(*) AS n FROM orders GROUP BY 1)",
    "SELECT p.age // 50, median(o.amount), min(p.age) FROM orders o JOIN people p ON p.id = o.person GROUP BY 1",
]
ONE_ROW = [
    "SELECT median(seconds), min(seconds), max(seconds) FROM visits",
    "SELECT kind, median(seconds), min(seconds), mode(kind) FROM visits GROUP BY kind",
    "SELECT median(age), min(age), max(age), mode(age) FROM people",
]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    rng = random.Random(7)
    numbers = [
        None,
        float("nan"),
        float("inf"),
        float("-inf"),
        -0.0,
        0.0,
        1e300,
        *(rng.uniform(-80, 80) for _ in range(40)),
    ]
    towns = [None, "x", "y", "z"]
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, town VARCHAR)")
    connection.execute(
        "CREATE TABLE orders (person INTEGER, amount DOUBLE, qty INTEGER, kind VARCHAR, day DATE, town VARCHAR)"
    )
    connection.execute("CREATE TABLE visits (seconds DOUBLE, kind VARCHAR)")
    connection.executemany(
        "INSERT INTO people VALUES (?, ?, ?)", [(i, rng.choice([None, i, 500]), rng.choice(towns)) for i in range(80)]
    )
    rows = [
        (rng.choice([None, *range(80)]), rng.choice(numbers), rng.choice([None, -1, 3, 5, 90]), rng.choice([*KINDS, "other"]),
         rng.choice([None, date(1900, 1, 1) + timedelta(days=rng.randrange(60_000))]), rng.choice(towns))
        for _ in range(900)
    ]  # fmt: skip
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.executemany(
        "INSERT INTO visits VALUES (?, ?)", [(rng.choice(numbers), rng.choice(KINDS)) for _ in range(400)]
    )
    return connection


def integers(database: duckdb.DuckDBPyConnection, sql: str) -> object:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", steward=True) as db:
        return [(r.rule, r.keys, r.statistics) for r in trace(db, sql, salt=b"salt")]


@pytest.mark.parametrize("memory", [None, 10**9])
@pytest.mark.parametrize("sql", ORDERS + ONE_ROW)
def test_one_statement_gives_the_integers_of_many(
    database: duckdb.DuckDBPyConnection, sql: str, memory: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:", steward=True) as db:
        db.engine._limits = type(db.engine._limits)(memory)  # type: ignore[attr-defined]
        for priced in db.prepare(sql).bill.releases:
            named, run = (f(priced, b"salt") for f in (db.engine.statements, db.engine.run_statements))
            many = len(priced.bounded.histograms)
            assert many < 2 or len(named) - len(run) == many - 1
            assert not many > 1 or ("s AS MATERIALIZED" in run[-1]) == (
                memory is None and max(branches(priced.bounded)) > 0
            )
        together = [(r.rule, r.keys, r.statistics) for r in trace(db, sql, salt=b"salt")]
    monkeypatch.setattr(DuckDBEngine, "run_statements", DuckDBEngine.statements)
    assert integers(database, sql) == together


@pytest.mark.parametrize("sql", ONE_ROW)
def test_where_a_unit_has_one_row_its_median_and_extremes_are_one_histogram(
    database: duckdb.DuckDBPyConnection, sql: str
) -> None:
    with dpsql.connect(database, policy=POLICY, ledger=":memory:") as db:
        [priced] = db.prepare(sql).bill.releases
        grids = {histogram.grid for histogram in priced.bounded.histograms}
        assert max(branches(priced.bounded)) + 1 == len(grids) < len(priced.bounded.histograms)


def test_the_rows_are_read_once(database: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's own plan has one scan of the table for three choices, and one more for the sum."""
    with dpsql.connect(database, policy=POLICY, ledger=":memory:") as db:
        [priced] = db.prepare(ORDERS[0]).bill.releases
        plans = [
            database.execute(f"EXPLAIN {text}").fetchall()[0][1] for text in db.engine.run_statements(priced, b"s")
        ]
    assert [plan.count("Sequential Scan") for plan in plans] == [1, 1]
