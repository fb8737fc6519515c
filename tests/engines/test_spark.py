"""Spark as an engine: what may be opened, whose settings count, and what happens when something breaks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
import spark_session
from false_parquet import write_false

import dpsql
from dpsql.audit.traces import trace, traced
from dpsql.cancellation import ClientTask
from dpsql.engines.spark.open import _begun
from dpsql.engines.spark.session_settings import SETTINGS
from dpsql.engines.spark.table_files import FilesChanged, Watched
from dpsql.errors import EngineError, Error, InterfaceError, PolicyError

if (reason := spark_session.absent()) is not None:
    pytest.skip(reason, allow_module_level=True)

COLUMNS = {"amount": {"min": 0, "max": 100}, "kind": {"values": ["a", "A", "b"]}}
BY_KIND = "SELECT kind, count(*), sum(amount) FROM sales GROUP BY kind"


def policy(table: str = "sales", **more: Any) -> dict[str, Any]:
    unit = {"unit": "person", "max_rows_per_unit": 3, "columns": COLUMNS}
    return {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 100, "delta": "1e-6"},
        "tables": {table: unit},
        **more,
    }


def counts(db: dpsql.Connection, sql: str = BY_KIND) -> list[tuple[int, ...]]:
    """The integers before noise."""
    return [
        s.values
        for release in traced(db, db.prepare(sql, epsilon=1, delta=1e-8), salt=b"s")[0]
        for s in release.statistics
    ]


@pytest.fixture(scope="module")
def session() -> Any:
    return spark_session.session()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six people with one to six rows; `kind` differs in its case only."""
    made = tmp_path_factory.mktemp("sales") / "sales.parquet"
    duckdb.sql(
        "SELECT p AS person, CAST(p * 10 + k AS DOUBLE) AS amount, ['a', 'A', 'b'][1 + k % 3] AS kind "
        "FROM range(1, 7) AS r(p), range(0, 6) AS s(k) WHERE k < p"
    ).write_parquet(str(made))
    return str(made)


@pytest.fixture
def table(session: Any, path: str) -> Iterator[str]:
    """A table of the catalogue."""
    name = f"sales_{uuid4().hex[:8]}"
    session.sql(f"CREATE TABLE {name} USING parquet AS SELECT * FROM parquet.`{path}`")
    yield name
    session.sql(f"DROP TABLE IF EXISTS {name}")


def test_paths_frames_and_tables_give_the_same_integers(session: Any, path: str, table: str) -> None:
    frame = session.read.parquet(path)
    with dpsql.connect({"sales": path}, policy=policy(), ledger=":memory:", steward=True) as there:
        wanted = counts(there)
    for source in ((session, {"sales": path}), {"sales": frame}, {"sales": frame.select("kind", "amount", "person")}):
        with dpsql.connect(source, policy=policy(), ledger=":memory:", steward=True) as db:
            assert counts(db) == wanted
            assert not db.engine.live
    with dpsql.connect(session, policy=policy(table), ledger=":memory:", steward=True) as db:
        assert counts(db, BY_KIND.replace("sales", table)) == wanted
        assert db.engine.live


def test_an_answer_has_all_listed_keys_and_is_charged(session: Any, path: str) -> None:
    with dpsql.connect((session, {"sales": path}), policy=policy(), ledger=":memory:") as db:
        answer = db.query("SELECT kind, count(*) AS n FROM sales GROUP BY kind ORDER BY kind", epsilon=50)
        assert [row[0] for row in answer.fetchall()] == ["A", "a", "b"]
        assert db.budget().dataset.spent.epsilon > 0
        assert "FROM `sales`" in str(db.explain(BY_KIND, epsilon=1).sql)


def test_the_settings_of_the_caller_do_not_matter_and_stay_the_callers(session: Any, path: str) -> None:
    odd = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.caseSensitive": "true",
    }
    odd |= {"spark.sql.groupByAliases": "false", "spark.sql.parser.escapedStringLiterals": "true"}
    theirs = session.newSession()
    for name, value in odd.items():
        theirs.conf.set(name, value)
    with dpsql.connect((session, {"sales": path}), policy=policy(), ledger=":memory:", steward=True) as db:
        wanted = counts(db)
    with dpsql.connect((theirs, {"sales": path}), policy=policy(), ledger=":memory:", steward=True) as db:
        assert counts(db) == wanted
        own = db.engine._opened.session  # type: ignore[attr-defined]
        assert {name: own.conf.get(name) for name in SETTINGS} == SETTINGS
    assert {name: theirs.conf.get(name) for name in odd} == odd


