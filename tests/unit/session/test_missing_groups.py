"""Groups of a missing key: shown where they are declared or known from the numbers, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql

COLUMNS: dict[str, Any] = {
    "open": {"values": ["a", "b"]}, "said": {"values": ["a", "b"], "nulls": True}, "never": {"values": ["a", "b"], "nulls": False},
    "full": {"values": ["a", "b"]}, "x": {"min": 0, "max": 10}, "day": {"min": "2024-01-01", "max": "2024-01-02"},
}  # fmt: skip
POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1e6, "delta": 1e-3}, "limits": {"epsilon": 1e4},
    "tables": {"t": {"unit": "row", "columns": COLUMNS}},
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    """Of `open` and `said` no value is missing, of `full` a tenth, and of `never` a tenth against the policy."""
    with duckdb.connect() as raw:
        raw.execute(
            "CREATE TABLE t AS SELECT w AS open, w AS said, CASE WHEN i % 10 > 0 THEN w END AS never, "
            "CASE WHEN i % 10 > 0 THEN w END AS full, (i % 7)::DOUBLE AS x, DATE '2024-01-01' + (i % 2)::INTEGER AS day "
            "FROM (SELECT i, ['a', 'b'][i % 2 + 1] AS w FROM range(5000) r(i))"
        )
        with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as made:
            yield made


def _keys(result: dpsql.Result) -> list[Any]:
    return [row[0] for row in result.fetchall()]


@pytest.mark.parametrize("aggregate", ["count(*)", "sum(x)", "avg(x)", "count(*), sum(x), avg(x)"])
def test_only_what_is_declared_or_stands_out_is_shown(db: dpsql.Connection, aggregate: str) -> None:
    shown = {
        k: _keys(db.query(f'SELECT "{k}", {aggregate} FROM t GROUP BY "{k}" ORDER BY 1', epsilon=1))
        for k in ("open", "said", "never", "full")
    }
    assert shown == {"open": ["a", "b"], "said": ["a", "b", None], "never": ["a", "b"], "full": ["a", "b", None]}


@pytest.mark.parametrize("key", ["day", "x > 3", "upper(open)", "CASE WHEN open = 'a' THEN 'x' ELSE 'y' END"])
def test_computed_keys_too(db: dpsql.Connection, key: str) -> None:
    assert None not in _keys(db.query(f"SELECT {key} AS k, count(*) FROM t GROUP BY {key}", epsilon=1))


def test_of_several_keys_each_is_judged(db: dpsql.Connection) -> None:
    rows = db.query('SELECT open, "full", said, count(*) FROM t GROUP BY ALL', epsilon=2).fetchall()
    assert {row[0] for row in rows} == {"a", "b"} and {row[1] for row in rows} == {"a", "b", None}
    assert {row[2] for row in rows} == {"a", "b", None} and len(rows) == 2 * 3 * 3


def test_nothing_is_computed_from_a_group_that_is_not_shown(db: dpsql.Connection) -> None:
    result = db.query(
        "SELECT count(*) AS groups, min(n) AS least FROM (SELECT open, count(*) AS n FROM t GROUP BY open)", epsilon=1
    )
    [(groups, least)] = result.fetchall()
    assert groups == 2 and least > 2_000
    low, high = result.bars()[1][0]  # type: ignore[index]
    assert low > 2_000 and low <= least <= high


def test_a_note_says_so_and_a_replay_shows_the_same(db: dpsql.Connection) -> None:
    sql = "SELECT open, count(*) AS n, sqrt(abs(count(*))) AS root FROM t GROUP BY open"
    first, again = db.query(sql, epsilon=1), db.query(sql, epsilon=1)
    assert again.replayed and again.fetchall() == first.fetchall() and len(first.intervals()) == 2
    assert any("missing open" in note for note in first.notes)
    assert not any(
        "missing" in note for note in db.query('SELECT "full", count(*) AS n FROM t GROUP BY "full"', epsilon=1).notes
    )


def test_a_total_keeps_its_parts(db: dpsql.Connection) -> None:
    rows = db.query("SELECT open, count(*) AS n FROM t GROUP BY ROLLUP (open)", epsilon=1).fetchall()
    assert len(rows) == 3 and sorted(abs(n) for _, n in rows)[-1] > 4_900


def test_a_phantom_is_rare(db: dpsql.Connection) -> None:
    """One in a hundred at most; a group of no rows was shown each time before."""
    seen = sum(
        None in _keys(db.query(f"SELECT open, count(*) FROM t WHERE x > -{i} GROUP BY open", epsilon=0.1))
        for i in range(1, 201)
    )
    assert seen <= 8
