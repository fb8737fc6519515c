"""Opening: what is locked and limited, when the same open file is shared, and by what its version is known."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpsql.engines.base import Resources
from dpsql.engines.duckdb import open as opening
from dpsql.engines.duckdb.open import _label, open_file, open_frames, open_tables, open_to_copy, remove_spills, settle
from dpsql.engines.duckdb.prepare import stamp_of
from dpsql.errors import InterfaceError

NONE = Resources()


def setting(connection: duckdb.DuckDBPyConnection, name: str) -> Any:
    return connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE t AS SELECT 7 AS x")
    return path


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    path = tmp_path / "c.prepared"
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE SCHEMA within")
    return path


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    said: list[str] = []
    monkeypatch.setattr(opening, "failed", lambda what, problem: said.append(what))
    yield said


# a database file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_opened_to_be_read_and_locked(file: Path) -> None:
    opened = open_file(file, NONE)
    with opened.connection as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(7,)]
        assert opened.copies is None and opened.label == _label(file)
        assert setting(connection, "lock_configuration") is True
        assert setting(connection, "enable_external_access") is False
        assert setting(connection, "TimeZone") == "Etc/UTC" and setting(connection, "temp_directory") == ""
        assert setting(connection, "ieee_floating_point_ops") is True
        assert setting(connection, "integer_division") is False
        for text in ("INSERT INTO t VALUES (8)", "SET TimeZone = 'CET'", "SELECT * FROM read_text('/etc/hostname')"):
            with pytest.raises(duckdb.Error):
                connection.execute(text)


def test_the_label_is_when_the_file_and_its_log_were_written_and_how_long_they_are(file: Path) -> None:
    os.utime(file, ns=(5, 5))
    size = file.stat().st_size
    assert _label(file) == f"file:5:{size}"
    log = file.with_name(f"{file.name}.wal")
    log.write_bytes(b"abc")
    os.utime(log, ns=(6, 6))
    assert _label(file) == f"file:5:{size}:6:3"


def test_where_there_is_no_file_none_is_made(tmp_path: Path) -> None:
    for path in (tmp_path / "none.duckdb", tmp_path):
        with pytest.raises(InterfaceError, match="there is no database file"):
            open_file(path, NONE)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_without_its_text(tmp_path: Path, logged: list[str]) -> None:
    (tmp_path / "x.duckdb").write_bytes(b"private text" * 1000)
    with pytest.raises(InterfaceError, match="cannot be opened read-only: IOException") as refusal:
        open_file(tmp_path / "x.duckdb", NONE)
    assert "private" not in str(refusal.value) and "other connections" in (refusal.value.hint or "")
    assert logged == ["the data cannot be opened"]


def test_a_file_that_this_process_has_open_for_writing_is_refused_with_the_reason(
    file: Path, logged: list[str]
) -> None:
    with (
        duckdb.connect(str(file)),
        pytest.raises(InterfaceError, match="has it open already, with other settings") as refusal,
    ):
        open_file(file, NONE)
    assert "close that connection" in (refusal.value.hint or "") and len(logged) == 1


def test_a_file_that_changes_while_it_is_opened_is_refused_and_closed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = duckdb.connect, []

    def meanwhile(*given: Any, **words: Any) -> Any:
        made.append(real(*given, **words))
        os.utime(file, ns=(9, 9))
        return made[-1]

    monkeypatch.setattr(opening.duckdb, "connect", meanwhile)
    with pytest.raises(InterfaceError, match="changed while it was opened"):
        open_file(file, NONE)
    with pytest.raises(duckdb.ConnectionException):
        made[0].execute("SELECT 1")


def test_who_opens_the_same_file_shares_it_and_the_labels_of_the_first(file: Path, copies: Path) -> None:
    """Who is refused has nothing open, even while the refusal is kept."""
    first = open_file(file, Resources(10**9), copies)
    assert first.copies == stamp_of(copies)
    os.utime(file, ns=(9, 9))
    os.utime(copies, ns=(9, 9))
    second = open_file(file, Resources(10**9), copies)
    assert (second.label, second.copies) == (first.label, first.copies) and second.label != _label(file)
    second.connection.close()
    kept = []
    for limits, beside in ((Resources(10**9), None), (Resources(2 * 10**9), copies), (Resources(10**9, 10**9), copies)):
        with pytest.raises(InterfaceError, match="open already, with other limits") as refusal:
            open_file(file, limits, beside)
        kept.append(refusal.value)
    first.connection.close()
    alone = open_file(file, NONE)
    assert alone.label == _label(file) and open_file(file, NONE).copies is None


@pytest.mark.parametrize("name", ["with two spaces", "c"])
def test_the_path_of_the_copies_may_have_spaces(file: Path, tmp_path: Path, name: str) -> None:
    one = open_file(file, NONE, tmp_path / f"{name}.prepared")
    assert (one.copies, open_file(file, NONE, tmp_path / f"{name}.prepared").copies) == ("", "")


def test_memory_and_disk_are_limited_and_the_disk_is_a_private_directory(file: Path) -> None:
    before = setting(duckdb.connect(), "memory_limit")
    opened = open_file(file, Resources(512 * 10**6, 10**9)).connection
    assert setting(opened, "memory_limit") == "488.2 MiB" and setting(opened, "max_temp_directory_size") == "953.6 MiB"
    spill = Path(setting(opened, "temp_directory"))
    assert spill.is_dir() and spill.stat().st_mode & 0o777 == 0o700 and spill.name.startswith("dpsql-spill-")
    remove_spills()
    assert not spill.exists()
    opened.close()
    with open_file(file, NONE).connection as unlimited:
        assert setting(unlimited, "memory_limit") == before and setting(unlimited, "temp_directory") == ""


def test_each_database_spills_into_a_directory_of_its_own() -> None:
    spills = []
    for _ in range(3):
        placed = open_tables({"t": pa.table({"x": [1]})}, Resources(None, 10**9))
        spills.append(setting(placed.connection, "temp_directory"))
        assert Path(spills[-1]).is_dir()
    assert len(set(spills)) == 3


def test_a_file_is_opened_again_beside_the_copy_that_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = open_to_copy(file)
    with again.connection as data:
        assert data.execute("SELECT x FROM t").fetchall() == [(7,)]
        assert again.label == _label(file) and setting(data, "TimeZone") == "Etc/UTC"
        with pytest.raises(duckdb.Error, match="read-only"):
            data.execute("INSERT INTO t VALUES (8)")
    labels = iter(["one", "two"])
    monkeypatch.setattr(opening, "_label", lambda _: next(labels))
    assert open_to_copy(file).label == ""


# settings ----------------------------------------------------------------------------------------------------------------


UNSAFE = {"TimeZone": "CET", "integer_division": True, "ieee_floating_point_ops": False, "default_collation": "nocase"}


def test_a_session_is_settled_to_what_the_emitted_sql_relies_on_and_others_are_left_alone() -> None:
    mine = duckdb.connect()
    theirs = mine.cursor()
    for name, value in UNSAFE.items():
        for session in (mine, theirs):
            session.execute(f"SET SESSION {name} = '{value}'")
    settle(mine)
    assert [setting(mine, name) for name in opening.SETTINGS] == ["Etc/UTC", True, False, ""]
    assert {name: setting(theirs, name) for name in UNSAFE} == UNSAFE
    assert mine.execute("SELECT 3 / 2, 1.0::DOUBLE / 0, 'a' = 'A'").fetchall() == [(1.5, float("inf"), False)]


def test_tables_and_files_are_read_by_settled_sessions(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LOCKED", {**opening.LOCKED, "default_collation": "nocase"})
    for placed in (open_tables({"t": pa.table({"x": [1]})}, NONE), open_to_copy(file)):
        assert setting(placed.connection, "default_collation") == ""


def test_a_setting_that_is_locked_to_an_unsafe_value_is_refused() -> None:
    database = duckdb.connect()
    database.execute("SET GLOBAL TimeZone = 'CET'")
    database.execute("SET lock_configuration = true")
    with pytest.raises(InterfaceError, match="TimeZone is locked") as refusal:
        settle(database)
    assert "Etc/UTC" in (refusal.value.hint or "")
    safe = duckdb.connect()
    settle(safe)
    safe.execute("SET lock_configuration = true")
    settle(safe)


# frames and files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(pa.table({"x": [1, 2]}), tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def test_files_have_a_version_and_frames_one_of_their_own(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("y\n5\n")
    files = {"p": parquet, "c": tmp_path / "c.csv"}
    one, two = (open_tables(files, NONE) for _ in range(2))
    assert one.label == two.label and one.lasting and [each.table for each, _ in one.files] == ["p", "c"]
    assert one.connection.execute("SELECT sum(x), any_value(y) FROM p, c").fetchall() == [(3, 5)]
    frames = [open_tables({"p": parquet, "f": pd.DataFrame({"z": [9]})}, NONE) for _ in range(2)]
    assert not frames[0].lasting and frames[0].label.startswith("frames:") and frames[0].label != frames[1].label
    assert frames[0].connection.execute("SELECT z FROM f").fetchall() == [(9,)]
    assert setting(frames[0].connection, "TimeZone") == "Etc/UTC"


def test_a_table_of_another_machine_has_no_version(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "register_files", lambda *_: None)
    placed = open_tables({"p": parquet, "r": "s3://bucket/r.parquet"}, NONE)
    assert not placed.lasting
    assert open_tables({"p": parquet}, NONE).lasting


@pytest.mark.parametrize("changed", [0, 1])
def test_files_that_change_while_they_are_opened_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    files = {}
    for number in range(2):
        files[f"t{number}"] = tmp_path / f"{number}.csv"
        files[f"t{number}"].write_text("x\n1\n")
    real: Callable[..., None] = opening.register_files

    def meanwhile(connection: Any, each: Any, types: Any) -> None:
        real(connection, each, types)
        if each.table == f"t{changed}":
            os.utime(each.paths[0], ns=(9, 9))

    connect, made = duckdb.connect, []
    monkeypatch.setattr(
        opening.duckdb, "connect", lambda *given, **words: made.append(connect(*given, **words)) or made[0]
    )
    monkeypatch.setattr(opening, "register_files", meanwhile)
    with pytest.raises(InterfaceError, match="changed while they were opened"):
        open_tables(files, NONE)
    with pytest.raises(duckdb.ConnectionException):
        made[0].execute("SELECT 1")


def test_what_is_no_table_is_refused_and_logged(tmp_path: Path, logged: list[str]) -> None:
    (tmp_path / "t.parquet").write_bytes(b"private")
    for source, said in ((tmp_path / "t.parquet", "the files of the table t"), (pa.table({"x": pa.StringArray.from_buffers(1, *pa.array([b"\xff"]).buffers()[1:])}), "the frame t")):  # fmt: skip
        with pytest.raises(InterfaceError, match=f"{said} cannot be read as a table"):
            open_tables({"t": source}, NONE)
    assert logged == ["the data cannot be opened"] * 2


@pytest.mark.parametrize("rows", [0, 3])
def test_a_dtype_that_the_engine_cannot_read_is_named_with_its_column(rows: int) -> None:
    periods = pd.period_range("2024-01", periods=rows, freq="h")
    frame = pd.DataFrame({"x": range(rows), "when": periods, "o": pd.Series([None] * rows, dtype="object")})
    with pytest.raises(InterfaceError) as refusal:
        open_tables({"t": frame}, NONE)
    assert "the column when of the frame t has dtype period[h], which DuckDB cannot read" in str(refusal.value)
    open_tables({"t": frame.astype({"when": "string"})}, NONE).connection.close()
    open_tables({"t": frame.drop(columns="when")}, NONE).connection.close()


def test_locked_tables_read_their_own_files_and_no_others(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("y\n5\n")
    placed, stamp = open_frames({"p": parquet, "c": tmp_path / "c.csv"}, NONE)
    assert stamp is None and setting(placed.connection, "lock_configuration") is True
    assert placed.connection.execute("SELECT sum(x), any_value(y) FROM p, c").fetchall() == [(3, 5)]
    assert placed.connection.execute(f"SELECT count(*) FROM read_parquet('{parquet}')").fetchall() == [(2,)]
    for path in (tmp_path / "c.csv", Path("/etc/hostname")):
        with pytest.raises(duckdb.Error):
            placed.connection.execute(f"SELECT * FROM read_text('{path}')").fetchall()
    frames, _ = open_frames({"f": pa.table({"x": [1]})}, NONE)
    assert setting(frames.connection, "enable_external_access") is False
    assert frames.connection.execute("SELECT x FROM f").fetchall() == [(1,)]


def test_copies_beside_files_are_known_by_their_stamp(parquet: Path, copies: Path, tmp_path: Path) -> None:
    assert open_frames({"p": parquet}, NONE, None, copies)[1] == stamp_of(copies)
    assert open_frames({"p": parquet}, NONE, None, tmp_path / "none")[1] == ""