def test_a_view_is_no_table(session: Any, table: str) -> None:
    view = f"{table}_view"
    session.sql(f"CREATE VIEW {view} AS SELECT max(person) OVER () AS person, amount, kind FROM {table}")
    try:
        with dpsql.connect(session, policy=policy(view), ledger=":memory:") as db, pytest.raises(Error):
            db.query(f"SELECT count(*) FROM {view}")
    finally:
        session.sql(f"DROP VIEW {view}")


@pytest.mark.parametrize(
    "work",
    ["frame.limit(3)", "frame.groupBy('person').count()", "frame.withColumn('amount', frame.amount + 1)",
     "frame.join(frame, 'person')", "frame.withColumn('person', frame.person.cast('int'))", "frame.distinct()",
     "frame.where('amount > 3')", "frame.sample(0.5)"],
)  # fmt: skip
def test_a_frame_that_is_still_to_be_computed_is_refused(session: Any, path: str, work: str) -> None:
    frame = eval(work, {"frame": session.read.parquet(path)})
    with pytest.raises(InterfaceError, match="still to be computed"):
        dpsql.connect({"sales": frame}, policy=policy(), ledger=":memory:")


def test_a_session_of_spark_connect_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InterfaceError, match="Spark Connect"):
        dpsql.connect(remote, policy=policy(), ledger=":memory:")


def test_another_master_is_refused(session: Any) -> None:
    with pytest.raises(InterfaceError, match="has a Spark session already"):
        dpsql.connect("spark://127.0.0.1:1", policy=policy(), ledger=":memory:")


def test_texts_are_compared_byte_by_byte_and_bad_bytes_are_null(session: Any, tmp_path: Path) -> None:
    """`kind` ignores case by its collation, and holds bytes that are no text."""
    name = f"collated_{uuid4().hex[:8]}"
    session.sql(f"CREATE TABLE {name} (person INT, amount DOUBLE, kind STRING COLLATE UTF8_LCASE) USING parquet")
    try:
        session.sql(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 1, 'A'), (3, 1, 'b'), (4, 1, CAST(X'ff61' AS STRING))")
        with dpsql.connect(session, policy=policy(name), ledger=":memory:", steward=True) as db:
            release = traced(
                db, db.prepare(f"SELECT kind, count(*) FROM {name} GROUP BY kind", epsilon=1, delta=1e-8), salt=b"s"
            )[0][0]
            grid = release.statistics[0].grid
            found = dict(zip((key[0] for key in release.keys), release.statistics[0].values, strict=True))
            assert {key: value * grid for key, value in found.items()} == {"a": 1, "A": 1, "b": 1, None: 1}
            asked = db.prepare(f"SELECT count(*) FROM {name} WHERE kind IS NULL", epsilon=1, delta=1e-8)
            [unread] = traced(db, asked, salt=b"s")[0][0].statistics
            assert [value * unread.grid for value in unread.values] == [1]
    finally:
        session.sql(f"DROP TABLE {name}")


def test_a_query_that_takes_too_long_is_stopped_and_paid_for(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    frame = session.range(0, 10**10, 1, 4)
    limits = {"dataset": "d", "search": False, "budget": {"epsilon": 10, "delta": "1e-6"}, "limits": {"seconds": 1},
              "tables": {"numbers": {"unit": "row", "columns": {"id": {"min": 0, "max": 9}}}}}  # fmt: skip
    with dpsql.connect({"numbers": frame}, policy=limits, ledger=":memory:") as db, caplog.at_level(logging.DEBUG):
        with pytest.raises(EngineError) as stopped:
            db.query("SELECT sum(id % 7) FROM numbers WHERE sqrt(id) <> 3", epsilon=1)
        assert str(stopped.value).startswith(str(EngineError()))
        spent = db.budget().dataset.spent.epsilon
        assert spent > 0.99
        with pytest.raises(EngineError):
            db.query("SELECT sum(id % 5) FROM numbers", epsilon=1)
        assert db.budget().dataset.spent.epsilon > spent
    assert not any("SQLQueryContext" in record.name for record in caplog.records)


def test_a_query_that_nobody_waits_for_is_stopped_and_paid_for(session: Any) -> None:
    frame = session.range(0, 10**11, 1, 4)
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 10, "delta": "1e-6"},
              "tables": {"numbers": {"unit": "row", "columns": {"id": {"min": 0, "max": 9}}}}}  # fmt: skip
    errand = ClientTask()
    with dpsql.connect({"numbers": frame}, policy=policy, ledger=":memory:") as db:
        threading.Timer(2, errand.leave).start()
        with errand.underway(), pytest.raises(EngineError):
            db.query("SELECT sum(id % 7) FROM numbers WHERE sqrt(id) <> 3", epsilon=1)
        assert db.budget().dataset.spent.epsilon > 0.99
        [state] = {*session.sparkContext.statusTracker().getActiveJobsIds(), None}
        assert state is None


