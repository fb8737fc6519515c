"""A query with very many texts in a row says from which length on it reads them as NULL."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpsql

POLICY = {
    "dataset": "notes",
    "budget": {"epsilon": 100},
    "tables": {"notes": {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {}}}},
}
SHARE = 2**26 // 602
"""What DuckDB may carry in a row, shared by the 602 texts of a query with 300 parts."""


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(("count", "told"), [(3, False), (300, True)])
def test_the_length_is_told_where_it_is_short(tmp_path: Path, isolate: bool, count: int, told: bool) -> None:
    with duckdb.connect(tmp_path / "d.duckdb") as data:
        data.execute("CREATE TABLE notes AS SELECT i AS person, 'x' AS note FROM range(9) AS r(i)")
    parts = ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(count))
    sql = f"SELECT count(*) FROM (SELECT DISTINCT person, {parts} FROM notes) AS t"
    with dpsql.connect(tmp_path / "d.duckdb", policy=POLICY, ledger=":memory:", isolate=isolate) as db:
        explained = db.explain(sql)
        for notes in (explained.notes, db.query(sql).notes):
            found = [note for note in notes if "bytes as NULL" in note]
            assert len(found) == told, notes
            assert not told or f"more than {SHARE:,} bytes" in found[0]
        assert (str(SHARE) in str(explained.releases[0].sql)) == told
