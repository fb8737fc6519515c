"""Writing copies: which rows are in which part, in how many portions, and what is left on disk."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.bounds.domain import Domain
from dpsql.engines.base import Resources
from dpsql.engines.duckdb import prepare
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.prepare import Order, Prepared, Written, _Writer, content_of, stamp_of, write_copies
from dpsql.engines.sql.dialect import Site
from dpsql.errors import InterfaceError
from dpsql.expressions.types import TEXT, integer
from dpsql.plan.nodes.relation import UNIT, Copy, Field, Scan

WHOLE = integer(-(2**31), 2**31 - 1)
MOST = 3
SIZES = {1: 2, 2: 3, 3: 4, 4: 40}
"""How many rows each unit has; three may be kept."""


def scan(table: str = "T") -> Scan:
    fields = (Field("u", WHOLE, Domain(), True, UNIT), Field("x", WHOLE, Domain()), Field("s", TEXT, Domain()))
    return Scan(fields, False, MOST, False, table, "u", unit_type=WHOLE)


@pytest.fixture
def data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (u INTEGER, x INTEGER, s VARCHAR, secret VARCHAR)")
    for unit, count in SIZES.items():
        connection.execute(f"INSERT INTO t SELECT {unit}, range, 's' || range, 'no' FROM range({count})")
    connection.execute("INSERT INTO t SELECT NULL, range, 's', 'no' FROM range(5)")
    return connection


def site() -> Site:
    stored = {"u": "INTEGER", "x": "INTEGER", "s": "VARCHAR", "secret": "VARCHAR"}
    return Site({"t": stored, "v": stored}, DUCKDB)


def written(
    data: duckdb.DuckDBPyConnection, path: Path, *, over: bool, rows: int = MOST, told: Any = None, salt: bytes = b"s"
) -> Prepared:
    orders = [Order(scan(), Copy(rows, over))]
    return write_copies(data, site(), orders, path, salt, Resources(10**9), told or (lambda *_: None))


def parts(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect(str(path), read_only=True) as copy:
        named = copy.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        return {f"{s}.{t}": sorted(copy.execute(f'SELECT * FROM {s}."{t}"').fetchall()) for s, t in named}


def rows_of(*units: int) -> list[tuple[Any, ...]]:
    return [(unit, x, f"s{x}") for unit in units for x in range(SIZES[unit])]


@pytest.mark.parametrize("portion", [10**6, 30, 7])
def test_units_within_their_bound_and_those_over_it_are_apart(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PORTION", portion)
    made = written(data, tmp_path / "c", over=True)
    assert parts(tmp_path / "c") == {"over.t": rows_of(3, 4), "within.t": rows_of(1, 2)}
    assert made.tables == (Written("T", 49, 2, 44, 0),)
    assert (made.content, made.stamp) == (content_of(tmp_path / "c"), stamp_of(tmp_path / "c"))


@pytest.mark.parametrize("portion", [10**6, 30, 7])
def test_or_units_keep_as_many_rows_as_they_may(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PORTION", portion)
    made = written(data, tmp_path / "c", over=False)
    found = parts(tmp_path / "c")
    assert list(found) == ["within.t"] and set(found["within.t"]) <= set(rows_of(1, 2, 3, 4))
    assert Counter(unit for unit, *_ in found["within.t"]) == {1: 2, 2: 3, 3: 3, 4: 3}
    assert made.tables == (Written("T", 49, 2, 44, 38),)


def test_where_nobody_has_too_many_nothing_is_over_or_left_out(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for over in (True, False):
        assert written(data, tmp_path / "c", over=over, rows=40).tables == (Written("T", 49, 0, 0, 0),)
    data.execute("DELETE FROM t")
    assert written(data, tmp_path / "c", over=False).tables == (Written("T", 0, 0, 0, 0),)
    assert parts(tmp_path / "c") == {"within.t": []}


def test_which_rows_are_kept_hangs_on_the_salt_and_not_on_the_order(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    kept = []
    for salt in (b"s", b"s", b"other"):
        written(data, tmp_path / "c", over=False, salt=salt)
        kept.append(parts(tmp_path / "c")["within.t"])
        data.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM t ORDER BY x DESC")
    assert kept[0] == kept[1] != kept[2]


def test_rows_that_are_equal_are_all_kept(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    data.execute("DELETE FROM t")
    data.execute("INSERT INTO t SELECT range // 2, 1, 's', '' FROM range(8)")
    written(data, tmp_path / "c", over=False, rows=2)
    assert Counter(parts(tmp_path / "c")["within.t"]) == {(unit, 1, "s"): 2 for unit in range(4)}


def test_of_many_equal_rows_as_many_are_kept_as_may_be(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """All have one hash, so none would be kept if rows were left out by their hashes alone."""
    data.execute("DELETE FROM t")
    data.execute("INSERT INTO t SELECT range % 20, 1, 's', '' FROM range(20 * 500)")
    data.execute("INSERT INTO t SELECT 20, if(range < 3, range + 2, 1), 's', '' FROM range(500)")
    made = written(data, tmp_path / "c", over=False)
    found = parts(tmp_path / "c")["within.t"]
    assert Counter(found)[(0, 1, "s")] == MOST
    assert Counter(unit for unit, *_ in found) == dict.fromkeys(range(21), MOST)
    assert made.tables == (Written("T", 10_500, 21, 10_500, 10_500 - 21 * MOST),)


@pytest.mark.parametrize(("portion", "count"), [(10**6, 1), (54, 1), (53, 2), (27, 2), (26, 3), (11, 5)])
def test_the_steward_is_told_of_each_portion(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, portion: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 54 rows, those of nobody among them; the last step is to count what was written."""
    monkeypatch.setattr(prepare, "PORTION", portion)
    told: list[tuple[str, int, int]] = []
    written(data, tmp_path / "c", over=True, told=lambda *said: told.append(said))
    assert told == [("T", step, count + 1) for step in range(count + 2)]