def test_a_table_that_changed_or_is_gone(session: Any, table: str) -> None:
    """Between two queries the change is seen; in the middle of one the constant error, and the charge is kept."""
    sql = BY_KIND.replace("sales", table)
    with dpsql.connect(session, policy=policy(table), ledger=":memory:", steward=True) as db:
        first = counts(db, sql)
        prepared = db.prepare(sql, epsilon=1, delta=1e-8)
        session.sql(f"ALTER TABLE {table} RENAME TO {table}_old")
        try:
            with pytest.raises(EngineError):
                traced(db, prepared, salt=b"s")
            with pytest.raises(Error) as gone:
                db.query(sql)
            assert not isinstance(gone.value, EngineError)
        finally:
            session.sql(f"ALTER TABLE {table}_old RENAME TO {table}")
        assert counts(db, sql) == first


# what each scan of a table gives ---------------------------------------------------------------------------------------


def bounded(db: dpsql.Connection) -> tuple[int, int]:
    [statistic] = trace(db, "SELECT kind, sum(amount) AS s FROM sales GROUP BY kind", salt=b"s")[0].statistics
    return max(statistic.values), statistic.l1 or 0


def test_a_unit_is_bounded_where_each_scan_of_a_source_gives_other_rows(session: Any, tmp_path: Path) -> None:
    """A unit's weight comes from one scan, the sum from another; here the second has a thousand rows more of it."""
    scans = tmp_path / "scans"

    def rows(_: Any) -> Iterator[tuple[int, float, str]]:
        with scans.open("a") as file:
            file.write("x")
        yield 1, 1.0, "a"
        yield from [(1, 100.0, "a")] * (1000 if len(scans.read_text()) > 1 else 0)

    numbers = session.sparkContext.parallelize([0], 1).mapPartitions(rows)
    frame = session.createDataFrame(numbers, "person int, amount double, kind string")
    with dpsql.connect((session, {"sales": frame}), policy=policy(), ledger=":memory:", steward=True) as db:
        for _ in range(2):
            value, claimed = bounded(db)
            assert value <= claimed
    assert scans.read_text() == "x"


def untyped(
    session: Any, column: dict[str, Any], *last: tuple[int, Any], value: Any = float, where: str = "TRUE"
) -> tuple[str, list[Any]]:
    """What an analyst sees of a DataFrame that was made of rows without a schema, and the exact integers."""
    frame = session.createDataFrame([*((person, value(person)) for person in range(20)), *last], ["person", "x"])
    table = {"unit": "person", "max_rows_per_unit": 1, "columns": {"x": column}}
    said = {"dataset": "d", "search": False, "budget": {"epsilon": 9}, "tables": {"t": table}}
    numeric = isinstance(column.get("min"), int)
    sql = f"SELECT count(*), sum(x) FROM t WHERE {where}" if numeric else f"SELECT count(x) FROM t WHERE {where}"
    with dpsql.connect((session, {"t": frame}), policy=said, ledger=":memory:", steward=True) as db:
        [release] = trace(db, sql, salt=b"s")
        return str(db.explain(sql)), [(s.name, sum(s.values), s.linf) for s in release.statistics]


DAY, MOMENT = date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 500000)


@pytest.mark.parametrize(
    ("column", "value", "where"),
    [
        ({"min": 0, "max": 100}, float, "x >= 0"),
        ({"min": 0, "max": 100}, lambda n: n / 10000, "x = 0.0001 OR x = 0.0003"),
        ({"min": 0, "max": 9, "type": "integer"}, float, "x >= 0"),
        ({"min": 0, "max": 9, "type": "integer"}, Decimal, "x >= 0"),
        ({"min": 0, "max": 9, "type": "decimal(9, 0)"}, lambda n: n + Decimal("0.4999999999999999999"), "x >= 0"),
        ({"type": "text"}, int, "x LIKE '1%'"),
        ({"type": "boolean"}, lambda n: n < 9, "x"),
        ({"type": "date"}, lambda n: DAY + timedelta(n), "x <= DATE '1970-01-02'"),
        ({"type": "date"}, lambda n: MOMENT + timedelta(n), "x <= DATE '1970-01-02'"),
        ({"type": "timestamp"}, lambda n: MOMENT + timedelta(n), "x < TIMESTAMP '1970-01-01 23:59:59.600'"),
        ({"type": "timestamp"}, lambda n: DAY + timedelta(n), "x < TIMESTAMP '1970-01-01 23:59:59.600'"),
    ],
)
def test_types_do_not_come_from_the_rows_of_a_dataframe(
    session: Any, column: dict[str, Any], value: Any, where: str
) -> None:
    one, before = untyped(session, column, value=value, where=where)
    two, after = untyped(session, column, (999, "x"), value=value, where=where)
    assert one == two
    for (name, first, claimed), (_, second, again) in zip(before, after, strict=True):
        assert claimed == again and abs(first - second) <= claimed, name


