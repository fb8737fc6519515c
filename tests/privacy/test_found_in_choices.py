"""Each break that a review of choices, windows, marks and views found, as a test of the behaviour that closes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.sensitivity.argument import Argument, summed

BETWEEN = {"min": 0.001, "max": 0.009}
"""Bounds between which a DECIMAL(10, 2) has no value."""


def connect(rows: str, columns: dict[str, Any]) -> dpsql.Connection:
    """The steward's connection to one table of amounts, a row per person."""
    data = duckdb.connect()
    data.execute(f"CREATE TABLE t AS SELECT id, CAST(a AS DECIMAL(10, 2)) AS a FROM (VALUES {rows}) AS v(id, a)")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1e9, "delta": 1e-6},
        "tables": {"t": {"unit": "id", "columns": columns}},
    }
    return dpsql.connect(data, policy=policy, ledger=":memory:", steward=True)


# cells ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["median", "min", "max", "mode"])
def test_a_choice_has_the_same_cells_whatever_the_data_are(function: str) -> None:
    """Decimals whose bounds hold no value of theirs fell into a cell beside the grid, which only their rows made."""
    for rows in ("(1, 60)", "(1, -60)", "(1, 0)", "(1, NULL)", "(1, 0.01), (2, 0)"):
        with connect(rows, {"a": BETWEEN}) as db:
            sql = f"SELECT {function}(a) FROM t"
            [release] = dpsql.audit.trace(db, sql, salt=b"salt", epsilon=1.0, mechanism="laplace")
            assert [len(s.values) for s in release.statistics] == [1]
            assert db.query(sql, epsilon=1.0, mechanism="laplace").fetchall() in ([(Decimal("0.01"),)], [(None,)])


def test_bounds_that_hold_no_value_clamp_every_row_to_one() -> None:
    """The same bounds, under sums and averages."""
    with connect("(1, 60), (2, -60), (3, NULL)", {"a": BETWEEN}) as db:
        for mechanism in ("laplace", "gaussian"):
            [release] = dpsql.audit.trace(
                db, "SELECT sum(a), avg(a) FROM t", salt=b"salt", epsilon=1.0, delta=1e-7, mechanism=mechanism
            )
            for s in release.statistics:
                assert s.linf is not None and all(abs(value) <= 2 * s.linf for value in s.values)
            shown = db.query("SELECT avg(a) FROM t", epsilon=1e5, delta=1e-7, mechanism=mechanism).fetchall()
            assert shown[0][0] == pytest.approx(0.01)


def test_an_argument_is_never_made_with_its_ends_in_the_wrong_order() -> None:
    from dpsql.bounds.domain import interval
    from dpsql.expressions.expression import Column
    from dpsql.expressions.types import decimal

    column = Column(decimal(-(10**10), 10**10, 2), name="a")
    made = summed(column, interval(Decimal("0.001"), Decimal("0.009")))
    assert (made.lower, made.upper) == (1, 1)
    with pytest.raises(dpsql.Error, match="invariant"):
        Argument(column, made.domain, 1, 0, made.grid)


# rows that are repeated ------------------------------------------------------------------------------------------------


def test_unnest_leaves_no_key_of_a_nested_result() -> None:
    """One row, or one per group, was relied on though UNNEST makes several: it was noticed after the charge only."""
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT i AS id, 'a' AS kind FROM range(5) AS r(i)")
    columns = {"kind": {"values": ["a", "b"]}}
    for unit in ("row", "id"):
        policy = {
            "dataset": "d",
            "search": False,
            "budget": {"epsilon": 1e9, "delta": 1e-6},
            "defaults": {"max_rows_per_unit": 1},
            "tables": {"t": {"unit": unit, "columns": columns}},
        }
        with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
            for sql in (
                "SELECT count(*) FROM t, (SELECT unnest([1, 2, 3]) AS a)",
                "SELECT count(*) FROM t, (SELECT unnest([count(*), 2, 3]) AS a FROM t)",
                "SELECT count(*) FROM t, (SELECT unnest(l) AS a FROM (SELECT [1, 2] AS l))",
                "SELECT count(*) FROM t JOIN (SELECT kind, unnest([count(*), 2]) AS a FROM t GROUP BY kind) USING (kind)",
            ):
                if unit == "row":
                    with pytest.raises(dpsql.UnsupportedQuery, match="multiply"):
                        db.explain(sql, epsilon=1.0)
                    continue
                *_, release = dpsql.audit.trace(db, sql, salt=b"salt", epsilon=1.0, mechanism="laplace")
                [counted] = release.statistics
                assert counted.l1 is not None and 0 < sum(counted.values) <= 5 * counted.l1


@pytest.mark.parametrize("type_", ["INTEGER", "BIGINT", "DOUBLE"])
@pytest.mark.parametrize("function", ["median", "min", "max"])
def test_a_choice_between_wide_bounds_is_made_whatever_the_data_are(function: str, type_: str) -> None:
    """The distance of two ends of a type does not fit into the type: a query failed exactly when a large value was there."""
    end = {"INTEGER": 2 * 10**9, "BIGINT": 2**62, "DOUBLE": 2**62}[type_]
    for value in (end, -end, 0):
        data = duckdb.connect()
        data.execute(f"CREATE TABLE t AS SELECT 1 AS id, CAST({value} AS {type_}) AS a")
        policy = {
            "dataset": "d",
            "search": False,
            "budget": {"epsilon": 1e9, "delta": 1e-6},
            "tables": {"t": {"unit": "id", "columns": {"a": {"min": -end, "max": end}}}},
        }
        with dpsql.connect(data, policy=policy, ledger=":memory:", steward=True) as db:
            assert db.query(f"SELECT {function}(a) FROM t", epsilon=1.0).fetchall()
