"""The DB-API door beyond the public suite: private tables, parameters, threads, frames of every kind, misuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpsql
from dpsql.session import Conductor

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6}, "limits": {"epsilon": 50}, "defaults": {"epsilon": 1},
    "tables": {
        "t": {"unit": "u", "unique": True, "columns": {
            "age": {"min": 0, "max": 100}, "k": {"values": ["a", "b", "it's"], "nulls": False}, "day": {"min": date(2024, 1, 1), "max": date(2024, 12, 31)},
        }},
        "p": {"public": True},
    },
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE t AS SELECT range AS u, (range % 90)::INTEGER AS age, ['a', 'b', 'it''s'][range % 3 + 1] AS k,"
            " DATE '2024-01-01' + (range % 300)::INTEGER AS day FROM range(3000);"
            "CREATE TABLE p AS SELECT 1::INTEGER AS i, 2.50::DECIMAL(10,2) AS m, 'x' AS s, DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29 12:00' AS ts, true AS b, 0.5::DOUBLE AS f"
        )
        with dpsql.connect(own, policy=POLICY, ledger=":memory:", analyst="ana") as opened:
            yield opened


@pytest.mark.parametrize(
    ("sql", "parameters", "written"),
    [
        ("SELECT count(*) FROM t WHERE age > ? AND k = ?", (30, "it's"), "SELECT count(*) FROM t WHERE age > 30 AND k = 'it''s'"),
        ("SELECT k, count(*) FROM t WHERE day < :d GROUP BY k", {"d": date(2024, 5, 1)}, "SELECT k, count(*) FROM t WHERE day < DATE '2024-05-01' GROUP BY k"),
        ("SELECT avg(age + %s) FROM t", (-2.5,), "SELECT avg(age + -2.5) FROM t"),
        ("SELECT sum(least(age, $1)) FROM t LIMIT $2", (50, 1), "SELECT sum(least(age, 50)) FROM t LIMIT 1"),
    ],
)  # fmt: skip
def test_a_bound_query_is_the_written_one(db: dpsql.Connection, sql: str, parameters: Any, written: str) -> None:
    cursor = db.cursor().execute(sql, parameters)
    plain = db.query(written)
    assert plain.replayed and cursor.fetchall() == plain.fetchall()
    assert db.explain(sql, parameters).cost == db.explain(written).cost == cursor.result.cost  # type: ignore[union-attr]


def test_other_values_are_another_query(db: dpsql.Connection) -> None:
    cursor, sql = db.cursor(), "SELECT count(*) FROM t WHERE age > ?"
    costs = [cursor.execute(sql, [value]).result.cost.epsilon for value in (30, 31, 30, 31.0, 31)]  # type: ignore[union-attr]
    assert costs[:3] == [1, 1, 0] and costs[4] == 0


def test_the_ledger_has_the_values(db: dpsql.Connection) -> None:
    db.query("SELECT count(*) FROM t WHERE k = :k", {"k": "it's"})
    assert "k = 'it''s'" in repr(list(db.ledger.log())).replace("\\", "")


def test_refusals_point_into_the_text_that_was_sent(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.ParseError) as caught:
        db.cursor().execute("SELECT count(*) FROM t WHERE age > ? AND nope = ?", (30, 1))
    assert str(caught.value).splitlines()[1:3] == [
        "line 1: SELECT count(*) FROM t WHERE age > ? AND nope = ?",
        " " * 49 + "^^^^",
    ]
    assert db.budget().dataset.spent.epsilon == 0


def test_description_has_types_that_compare(db: dpsql.Connection) -> None:
    cursor = db.cursor().execute("SELECT * FROM p")
    assert cursor.description is not None
    families = [dpsql.NUMBER, dpsql.NUMBER, dpsql.STRING, dpsql.DATETIME, dpsql.DATETIME, dpsql.NUMBER, dpsql.NUMBER]
    for (_, code, *_), family in zip(cursor.description, families, strict=True):
        assert (
            code == family
            and [
                code == each for each in (dpsql.STRING, dpsql.NUMBER, dpsql.DATETIME, dpsql.BINARY, dpsql.ROWID)
            ].count(True)
            == 1
        )
        assert family == code and code != dpsql.BINARY
    assert cursor.description[1] == ("m", "DECIMAL(10,2)", None, None, 10, 2, None)
    assert cursor.fetchall()[0][:4] == (1, Decimal("2.50"), "x", date(2024, 2, 29))
    assert len({dpsql.STRING, dpsql.NUMBER, dpsql.STRING}) == 2


def test_a_cursor_iterates_and_is_a_context(db: dpsql.Connection) -> None:
    with db.cursor() as cursor:
        assert [k for k, _ in cursor.execute("SELECT k, count(*) FROM t GROUP BY k ORDER BY k")] == ["a", "b", "it's"]
        assert cursor.fetchall() == [] and cursor.rowcount == 3
        cursor.execute("SET dpsql.epsilon = 0.5")
        assert cursor.description is None and cursor.rowcount == -1
        with pytest.raises(dpsql.InterfaceError, match="no answer"):
            iter(cursor)
    for use in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.nextset, cursor.df, lambda: cursor.execute("SELECT 1"), lambda: cursor.setinputsizes([1])):  # fmt: skip
        with pytest.raises(dpsql.InterfaceError, match="cursor is closed"):
            use()
    cursor.close()


def test_a_refused_query_leaves_no_answer_behind(db: dpsql.Connection) -> None:
    cursor = db.cursor().execute("SELECT count(*) FROM t")
    with pytest.raises(dpsql.ParseError):
        cursor.execute("SELECT nope FROM t")
    assert cursor.description is None and cursor.rowcount == -1


def test_executemany_refuses_before_the_first_charge(db: dpsql.Connection) -> None:
    cursor = db.cursor()
    with pytest.raises(dpsql.ParseError):
        cursor.executemany("SELECT count(*) FROM t WHERE age > ?", [(1,), ("text",)])
    assert db.budget().dataset.spent.epsilon == 0
    cursor.executemany("SELECT count(*) FROM t WHERE age > ?", [(1,), (2,)])
    first = cursor.fetchall()
    assert cursor.nextset() and len(cursor.fetchall()) == len(first) == 1 and cursor.nextset() is None
    cursor.executemany("SELECT count(*) FROM t", [])
    assert cursor.description is None and cursor.nextset() is None


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)", "UPDATE t SET age = 1", "DELETE FROM t", "DROP TABLE t", "CREATE TABLE x (a INT)", "BEGIN", "PRAGMA database_list",
        "ATTACH 'x'", "COPY t TO 'x'", "CALL x()",
    ],
)  # fmt: skip
def test_only_queries_are_answered(db: dpsql.Connection, statement: str) -> None:
    with pytest.raises(dpsql.Error) as caught:
        db.cursor().execute(statement)
    assert isinstance(caught.value, dpsql.NotSupportedError | dpsql.ProgrammingError) and caught.value.hint


def test_frames_of_every_kind(db: dpsql.Connection) -> None:
    cursor = db.cursor().execute("SELECT k, count(*) AS n, avg(age) AS a FROM t GROUP BY k ORDER BY k")
    table, frame, polars = cursor.arrow(), cursor.df(), cursor.pl()
    assert table.schema == pa.schema({"k": pa.string(), "n": pa.int64(), "a": pa.float64()})
    assert polars.schema == pl.Schema({"k": pl.String(), "n": pl.Int64(), "a": pl.Float64()})
    assert frame["n"].dtype == "Int64" and list(frame.columns) == ["k", "n", "a"]
    assert table.to_pylist() == polars.to_dicts() == frame.to_dict("records")
    for native in (table, frame, polars):
        wide = nw.from_native(native).filter(nw.col("k") == "it's").select(nw.col("n") * 2)
        assert wide["n"].to_list() == [table.to_pylist()[2]["n"] * 2]


def test_an_empty_answer_keeps_its_types(db: dpsql.Connection) -> None:
    result = db.query("SELECT * FROM p WHERE i > 1")
    kinds = [pa.int32(), pa.decimal128(10, 2), pa.string(), pa.date32(), pa.timestamp("us"), pa.bool_(), pa.float64()]
    assert result.arrow().schema.types == kinds
    assert len(result.pl()) == 0 and result.pl().schema["m"] == pl.Decimal(10, 2)
    assert db.query("SELECT i AS x, s AS x FROM p").arrow().num_columns == 2


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")
def test_pandas_reads_sql(db: dpsql.Connection) -> None:
    sql = "SELECT k, count(*) AS n FROM t WHERE age > ? GROUP BY k ORDER BY k"
    frame = pd.read_sql(sql, db, params=[30])
    assert frame.to_dict("records") == db.query(sql, [30]).df().to_dict("records")
    assert frame["n"].dtype == "int64"
    named = pd.read_sql_query(sql.replace("?", ":low"), db, params={"low": 30}, index_col="k")
    assert list(named.index) == ["a", "b", "it's"] and db.query(sql, [30]).replayed
    chunks = list(pd.read_sql(sql, db, params=[30], chunksize=2))
    assert [len(each) for each in chunks] == [2, 1]


def test_polars_reads_the_database(db: dpsql.Connection) -> None:
    sql = "SELECT k, count(*) AS n, avg(age) AS a FROM t WHERE age > ? GROUP BY k ORDER BY k"
    frame = pl.read_database(sql, db, execute_options={"parameters": [30]})
    assert frame.to_dicts() == db.query(sql, [30]).pl().to_dicts()
    assert frame.schema == pl.Schema({"k": pl.String(), "n": pl.Int64(), "a": pl.Float64()})
    assert pl.read_database("SELECT * FROM p WHERE i > 1", db).schema["d"] == pl.Date
    assert (
        sum(
            len(each)
            for each in pl.read_database(sql, db, execute_options={"parameters": [30]}, iter_batches=True, batch_size=2)
        )
        == 3
    )


def test_ibis_writes_the_sql(db: dpsql.Connection) -> None:
    """Ibis has no back end over a plain DB-API: its DuckDB one takes DuckDB's own connection. Its SQL works as it is."""
    ibis = pytest.importorskip("ibis")
    t = ibis.table({"u": "int64", "age": "int32", "k": "string"}, name="t")
    asked = t.filter(ibis._.age > 30).group_by("k").agg(n=ibis._.count(), a=ibis._.age.mean()).order_by("k")
    result = db.query(str(ibis.to_sql(asked, dialect="duckdb")))
    assert [row[0] for row in result.fetchall()] == ["a", "b", "it's"]
    assert db.query("SELECT k, count(*), avg(age) FROM t WHERE age > 30 GROUP BY k").replayed


