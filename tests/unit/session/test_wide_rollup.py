"""Totals and parts are fitted to each other, also over columns with very wide bounds, and the notes say when."""

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


@pytest.mark.parametrize(
    ("before", "agree"),
    [
        ("SELECT k, count(*) FROM t GROUP BY k", True),
        ("SELECT k, 1.0 * count(*) FILTER (WHERE s = 'x') / nullif(count(*), 0) FROM t GROUP BY k", False),
    ],
)
def test_the_note_tells_of_a_fit_only_where_all_was_fitted(before: str, agree: bool) -> None:
    """An earlier release with other statistics answers a level of the roll-up, which the others are not fitted to."""
    columns = {"k": {"values": ["a", "b"], "nulls": False}, "s": {"values": ["x", "y"], "nulls": False}}
    policy = {
        "dataset": "d",
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"t": {"unit": "u", "columns": columns}},
    }
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE t (u INTEGER, k VARCHAR, s VARCHAR)")
        raw.execute(
            "INSERT INTO t SELECT range // 3, ['a', 'b'][range % 2 + 1], ['x', 'y'][range % 3 // 2 + 1] FROM range(9000)"
        )
        with dpsql.connect(raw, policy=policy, ledger=":memory:") as db:
            db.query(before)
            answer = db.query("SELECT k, s, count(*) AS n FROM t GROUP BY ROLLUP (k, s)")
    counts = {(k, s): n for k, s, n in answer.fetchall()}
    assert (abs(counts["a", "x"] + counts["a", "y"] - counts["a", None]) <= 2) == agree
    assert any("fitted to each other" in note for note in answer.notes) == agree
