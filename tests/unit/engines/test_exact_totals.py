"""The integers to which noise is added are the exact totals, on rows that the bounds, the lists and the owners leave out."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.bounds.domain import Domain
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.emit import _value
from dpsql.engines.sql.from_item import From
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DOUBLE, integer
from dpsql.sensitivity.argument import counted

COLUMNS = {
    "x": {"min": 0, "max": 10}, "f": {"min": -4, "max": 4}, "zero": {"min": 0, "max": 0}, "k": {"values": ["a", "b"], "nulls": False},
    "n": {}, "w": {}, "d": {"min": "2024-01-01", "max": "2024-01-05"}, "m": {"values": [1, 2, 3, 5, 8, 13]},
}  # fmt: skip
ROWS = [
    (1, 3, 1.5, 0, "a", None, 1.0, "2024-01-01", 1),
    (2, 99, -9.0, 7, "a", None, float("nan"), "2024-01-05", 13),
    (3, -5, float("nan"), 0, "b", "odd", float("inf"), "2024-02-01", 4),
    (4, None, None, 0, "c", None, None, None, None),
    (None, 8, 2.0, 0, "a", None, 1.0, "2024-01-02", 2),
    (5, 8, float("inf"), 0, None, None, 1.0, "2024-01-02", 2),
]
"""Of unit 2 all is too large, unit 4 is in no group, and one row has no owner."""


def totals(sql: str, **table: Any) -> dict[Any, list[float]]:
    """By group, the exact totals in their own unit."""
    data = duckdb.connect()
    data.execute("CREATE TABLE t (u INTEGER, x INTEGER, f DOUBLE, zero INTEGER, k VARCHAR, n VARCHAR, w DOUBLE, d DATE, m INTEGER)")  # fmt: skip
    data.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
    if table.get("unique"):
        data.execute("DELETE FROM t WHERE u IS NULL")
        data.execute("CREATE TABLE s (u INTEGER PRIMARY KEY, x INTEGER, f DOUBLE, zero INTEGER, k VARCHAR, n VARCHAR, w DOUBLE, d DATE, m INTEGER)")  # fmt: skip
        data.execute("INSERT INTO s FROM t; DROP TABLE t; ALTER TABLE s RENAME TO t")
    said = {"unit": "u", "columns": COLUMNS} | table
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1e9},
        "limits": {"epsilon": 1e9},
        "tables": {"t": said},
    }
    with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
        [made] = trace(db, sql, salt=b"s", epsilon=1e6, mechanism="laplace")
        listed = [[float(v * each.grid) for v in each.values] for each in made.statistics]
        return dict(zip(made.keys, map(list, zip(*listed, strict=True)), strict=True))


RULES: dict[str, dict[str, Any]] = {
    "row": {"unit": "row"},
    "single_row": {"unique": True},
    "clip": {"max_rows_per_unit": 9},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("what", "wanted"),
    [("sum(x)", 21.0), ("sum(f)", 1.5), ("sum(zero)", 0.0), ("count(x)", 4.0), ("count(f)", 3.0), ("count(w)", 3.0), ("count(*)", 5.0)],
)  # fmt: skip
def test_a_total_is_of_values_moved_to_their_bounds_and_of_no_row_without_one(
    rule: str, what: str, wanted: float
) -> None:
    """Where a row is a unit, the one without owner counts too."""
    own = {"sum(x)": 8.0, "sum(f)": 2.0, "sum(zero)": 0.0}.get(what, 1.0) if rule == "row" else 0.0
    assert totals(f"SELECT {what} FROM t", **RULES[rule]) == {(): [pytest.approx(wanted + own, abs=1e-6)]}


@pytest.mark.parametrize("rule", ["single_row", "clip"])
def test_units_are_counted_beside_totals(rule: str) -> None:
    """Whether all statistics count units or one of several does."""
    found = totals("SELECT k, count(DISTINCT u), sum(x) FROM t GROUP BY k", **RULES[rule])
    assert found == {("a",): [2.0, 13.0], ("b",): [1.0, 0.0]}
    assert totals("SELECT count(DISTINCT u) FROM t", **RULES[rule]) == {(): [5.0]}
    found = totals("SELECT sum(x), count(DISTINCT u), count(f) FROM t", **RULES[rule])
    assert found == {(): [21.0, 5.0, 3.0]}


@pytest.mark.parametrize("rule", ["single_row", "clip"])
def test_a_value_that_is_added_up_and_counted_is_not_counted_where_there_is_none(rule: str) -> None:
    """Such a value is released as what lies above its lower bound and what lies below its upper one."""
    found = totals("SELECT sum(x), count(x), sum(f), count(*) FROM t", **RULES[rule])
    assert found == {(): [21.0, 4 * 10.0 - 21.0, 1.5, 5.0]}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("k", {("a",): 2.0, ("b",): 1.0}),
        ("m", {(1,): 1.0, (2,): 1.0, (3,): 0.0, (5,): 0.0, (8,): 0.0, (13,): 1.0, (None,): 2.0}),
        ("x % 2", None),
        ("d", None),
    ],
)
def test_a_row_counts_in_the_group_of_its_key_and_under_null_if_it_is_not_listed(
    rule: str, key: str, wanted: dict[Any, float] | None
) -> None:
    found = {k: v[0] for k, v in totals(f"SELECT {key}, count(*) FROM t GROUP BY {key}", **RULES[rule]).items()}
    if wanted is None:
        assert sum(found.values()) <= 6.0 and max(found.values()) >= 1.0
        return
    if rule == "row":
        wanted = {
            k: v + (k in (("a",), (2,), (None,)) and not (key == "m" and k == (None,))) for k, v in wanted.items()
        }
    assert found == wanted


@pytest.mark.parametrize("rule", ["single_row", "clip"])
def test_groups_of_two_keys_leave_out_what_is_missing_in_one_of_them(rule: str) -> None:
    found = totals("SELECT k, m, count(*), sum(x) FROM t GROUP BY k, m", **RULES[rule])
    filled = {key: values for key, values in found.items() if any(values)}
    assert filled == {("a", 1): [1.0, 3.0], ("a", 13): [1.0, 10.0], ("b", None): [1.0, 0.0]}


@pytest.mark.parametrize("rule", ["single_row", "clip"])
def test_days_and_different_values_are_told_apart(rule: str) -> None:
    found = totals("SELECT d, count(DISTINCT x) FROM t WHERE d BETWEEN DATE '2024-01-01' AND DATE '2024-01-05' GROUP BY d",
                   **RULES[rule])  # fmt: skip
    assert {key: values for key, values in found.items() if any(values)} == {
        key: [1.0] for key in found if str(key[0]) in ("2024-01-01", "2024-01-02", "2024-01-05")}  # fmt: skip


# one value of a row ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nan", [False, True])
def test_a_value_that_is_only_counted_is_one_for_each_number_and_nothing_for_null_and_nan(nan: bool) -> None:
    column = Column(DOUBLE if nan else integer(0, 9), name="v")
    bounded = type("Bounded", (), {"arguments": [counted(column, Domain(nan=nan)), counted(None, Domain())]})()
    below = From("t", (), {"v": "v"}, None, DUCKDB)
    made = _value(bounded, 0, below, summed=False)
    values = (
        "(0.0), (-1e308), ('inf'::DOUBLE), ('-inf'::DOUBLE), (NULL), ('nan'::DOUBLE)" if nan else "(0), (9), (NULL)"
    )
    found = [one for (one,) in duckdb.sql(f"SELECT {made} FROM (VALUES {values}) AS t(v)").fetchall()]
    assert found == ([1, 1, 1, 1, None, None] if nan else [1, 1, None])
    assert duckdb.sql(f"SELECT {_value(bounded, 1, below, summed=False)}").fetchall() == [(1,)]
