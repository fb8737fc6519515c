"""Public keys are those that the query and public tables leave, and released lists narrow what is shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 10**9, "delta": 1e-2},
    "limits": {"epsilon": 10**6, "delta": 1e-4}, "defaults": {"epsilon": 10**5, "delta": 1e-5},
    "tables": {
        "orders": {"unit": "customer", "max_rows_per_unit": 50, "columns": {
            "product": {"min": 0, "max": 9, "nulls": False}, "amount": {"min": 0, "max": 100},
            "placed": {"min": "1990-01-01", "max": "2026-12-31", "nulls": False}}},
        "products": {"public": True},
    },
}  # fmt: skip
SETUP = """
CREATE TABLE products AS SELECT i AS id, chr((97 + i // 2)::INTEGER) AS brand, CASE WHEN i < 5 THEN 'x' ELSE 'y' END AS kind
FROM range(10) AS r(i);
CREATE TABLE orders AS SELECT i % 200 AS customer, (i * 7919 % 11) % 6 AS product, i % 20 AS amount,
TIMESTAMP '2024-01-01' + to_minutes(i * 7 % 14400) AS placed FROM range(2000) AS r(i);
"""
JOINED = "orders o JOIN products p ON o.product = p.id"
TOP = "SELECT product FROM orders GROUP BY 1 ORDER BY count(*) DESC, product LIMIT 2"
BRANDS = f"SELECT brand FROM {JOINED} GROUP BY 1 ORDER BY count(*) DESC, brand LIMIT 2"


@pytest.fixture(scope="module")
def data() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect()
    made.execute(SETUP)
    yield made
    made.close()


@pytest.fixture(scope="module")
def db(data: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    with dpsql.connect(data, policy=POLICY, ledger=":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
    ("key", "rows", "many"),
    [
        ("product", f"{JOINED} WHERE kind = 'x'", 5),
        ("product", f"{JOINED} AND kind = 'x'", 5),
        ("product", "orders o JOIN (SELECT * FROM products WHERE kind = 'x') p ON o.product = p.id", 5),
        ("product", "orders WHERE product IN (SELECT id FROM products WHERE kind = 'x')", 5),
        ("brand", f"{JOINED} WHERE kind = 'x'", 3),
        ("brand", f"{JOINED} WHERE product < 3", 2),
        ("brand", f"{JOINED} WHERE product IN (0, 1)", 1),
        ("brand", f"{JOINED} WHERE product < 3 OR amount > 5", 5),
        ("brand", "orders o LEFT JOIN products p ON o.product = p.id WHERE kind = 'x'", 3),
        ("brand", "orders o LEFT JOIN products p ON o.product = p.id WHERE coalesce(kind, 'x') = 'x'", 5),
        ("date_trunc('day', placed)", "orders WHERE placed >= '2024-01-02' AND placed < '2024-01-04'", 2),
        ("date_trunc('minute', placed)", "orders WHERE placed >= '2024-01-02' AND placed < '2024-01-04'", 2880),
        ("date_trunc('day', placed)", "orders WHERE date_trunc('month', placed) = '2024-01-01'", 31),
        ("placed::DATE", "orders WHERE year(placed) = 2024", 366),
    ],
)
def test_conditions_narrow_public_keys(
    db: dpsql.Connection, data: duckdb.DuckDBPyConnection, key: str, rows: str, many: int
) -> None:
    sql = f"SELECT {key} AS k, count(*) AS n FROM {rows} GROUP BY 1"
    answer = db.query(sql).fetchall()
    assert len(answer) == many
    assert sorted(r for r in answer if r[1]) == sorted(data.execute(sql).fetchall())


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("product", f"orders WHERE product IN ({TOP})"),
        ("o.product", f"orders o JOIN ({TOP}) t ON t.product = o.product"),
        ("brand", f"{JOINED} WHERE brand IN ({BRANDS})"),
        ("brand", f"{JOINED} JOIN ({BRANDS.replace('brand FROM', 'brand AS b FROM')}) t ON t.b = p.brand"),
        ("k", f"(SELECT product AS k, amount FROM orders WHERE product IN ({TOP})) s"),
    ],
)
def test_a_top_list_joined_back_shows_no_other_key(
    db: dpsql.Connection, data: duckdb.DuckDBPyConnection, key: str, rows: str
) -> None:
    sql = f"SELECT {key} AS k, count(*) AS n FROM {rows} GROUP BY 1 ORDER BY 1"
    assert db.query(sql).fetchall() == data.execute(sql).fetchall()


def test_a_released_list_narrows_only_the_grouping_sets_that_have_the_key(
    db: dpsql.Connection, data: duckdb.DuckDBPyConnection
) -> None:
    sql = (
        f"SELECT product AS k, count(*) AS n FROM orders WHERE product IN ({TOP}) GROUP BY ROLLUP (product) ORDER BY 1"
    )
    assert db.query(sql).fetchall() == data.execute(sql).fetchall()


def test_not_in_a_released_list_narrows_nothing(db: dpsql.Connection) -> None:
    answer = db.query(f"SELECT product AS k, count(*) AS n FROM orders WHERE product NOT IN ({TOP}) GROUP BY 1")
    assert len(answer) == 10