def test_numbers_that_python_and_spark_write_differently_are_no_text(session: Any) -> None:
    """0.0001 is `1.0E-4` to Spark, and as it was once a row with a text is there."""
    with pytest.raises(InterfaceError, match="the policy says that x of the DataFrame t is text, but it is not"):
        untyped(session, {"type": "text"}, value=lambda n: n / 10000)


def test_timestamps_of_rows_need_one_clock(session: Any) -> None:
    elsewhere = session.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    for last in ((), ((999, "x"),)):
        with pytest.raises(InterfaceError, match="is a timestamp by Python's clock, and Spark has another, Asia/Tokyo"):
            untyped(elsewhere, {"type": "timestamp"}, *last, value=lambda n: MOMENT)


def test_an_id_with_several_spellings_is_no_unit(session: Any) -> None:
    """`ann` and `Ann` are one person to Spark: each would be a unit of its own."""
    names = session.createDataFrame([(1, "ann"), (2, "Ann"), (3, None)], "n int, id string")
    lax = session.createDataFrame(names.rdd, "n int, id string collate UTF8_LCASE")
    table = {"unit": "id", "max_rows_per_unit": 1, "columns": {"n": {"min": 0, "max": 9, "type": "integer"}}}
    said = {"dataset": "d", "search": False, "budget": {"epsilon": 9}, "tables": {"t": table}}
    with (
        dpsql.connect((session, {"t": lax}), policy=said, ledger=":memory:") as db,
        pytest.raises(PolicyError, match="several spellings for one unit"),
    ):
        db.query("SELECT count(*) FROM t")


def test_other_texts_are_compared_byte_by_byte_whatever_their_collation(session: Any) -> None:
    names = session.createDataFrame([(1, "ann"), (2, "Ann"), (3, None)], "id int, name string")
    lax = session.createDataFrame(names.rdd, "id int, name string collate UTF8_LCASE")
    name = {"values": ["ann", "Ann"], "nulls": False}
    table = {"unit": "id", "max_rows_per_unit": 1, "columns": {"name": name}}
    said = {"dataset": "d", "search": False, "budget": {"epsilon": 9}, "tables": {"t": table}}
    with dpsql.connect((session, {"t": lax}), policy=said, ledger=":memory:", steward=True) as db:
        first, second = (
            list(trace(db, sql, salt=b"s", mechanism="laplace")[0].statistics[0].values)
            for sql in (
                "SELECT name, count(*) FROM t GROUP BY name",
                "SELECT count(*) FROM t WHERE name IN ('ANN', 'ann')",
            )
        )
        assert first[0] == first[1] == second[0]


@pytest.mark.parametrize("last", [(), ((999, "x"),)])
def test_a_dataframe_of_rows_without_types_in_the_policy_is_refused(session: Any, last: Any) -> None:
    with pytest.raises(InterfaceError, match="may come from its rows, and the policy states none for x"):
        untyped(session, {}, *last)


def test_files_that_are_written_to_fail_every_query(session: Any, path: str, tmp_path: Path) -> None:
    copy = tmp_path / "sales.parquet"
    copy.write_bytes(Path(path).read_bytes())
    frame = session.read.parquet(str(tmp_path))
    for source in ((session, {"sales": str(tmp_path)}), {"sales": frame}):
        with dpsql.connect(source, policy=policy(), ledger=":memory:", steward=True) as db:
            first = bounded(db)
            (tmp_path / "more.parquet").write_bytes(copy.read_bytes())
            assert bounded(db) == first, "files that come later are no part of what was opened"
            (tmp_path / "more.parquet").unlink()
            duckdb.sql(f"SELECT * FROM '{path}' UNION ALL FROM '{path}'").write_parquet(str(copy))
            if isinstance(source, dict):
                assert bounded(db) == first, "a frame was copied"
            else:
                with pytest.raises(EngineError):
                    bounded(db)


def test_what_each_scan_asks_anew_is_copied_or_no_table(session: Any, path: str, tmp_path: Path) -> None:
    """A database behind JDBC, to which somebody writes meanwhile."""
    name = f"asked_{uuid4().hex[:8]}"
    session.sparkContext._jvm.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    address = f"jdbc:derby:memory:{name};create=true"
    session.read.parquet(path).write.jdbc(address, "SALES")
    session.sql(f"CREATE TABLE {name} USING jdbc OPTIONS (url '{address}', dbtable 'SALES')")
    try:
        with (
            dpsql.connect(session, policy=policy(name), ledger=":memory:") as db,
            pytest.raises(Error, match="no such"),
        ):
            db.query(f"SELECT count(*) FROM {name}")
        frame = session.table(name)
        with dpsql.connect({"sales": frame}, policy=policy(), ledger=":memory:", steward=True) as db:
            first = bounded(db)
            session.read.parquet(path).write.jdbc(address, "SALES", mode="append")
            assert bounded(db) == first
    finally:
        session.sql(f"DROP TABLE {name}")


