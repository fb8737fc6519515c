"""All texts that one row carries are bounded together on DuckDB too: no person's long note makes a query fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit.traces import ReleaseTrace, trace

COUNT = 250
PARTS = ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(COUNT))
LONGER = ", ".join(f"concat(note, '{i}') AS s{i}" for i in range(900))
FORMS = {
    "DISTINCT": (f"SELECT count(*) FROM (SELECT DISTINCT person, {PARTS} FROM notes) AS t", 2_000_000),
    "GROUP BY": (f"SELECT count(*) FROM (SELECT person, {PARTS} FROM notes GROUP BY ALL) AS t", 2_000_000),
    "longer texts": (f"SELECT count(*) FROM (SELECT DISTINCT person, {LONGER} FROM notes) AS t", 130_000),
}
"""Queries, and how many letters the note has that used to make them fail."""


def answered(path: Path, sql: str, letters: int | None) -> ReleaseTrace:
    with duckdb.connect(path) as raw:
        raw.execute(
            "CREATE TABLE notes (person INTEGER, note VARCHAR); INSERT INTO notes VALUES (1, 'short'), (2, NULL)"
        )
        if letters is not None:
            raw.execute("INSERT INTO notes VALUES (3, repeat('x', ?))", [letters])
    policy: dict[str, Any] = {
        "dataset": "notes",
        "search": False,
        "budget": {"epsilon": 100},
        "limits": {"memory": "200MB"},
        "tables": {"notes": {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {}}}},
    }
    with dpsql.connect(path, policy=policy, ledger=":memory:", steward=True) as db:
        [release] = trace(db, sql, salt=b"s", mechanism="laplace")
    return release


@pytest.mark.parametrize("form", FORMS)
def test_a_query_answers_with_a_person_of_a_long_note_as_without(tmp_path: Path, form: str) -> None:
    sql, letters = FORMS[form]
    without, beside = (answered(tmp_path / f"{more}.db", sql, more).statistics[0] for more in (None, letters))
    assert beside.linf is not None and 0 <= beside.values[0] - without.values[0] <= beside.linf


@pytest.mark.parametrize(("count", "limited"), [(3, False), (30, True)])
def test_few_texts_are_read_as_they_are_and_many_have_shares(tmp_path: Path, count: int, *, limited: bool) -> None:
    path = tmp_path / "few.db"
    with duckdb.connect(path) as raw:
        raw.execute("CREATE TABLE notes (person INTEGER, note VARCHAR)")
    tables = {"notes": {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {}}}}
    policy = {"dataset": "notes", "search": False, "budget": {"epsilon": 100}, "tables": tables}
    parts = ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(count))
    with dpsql.connect(path, policy=policy, ledger=":memory:") as db:
        explained = db.explain(f"SELECT count(*) FROM (SELECT DISTINCT person, {parts} FROM notes) AS t")
        assert ("strlen" in str(explained.releases[0].sql)) is limited
