"""Public tables arrive in the sealed database as they are stored: types, NULL, NaN; and as they are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import EngineError
from dpsql.policy import check_facts, load_policy

COLUMNS = {
    "b": "BOOLEAN", "i8": "TINYINT", "i16": "SMALLINT", "i32": "INTEGER", "i64": "BIGINT", "i128": "HUGEINT", "u8": "UTINYINT", "u16": "USMALLINT", "u32": "UINTEGER",
    "u64": "UBIGINT", "f": "FLOAT", "d": "DOUBLE", "m": "DECIMAL(18,3)", "w": "DECIMAL(38,10)", "t": "VARCHAR", "day": "DATE", "us": "TIMESTAMP", "sec": "TIMESTAMP_S",
    "ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS",
}  # fmt: skip
ROWS = """
  (true, -128, -32768, -2147483648, -9223372036854775808, -170141183460469231731687303715884105728, 255, 65535, 4294967295, 18446744073709551615, 'nan', 'nan', 123456789012345.678,
   1234567890123456789012345678.0123456789, '', '0001-01-01', '1969-12-31 23:59:59.999999', '2024-01-01 00:00:01', '2024-01-01 00:00:00.001', '2024-01-01 00:00:00.000000001'),
  (false, 1, 1, 1, 9007199254740993, 1, 1, 1, 1, 1, 'inf', '-inf', -0.001, 0, 'é''"\\', '9999-12-31', '2024-02-29 12:00:00', '2024-01-01', '2024-01-01', '2024-01-01')
"""


def connect(source: Any, **tables: Any) -> dpsql.Connection:
    policy = {
        "dataset": "p",
        "search": False,
        "budget": {"epsilon": 10, "delta": 1e-6},
        "limits": {"epsilon": 10},
        "tables": tables,
    }
    return dpsql.connect(source, policy=policy, ledger=":memory:")


@pytest.mark.parametrize("rows", ["both", "null", "none"])
def test_types_and_values_are_those_of_the_table(rows: str) -> None:
    with duckdb.connect() as own:
        own.execute(f"CREATE TABLE p ({', '.join(f'{c} {t}' for c, t in COLUMNS.items())})")
        if rows != "none":
            own.execute(f"INSERT INTO p VALUES {ROWS}")
        if rows == "null":
            own.execute("INSERT INTO p SELECT " + ", ".join(["NULL"] * len(COLUMNS)))
        with connect(own, p={"public": True}) as db:
            answer = db.query("SELECT * FROM p ORDER BY i8 NULLS LAST")
        plain = own.execute("SELECT * FROM p ORDER BY i8 NULLS LAST").fetchall()
        assert answer.types == tuple(COLUMNS.values())
        for got, wanted in zip(answer.fetchall(), plain, strict=True):
            assert list(map(repr, got)) == list(map(repr, wanted))


def test_text_types_are_text() -> None:
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE p AS SELECT 'b'::ENUM('b', 'a') AS e, '00000000-0000-0000-0000-000000000001'::UUID AS u UNION ALL SELECT NULL, NULL"
        )
        with connect(own, p={"public": True}) as db:
            answer = db.query("SELECT e, u FROM p ORDER BY e NULLS LAST")
        assert answer.types == ("VARCHAR", "VARCHAR")
        assert answer.fetchall() == [("b", "00000000-0000-0000-0000-000000000001"), (None, None)]


def test_a_public_table_of_a_live_connection_is_read_anew() -> None:
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE p (k VARCHAR, x INTEGER); INSERT INTO p VALUES ('a', 1); CREATE TABLE t AS SELECT range AS u, 'a' AS k FROM range(2000)"
        )
        tables = {"p": {"public": True}, "t": {"unit": "u", "columns": {"k": {"values": {"from": "p.k"}}}}}
        with connect(own, **tables) as db:
            joined = (
                "SELECT p.k, p.x, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) s JOIN p ON p.k = s.k ORDER BY p.k"
            )
            below = "SELECT p.x, count(*) FROM t JOIN p ON p.k = t.k GROUP BY p.x ORDER BY 1"
            assert [row[:2] for row in db.query(joined, epsilon=1).fetchall()] == [("a", 1)]
            assert [row[0] for row in db.query(below, epsilon=1).fetchall()] == [1]
            own.execute("UPDATE p SET x = 2; INSERT INTO p VALUES ('b', 3)")
            assert db.query("SELECT sum(x) FROM p").fetchall() == [(5,)]
            again = db.query(joined, epsilon=1)
            assert [row[:2] for row in again.fetchall()] == [("a", 2)]
            assert [row[0] for row in db.query(below, epsilon=1).fetchall()] == [2, 3]
            assert len(again.intervals()) == 1


def test_a_constraint_that_is_gone_is_not_relied_on() -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE t (u INTEGER PRIMARY KEY); INSERT INTO t SELECT range FROM range(10)")
        with connect(own, t={"unit": "u", "unique": True, "max_rows_per_unit": 5}) as db:
            before = db.explain("SELECT count(*) FROM t").notes
            own.execute("ALTER TABLE t RENAME TO old; CREATE TABLE t AS SELECT u FROM old, range(9)")
            assert before == () and "counts as" in " ".join(db.explain("SELECT count(*) FROM t").notes)


def test_a_column_of_an_unknown_type_is_hidden(tmp_path: Path) -> None:
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE p (k INTEGER, raw BLOB, l INTEGER[], h UHUGEINT); INSERT INTO p VALUES (1, 'x'::BLOB, [1], 1)"
        )
        with connect(own, p={"public": True}) as db:
            assert db.query("SELECT * FROM p").columns == ("k",)
            with pytest.raises(dpsql.ParseError, match="raw"):
                db.query("SELECT raw FROM p")
        policy = {"dataset": "p", "search": False, "budget": {"epsilon": 1}, "tables": {"p": {"public": True}}}
        found = {each.fact: each for each in check_facts(own, load_policy(policy))}
        assert {"column:raw", "column:l", "column:h"} < set(found)
        assert (
            found["column:raw"].ok
            and found["column:raw"].text == "hidden from analysts: its type BLOB is not supported"
        )
        with (
            connect(own, p={"public": True, "columns": {"raw": {}}}) as db,
            pytest.raises(dpsql.PolicyError, match="BLOB"),
        ):
            db.query("SELECT 1 FROM p")


def test_a_public_table_of_unknown_types_alone_is_an_error() -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE p (raw BLOB)")
        with connect(own, p={"public": True}) as db, pytest.raises(dpsql.PolicyError, match="no column of a type"):
            db.query("SELECT 1 FROM p")


def test_a_public_table_that_cannot_be_read_is_an_error_without_details() -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE p AS SELECT 1 AS a")
        with connect(own, p={"public": True}) as db:
            own.execute("DROP TABLE p")
            with pytest.raises(EngineError, match="steward's log has the details"):
                db.engine.read_public("p", ["a"])
