"""The neighbour search over files: it finds an engine that reads rows by others' values, by every writer that shows it."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from attack import neighbours
from attack.neighbours import files_outcome, run_file_block
from attack.pruning import readings
from attack.worlds import kinds
from pyarrow import feather, parquet
from typer.testing import CliRunner

from dpsql.audit import World, neighbour_search
from dpsql.audit.counterexample import finding_of
from dpsql.audit.file_writers import WRITERS, FileLayout, FileTables, on_files
from dpsql.audit.neighbour_search import run_block
from dpsql.audit.outcome import Figures, Settings, Tally
from dpsql.audit.report import Report
from dpsql.audit.world import StoredTable
from dpsql.engines.duckdb import parquet as views
from dpsql.engines.duckdb import register_tables
from dpsql.errors import InterfaceError, PolicyError
from dpsql.interfaces.cli.main import app
from dpsql.policy import load_policy

Patch = pytest.MonkeyPatch
SHOWS_NAN = ("Parquet by pyarrow", "Parquet by polars", "Parquet by pandas")
"""Writers that leave NaN out of a column's least and greatest value."""


@pytest.fixture(autouse=True)
def _as_found(monkeypatch: Patch) -> None:
    """A finding is not made small: that has its own tests, and takes its time."""
    monkeypatch.setattr(neighbour_search, "finding_of", partial(finding_of, seconds=0))


def _unprotected(patch: Patch) -> None:
    """Plant the bug: the view over the files shows their columns bare, with the statistics of their writers."""

    def bare(connection: Any, files: Any, types: Any) -> None:
        read = f"read_parquet({views.paths_sql(files)}{views.hive_sql(files)})"
        connection.execute(f'CREATE TEMP VIEW "{files.table}" AS SELECT * FROM {read}')

    patch.setattr(register_tables, "create_view", bare)


def _turn(writer: str) -> int:
    return list(WRITERS).index(writer)


# what is found ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", SHOWS_NAN)
def test_reading_by_statistics_is_found(writer: str, monkeypatch: Patch) -> None:
    _unprotected(monkeypatch)
    tally = Tally()
    for number in range(_turn(writer), 10 * len(WRITERS), len(WRITERS)):
        tally = tally.plus(run_file_block(2, number, queries=15))
        if tally.findings:
            break
    assert tally.findings
    assert f"as {writer}" in tally.findings[0].again or f", {writer}" in tally.findings[0].again
    assert tally.counted[f"violations, {writer}"] == 1
    assert files_outcome(tally).table is not None
    assert not files_outcome(tally).passed


@pytest.mark.parametrize("writer", WRITERS)
def test_no_unit_moves_anything_on_files_further_than_claimed(writer: str) -> None:
    """Some blocks of each writer; `tests/attack/run.py --check files` for thousands of pairs."""
    tally, blocks = Tally(), range(_turn(writer), len(WRITERS) * 2, len(WRITERS))
    for number in blocks:
        tally = tally.plus(run_file_block(2, number, queries=12))
    assert tally.findings == [], f"{tally.findings[0].what}\n{tally.findings[0].again}"
    assert tally.pairs["all"] >= 120
    assert tally.touched["all"] > tally.pairs["all"] / 3
    assert [row[0] for row in files_outcome(tally).table.rows] == [writer]  # type: ignore[union-attr]


# files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("make", [kinds, readings])
def test_a_writer_s_files_hold_the_rows_and_types_of_the_world(writer: str, make: Any) -> None:
    world = make(random.Random(5))
    layout = FileLayout(files=2, rows_per_group=3, bloom=True)
    written = replace(world, engine=FileTables(world.policy, dict.fromkeys(world.tables, writer), layout))
    with world.open(steward=True) as memory, written.open(steward=True) as read:
        for name in world.owners:
            shown = f'SELECT * FROM "{name}" ORDER BY ALL'
            one, two = (db.engine._connection.execute(shown).fetchall() for db in (memory, read))
            if writer != "CSV":
                assert repr(two) == repr(one)
                types = {c: "VARCHAR" if t.startswith("ENUM") else t for c, t in memory.engine.schema()[name].items()}
                assert read.engine.schema()[name] == types
            assert len(two) == len(one)


