"""Totals over columns with very wide bounds are fitted to each other like any others."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

PLAIN = "SELECT k, count(*), avg(wide) FROM t GROUP BY ROLLUP (k)"
BY_UNIT = "SELECT k, count(*), avg(a) FROM (SELECT id, k, avg(wide) AS a FROM t GROUP BY id, k) GROUP BY ROLLUP (k)"


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize("sql", [PLAIN, BY_UNIT])
def test_a_step_whose_square_is_no_number_is_fitted(sql: str, search: bool, mechanism: str) -> None:
    columns = {"k": {"values": ["a", "b"]}, "wide": {"min": -1e200, "max": 1e200}}
    table = {"unit": "id", "unique": True, "columns": columns}
    policy = {
        "dataset": "d",
        "search": search,
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"t": table},
    }
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR, wide DOUBLE)")
        raw.execute("INSERT INTO t SELECT range, ['a', 'b'][range % 2 + 1], range FROM range(300)")
        with dpsql.connect(raw, policy=policy, ledger=":memory:") as db:
            rows = db.query(sql, epsilon=100, mechanism=mechanism).fetchall()
    counts = {(key, place): count for place, (key, count, _) in enumerate(rows)}
    assert [count for (key, _), count in counts.items() if key == "a"] == pytest.approx([150], abs=5)
    assert max(counts.values()) == pytest.approx(300, abs=5)
