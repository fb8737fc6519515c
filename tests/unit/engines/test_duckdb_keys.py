"""Group keys in SQL: a row whose key is not in the declared list is in no group, however the groups are bounded."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.key_codes import lookup
from dpsql.expressions.types import from_engine

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
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6}, "tables": {"t": table}}
    with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
        [made] = trace(db, sql, salt=b"s", epsilon=1.0)
        return made.rule, made.keys, [[int(value) for value in each.values] for each in made.statistics]


@pytest.mark.parametrize(("values", "kind"), [((5, 3, 5, 7, 3), "BIGINT"), (("b", "a", "b"), "VARCHAR")])
def test_a_lookup_has_each_value_once_at_its_first_place(values: tuple[Any, ...], kind: str) -> None:
    """A value that stood there twice would count its rows twice."""
    type_ = from_engine(kind)
    assert type_ is not None
    found = duckdb.sql(f"SELECT v, i FROM {lookup(DUCKDB, values, type_)} AS l ORDER BY i").fetchall()
    assert found == [(value, values.index(value)) for value in dict.fromkeys(values)]


@pytest.mark.parametrize("listed", range(1, 8))
def test_a_row_has_the_place_of_its_key_however_many_are_listed(listed: int) -> None:
    """Few keys are told apart in the row, many are looked up: the groups are the same."""
    values = [10 * i for i in range(listed, 0, -1)]
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT range AS u, 10 * (range % 9) AS k FROM range(90)")
    table = {"unit": "u", "max_rows_per_unit": 1, "columns": {"k": {"values": values, "nulls": False}}}
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1e6},
        "limits": {"epsilon": 1e5},
        "tables": {"t": table},
    }
    with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
        [made] = trace(db, "SELECT k, count(*) FROM t GROUP BY k", salt=b"s", epsilon=1.0)
        [counts] = made.statistics
        assert made.keys == tuple((value,) for value in values)
        assert [n * counts.grid for n in counts.values] == [10] * listed
        for asked, wanted in (("min(k)", 10), ("max(k)", 10 * listed), ("mode(k)", None)):
            [(found,)] = db.query(f"SELECT {asked} FROM t WHERE k > 0", epsilon=1e5).fetchall()
            assert found == wanted or (wanted is None and found in values)


@pytest.mark.parametrize("what", ["count(*)", "sum(n)", "count(DISTINCT u)", "count(DISTINCT u), avg(n), count(*)"])
@pytest.mark.parametrize("keys", ["a", "b", "a, b", "b, a"])
def test_rows_outside_the_lists_change_nothing(what: str, keys: str) -> None:
    sql = f"SELECT {keys}, {what} FROM t GROUP BY {keys}"
    inside = [row for row in OUTSIDE if not (set(keys) & {"a"}) or row[1] in ("x", "y")]
    inside = [row for row in inside if not (set(keys) & {"b"}) or row[2] in range(1, 7)]
    assert traced(INSIDE + OUTSIDE, sql) == traced(INSIDE + inside, sql)


def test_values_outside_the_list_are_one_group_in_which_a_value_counts_once() -> None:
    """A unit's rows with different unlisted keys meet in the group of NULL: its values there use up its cap once."""
    said = {
        "unit": "u",
        "max_rows_per_unit": 40,
        "columns": {"k": {"values": list("abcdef")}, "x": {"min": 0, "max": 99}},
    }
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 9, "delta": 1e-6}, "tables": {"t": said}}
    with duckdb.connect() as own:
        own.execute("CREATE TABLE t AS SELECT 1 AS u, k, x FROM range(30) AS r(x), (VALUES ('y'), ('z')) AS v(k)")
        with dpsql.connect(own, policy=policy, ledger=":memory:", steward=True) as db:
            [release] = trace(db, "SELECT k, count(DISTINCT x) AS n FROM t GROUP BY k", salt=b"s")
    [statistic] = release.statistics
    found = {key: value * statistic.grid for (key,), value in zip(release.keys, statistic.values, strict=True)}
    assert found == {**dict.fromkeys("abcdef", 0), None: 30}