@pytest.mark.parametrize("writer", [name for name, each in WRITERS.items() if each.ending == "parquet"])
def test_a_layout_is_seen_in_the_files(writer: str) -> None:
    found = {}
    world = on_files(readings(random.Random(5)), writer, random.Random(1))
    assert isinstance(world.engine, FileTables)
    for layout in (FileLayout(1, 4, True, True, True), FileLayout(1, 1_000, False, False, False)):
        with replace(world, engine=replace(world.engine, layout=layout)).open(steward=True) as db:
            path = db.engine._files[0][0].paths[0]  # type: ignore[attr-defined]
            rows = duckdb.execute(
                "SELECT max(row_group_id) > 0, bool_or(stats_max_value IS NOT NULL), bool_or(bloom_filter_offset IS NOT"
                " NULL), bool_or(encodings LIKE '%DICT%') FROM parquet_metadata(?)",
                [path],
            ).fetchall()
        found[layout.statistics] = rows[0]
    groups, statistics, bloom, dictionary = found[True]
    assert statistics and dictionary
    assert groups == (writer != "Parquet by DuckDB")  # its row groups are of 2,048 rows or more
    assert bloom == (writer in ("Parquet by pyarrow", "Parquet by DuckDB"))
    assert not any((found[False][0], found[False][2]))
    assert found[False][1] == (writer == "Parquet by DuckDB")  # which always writes statistics


# the steward's own ------------------------------------------------------------------------------------------------------