def test_partitions_that_the_catalogue_knows_make_no_table(session: Any, path: str, tmp_path: Path) -> None:
    """Each scan asks the catalogue for them: one that is added meanwhile would be weighed by nobody."""
    name = f"parted_{uuid4().hex[:8]}"
    frame = session.read.parquet(path)
    frame.write.partitionBy(frame.columns[-1]).saveAsTable(name, path=str(tmp_path / "parted"))
    try:
        with (
            dpsql.connect(session, policy=policy(name), ledger=":memory:") as db,
            pytest.raises(Error, match="no such table"),
        ):
            db.query(f"SELECT count(*) FROM {name}")
    finally:
        session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("odd", [(), ("n.a.",)])
def test_the_name_of_a_directory_chooses_no_type(session: Any, tmp_path: Path, odd: tuple[str, ...]) -> None:
    """Spark takes all names for numbers, or all for text: one person's directory would change what analysts see."""
    for year in ("2020", "2021", *odd):
        (tmp_path / f"year={year}").mkdir()
        duckdb.sql("SELECT 1 AS person, 2.0::DOUBLE AS amount").write_parquet(
            str(tmp_path / f"year={year}" / "x.parquet")
        )
    said = {"unit": "person", "columns": {"year": {"min": 2000, "max": 2030}, "amount": {"min": 0, "max": 9}}}
    made = {"dataset": "d", "search": False, "budget": {"epsilon": 100}, "tables": {"sales": said}}
    with dpsql.connect((session, {"sales": str(tmp_path)}), policy=made, ledger=":memory:", steward=True) as db:
        assert db.engine.schema()["sales"] == {"person": "INTEGER", "amount": "DOUBLE", "year": "BIGINT"}
        [statistic] = trace(db, "SELECT count(*) AS n FROM sales WHERE year > 2020", salt=b"s")[0].statistics
        assert statistic.values[0] == (statistic.linf or 0) // 50
    with pytest.raises(InterfaceError, match="partitioned"):
        dpsql.connect({"sales": session.read.parquet(str(tmp_path))}, policy=made, ledger=":memory:")


@pytest.mark.parametrize("fault", ["another type", "a moment beyond microseconds"])
def test_files_on_which_some_queries_would_fail_are_not_opened(session: Any, tmp_path: Path, fault: str) -> None:
    moments = pa.array([0, 2**62 if "moment" in fault else 1], pa.int64()).cast(pa.timestamp("ms"))
    table = pa.table({"person": [1, 2], "amount": [1.0, 2.0], "kind": ["a", "b"], "placed": moments})
    pyarrow.parquet.write_table(table, tmp_path / "one.parquet")
    if "type" in fault:
        pyarrow.parquet.write_table(table.set_column(1, "amount", [["1", "2"]]), tmp_path / "two.parquet")
    sources: list[Any] = [str(tmp_path), *([session.read.parquet(str(tmp_path))] if "moment" in fault else [])]
    for source in sources:
        with pytest.raises(InterfaceError, match="cannot be read as a table"):
            dpsql.connect((session, {"sales": source}), policy=policy(), ledger=":memory:")


