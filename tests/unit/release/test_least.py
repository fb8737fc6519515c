"""The least price of an absolute goal: it is met exactly, a little less would miss it, and a refusal says what is possible."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.answers.accuracy import Goal, cheapest, least_price, read_goals
from dpsql.answers.analytic_bars import half_width
from dpsql.budget.pricing import Bill, Funds, Portions, allocate, charge_of, fund, spend
from dpsql.budget.shares import Price
from dpsql.options import Accuracy
from dpsql.plan.plan import Plan
from dpsql.query_draft import PreparedQuery

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 50, "delta": 1e-6},
    "limits": {"epsilon": 8},
    "tables": {
        "t": {"unit": "u", "max_rows_per_unit": 3,
              "columns": {"x": {"min": 0, "max": 10, "nulls": False}, "y": {"min": -5, "max": 20}, "k": {"values": ["a"]}, "c": {}}},
        "v": {"unit": "row", "columns": {"x": {"min": 0, "max": 10}}},
    },
}  # fmt: skip
CASES: list[tuple[str, Accuracy]] = [
    ("SELECT count(*) AS n FROM t", 100),
    ("SELECT count(*) AS n FROM v", 3),
    ("SELECT count(*) AS n FROM v", dpsql.Within(3, confidence=0.99)),
    ("SELECT sum(x) AS s FROM t", 250),
    ("SELECT k, count(*) AS n, sum(y) AS s FROM t GROUP BY k", {"n": 40, "s": 900}),
    ("SELECT count(*) AS n, sum(x) AS s FROM t", {"n": 100, "s": 300}),
    ("SELECT count(*) AS n, sum(x) AS s FROM t", {"n": 12, "s": 800}),
    ("SELECT c, count(*) AS n FROM t GROUP BY c", 50),
    ("SELECT count(DISTINCT u) AS n, sum(y) AS s FROM t", {"n": 7, "s": 900}),
]


@pytest.fixture
def db() -> dpsql.Connection:
    frame = pd.DataFrame({"u": [1, 2], "x": [1.0, 2.0], "y": [1.0, 2.0], "k": ["a", "a"], "c": ["p", "q"]})
    return dpsql.connect({"t": frame, "v": frame[["x"]]}, policy=POLICY, ledger=":memory:")


def priced(db: dpsql.Connection, sql: str, accuracy: Accuracy, mechanism: str) -> tuple[PreparedQuery, Bill, Funds]:
    prepared = db.prepare(sql, epsilon=8, delta=1e-7 if "GROUP BY c" in sql else None, mechanism=mechanism)
    bounded = [p.bounded for p in prepared.bill.releases]
    funds = fund(bounded, Price(Fraction(8), prepared.bill.delta), mechanism)
    return prepared, cheapest(bounded, prepared.plan, read_goals(accuracy, prepared.plan.outputs), funds), funds


def portions(bill: Bill) -> Portions:
    """What each share was given, from what it costs."""
    made = []
    for p in bill.releases:
        charges = [charge_of([_only(p, i)]) for i in range(len(p.bounded.shares))]
        made.append(
            tuple(Fraction((c.epsilon if bill.mechanism == "laplace" else c.rho) or 0, 10**40) for c in charges if c)
        )
    return tuple(made)


def exact_enough(bill: Bill, plan: Plan, goals: Sequence[Goal]) -> bool:
    """Does a bill meet goals that can be foreseen?"""
    made = {priced.bounded.release.name: priced for priced in bill.releases}
    direct = [(goal.within, plan.outputs[goal.column].direct or ("", 0)) for goal in goals]
    return all((half_width(made[n], i, w.confidence) or 0.0) <= w.size for w, (n, i) in direct)


def _only(p, index):  # type: ignore[no-untyped-def]
    bounded = replace(p.bounded, shares=(p.bounded.shares[index],))
    return replace(p, bounded=bounded, selection=None, portion=replace(p.portion, tail=Fraction(0)))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("sql", "accuracy"), CASES)
def test_goals_are_met_and_a_thousandth_less_for_any_share_would_miss(
    db: dpsql.Connection, sql: str, accuracy: Accuracy, mechanism: str
) -> None:
    prepared, bill, funds = priced(db, sql, accuracy, mechanism)
    goals = read_goals(accuracy, prepared.plan.outputs)
    assert exact_enough(bill, prepared.plan, goals)
    bounded = [replace(p.bounded, selection=None) for p in bill.releases]
    given = portions(bill)
    for number, shares in enumerate(given):
        for index in range(len(shares)):
            less = [list(each) for each in given]
            less[number][index] *= Fraction(999, 1000)
            smaller = spend(bounded, tuple(map(tuple, less)), replace(funds, slack=Fraction(0)))
            assert not exact_enough(smaller, prepared.plan, goals), (number, index)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_answer_has_the_error_that_was_asked_for_and_the_cost_that_was_told(
    db: dpsql.Connection, mechanism: str
) -> None:
    for sql, accuracy in CASES:
        delta = 1e-7 if "GROUP BY c" in sql else None
        told = db.explain(sql, accuracy=accuracy, mechanism=mechanism, delta=delta)
        result = db.query(sql, accuracy=accuracy, mechanism=mechanism, delta=delta)
        assert result.cost == told.cost
        assert "the lowest price that gives" in str(told)
        for goal in read_goals(accuracy, result.plan.outputs):
            bars = result.intervals(goal.within.confidence)
            widths = (bars[f"{goal.name}_high"] - bars[f"{goal.name}_low"]) / 2
            assert (widths <= goal.within.size + 0.5).all()
        again = db.query(sql, accuracy=accuracy, mechanism=mechanism, delta=delta)
        assert again.replayed
        assert again.cost.epsilon == 0


def test_a_loose_column_does_not_pay_for_a_tight_one(db: dpsql.Connection) -> None:
    sql = "SELECT count(DISTINCT u) AS n, sum(y) AS s FROM t"
    for mechanism in ("laplace", "gaussian"):
        prepared, bill, _ = priced(db, sql, {"n": 200, "s": 300}, mechanism)
        equal = allocate([p.bounded for p in bill.releases], Price(bill.epsilon, prepared.bill.delta), mechanism)
        assert not exact_enough(equal, prepared.plan, read_goals({"n": 200, "s": 300}, prepared.plan.outputs))
        assert half_width(bill.releases[0], 1, 0.95) == pytest.approx(300, rel=1e-3)
        assert half_width(bill.releases[0], 0, 0.95) == pytest.approx(200, rel=1e-2)


def test_a_column_without_a_goal_gets_the_mean_of_the_others(db: dpsql.Connection) -> None:
    [given] = portions(priced(db, "SELECT count(DISTINCT u) AS n, sum(y) AS s FROM t", {"n": 7}, "laplace")[1])
    assert float(given[0]) == pytest.approx(float(given[1]), rel=1e-3)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("sql", "accuracy"), [*((sql, 0.01) for sql, _ in CASES), (CASES[4][0], {"s": 3}), (CASES[3][0], 1e-12)]
)
def test_what_does_not_fit_is_refused_before_any_charge_and_its_hint_works(
    db: dpsql.Connection, sql: str, accuracy: Accuracy, mechanism: str
) -> None:
    options = {"mechanism": mechanism, "epsilon": 0.5, "delta": 1e-7}
    with pytest.raises(dpsql.BudgetExceeded, match=r"epsilon 0\.5 gives") as caught:
        db.query(sql, accuracy=accuracy, **options)  # type: ignore[arg-type]
    assert db.budget().dataset.spent.epsilon == 0
    assert caught.value.hint is not None
    looser = ast.literal_eval(caught.value.hint.partition("accuracy=")[2].partition("}")[0] + "}")
    assert db.query(sql, accuracy=looser, **options).cost.epsilon <= 0.5  # type: ignore[arg-type]


def test_a_better_answer_that_was_released_at_the_usual_price_is_taken_for_nothing(db: dpsql.Connection) -> None:
    better = db.query("SELECT count(*) AS n FROM v")
    result = db.query("SELECT count(*) AS n FROM v", accuracy=500)
    assert result.replayed
    assert result.fetchall() == better.fetchall()
    assert not db.query("SELECT count(*) AS n FROM v", accuracy=5).replayed


def test_the_least_price_of_a_monotone_test() -> None:
    for edge in np.geomspace(1e-9, 0.99, 20):
        found = least_price(lambda price, e=edge: price >= Fraction(e), Fraction(1))  # type: ignore[misc]
        assert found is not None
        assert edge <= found <= edge * 1.0002
    assert least_price(lambda price: price > 1, Fraction(1)) is None
