"""Whose word on the price counts: keyword, then hint, then setting, then policy; never above the limits."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

import dpsql

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 5, "delta": 1e-6},
    "limits": {"epsilon": 1, "delta": 1e-7},
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}}}},
}
SQL = "SELECT count(*) AS n FROM t"
HINTED = "SELECT /*+ epsilon(0.3) */ count(*) AS n FROM t"


def connect() -> dpsql.Connection:
    return dpsql.connect({"t": pd.DataFrame({"u": [1, 2], "x": [1.0, 2.0]})}, policy=POLICY, ledger=":memory:")


def test_a_keyword_goes_before_a_hint_and_a_hint_before_a_setting() -> None:
    with connect() as db:
        assert db.explain(SQL).cost.epsilon == 0.5
        assert db.settle("SET dpsql.epsilon = 0.2")
        assert db.explain(SQL).cost.epsilon == 0.2
        assert db.explain(HINTED).cost.epsilon == 0.3
        assert db.explain(HINTED, epsilon=0.4).cost.epsilon == 0.4
        assert db.query(HINTED).cost.epsilon == 0.3
        assert db.query(HINTED, epsilon=0.4).cost.epsilon == 0.4
        db.settle("RESET ALL")
        assert db.query(SQL).cost.epsilon == 0.5


def test_the_hint_is_no_part_of_the_query() -> None:
    with connect() as db:
        db.query(SQL, epsilon=0.3)
        assert db.query(HINTED).replayed


def test_a_cursor_takes_settings_and_has_no_answer_then() -> None:
    with connect() as db:
        cursor = db.cursor()
        cursor.execute(SQL)
        cursor.execute("SET dpsql.epsilon = 0.2; ")
        assert cursor.description is None
        assert cursor.rowcount == -1
        with pytest.raises(dpsql.InterfaceError):
            cursor.fetchall()
        cursor.execute("SET dpsql.mechanism = laplace")
        cursor.execute(SQL)
        assert cursor.result is not None
        assert (cursor.result.cost.epsilon, cursor.result.mechanism) == (0.2, "laplace")
        with pytest.raises(dpsql.UnsupportedQuery, match="SET is not a query") as caught:
            cursor.execute("SET threads = 1")
        assert "SET dpsql.epsilon = 0.2" in str(caught.value)


@pytest.mark.parametrize("setting", ["epsilon = 1.5", "delta = 1e-6", "epsilon = 0", "epsilon = -1", "epsilon = nan"])
def test_a_setting_beyond_the_limits_is_refused_at_once_and_changes_nothing(setting: str) -> None:
    with connect() as db:
        with pytest.raises((dpsql.PolicyError, dpsql.ParseError)):
            db.settle(f"SET dpsql.{setting}")
        assert db.asked.epsilon is None and db.asked.delta is None


def test_a_hint_beyond_the_limits_is_refused_as_a_keyword_is() -> None:
    with connect() as db:
        with pytest.raises(dpsql.PolicyError, match=r"up to 1, not 1\.5"):
            db.query("SELECT /*+ epsilon(1.5) */ count(*) FROM t")
        with pytest.raises(dpsql.ParseError, match="hint"):
            db.query("SELECT /*+ epsilon=0.5 */ count(*) FROM t")
        assert db.budget().dataset.spent.epsilon == 0


def test_a_named_price_is_the_most_that_an_accuracy_may_cost() -> None:
    with connect() as db:
        db.settle("SET dpsql.epsilon = 0.01")
        with pytest.raises(dpsql.BudgetExceeded, match=r"epsilon 0\.01 gives"):
            db.query(SQL, accuracy=5)
        assert db.query(SQL, accuracy=60, epsilon=Decimal(1)).cost.epsilon <= 1


def test_query_itself_says_where_settings_go() -> None:
    with connect() as db, pytest.raises(dpsql.UnsupportedQuery, match="cursor"):
        db.query("SET dpsql.epsilon = 0.2")
