"""The connection that sees private data: tried over itself, as no analyst could, and still nothing gets in or out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from full_disk import NoDisk, disk, grown

import dpsql
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.engine import DuckDBEngine

TABLES = {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}}}}
OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/*')",
    "COPY t TO '/tmp/isolation-out.csv'",
    "EXPORT DATABASE '/tmp/isolation-out'",
    "ATTACH '/tmp/isolation-other.duckdb' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/isolation-other.duckdb_extension'",
    "INSTALL h3 FROM community",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "SELECT * FROM frame_of_the_caller",
]
SETTINGS = [
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET python_enable_replacements = true",
    "SET memory_limit = '100GB'",
    "RESET memory_limit",
    "SET temp_directory = '/tmp'",
    "SET max_temp_directory_size = '1TB'",
    "SET allowed_paths = ['/etc/passwd']",
    "SET allowed_directories = ['/']",
    "SET autoload_known_extensions = true",
    "SET allow_unsigned_extensions = true",
    "SET SESSION TimeZone = 'CET'",
    "SET SESSION integer_division = true",
    "SET SESSION ieee_floating_point_ops = false",
    "SET SESSION default_collation = 'nocase'",
    "SET enable_logging = true",
    "CALL enable_logging()",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = '/tmp/isolation-profile'",
    "SET log_query_path = '/tmp/isolation-queries'",
]


def make(path: Path, rows: int = 10) -> Path:
    with duckdb.connect(str(path)) as data:
        data.execute(f"CREATE TABLE t AS SELECT range AS u, range % 10 AS x FROM range({rows})")
        data.execute("CREATE TABLE small AS SELECT 1 AS u")
    return path


@pytest.fixture(scope="module", params=["file", "frames", "parquet"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    folder = tmp_path_factory.mktemp("locked")
    if request.param == "frames":
        return DuckDBEngine({"t": pd.DataFrame({"u": range(10), "x": range(10)})}, Resources(10**9))
    if request.param == "file":
        return DuckDBEngine(make(folder / "d.duckdb"), Resources(10**9))
    duckdb.execute(f"COPY (SELECT range AS u, range AS x FROM range(10)) TO '{folder / 't.parquet'}'")
    return DuckDBEngine({"t": folder / "t.parquet"}, Resources(10**9))


@pytest.mark.parametrize("statement", OUTSIDE + SETTINGS)
def test_nothing_gets_in_or_out_and_no_setting_moves(engine: DuckDBEngine, statement: str) -> None:
    frame_of_the_caller = pd.DataFrame({"a": [1]})
    with engine._running() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(statement).fetchall()
    assert len(frame_of_the_caller) == 1
    assert not list(Path("/tmp").glob("isolation-*"))


def test_the_progress_of_the_engine_is_not_shown_at_a_prompt(tmp_path: Path) -> None:
    """DuckDB takes a program without a file, as in a notebook, for a person at a prompt."""
    duckdb.execute(f"COPY (SELECT range AS u FROM range(10)) TO '{tmp_path / 't.parquet'}'")
    program = (
        "from dpsql.engines.base import Resources\n"
        "from dpsql.engines.duckdb.engine import DuckDBEngine\n"
        f"engine = DuckDBEngine({{'t': {str(tmp_path / 't.parquet')!r}}}, Resources(10**9))\n"
        "with engine._running() as cursor:\n"
        "    print(cursor.execute(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert shown == "[(False,)]\n"


def test_the_limits_are_in_force_on_every_cursor(engine: DuckDBEngine) -> None:
    asked = ["memory_limit", "temp_directory", "lock_configuration", "enable_external_access", "TimeZone",
             "python_enable_replacements", "autoload_known_extensions", "allow_community_extensions"]  # fmt: skip
    with engine._running() as cursor:
        found = cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in asked)).fetchall()
    assert found == [("953.6 MiB", "", True, False, "Etc/UTC", False, False, False)]


def test_a_spill_goes_to_a_private_directory_with_a_limit(tmp_path: Path) -> None:
    engine = DuckDBEngine(make(tmp_path / "d.duckdb"), Resources(10**9, 10**9))
    [(folder, most)] = engine.connection.execute(
        "SELECT current_setting('temp_directory'), current_setting('max_temp_directory_size')"
    ).fetchall()
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert most == "953.6 MiB"
    assert Path(folder).parent != tmp_path
    engine.close()


def test_a_query_that_takes_too_much_memory_fails_with_the_constant_text_and_stays_charged(tmp_path: Path) -> None:
    policy = {
        "dataset": "d", "search": False, "budget": {"epsilon": 10, "delta": 1e-6}, "limits": {"memory": "64MB"},
        "tables": {**TABLES, "small": {"unit": "u"}},
    }  # fmt: skip
    with dpsql.connect(make(tmp_path / "d.duckdb", 2_000_000), policy=policy, ledger=":memory:") as db:
        with pytest.raises(dpsql.EngineError) as failed:
            db.query("SELECT x, count(DISTINCT u) FROM t GROUP BY x", epsilon=1)
        assert str(failed.value) == dpsql.EngineError.TEXT
        assert db.budget().dataset.spent.epsilon > 0.9
        assert len(db.query("SELECT count(*) FROM small", epsilon=1)) == 1


@pytest.mark.parametrize("full", ["the limit of the policy", "the disk"])
def test_a_spill_that_is_full_fails_with_the_constant_text_and_the_next_query_works(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steward then finds more room: the same query is answered, in the same session."""
    policy = {
        "dataset": "d", "search": False, "budget": {"epsilon": 10, "delta": 1e-6}, "tables": {**TABLES, "small": {"unit": "u"}},
        "limits": {"memory": "64MB", "spill": "64MB" if full == "the limit of the policy" else "10GB"},
    }  # fmt: skip
    asked = "SELECT x, count(DISTINCT u) FROM t GROUP BY x"
    path = make(tmp_path / "d.duckdb", 4_000_000)
    with ExitStack() as stack:
        if full == "the disk":
            try:
                room = stack.enter_context(disk(tmp_path / "disk", 4_000))
            except NoDisk:
                pytest.skip("only root can fill a disk of its own")
            monkeypatch.setattr(tempfile, "tempdir", str(room))
        with dpsql.connect(path, policy=policy, ledger=":memory:") as db:
            with pytest.raises(dpsql.EngineError) as failed:
                db.query(asked, epsilon=1)
            assert str(failed.value) == dpsql.EngineError.TEXT
            assert db.budget().dataset.spent.epsilon > 0.9
            assert len(db.query("SELECT count(*) FROM small", epsilon=1)) == 1
            if full == "the disk":
                grown(room, 2_000_000)
                assert len(db.query(asked, epsilon=1)) == 10