POLICY = """
dataset: shop
search: false
budget: {epsilon: 10, delta: 1e-6}
tables:
  customers: {unit: id, unique: true, columns: {age: {min: 18, max: 110}}}
  orders: {unit: customer, max_rows_per_unit: 2, columns: {amount: {min: 0, max: 100}, status: {values: [paid, open]}}}
  calls: {unit: customer, max_rows_per_unit: 2, columns: {minutes: {min: 0, max: 60}}}
  weights: {public: true}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A CSV file, partitioned Parquet, an Arrow file and a public file."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "customers.csv").write_text("id,age\n" + "".join(f"{i},{20 + i % 50}\n" for i in range(80)))
    for year in (2024, 2025):
        (folder / "orders" / f"year={year}").mkdir(parents=True)
        bought = [(f"{i % 80}", float(i % 9), ("paid", "open")[i % 2]) for i in range(150)]
        frame = pl.DataFrame(bought, schema=["customer", "amount", "status"], orient="row")
        frame.write_parquet(folder / "orders" / f"year={year}" / "part.parquet")
    calls = pa.table({"customer": [str(i) for i in range(50)], "minutes": [i % 60 for i in range(50)]})
    feather.write_feather(calls, str(folder / "calls.arrow"))
    parquet.write_table(pa.table({"status": ["paid"], "weight": [1.5]}), folder / "weights.parquet")
    return folder


def test_a_folder_is_a_world_on_files_of_the_same_formats(lake: Path) -> None:
    world = World.of(lake, lake.parent / "policy.yaml")
    assert isinstance(world.engine, FileTables)
    assert {name: WRITERS[by].ending for name, by in world.engine.writers.items()} == {
        "customers": "csv",
        "orders": "parquet",
        "calls": "arrow",
        "weights": "parquet",
    }
    notes = "\n".join(world.notes)
    assert "60 of 80 units were copied" in notes
    assert "orders: partitions (year) are columns of the copies, not folders" in notes
    assert "orders, weights: copies are written as Parquet by pyarrow, Parquet by polars" in notes
    tally = Tally()
    for number in range(3):
        tally = tally.plus(run_block(0, number, (world,), queries=6))
    assert tally.findings == [], tally.findings[0]
    assert tally.tried["CSV"] == tally.tried["Arrow"] == tally.pairs["all"] > 0
    assert sum(tally.tried[name] for name in WRITERS if name.startswith("Parquet")) == tally.pairs["all"]


def test_a_unit_column_of_two_types_gets_a_unit_that_both_can_hold() -> None:
    """As text files have text where others have numbers."""
    from dpsql.audit.neighbour_search import with_extreme

    tables = {"a": StoredTable({"id": "VARCHAR"}, (("1",),)), "b": StoredTable({"id": "BIGINT"}, ((1,), (2,)))}
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {"a": {"unit": "id"}, "b": {"unit": "id"}},
    }
    more = with_extreme(World.made("two", policy, tables), random.Random(1))
    assert more is not None and set(more.units()) == {"1", "2", "3"}


def test_what_a_folder_lacks_is_said(lake: Path) -> None:
    (lake / "customers.csv").unlink()
    with pytest.raises(PolicyError, match="there is no table customers to audit"):
        World.of(lake, lake.parent / "policy.yaml")
    empty = lake.parent / "empty"
    empty.mkdir()
    with pytest.raises(InterfaceError, match="has no files of the policy's tables"):
        World.of(empty, lake.parent / "policy.yaml")


def test_a_writer_that_changes_a_type_is_named_and_not_tried(tmp_path: Path) -> None:
    duckdb.execute(f"COPY (SELECT range AS id, uuid() AS key FROM range(9)) TO '{tmp_path}/t.parquet'")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {"t": {"unit": "id", "columns": {"key": {}}}},
    }
    world = World.of(tmp_path / "t.parquet", policy)
    assert "Parquet by polars changes the types of t.key: not tried" in world.notes
    assert world.notes[-1] == "t: copies are written as Parquet by DuckDB"


@pytest.mark.parametrize("what", ["lake", "lake/weights.parquet"])
def test_the_command_takes_folders_and_says_what_it_saw_by_writer(lake: Path, what: str) -> None:
    policy = lake.parent / "policy.yaml"
    if what.endswith("parquet"):
        (lake / "calls.arrow").unlink()
        parquet.write_table(pa.table({"customer": ["1", "2", "3"], "minutes": [1, 2, 3]}), lake / "calls.parquet")
        policy = lake.parent / "calls.yaml"
        told = "{calls: {unit: customer, columns: {minutes: {min: 0, max: 9}}}}"
        policy.write_text(f"dataset: d\nsearch: false\nbudget: {{epsilon: 1}}\ntables: {told}\n")
        what = "lake/calls.parquet"
    words = ["audit", str(lake.parent / what), "--policy", str(policy), "--check", "neighbours", "--pairs", "1"]
    done = CliRunner().invoke(app, [*words, "--html", str(lake.parent / "a.html")], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    assert "largest moved / claimed" in done.output and "copies are written as" in done.output
    assert "<th>violations</th>" in (lake.parent / "a.html").read_text()


# reports ----------------------------------------------------------------------------------------------------------------


def test_a_table_of_writers_is_read_as_it_was_written_and_parts_add_up() -> None:
    parts = [run_file_block(0, _turn("CSV"), queries=1), run_file_block(0, _turn("Arrow"), queries=1)]
    reports = [Report("a", "p", (files_outcome(each),), i + 1, 2) for i, each in enumerate(parts)]
    assert Report.read(reports[0].json()) == reports[0]
    both = neighbours.merge_files([report.outcomes[0] for report in reports])
    assert both.check == "files"
    assert isinstance(both.table, Figures)
    assert [row[:2] for row in both.table.rows] == [("Arrow", parts[1].pairs["all"]), ("CSV", parts[0].pairs["all"])]
    (unreached,) = both.notes
    assert unreached.startswith("too few pairs") and "Parquet by DuckDB" in unreached
    assert "CSV" not in unreached and "Arrow" not in unreached


def test_what_is_resumed_stands_beside_the_state_of_the_other_search(tmp_path: Path) -> None:
    settings = Settings(pairs=1, resume=tmp_path / "state")
    neighbours.search_memory(settings, lambda done, total: None)
    neighbours.check_files((), settings, lambda done, total: None)
    assert {path.name for path in tmp_path.iterdir()} == {"state", "state.files"}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_table_may_have_any_name(writer: str) -> None:
    name = 'bob\'s "own" ; table'
    tables = {name: StoredTable({"id": "INTEGER"}, ((1,), (2,)))}
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {name: {"unit": "id", "columns": {}}},
    }
    with closing(FileTables(load_policy(policy), {name: writer})(tables)) as engine:
        assert [*engine.schema()] == [name]
