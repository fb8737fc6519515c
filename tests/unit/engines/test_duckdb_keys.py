"""Group keys in SQL: a row whose key is not in the declared list is in no group, however the groups are bounded."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit import trace

DECLARED: dict[str, Any] = {
    "a": {"values": ["x", "y"], "nulls": False},
    "b": {"values": [1, 2, 3, 4, 5, 6], "nulls": False},
    "n": {"min": 0, "max": 9},
}
INSIDE = [(1, "x", 1, 3), (1, "y", 2, 4), (2, "x", 6, 9), (3, "y", 1, 1)]
OUTSIDE = [(1, "x", 77, 5), (2, "zzz", 1, 5), (3, "zzz", 77, 5), (4, None, 2, 5), (5, "y", None, 5), (1, "w", 2, 2)]


def traced(rows: list[tuple[object, ...]], sql: str) -> object:
    data = duckdb.connect()
    data.execute("CREATE TABLE t (u INTEGER, a VARCHAR, b INTEGER, n INTEGER)")
    data.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    table = {"unit": "u", "max_rows_per_unit": 5, "max_groups_per_unit": 2, "columns": DECLARED}
    policy = {"dataset": "d", "budget": {"epsilon": 100, "delta": 1e-6}, "tables": {"t": table}}
    with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
        [made] = trace(db, sql, salt=b"s", epsilon=1.0)
        return made.rule, made.keys, [[int(value) for value in each.values] for each in made.statistics]


@pytest.mark.parametrize("what", ["count(*)", "sum(n)", "count(DISTINCT u)", "count(DISTINCT u), avg(n), count(*)"])
@pytest.mark.parametrize("keys", ["a", "b", "a, b", "b, a"])
def test_rows_outside_the_lists_change_nothing(what: str, keys: str) -> None:
    sql = f"SELECT {keys}, {what} FROM t GROUP BY {keys}"
    inside = [row for row in OUTSIDE if not (set(keys) & {"a"}) or row[1] in ("x", "y")]
    inside = [row for row in inside if not (set(keys) & {"b"}) or row[2] in range(1, 7)]
    assert traced(INSIDE + OUTSIDE, sql) == traced(INSIDE + inside, sql)
