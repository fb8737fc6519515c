"""The SQL of a vector that is clipped: units are put together only where they may have several rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql

COLUMNS: dict[str, Any] = {"k": {"values": ["a", "b", "c"]}, "x": {"min": 0, "max": 50}}
POLICY: dict[str, Any] = {
    "dataset": "d",
    "search": True,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "trips": {"unit": "id", "columns": COLUMNS},
        "people": {"unit": "id", "unique": True, "columns": COLUMNS},
        "hits": {"unit": "row", "columns": COLUMNS},
    },
}


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    for table in POLICY["tables"]:
        key = " PRIMARY KEY" if table == "people" else ""
        data.execute(f"CREATE TABLE {table} (id INTEGER{key}, k VARCHAR, x DOUBLE)")
    with dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True) as connection:
        yield connection


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("table", "several"), [("trips", True), ("people", False), ("hits", False)])
@pytest.mark.parametrize("sql", ["SELECT k, count(*), sum(x) FROM {} GROUP BY k", "SELECT sum(x), count(*) FROM {}"])
def test_rows_are_put_together_by_unit_where_a_unit_may_have_several(
    db: dpsql.Connection, sql: str, table: str, several: bool, mechanism: str
) -> None:
    [priced] = db.prepare(sql.format(table), epsilon=1, delta=1e-7, mechanism=mechanism).bill.releases
    assert priced.bounded.rule == "vector"
    [text] = db.engine.statements(priced, b"salt")
    assert ("GROUP BY u" in text) == several
    assert f"{2**62}" in text