def test_threads_may_share_a_connection(db: dpsql.Connection) -> None:
    """Level 2, as stated: every answer is right, equal questions are charged once, and nothing is lost."""
    assert dpsql.threadsafety == 2
    start = threading.Barrier(8)

    def ask(number: int) -> list[Any]:
        start.wait()
        found = []
        for turn in range(6):
            cursor = db.cursor()
            cursor.execute("SELECT k, count(*) FROM t WHERE age > ? GROUP BY k ORDER BY k", [10 * (turn % 3)])
            found.append((turn % 3, tuple(cursor.fetchall())))
            found.append((9, tuple(cursor.execute("SELECT i FROM p").fetchall())))
            db.explain("SELECT avg(age) FROM t")
            db.budget()
            cursor.result.intervals()  # type: ignore[union-attr]
        return found

    with ThreadPoolExecutor(8) as pool:
        everything = [each for found in pool.map(ask, range(8)) for each in found]
    assert len(everything) == 96 and len(set(everything)) == 4
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE t AS SELECT range AS u, 1 AS age, 'a' AS k, DATE '2024-01-01' AS day FROM range(3); CREATE TABLE p (i INTEGER)"
        )
        with dpsql.connect(own, policy=POLICY, ledger=":memory:", analyst="ana") as alone:
            for low in (0, 10, 20):
                alone.query("SELECT k, count(*) FROM t WHERE age > ? GROUP BY k ORDER BY k", [low])
            assert alone.budget().dataset.spent == db.budget().dataset.spent


