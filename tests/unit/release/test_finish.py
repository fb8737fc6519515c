"""The sealed database: released and public tables, and nothing else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from sqlglot import parse_one

import dpsql

POLICY = {
    "dataset": "finish",
    "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {
        "t": {"unit": "row", "columns": {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}}},
        "p": {"public": True, "columns": {"k": {}, "label": {}}},
    },
}


@pytest.fixture
def db() -> dpsql.Connection:
    private = pd.DataFrame({"x": [1.0, 2.0], "k": ["a", "b"]})
    public = pd.DataFrame({"k": ["a", "b"], "label": ["first", "second"], "hidden": [1, 2]})
    return dpsql.connect({"t": private, "p": public}, policy=POLICY, ledger=":memory:")


def sealed(db: dpsql.Connection) -> duckdb.DuckDBPyConnection:
    db.query("SELECT * FROM p")
    return db._dataset.finisher._connection


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "ATTACH 'other.duckdb'",
        "COPY p TO 'out.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SELECT * FROM t",
        "SELECT hidden FROM p",
    ],
)
def test_the_sealed_database_refuses(db: dpsql.Connection, statement: str) -> None:
    with pytest.raises(duckdb.Error):
        sealed(db).execute(statement)


def test_it_holds_public_tables_only_and_forgets_released_ones(db: dpsql.Connection) -> None:
    connection = sealed(db)
    db.query("SELECT k, count(*) FROM t GROUP BY k").intervals()
    assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("p",)]
    assert connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_what_duckdb_would_refuse_is_refused_before_anything_is_charged(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.ParseError, match="above the aggregate"):
        db.query("SELECT count(*) + DATE '2024-01-01' + true FROM t")
    assert db.budget().dataset.spent.epsilon == 0


def test_an_error_above_the_aggregate_keeps_the_release_for_replay(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.ParseError):
        db.query("SELECT CAST(CAST(count(*) AS VARCHAR) || 'x' AS INTEGER) FROM t", epsilon=1)
    spent = db.budget().dataset.spent
    assert spent.epsilon > 0
    again = db.query("SELECT count(*) FROM t", epsilon=1)
    assert again.replayed
    assert db.budget().dataset.spent == spent


def test_public_queries_are_exact_and_free(db: dpsql.Connection) -> None:
    result = db.query("SELECT label FROM p ORDER BY label DESC")
    assert result.fetchall() == [("second",), ("first",)]
    assert result.cost.epsilon == 0
    assert not result.replayed


def test_public_values_and_types_are_those_of_the_database(tmp_path: Path) -> None:
    file, sql = tmp_path / "public.duckdb", 'SELECT "a b" + 0.20 AS exact, day, big FROM p ORDER BY day'
    with duckdb.connect(str(file)) as plain:
        plain.execute(
            """CREATE TABLE p AS SELECT * FROM (VALUES
            (0.10::DECIMAL(15, 2), DATE '2020-01-01', 170141183460469231731687303715884105727::HUGEINT),
            (NULL, NULL, NULL)) AS t("a b", day, big)"""
        )
        expected = plain.execute(sql).fetchall()
        types = [row[1] for row in plain.execute(f"DESCRIBE {sql}").fetchall()]
    policy = {"dataset": "p", "budget": {"epsilon": 1}, "tables": {"p": {"public": True}}}
    with dpsql.connect(file, policy=policy, ledger=":memory:") as db:
        result = db.query(sql)
        assert (result.fetchall(), list(result.types)) == (expected, types)
        assert result.fetchall()[0][0] == Decimal("0.30")


def test_the_finishing_query_is_generated_afresh(db: dpsql.Connection) -> None:
    plan = db.prepare("SELECT k, /* x */ count(*) FROM t -- y\nGROUP BY k", None, None, None).plan
    assert parse_one(plan.finishing.sql("duckdb"), dialect="duckdb")
    assert "GROUP BY" not in plan.finishing.sql("duckdb")


def test_arrow_and_dataframe_agree(db: dpsql.Connection) -> None:
    pytest.importorskip("pyarrow")
    result = db.query("SELECT k, count(*) AS n, avg(x) AS a FROM t GROUP BY k")
    assert result.arrow().column_names == list(result.columns) == list(result.df().columns)
    assert result.arrow().num_rows == len(result) == len(result.df()) == 3
