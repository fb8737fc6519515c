"""VALUES, UNNEST and generate_series of constants in FROM, compared with DuckDB at a huge price."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 1e9},
    "limits": {"epsilon": 1e8},
    "tables": {
        "t": {
            "unit": "u",
            "max_rows_per_unit": 5,
            "columns": {"p": {"values": ["a", "b"]}, "day": {"min": "2026-01-01", "max": "2026-03-31"}},
        }
    },
}
SPINE = "generate_series(DATE '2026-02-26', DATE '2026-03-03', INTERVAL 1 DAY)"
DAYS = "(SELECT day, count(*) AS n FROM t GROUP BY day)"
QUERIES = [
    "SELECT v.p, g.n FROM (VALUES ('a'), ('z')) v(p) LEFT JOIN (SELECT p, count(*) AS n FROM t GROUP BY p) g ON g.p = v.p",
    "SELECT count(*) FROM t JOIN (VALUES ('a', 'first'), ('b', 'second')) v(p, name) ON t.p = v.p WHERE v.name = 'first'",
    f"SELECT s.d, g.n FROM {SPINE} AS s(d) LEFT JOIN {DAYS} g ON g.day = s.d",
    f"SELECT d, n FROM UNNEST([DATE '2026-01-05', DATE '2026-01-06']) AS s(d) LEFT JOIN {DAYS} g ON g.day = s.d",
    "SELECT x, n FROM range(1, 4) r(x), (SELECT count(*) AS n FROM t)",
    "SELECT generate_series AS x, n FROM generate_series(10, 4, -3), (SELECT count(*) AS n FROM t)",
    "SELECT col0, col1, n FROM (VALUES (1, 'x'), (1 + 1, NULL)) AS v, (SELECT count(*) AS n FROM t)",
    "WITH v(x) AS (VALUES (1), (2)) SELECT x, n FROM v, (SELECT count(*) AS n FROM t)",
    "SELECT count(*) FROM t JOIN generate_series(DATE '2026-01-05', DATE '2026-01-20', INTERVAL 5 DAY) s(d) ON t.day = s.d",
]


@pytest.fixture(name="raw", scope="module")
def _raw() -> duckdb.DuckDBPyConnection:
    raw = duckdb.connect()
    raw.execute(
        "CREATE TABLE t AS SELECT i AS u, ['a', 'b'][i % 2 + 1] AS p, DATE '2026-01-01' + (i % 90)::INT AS day FROM range(900) r(i)"
    )
    return raw


@pytest.fixture(name="db", scope="module")
def _db(raw: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_a_constant_table_is_that_of_duckdb(db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    def plain(rows: list[tuple[object, ...]]) -> list[str]:
        return sorted(str([round(x) if isinstance(x, float) else x for x in row]) for row in rows)

    assert plain(db.query(sql, epsilon=1e6).fetchall()) == plain(raw.execute(sql).fetchall())


def test_postgres_names_the_column_of_a_function_by_its_alias(db: dpsql.Connection) -> None:
    sql = "SELECT d, n FROM generate_series(1, 2) AS d, (SELECT count(*) AS n FROM t) AS c ORDER BY d"
    assert [row[0] for row in db.query(sql, epsilon=1e6, dialect="postgres").fetchall()] == [1, 2]


@pytest.mark.parametrize(
    "table",
    ["range(100000000000) r(x)", "UNNEST([u]) s(x)", "(VALUES (random())) v(x)", "generate_series(1, 2, 0) r(x)",
     "generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-12-31', INTERVAL 1 SECOND) s(x)"],
)  # fmt: skip
def test_what_is_large_or_no_constant_is_refused(db: dpsql.Connection, table: str) -> None:
    with pytest.raises(dpsql.Error):
        db.explain(f"SELECT count(*) FROM t, {table}")
