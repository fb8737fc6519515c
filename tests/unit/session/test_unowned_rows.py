"""Rows without an owner are not counted, and notes and `explain` say so wherever there may be such rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql

TABLES = {
    "loose": "CREATE TABLE loose AS SELECT CASE WHEN i % 20 = 0 THEN i END AS customer_id, i % 7 AS x FROM range(20000) r(i)",
    "tight": "CREATE TABLE tight (customer_id INTEGER NOT NULL, x INTEGER); INSERT INTO tight SELECT i, 1 FROM range(100) r(i)",
    "people": "CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER); INSERT INTO people SELECT i, 1 FROM range(100) r(i)",
    "things": "CREATE TABLE things (owner INTEGER REFERENCES people (id), x INTEGER)",
    "visits": "CREATE TABLE visits (x INTEGER)",
}  # fmt: skip
X = {"columns": {"x": {"min": 0, "max": 9}}}
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1e3, "delta": 1e-6, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 9, "tables": {"loose": ["x"]}}}},
    "tables": {
        "loose": {"unit": "customer_id", **X}, "tight": {"unit": "customer_id", **X}, "people": {"unit": "id"},
        "things": {"unit": {"owner": "people.id"}, **X}, "visits": {"unit": "row", **X},
    },
}  # fmt: skip


@pytest.fixture
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for text in TABLES.values():
            made.execute(text)
        yield made


def _notes(
    raw: duckdb.DuckDBPyConnection, sql: str, analyst: str = "ana", policy: dict[str, Any] = POLICY
) -> list[str]:
    with dpsql.connect(raw, policy=policy, ledger=":memory:", analyst=analyst) as db:
        explained, answered = db.explain(sql, epsilon=1).notes, db.query(sql, epsilon=1).notes
        found = [[note for note in notes if "not counted" in note] for notes in (explained, answered)]
        assert found[0] == found[1]
        return found[0]


def test_rows_without_an_owner_are_named_but_not_their_number(raw: duckdb.DuckDBPyConnection) -> None:
    assert _notes(raw, "SELECT count(*) FROM loose") == ["rows of loose whose customer_id is missing are not counted"]
    assert _notes(raw, "SELECT sum(x) FROM things") == ["rows of things whose owner is missing are not counted"]


@pytest.mark.parametrize("table", ["tight", "people", "visits"])
def test_where_a_constraint_rules_them_out_nothing_is_said(raw: duckdb.DuckDBPyConnection, table: str) -> None:
    assert _notes(raw, f"SELECT count(*) FROM {table}") == []


def test_the_policy_can_rule_them_out(raw: duckdb.DuckDBPyConnection) -> None:
    said = {**POLICY["tables"]["loose"], "columns": {**X["columns"], "customer_id": {"nulls": False}}}
    assert (
        _notes(raw, "SELECT count(*) FROM loose", policy={**POLICY, "tables": {**POLICY["tables"], "loose": said}})
        == []
    )


def test_a_column_that_an_analyst_may_not_see_is_not_named(raw: duckdb.DuckDBPyConnection) -> None:
    [note] = _notes(raw, "SELECT count(*) FROM loose", "bob")
    assert note == "rows of loose that lead to nobody are not counted"


def test_tables_of_a_join_share_a_note(raw: duckdb.DuckDBPyConnection) -> None:
    [note] = _notes(raw, "SELECT count(*) FROM loose JOIN tight USING (customer_id)")
    assert "loose" in note and "tight" not in note