def test_a_closed_connection_does_nothing(db: dpsql.Connection) -> None:
    cursor = db.cursor()
    db.query("SELECT count(*) FROM t")
    db.close()
    db.close()
    for use in (
        db.cursor,
        db.commit,
        db.rollback,
        db.budget,
        lambda: db.query("SELECT 1"),
        lambda: db.describe("SELECT count(*) FROM t"),
        lambda: cursor.execute("SELECT 1"),
        cursor.fetchall,
    ):
        with pytest.raises(dpsql.InterfaceError, match="closed"):
            use()


def test_constructors() -> None:
    assert dpsql.Date(2024, 2, 29) == date(2024, 2, 29)
    assert dpsql.Timestamp(2024, 2, 29, 1).hour == dpsql.Time(1, 0, 0).hour == 1
    assert (
        dpsql.TimestampFromTicks(0).date() == dpsql.DateFromTicks(0)
        and dpsql.TimeFromTicks(0) == dpsql.TimestampFromTicks(0).time()
    )
    assert dpsql.Binary(b"x") == b"x"


@pytest.mark.parametrize("door", ["query", "explain", "describe", "prepare", "search"])
def test_no_other_thread_uses_the_connection_meanwhile(
    db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    taken: list[bool] = []

    def work(*_: object) -> None:
        other = threading.Thread(target=lambda: taken.append(db.lock.acquire(blocking=False)))
        other.start()
        other.join()
        raise dpsql.InterfaceError("enough was seen")

    where, name = Conductor, "search" if door == "search" else "draft"
    monkeypatch.setattr(where, name, work)
    with pytest.raises(dpsql.InterfaceError, match="enough"):
        getattr(db, door)("SELECT count(*) FROM t")
    assert taken == [False]


def test_a_rollback_undoes_what_was_set_since_the_last_commit(db: dpsql.Connection) -> None:
    cursor = db.cursor()
    cursor.execute("SET dpsql.epsilon = 0.2")
    db.commit()
    cursor.execute("SET dpsql.epsilon = 0.4")
    assert float(db.asked.epsilon or 0) == 0.4
    db.rollback()
    assert float(db.asked.epsilon or 0) == 0.2