def test_a_connection_of_the_callers_is_not_locked_behind_their_back(tmp_path: Path) -> None:
    own = duckdb.connect(config={"threads": 1})
    own.execute("CREATE TABLE t AS SELECT range AS u, range % 10 AS x FROM range(10); SET TimeZone = 'CET'")
    before = own.execute("SELECT name, value FROM duckdb_settings() ORDER BY 1").fetchall()
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 10},
        "limits": {"memory": "64MB"},
        "tables": TABLES,
    }
    with dpsql.connect(own, policy=policy, ledger=":memory:") as db:
        db.query("SELECT count(*) FROM t")
        assert db.engine._connection.execute("SELECT current_setting('TimeZone')").fetchall() == [("Etc/UTC",)]  # type: ignore[attr-defined]
    assert own.execute("SELECT name, value FROM duckdb_settings() ORDER BY 1").fetchall() == before


def test_a_file_that_was_swapped_in_is_not_taken_for_the_one_that_is_open(tmp_path: Path) -> None:
    path, other = make(tmp_path / "d.duckdb", 10), make(tmp_path / "new.duckdb", 500)
    first = DuckDBEngine(path)
    other.replace(path)
    second = DuckDBEngine(path)
    count = second.connection.execute("SELECT count(*) FROM t").fetchall()
    assert (count == [(10,)]) == (second.version() == first.version())
    first.close()
    second.close()
    third = DuckDBEngine(path)
    assert third.connection.execute("SELECT count(*) FROM t").fetchall() == [(500,)]
    assert third.version() != first.version()
    third.close()


def test_other_limits_for_the_same_open_file_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "d.duckdb")
    engine = DuckDBEngine(path, Resources(10**9))
    with pytest.raises(dpsql.InterfaceError, match="with other limits"):
        DuckDBEngine(path, Resources(2 * 10**9))
    engine.close()
    DuckDBEngine(path, Resources(2 * 10**9)).close()


@pytest.mark.parametrize("size", ["lots", "2", 2.5, True, "1MB", "12 parsecs", -5])
def test_a_limit_of_memory_is_an_amount(size: object) -> None:
    with pytest.raises(dpsql.PolicyError, match=r"limits\.memory"):
        dpsql.connect({}, ledger=":memory:", policy={
            "dataset": "d", "search": False, "budget": {"epsilon": 10}, "limits": {"memory": size}, "tables": TABLES})  # fmt: skip