def test_a_wrong_path_a_lone_path_and_other_files_are_told_apart(session: Any, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("person,amount\n1,2.5\n")
    mistakes: dict[str, Any] = {
        "there are no files of the table sales at .*nowhere": {"sales": str(tmp_path / "nowhere")},
        r"cannot be read as a table(.|\n)*session.read.csv": {"sales": str(tmp_path / "sales.csv")},
        "a mapping of names to Parquet paths": str(tmp_path),
    }
    for said, tables in mistakes.items():
        with pytest.raises(InterfaceError, match=said):
            dpsql.connect((session, tables), policy=policy(), ledger=":memory:")


def test_a_session_that_cannot_be_started_is_an_error_of_ours() -> None:
    class Builder:
        def getOrCreate(self) -> None:
            raise RuntimeError("all masters are unresponsive")

    with pytest.raises(InterfaceError, match="no Spark session can be started at spark://nowhere:7077") as wrong:
        _begun(Builder(), "spark://nowhere:7077")
    assert "unresponsive" not in str(wrong.value) and wrong.value.__cause__ is None


def test_text_on_which_some_queries_would_fail_is_no_table(session: Any, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("1,2.5,a\n2,much,b\n")
    name = f"csv_{uuid4().hex[:8]}"
    session.sql(f"CREATE TABLE {name} (person INT, amount DOUBLE, kind STRING) USING csv "
                f"OPTIONS (path '{tmp_path}', mode 'FAILFAST')")  # fmt: skip
    try:
        with (
            dpsql.connect(session, policy=policy(name), ledger=":memory:") as db,
            pytest.raises(Error, match="no such"),
        ):
            db.query(f"SELECT sum(amount) FROM {name}")
        with pytest.raises(InterfaceError, match="cannot be read as a table"):
            dpsql.connect({"sales": session.table(name)}, policy=policy(), ledger=":memory:")
    finally:
        session.sql(f"DROP TABLE {name}")


def test_text_whose_rows_depend_on_the_columns_asked_for_is_copied_or_no_table(session: Any, tmp_path: Path) -> None:
    """A malformed row is dropped where its odd column is read: a scan that needs fewer columns has more rows."""
    (tmp_path / "sales.csv").write_text("1,2.5,a,7\n" + "1,99,a,seven\n" * 50)
    name, said = f"csv_{uuid4().hex[:8]}", "person INT, amount DOUBLE, kind STRING, stars INT"
    session.sql(f"CREATE TABLE {name} ({said}) USING csv OPTIONS (path '{tmp_path}', mode 'DROPMALFORMED')")
    try:
        frame = session.table(name)
        assert (frame.select("person").count(), frame.select("person", "stars").where("stars > 0").count()) == (51, 1)
        with (
            dpsql.connect(session, policy=policy(name), ledger=":memory:") as db,
            pytest.raises(Error, match="no such table"),
        ):
            db.query(f"SELECT sum(amount) FROM {name}")
        with dpsql.connect({"sales": frame}, policy=policy(), ledger=":memory:", steward=True) as db:
            assert counts(db, "SELECT count(*) AS n FROM sales") == counts(
                db, "SELECT count(*) AS n FROM sales WHERE amount < 3"
            )
    finally:
        session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("option", ["ignoreCorruptFiles", "ignoreMissingFiles", "datetimeRebaseMode"])
def test_files_that_an_option_reads_otherwise_are_copied(session: Any, path: str, tmp_path: Path, option: str) -> None:
    (tmp_path / "one.parquet").write_bytes(Path(path).read_bytes())
    frame = session.read.option(option, "LEGACY" if "Mode" in option else "true").parquet(str(tmp_path))
    with dpsql.connect({"sales": frame}, policy=policy(), ledger=":memory:", steward=True) as db:
        first = bounded(db)
        (tmp_path / "one.parquet").unlink()
        assert bounded(db) == first and not db.engine._opened.files


def test_files_in_directories_below_are_watched_too(session: Any, path: str, tmp_path: Path) -> None:
    below = tmp_path / "year=2024" / "month=1"
    below.mkdir(parents=True)
    (below / "one.parquet").write_bytes(Path(path).read_bytes())
    source = (session, {"sales": str(tmp_path)})
    with dpsql.connect(source, policy=policy(), ledger=":memory:", steward=True) as db:
        assert bounded(db)[0] > 0
        duckdb.sql(f"SELECT * FROM '{path}' UNION ALL FROM '{path}'").write_parquet(str(below / "one.parquet"))
        with pytest.raises(EngineError):
            bounded(db)


def test_files_that_a_stream_lists_in_a_log_of_its_own_are_copied(session: Any, path: str, tmp_path: Path) -> None:
    """That log tells the length of a file as it was written, so that nobody would notice another one in its place."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.parquet").write_bytes(Path(path).read_bytes())
    stream = session.readStream.schema(session.read.parquet(path).schema).parquet(str(tmp_path / "in")).writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True)
    stream.format("parquet").start(str(tmp_path / "out")).awaitTermination()
    with pytest.raises(InterfaceError, match="cannot be read as a table"):
        dpsql.connect((session, {"sales": str(tmp_path / "out")}), policy=policy(), ledger=":memory:")
    frame = session.read.parquet(str(tmp_path / "out"))
    with dpsql.connect({"sales": frame}, policy=policy(), ledger=":memory:", steward=True) as db:
        first = bounded(db)
        for written in (tmp_path / "out").glob("*.parquet"):
            written.unlink()
        assert bounded(db) == first


NAN = float("nan")


def parquet(place: Path, people: list[int], amounts: list[float], name: str = "one", **more: pa.Array) -> str:
    place.mkdir(exist_ok=True)
    kinds = pa.array(["a"] * len(people))
    table = pa.table({"person": pa.array(people, pa.int32()), "amount": amounts, "kind": kinds, **more})
    pyarrow.parquet.write_table(table, place / f"{name}.parquet")
    return str(place)


def total(source: Any, sql: str, name: str = "sales", **columns: Any) -> Any:
    """The exact total of a query and what one unit may change of it."""
    made = policy(name)
    made["tables"][name]["columns"] = {**COLUMNS, **columns}
    with dpsql.connect(source, policy=made, ledger=":memory:", steward=True) as db:
        [statistic] = trace(db, sql, salt=b"s")[0].statistics
        return int(statistic.values[0] * statistic.grid), int((statistic.l1 or 0) * statistic.grid)


@pytest.mark.parametrize(("mine", "theirs", "where"), [(NAN, 1.0, "amount > 50"), (-0.0, None, "amount = 0")])
@pytest.mark.parametrize("door", ["path", "frame", "cached", "parquet", "orc"])
def test_no_row_decides_whether_the_rows_of_others_are_read(
    session: Any, tmp_path: Path, mine: float, theirs: float | None, where: str, door: str
) -> None:
    """Spark would leave out a group of rows by statistics in which NaN and -0.0 are not what they are in SQL."""
    people, amounts = list(range(50)), [mine] * 50
    if theirs is not None:
        people, amounts = [*people, 999], [*amounts, theirs]
    path, name = parquet(tmp_path / "files", people, amounts), "sales"
    frame: Any = session.read.parquet(path)
    sources = {"path": (session, {"sales": path}), "frame": {"sales": frame}, "cached": {"sales": frame}}
    if door == "cached":
        assert frame.cache().count() == len(people)
    if door in ("parquet", "orc"):
        name = f"pruned_{uuid4().hex[:8]}"
        frame.write.format(door).saveAsTable(name, path=str(tmp_path / "table"))
    try:
        found, _ = total(sources.get(door, session), f"SELECT count(*) AS n FROM {name} WHERE {where}", name)
        assert found == 50
    finally:
        frame.unpersist()
        session.sql(f"DROP TABLE IF EXISTS {name}")


def test_what_a_file_says_of_its_rows_does_not_matter(session: Any, tmp_path: Path) -> None:
    """The caller's own session believes it, and finds none."""
    stored, claimed = (
        pa.table({"person": pa.array(range(300), pa.int32()), "amount": [1.0, 2.0, third] * 100, "kind": ["a"] * 300})
        for third in (60.0, 3.0)
    )
    path = write_false(tmp_path / "files" / "one.parquet", stored, claimed).parent
    assert session.read.parquet(str(path)).where("amount > 50").count() == 0
    found, _ = total((session, {"sales": str(path)}), "SELECT count(*) AS n FROM sales WHERE amount > 50")
    assert found == 100


@pytest.mark.parametrize("door", ["frame", "catalogue"])
def test_buckets_are_not_believed(session: Any, tmp_path: Path, door: str) -> None:
    """Files that are not in the buckets of their owners: each bucket would weigh the owner for itself."""
    made, told = f"made_{uuid4().hex[:8]}", f"told_{uuid4().hex[:8]}"
    rows = [(1, 100.0, "a", number) for number in range(100)]
    frame = session.createDataFrame(rows, "person int, amount double, kind string, number int").coalesce(1)
    frame.write.bucketBy(8, "number").saveAsTable(made, path=str(tmp_path / "files"))
    session.sql(f"CREATE TABLE {told} (person INT, amount DOUBLE, kind STRING, number INT) USING parquet "
                f"CLUSTERED BY (person) INTO 8 BUCKETS LOCATION '{tmp_path / 'files'}'")  # fmt: skip
    try:
        for automatic in ("true", "false"):
            session.conf.set("spark.sql.sources.bucketing.autoBucketedScan.enabled", automatic)
            name = told if door == "catalogue" else "sales"
            source = session if door == "catalogue" else {"sales": session.table(told)}
            for sql in (
                f"SELECT sum(amount) AS s FROM {name}",
                f"SELECT kind, sum(amount) AS s FROM {name} GROUP BY kind",
            ):
                found, claimed = total(source, sql, name)
                assert 0 < found <= claimed
    finally:
        session.conf.unset("spark.sql.sources.bucketing.autoBucketedScan.enabled")
        session.sql(f"DROP TABLE {made}")
        session.sql(f"DROP TABLE {told}")


def test_a_frame_is_what_it_was_whatever_its_session_does_later(session: Any, path: str, tmp_path: Path) -> None:
    """Its list of files is the caller's, and so are the settings with which they would be read."""
    name, asked = f"grown_{uuid4().hex[:8]}", "SELECT count(*) AS n FROM sales"
    session.read.parquet(path).write.saveAsTable(name, path=str(tmp_path / "table"))
    try:
        with dpsql.connect({"sales": session.table(name)}, policy=policy(), ledger=":memory:", steward=True) as db:
            first = counts(db, asked)
            session.sql(f"INSERT INTO {name} VALUES (7, 1.0D, 'a'), (8, 1.0D, 'a')")
            assert counts(db, asked) == first
    finally:
        session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("year", [1500, 1990])
def test_ancient_dates_are_read_or_not_whoever_has_them(session: Any, tmp_path: Path, year: int) -> None:
    """In the caller's session they raise where they are read: for a frame that is once, on opening."""
    callers = session.newSession()
    callers.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION")
    born = pa.array([date(year, 1, 1), date(1990, 1, 1)])
    frame = callers.read.parquet(parquet(tmp_path / "files", [1, 2], [1.0, 2.0], born=born))
    days = {"born": {"min": date(1900, 1, 1), "max": date(2030, 1, 1)}}
    asked = "SELECT count(*) AS n FROM sales WHERE born > DATE '1950-01-01'"
    assert total((session, {"sales": str(tmp_path / "files")}), asked, **days)[0] == (2 if year == 1990 else 1)
    if year == 1990:
        assert total({"sales": frame}, asked, **days)[0] == 2
    else:
        with pytest.raises(InterfaceError, match="cannot be read as a table"):
            total({"sales": frame}, asked, **days)


@pytest.mark.parametrize("door", ["path", "frame", "catalogue"])
@pytest.mark.parametrize("fault", ["decimal", "moment"])
def test_a_value_that_spark_cannot_read_is_met_on_opening(session: Any, tmp_path: Path, door: str, fault: str) -> None:
    if fault == "decimal":
        wide = (10**25).to_bytes(16, "little") * 2
        odd: pa.Array = pa.Array.from_buffers(pa.decimal128(22, 0), 2, [None, pa.py_buffer(wide)])
    else:
        odd = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    path, name = parquet(tmp_path / "files", [1, 2], [1.0, 2.0], odd=odd), f"odd_{uuid4().hex[:8]}"
    session.sql(f"CREATE TABLE {name} USING parquet LOCATION '{path}'")
    sources = {"path": (session, {name: path}), "frame": {name: session.read.parquet(path)}, "catalogue": session}
    try:
        with pytest.raises(Error, match="no such table" if door == "catalogue" else "cannot be read as a table"):
            total(sources[door], f"SELECT count(*) AS n FROM {name}", name)
    finally:
        session.sql(f"DROP TABLE {name}")


def test_files_of_different_types_are_no_frame(session: Any, tmp_path: Path) -> None:
    """One file's types stand for all, and another file would be met, or not, by the rows that it has."""
    path = parquet(tmp_path / "files", [1, 2], [1.0, 2.0], "a", stars=pa.array([1, 500], pa.int32()))
    table = pyarrow.parquet.read_table(Path(path) / "a.parquet")
    pyarrow.parquet.write_table(table.set_column(1, "amount", [["x", "y"]]), Path(path) / "b.parquet")
    with pytest.raises(InterfaceError, match="cannot be read as a table"):
        total({"sales": session.read.parquet(path)}, "SELECT sum(amount) AS s FROM sales WHERE stars > 100")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_types_that_rows_chose_are_seen_by_nobody(session: Any, tmp_path: Path, kind: str) -> None:
    text = {"csv": "person,amount,kind\n1,2.5,a\n", "json": '{"person": 1, "amount": 2.5, "kind": "a"}\n'}[kind]
    (tmp_path / "sales").write_text(text)
    frame = session.read.options(header=True, inferSchema=True).format(kind).load(str(tmp_path))
    with pytest.raises(InterfaceError, match="chose the types"):
        total({"sales": frame}, "SELECT sum(amount) AS s FROM sales")
    made = policy() | {"tables": {**policy()["tables"], "stores": {"public": True}}}
    fixed = session.read.schema("person INT, amount DOUBLE, kind STRING").csv(str(tmp_path))
    with dpsql.connect({"sales": fixed, "stores": frame}, policy=made, ledger=":memory:") as db:
        assert db.query("SELECT count(*) FROM stores").fetchall() == [(1,)]


def test_a_file_system_that_tells_nothing_of_its_files_is_no_reason_to_trust_it(session: Any, path: str) -> None:
    watched = Watched(session, [path])
    watched.require_same()
    assert len(watched._first) == 1
    watched._first |= {("gone", "1", "2")}
    with pytest.raises(FilesChanged):
        watched.require_same()


def test_a_row_of_many_long_texts_fails_no_query() -> None:
    """The texts of a row are bounded together: 60 parts of one text of 4 MB would end the session."""
    frame = spark_session.session().createDataFrame([(1, "short"), (2, "x" * 4_000_000)], "person int, note string")
    tables = {"notes": {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {"type": "text"}}}}
    policy = {"dataset": "notes", "search": False, "budget": {"epsilon": 100, "delta": "1e-3"}, "tables": tables}
    parts = ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(60))
    with dpsql.connect({"notes": frame}, policy=policy, ledger=":memory:", steward=True) as db:
        [release] = trace(db, f"SELECT count(*) FROM (SELECT DISTINCT person, {parts} FROM notes) AS t", salt=b"s")
        assert release.statistics[0].values[0] > 0
