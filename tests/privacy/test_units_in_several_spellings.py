"""One person in several spellings is one person to the database, so such a column leads to no owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot.errors import ParseError

import dpsql
from dpsql.engines.duckdb.system_catalogue import columns_of_spellings
from dpsql.errors import PolicyError

COLLATIONS = ("NOCASE", "NOACCENT", "NFC", "NOCASE.NOACCENT", "de")
DIRECT = {"t": {"unit": "id", "max_rows_per_unit": 1}}
LINKED = {"people": {"unit": "id", "max_rows_per_unit": 1}, "t": {"unit": {"person": "people.id"}}}


def opened(source: Any, tables: dict[str, Any]) -> dpsql.Connection:
    policy = {"dataset": "spellings", "search": False, "budget": {"epsilon": 10}, "tables": tables}
    return dpsql.connect(source, policy=policy, ledger=":memory:", steward=True)


@pytest.mark.parametrize("collation", COLLATIONS)
@pytest.mark.parametrize("stored", [True, False], ids=["file", "connection"])
def test_an_id_in_several_spellings_is_no_unit(tmp_path: Path, collation: str, *, stored: bool) -> None:
    """Four rows of ann would be four units, and move a count by 4 for a claim of 1."""
    path = tmp_path / "data.db"
    raw = duckdb.connect(path if stored else ":memory:")
    raw.execute(
        f"CREATE TABLE t(id VARCHAR COLLATE {collation}); INSERT INTO t VALUES ('ann'), ('ANN'), ('Ann'), ('ánn')"
    )
    if stored:
        raw.close()
    with pytest.raises(PolicyError, match="several spellings for one unit"):
        opened(path if stored else raw, DIRECT).query("SELECT count(*) FROM t", epsilon=1)


@pytest.mark.parametrize("column", ["person", "id"])
def test_neither_end_of_a_foreign_key_has_several_spellings(column: str) -> None:
    raw, collated = duckdb.connect(), {column: "COLLATE NOCASE"}
    raw.execute(f"CREATE TABLE people(id VARCHAR {collated.get('id', '')})")
    raw.execute(f"CREATE TABLE t(person VARCHAR {collated.get('person', '')})")
    with pytest.raises(PolicyError, match="several spellings for one unit"):
        opened(raw, LINKED).query("SELECT count(*) FROM t", epsilon=1)


def test_collations_are_found_whatever_else_a_statement_says() -> None:
    raw = duckdb.connect()
    raw.execute(
        """CREATE TABLE "a ""collate"" b"("x, COLLATE C" VARCHAR COLLATE NOCASE UNIQUE DEFAULT ' COLLATE y', b VARCHAR,
        "collate" VARCHAR, e VARCHAR COLLATE C, f VARCHAR COLLATE "binary", g VARCHAR COLLATE POSIX,
        d VARCHAR COLLATE NOCASE.NOACCENT NOT NULL CHECK (d <> 'e COLLATE NOCASE'), s STRUCT("e COLLATE NOCASE" VARCHAR))"""
    )
    raw.execute('CREATE TEMP TABLE z AS SELECT d, e FROM "a ""collate"" b"')
    table = 'a "collate" b'
    assert columns_of_spellings(raw) == {(False, table, "x, collate c"), (False, table, "d"), (True, "z", "d")}


def test_a_statement_that_cannot_be_read_leaves_no_column_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ParseError("no")

    monkeypatch.setattr("dpsql.engines.duckdb.system_catalogue.sqlglot.parse_one", fails)
    raw = duckdb.connect()
    raw.execute("CREATE TABLE t(a VARCHAR COLLATE NOCASE, b VARCHAR); CREATE TABLE u(c VARCHAR)")
    assert columns_of_spellings(raw) == {(False, "t", "a"), (False, "t", "b")}
