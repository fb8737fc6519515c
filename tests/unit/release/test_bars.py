"""DP_LOW, DP_HIGH and DP_ERROR: the error bar as columns of the answer, free, plain SQL beside the aggregate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.answers.analytic_bars import LinearForm, Quotient, form_of

POLICY = {
    "dataset": "bars", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {"t": {"unit": "row", "columns": {
        "x": {"min": 0, "max": 9, "nulls": False}, "y": {"min": 1, "max": 5, "nulls": False},
        "k": {"values": ["a", "b", "c"], "nulls": False}}}},
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    n = np.arange(3_000)
    frame = pd.DataFrame({"k": np.array(["a", "b", "c"])[n % 3], "x": n % 10 * 1.0, "y": 1.0 + n % 5})
    with dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:") as connection:
        yield connection


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", ["count(*)", "sum(x)", "avg(x)", "sum(x) / sum(y)", "count(*) - 2 * sum(x)"])
def test_the_columns_are_the_ends_of_the_interval(db: dpsql.Connection, sql: str, mechanism: str) -> None:
    bars = f"DP_LOW({sql}, 0.9) AS low, dp_high({sql}, 0.9) AS high, Dp_Error({sql}, 0.9) AS error"
    result = db.query(f"SELECT k, {sql} AS v, {bars} FROM t GROUP BY k", mechanism=mechanism)
    shown, ends = result.df(), result.intervals(0.9)
    assert list(ends.columns) == ["v_low", "v_high"]
    np.testing.assert_allclose(shown["low"], ends["v_low"])
    np.testing.assert_allclose(shown["high"], ends["v_high"])
    np.testing.assert_allclose(shown["error"], np.maximum(shown["high"] - shown["v"], shown["v"] - shown["low"]))
    assert (shown["error"] > 0).all()


def test_bars_cost_nothing_and_are_replayed(db: dpsql.Connection) -> None:
    plain = db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=0.25)
    barred = db.query("SELECT k, count(*) AS n, DP_LOW(n) AS low FROM t GROUP BY k", epsilon=0.25)
    assert barred.replayed
    assert barred.cost.epsilon == 0
    assert barred.df()["n"].tolist() == plain.df()["n"].tolist()
    assert barred.df()["low"].tolist() == plain.intervals()["n_low"].tolist()


def test_a_whole_number_has_whole_ends_and_the_default_is_95_percent(db: dpsql.Connection) -> None:
    result = db.query(
        "SELECT DP_LOW(count(*)), DP_HIGH(count(*), 0.95) AS high, DP_ERROR(avg(x)) AS e, count(*) AS n FROM t"
    )
    assert result.types == ("BIGINT", "BIGINT", "DOUBLE", "BIGINT")
    low, high, _, n = result.fetchall()[0]
    assert n - low == high - n > 0


def test_they_work_in_having_order_by_case_and_outer_queries(db: dpsql.Connection) -> None:
    having = "SELECT k, count(*) AS n FROM t GROUP BY k HAVING DP_LOW(count(*)) > {} ORDER BY DP_HIGH(n) DESC"
    assert len(db.query(having.format(100), epsilon=2)) == 3
    assert len(db.query(having.format(100_000), epsilon=2)) == 0
    outer = "SELECT k, n, low FROM (SELECT k, count(*) AS n, DP_LOW(count(*)) AS low FROM t GROUP BY k) WHERE low > 100"
    assert len(db.query(outer, epsilon=2)) == 3
    chosen = db.query("SELECT k, CASE WHEN DP_LOW(count(*)) > 100 THEN count(*) END AS n FROM t GROUP BY k", epsilon=2)
    ends = chosen.intervals()
    assert (ends["n_low"] < chosen.df()["n"]).all()
    assert (chosen.df()["n"] < ends["n_high"]).all()


def test_any_arithmetic_on_one_group_has_a_bar(db: dpsql.Connection) -> None:
    result = db.query("SELECT k, round(sqrt(count(*)), 2) AS r, DP_LOW(round(sqrt(count(*)), 2)) AS low, "
                      "DP_HIGH(round(sqrt(count(*)), 2)) AS high FROM t GROUP BY k", epsilon=1)  # fmt: skip
    shown = result.df()
    assert ((shown["low"] < shown["r"]) & (shown["r"] < shown["high"])).all()
    np.testing.assert_allclose(shown["high"] ** 2 - shown["r"] ** 2, shown["r"] ** 2 - shown["low"] ** 2, rtol=0.35)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT DP_LOW(count(*), 2) FROM t", "between 0 and 1"),
        ("SELECT DP_LOW(count(*), 0.9, 1), count(*) FROM t", "an aggregate and optionally a confidence"),
        ("SELECT k, DP_LOW(k) FROM t GROUP BY k", "this has no noise"),
        ("SELECT DP_LOW(DP_HIGH(count(*))) FROM t", "an error bar has no error bar"),
        ("SELECT DP_LOW(n) FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", "in the same SELECT as its aggregate"),
        ("SELECT k, DP_LOW(sum(count(*)) OVER ()) FROM t GROUP BY k", "mixes groups"),
        ("SELECT DP_LOW(concat('n', count(*))) FROM t", "takes a number"),
        ("SELECT sum(DP_LOW(x)) FROM t", "cannot be used on private rows"),
    ],
)
def test_what_has_no_bar_is_refused_before_anything_is_charged(db: dpsql.Connection, sql: str, message: str) -> None:
    before = db.budget().dataset.spent
    with pytest.raises(dpsql.Error, match=message):
        db.query(sql)
    assert db.budget().dataset.spent == before


def test_linear_forms_and_quotients_are_recognised_and_nothing_else(db: dpsql.Connection) -> None:
    cases = {
        "2 * count(*) + 1": LinearForm, "-sum(x)": LinearForm, "sum(x) / count(*)": Quotient, "100 * avg(x) - 3": Quotient,
        "1 - sum(x) / nullif(sum(y), 0)": Quotient, "CAST(sum(x) AS DOUBLE) / 3": LinearForm, "1 / count(*)": Quotient,
        "avg(x) / avg(y)": type(None), "count(*) * count(*)": type(None), "count(*) // 2": type(None),
        "abs(count(*))": type(None),
    }  # fmt: skip
    for sql, kind in cases.items():
        prepared = db.prepare(f"SELECT {sql} AS v FROM t", epsilon=1, mechanism="laplace")
        formula = prepared.plan.outputs[0].formula
        assert formula is not None
        assert isinstance(form_of(formula[1], prepared.bill.releases[0]), kind), sql


def test_a_quotient_over_a_count_that_may_be_zero_is_open_above(db: dpsql.Connection) -> None:
    ends = db.query(
        "SELECT sum(y) / sum(x) AS r FROM t WHERE k = 'a' AND x > 8.5 AND y > 4.9", epsilon=0.0005
    ).intervals()
    assert ends["r_low"][0] >= 0
    assert ends["r_high"][0] == np.inf
