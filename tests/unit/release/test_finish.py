"""The sealed database: released and public tables, and nothing else."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from sqlglot import parse_one

import dpsql
from dpsql.answers.finish import _explained, _settled
from dpsql.errors import ParseError

POLICY = {
    "dataset": "finish",
    "search": False,
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
    return db.dataset.finisher._connection


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
    policy = {"dataset": "p", "search": False, "budget": {"epsilon": 1}, "tables": {"p": {"public": True}}}
    with dpsql.connect(file, policy=policy, ledger=":memory:") as db:
        result = db.query(sql)
        assert (result.fetchall(), list(result.types)) == (expected, types)
        assert result.fetchall()[0][0] == Decimal("0.30")


def test_the_finishing_query_is_generated_afresh(db: dpsql.Connection) -> None:
    plan = db.prepare("SELECT k, /* x */ count(*) FROM t -- y\nGROUP BY k").plan
    assert parse_one(plan.finishing.sql("duckdb"), dialect="duckdb")
    assert "GROUP BY" not in plan.finishing.sql("duckdb")


def test_arrow_and_dataframe_agree(db: dpsql.Connection) -> None:
    pytest.importorskip("pyarrow")
    result = db.query("SELECT k, count(*) AS n, avg(x) AS a FROM t GROUP BY k")
    assert result.arrow().column_names == list(result.columns) == list(result.df().columns)
    assert result.arrow().num_rows == len(result) == len(result.df()) == 2


def test_what_python_has_no_memory_for_is_too_much_as_well() -> None:
    with pytest.raises(ParseError, match="needs more time or memory than it may have"), _explained():
        raise MemoryError


def test_an_average_of_nothing_is_null_and_only_fractions_can_be_no_number() -> None:
    assert "isnan(_a0)" in _settled("_a0", "DOUBLE") and "isnan(_b0)" in _settled("_b0", "DOUBLE")
    assert [_settled("_a0", "BIGINT"), _settled("_k0", "DOUBLE")] == ["_a0", "_k0"]


GROUPS = "(SELECT k, count(*) AS n FROM t GROUP BY k) AS g"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (f"SELECT * FROM {GROUPS} JOIN p USING (k)", ("k", "n", "label")),
        (f"SELECT * FROM p FULL JOIN {GROUPS} USING (k)", ("k", "label", "n")),
        (f"SELECT g.*, p.* FROM {GROUPS} JOIN p USING (k)", ("k", "n", "k", "label")),
        (f"SELECT * FROM {GROUPS} JOIN p ON p.k = g.k", ("k", "n", "k", "label")),
        (f"SELECT * FROM {GROUPS} SEMI JOIN p USING (k)", ("k", "n")),
        (f"SELECT * FROM p ANTI JOIN {GROUPS} ON p.k = g.k", ("k", "label")),
        (f"SELECT * EXCLUDE (n) FROM {GROUPS}", ("k",)),
        (f"SELECT g.* RENAME (n AS units), 1 AS one FROM {GROUPS}", ("k", "units", "one")),
        (f"SELECT * REPLACE ('x' AS k) FROM {GROUPS}", ("k", "n")),
    ],
)
def test_a_star_has_the_columns_and_the_noise_of_what_it_stands_for(
    db: dpsql.Connection, sql: str, columns: tuple[str, ...]
) -> None:
    result = db.query(sql)
    assert result.columns == columns and all(len(row) == len(columns) for row in result.fetchall())
    assert [output.noisy for output in result.plan.outputs] == [name in ("n", "units") for name in columns]


@pytest.mark.parametrize("sql", [f"SELECT COLUMNS(*) FROM {GROUPS}", f"SELECT * FROM {GROUPS} NATURAL JOIN p"])
def test_columns_that_are_not_known_are_refused_before_anything_is_charged(db: dpsql.Connection, sql: str) -> None:
    with pytest.raises(ParseError, match="not known"):
        db.query(sql)
    assert db.ledger.spent(None).epsilon == 0


def test_a_column_with_a_time_zone_is_refused_before_anything_is_charged(db: dpsql.Connection) -> None:
    for day, refused in (("TIMESTAMP WITH TIME ZONE", True), ("TIMESTAMP", False)):
        sql = f"SELECT CAST('2024-01-0' || least(greatest(n, 1), 9) AS {day}) AS day FROM {GROUPS}"
        with pytest.raises(ParseError, match="day has a time zone") if refused else nullcontext():
            db.query(sql)
        assert (db.ledger.spent(None).epsilon == 0) is refused