def test_one_portion_at_a_time_reads_the_rows_of_its_units(data: duckdb.DuckDBPyConnection) -> None:
    writer = _Writer(data, site(), Order(scan(), Copy(MOST, False)), "73", lambda *_: None)
    data.execute(
        f"CREATE TEMP TABLE dpsql_over AS SELECT u, count(*) AS n FROM ({writer.rows}) GROUP BY u HAVING count(*) > {MOST}"
    )
    for chosen, units in (("true", {3, 4}), ("r.u = 3", {3}), ("r.u < 3", set())):
        found = data.execute(f"SELECT u, count(*) FROM ({writer.chosen_rows(chosen)}) GROUP BY u").fetchall()
        assert dict(found) == dict.fromkeys(units, MOST)


def test_only_the_steward_can_read_the_file_and_nothing_else_is_left(
    data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    written(data, tmp_path / "c", over=True)
    assert [each.name for each in tmp_path.iterdir()] == ["c"]
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600
    assert data.execute(
        "SELECT count(*) FROM duckdb_databases() WHERE database_name = 'dpsql_prepared'"
    ).fetchall() == [(0,)]


def test_what_was_written_is_on_disk_before_and_after_it_gets_its_name(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a room that is gone by then is no failure."""
    synced: list[tuple[str, bool]] = []

    def sync(path: Path) -> None:
        synced.append((path.name, (tmp_path / "c").exists()))
        if path == tmp_path:
            for room in tmp_path.glob(".dpsql-prepare-*"):
                shutil.rmtree(room)

    monkeypatch.setattr(prepare, "sync_file", sync)
    written(data, tmp_path / "c", over=True)
    assert synced == [("copies", False), (tmp_path.name, True)]


def test_a_file_that_somebody_else_put_there_is_not_taken_for_the_copy(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"

    def meanwhile(synced: Path) -> None:
        if synced == tmp_path:
            (tmp_path / "other").write_bytes(b"x")
            (tmp_path / "other").replace(path)

    monkeypatch.setattr(prepare, "sync_file", meanwhile)
    with pytest.raises(InterfaceError, match="somebody else wrote"):
        written(data, path, over=True)


def test_a_failure_leaves_no_file_and_no_room(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    def stop(*said: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        written(data, tmp_path / "c", over=True, told=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory", [None, 512 * 10**6])
def test_the_work_keeps_to_the_memory_of_the_policy_and_spills_beside_the_copy(
    data: duckdb.DuckDBPyConnection, tmp_path: Path, memory: int | None
) -> None:
    asked = "SELECT current_setting('memory_limit'), current_setting('temp_directory'), current_setting('preserve_insertion_order')"
    [(before, _, _)] = data.execute(asked).fetchall()
    seen: list[Any] = []
    told = lambda *_: seen.append(data.execute(asked).fetchall()[0])  # noqa: E731
    write_copies(data, site(), [Order(scan(), Copy(MOST, True))], tmp_path / "c", b"s", Resources(memory), told)
    limit, spill, ordered = seen[0]
    assert limit == (before if memory is None else "488.2 MiB") and ordered is False
    assert re.fullmatch(re.escape(str(tmp_path)) + r"/\.dpsql-prepare-\w+/spill", spill)
