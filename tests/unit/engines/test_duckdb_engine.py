"""DuckDB as an engine: what tables there are, whether they can change, and how public rows are handed over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from unlocked import integers, run

import dpsql
from dpsql.engines.base import Resources
from dpsql.engines.duckdb import engine as running
from dpsql.engines.duckdb.engine import DuckDBEngine, FilesChanged, _nothing
from dpsql.engines.duckdb.prepare import content_of
from dpsql.engines.duckdb.system_catalogue import describe
from dpsql.errors import EngineError, InterfaceError, InternalError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as data:
        data.execute("CREATE TABLE T (U INTEGER, x INTEGER)")
    return tmp_path / "d.duckdb"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("u,x\n1,5\n2,6\n")
    return tmp_path / "t.csv"


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    said: list[str] = []
    monkeypatch.setattr(running, "failed", lambda what, problem: said.append(what))
    yield said


def test_only_a_connection_to_which_others_may_write_is_live_and_only_files_have_a_version(
    file: Path, csv: Path
) -> None:
    frame = pd.DataFrame({"u": [1]})
    for source, words, live, verifiable in (
        (duckdb.connect(), {}, True, False),
        (duckdb.connect(), {"still": True}, False, False),
        (file, {}, False, True),
        (str(file), {}, False, True),
        ({"t": csv}, {}, False, True),
        ({"t": frame}, {}, False, False),
        ({"t": frame, "s": csv}, {}, False, False),
    ):
        engine = DuckDBEngine(source, None, **words)  # type: ignore[arg-type]
        assert (engine.live, engine.verifiable) == (live, verifiable), source
        assert engine.copies is None and engine.copies_content() == ""
        engine.close()
        with pytest.raises(duckdb.Error):
            engine.connection.execute("SELECT 1")


def test_a_version_is_the_files_and_a_connection_has_one_of_its_own(file: Path) -> None:
    one, two = (DuckDBEngine(file) for _ in range(2))
    assert one.version() == two.version() and one.version().startswith("file:")
    data = duckdb.connect()
    labels = {DuckDBEngine(data).version() for _ in range(2)}
    assert len(labels) == 2 and all(label.startswith("connection:") for label in labels)


@pytest.mark.parametrize("limits", [None, Resources(512 * 10**6)])
def test_the_limits_of_the_policy_hold(file: Path, limits: Resources | None) -> None:
    engine = DuckDBEngine(file, limits)
    [(found,)] = engine.connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert (found == "488.2 MiB") == (limits is not None)
    engine.close()


def test_every_cursor_is_settled_and_the_callers_connection_stays_as_it_was() -> None:
    data = duckdb.connect()
    data.execute("SET SESSION TimeZone = 'CET'")
    data.execute("SET GLOBAL TimeZone = 'CET'")
    engine = DuckDBEngine(data)
    asked = "SELECT current_setting('TimeZone')"
    assert engine.connection.execute(asked).fetchall() == [("Etc/UTC",)]
    with engine._running() as cursor:
        assert cursor is not engine.connection
        assert cursor.execute(asked).fetchall() == [("Etc/UTC",)]
    assert data.execute(asked).fetchall() == [("CET",)]


def test_frames_are_read_by_the_one_connection_that_sees_them() -> None:
    engine = DuckDBEngine({"t": pd.DataFrame({"u": [1, 2]})})
    with engine._running() as cursor:
        assert cursor is engine.connection
        assert cursor.execute("SELECT sum(u) FROM t").fetchall() == [(3,)]


# which tables there are --------------------------------------------------------------------------------------------------


def test_tables_are_those_that_a_bare_name_means() -> None:
    data = duckdb.connect()
    for text in (
        "CREATE TABLE Twin (a INTEGER)",
        "CREATE TABLE Made (b INTEGER, c INTEGER GENERATED ALWAYS AS (b + 1), D VARCHAR)",
        "CREATE VIEW seen AS SELECT 1 AS x",
        "CREATE SCHEMA other",
        "CREATE TABLE other.elsewhere (x INTEGER)",
        "CREATE TABLE other.made (x INTEGER)",
        "ATTACH ':memory:' AS away",
        "CREATE TABLE away.main.remote (x INTEGER)",
        "CREATE TABLE away.main.made (y INTEGER)",
        "CREATE TEMP TABLE twin (t DOUBLE)",
        "CREATE TEMP TABLE alone (z DATE)",
    ):
        data.execute(text)
    assert describe(data, views=False) == {
        "twin": {"t": "DOUBLE"}, "alone": {"z": "DATE"}, "made": {"b": "INTEGER", "D": "VARCHAR"},
    }  # fmt: skip
    assert describe(data, views=True).keys() == {"twin", "alone", "made", "seen"}
    assert DuckDBEngine(data).schema() == describe(data.cursor(), views=False)
    engine = DuckDBEngine(
        {"v": pd.DataFrame({"x": [1]}), "Objects": pd.DataFrame({"s": pd.Series(["a"], dtype=object)})}
    )
    assert engine.schema() == {"v": {"x": "BIGINT"}, "objects": {"s": "VARCHAR"}}


def test_a_reader_of_public_tables_knows_those_that_it_is_told() -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE p (x INTEGER PRIMARY KEY)")
    data.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
    reader = DuckDBEngine(data).public_reader({"p"})
    assert reader.unique("p", frozenset({"x"})) and not reader.unique("t", frozenset({"x"}))
    with pytest.raises(KeyError):
        reader.domains("t", ["x"])


def test_who_looks_again_sees_new_tables_and_no_old_answers() -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE p (x INTEGER)")
    data.execute("INSERT INTO p VALUES (1)")
    engine = DuckDBEngine(data)
    assert engine.public.domains("p", ["x"])["x"].upper == 1
    data.execute("INSERT INTO p VALUES (5)")
    data.execute("CREATE TABLE q (y INTEGER)")
    assert engine.public.domains("p", ["x"])["x"].upper == 1 and list(engine.schema()) == ["p"]
    engine.look_again()
    assert engine.public.domains("p", ["x"])["x"].upper == 5 and list(engine.schema()) == ["p", "q"]
    data.execute("DROP TABLE p")
    engine.look_again()
    assert list(engine.schema()) == ["q"]


# public rows -------------------------------------------------------------------------------------------------------------

STORED = {
    "BOOLEAN": [True, None, False], "TINYINT": [-128, None, 127], "UBIGINT": [2**64 - 1, None, 0], "BIGINT": [-(2**63), None, 5],
    "DOUBLE": [1.5, None, -0.25], "FLOAT": [0.5, None, 2.0],
}  # fmt: skip
AS_TEXT = {
    "VARCHAR": ["'é'", "NULL", "''"], "DATE": ["DATE '2024-01-01'", "NULL", "DATE '0044-03-15 (BC)'"],
    "HUGEINT": ["170141183460469231731687303715884105727", "NULL", "0"], "DECIMAL(9,2)": ["1.25", "NULL", "0"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "NULL", "'00000000-0000-0000-0000-000000000001'"],
    "ENUM('a', 'b')": ["'b'", "NULL", "'a'"],
}  # fmt: skip


@pytest.mark.parametrize("type_", STORED)
def test_public_numbers_are_handed_over_as_arrays(type_: str) -> None:
    data = duckdb.connect()
    data.execute(f"CREATE TABLE p (k INTEGER, x {type_})")
    for number, value in enumerate(STORED[type_]):
        data.execute("INSERT INTO p VALUES (?, ?)", [number, value])
    read = DuckDBEngine(data).read_public("P", ["x", "k"])
    assert read.types == {"x": type_, "k": "INTEGER"}
    assert read.nulls["x"].tolist() == [False, True, False] and read.values["k"].tolist() == [0, 1, 2]
    assert [read.values["x"][0], read.values["x"][2]] == [STORED[type_][0], STORED[type_][2]]
    assert isinstance(read.values["x"], np.ndarray) and read.values["x"].dtype != object


@pytest.mark.parametrize("type_", AS_TEXT)
def test_other_public_values_are_handed_over_as_text(type_: str) -> None:
    data = duckdb.connect()
    data.execute(f"CREATE TABLE p (x {type_})")
    for value in AS_TEXT[type_]:
        data.execute(f"INSERT INTO p VALUES ({value})")
    written = [text for (text,) in data.execute("SELECT x::VARCHAR FROM p").fetchall()]
    read = DuckDBEngine(data).read_public("p", ["x"])
    known = type_ in ("VARCHAR", "UUID") or type_.startswith("ENUM")
    assert read.types == {"x": "VARCHAR" if known else type_}
    assert read.values["x"].tolist() == [written[0], "", written[2]] and read.nulls["x"].tolist() == [
        False,
        True,
        False,
    ]


def test_a_public_table_that_cannot_be_read_gives_the_constant_error(logged: list[str]) -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE p (x INTEGER)")
    engine = DuckDBEngine(data)
    data.execute("DROP TABLE p")
    with pytest.raises(EngineError) as failure:
        engine.read_public("p", ["x"])
    assert failure.value.__context__ is None and logged == ["a public table cannot be read"]
    assert engine._asked("SELECT * FROM nowhere") is None and engine._asked("SELECT 1") == [(1,)]


# files that change -------------------------------------------------------------------------------------------------------


def test_rows_of_files_that_change_before_or_while_they_are_read_are_thrown_away(csv: Path, logged: list[str]) -> None:
    engine = DuckDBEngine({"t": csv})
    assert engine.read_public("t", ["x"]).values["x"].tolist() == [5, 6]
    with engine._unchanged():
        pass
    with pytest.raises(FilesChanged, match="t"), engine._unchanged():
        os.utime(csv, ns=(9, 9))
    begun = []
    with pytest.raises(FilesChanged), engine._unchanged():
        begun.append("read")
    assert begun == []
    with pytest.raises(EngineError):
        engine.read_public("t", ["x"])
    assert logged == ["a public table cannot be read"]


# copies ------------------------------------------------------------------------------------------------------------------


def test_copies_are_known_by_the_stamp_and_content_of_the_file_that_was_opened(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.prepared"
    none = DuckDBEngine(file, copies=path)
    assert (none.copies, none.copies_content()) == ("", "")
    none.close()
    duckdb.connect(str(path)).close()
    engine = DuckDBEngine(file, copies=path)
    assert engine.copies and engine.copies_content() == content_of(path)
    os.utime(path, ns=(9, 9))
    assert engine.copies_content() == ""


def test_copies_are_written_of_the_version_that_is_open_and_of_no_other(file: Path, csv: Path, tmp_path: Path) -> None:
    for source in (file, {"t": csv}):
        engine = DuckDBEngine(source, copies=tmp_path / "c.prepared")  # type: ignore[arg-type]
        assert engine.prepare([], b"s", lambda *_: None).tables == ()
        os.utime(file if source is file else csv, ns=(9, 9))
        with pytest.raises(InterfaceError, match="the data changed"):
            engine.prepare([], b"s", lambda *_: None)
        engine.close()
    with pytest.raises(InternalError, match="no version"):
        _nothing()


def test_a_release_that_fails_is_logged_and_shows_nothing(logged: list[str]) -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT range AS u FROM range(7)")
    table = {"unit": "u", "max_rows_per_unit": 1, "columns": {}}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 9}, "tables": {"t": table}}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as db:
        [release] = db.prepare("SELECT count(*) FROM t", epsilon=1.0, delta=0.0, mechanism="laplace").bill.releases
    engine = DuckDBEngine(data)
    [[found]] = integers(engine, release, b"s").values
    assert found > 0 and logged == []
    data.execute("DROP TABLE t")
    with pytest.raises(EngineError) as failure:
        run(engine, release, b"s")
    assert failure.value.__context__ is None and logged == ["a release failed"]
