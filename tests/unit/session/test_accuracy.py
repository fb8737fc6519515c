"""Accuracy where the price depends on the answer: a pilot, charged and visible, then what follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.answers.accuracy import read_goals
from dpsql.answers.pilot_pricing import sufficient_price
from dpsql.options import Accuracy, QueryOptions

UNITS = 20_000
TABLES = {
    "t": {"unit": "u", "max_rows_per_unit": 1,
          "columns": {"x": {"min": 0, "max": 10, "nulls": False}, "k": {"values": ["a", "b", "none"], "nulls": False}, "c": {}}}
}  # fmt: skip
COUNT = "SELECT count(*) AS n FROM t"
CASES: list[tuple[str, Accuracy]] = [
    (COUNT, "2%"),
    ("SELECT k, count(*) AS n, sum(x) AS s FROM t WHERE k <> 'none' GROUP BY k", "5%"),
    ("SELECT avg(x) AS a FROM t", dpsql.Within(0.05, confidence=0.9)),
    ("SELECT k, avg(x) AS a FROM t GROUP BY k HAVING count(*) > 1000", {"a": "3%"}),
    ("SELECT sum(x) / count(*) AS r FROM t", "2%"),
    ("SELECT c, count(*) AS n FROM t GROUP BY c", "5%"),
]


def frame(units: int = UNITS) -> pd.DataFrame:
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {"u": np.arange(units), "x": random.uniform(2, 6, units), "k": np.where(np.arange(units) % 5 == 0, "b", "a"),
         "c": np.array(["p", "q"])[np.arange(units) % 2]}
    )  # fmt: skip


def connect(units: int = UNITS, ledger: str | Path = ":memory:", **policy: object) -> dpsql.Connection:
    chosen = {"dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6}, "limits": {"epsilon": 2, "delta": 1e-7},
              "defaults": {"delta": 1e-7}, "tables": TABLES, **policy}  # fmt: skip
    return dpsql.connect({"t": frame(units)}, policy=chosen, ledger=ledger)


def worst(result: dpsql.Result, accuracy: Accuracy) -> float:
    """The largest half width over what was asked for."""
    ratios = []
    for goal in read_goals(accuracy, result.plan.outputs):
        bars = result.intervals(goal.within.confidence)
        width = (bars[f"{goal.name}_high"] - bars[f"{goal.name}_low"]) / 2
        size = goal.within.size * (result.df()[goal.name].abs() if goal.within.relative else 1)
        ratios.append(float((width / size).max()))
    return max(ratios)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("sql", "accuracy"), CASES)
def test_the_goal_is_reached_at_no_more_than_was_told_and_the_same_query_is_free(
    sql: str, accuracy: Accuracy, mechanism: str
) -> None:
    with connect() as db:
        told = db.explain(sql, accuracy=accuracy, mechanism=mechanism)
        assert told.cost.epsilon == 2
        assert "at most: a pilot" in str(told)
        assert db.budget().dataset.spent.epsilon == 0
        result = db.query(sql, accuracy=accuracy, mechanism=mechanism)
        assert worst(result, accuracy) <= 1.05
        assert 0 < result.cost.epsilon < 1 and result.cost.rho < told.cost.rho
        assert result.cost.delta <= told.cost.delta
        assert sum("charged first" in note for note in result.notes) == 1
        again = db.query(sql, accuracy=accuracy, mechanism=mechanism)
        assert again.replayed and again.cost.epsilon == 0
        assert again.fetchall() == result.fetchall()


def test_the_pilot_is_charged_and_released_before_the_answer_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    with connect() as db:
        for target, name in ((db.ledger, "reserve"), (db.engine, "run"), (db.ledger, "store")):
            original = getattr(target, name)
            monkeypatch.setattr(target, name, lambda *a, _n=name, _o=original: (order.append(_n), _o(*a))[1])
        result = db.query(COUNT, accuracy="2%")
        charges = [entry.cost for entry in db.ledger.log() if entry.kind == "charge"]
    assert order == ["reserve", "run", "store"] * 2
    assert charges[0] is not None and charges[1] is not None
    assert charges[0].rho < charges[1].rho
    assert result.cost.rho == pytest.approx(charges[0].rho + charges[1].rho)


def test_what_the_account_paid_is_what_the_result_says() -> None:
    for mechanism in ("laplace", "gaussian"):
        with connect() as db:
            result = db.query("SELECT c, count(*) AS n FROM t GROUP BY c", accuracy="5%", mechanism=mechanism)
            spent = db.ledger.spent(None)
            assert spent.rho / 1e40 == pytest.approx(result.cost.rho, rel=1e-9)
            assert spent.delta / 1e40 <= result.cost.delta


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_percentage_is_kept_in_at_least_the_share_of_cases_that_was_asked_for(mechanism: str) -> None:
    """A tenth may miss, so of 80 at most 19 with probability 1 - 1e-4; and it is no tenth of the noise, either."""
    with connect(units=2_000, replay=False, budget={"epsilon": 1_000, "delta": 1e-6}) as db:
        goal = dpsql.Within("10%", confidence=0.9)
        errors = [
            abs(db.query(COUNT, accuracy=goal, mechanism=mechanism).fetchall()[0][0] / 2_000 - 1) for _ in range(80)
        ]
    assert sum(error > 0.1 for error in errors) <= 19
    assert np.mean(errors) > 0.01


@pytest.mark.parametrize(("sql", "accuracy"), CASES)
def test_the_price_is_a_function_of_released_values_only(
    sql: str, accuracy: Accuracy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On neighbours, the same released pilot gives the same price, and no data is read for it."""
    prices = []
    with connect() as one, connect(units=UNITS - 1) as other:
        draft, goals = one.conductor.draft(one._question(sql, None, QueryOptions(accuracy=accuracy)))
        shown = one.conductor.answer(draft.at(draft.stages.pilots[-1]), nonnegative=False)
        for db in (one, other):
            draft, goals = db.conductor.draft(db._question(sql, None, QueryOptions(accuracy=accuracy)))
            own = db.conductor.answer(draft.at(draft.stages.pilots[-1]), nonnegative=False)
            monkeypatch.setattr(db.engine, "run", lambda *_: pytest.fail("the data was read"))
            same = replace(own, released=shown.released, table=shown.table)
            prices.append(sufficient_price(same, goals, draft.stages).price)
    assert prices[0] == prices[1]


def test_a_release_at_any_price_takes_the_place_of_the_pilot() -> None:
    with connect() as db:
        before = db.query(COUNT, epsilon=0.5)
        result = db.query(COUNT, accuracy="5%")
        assert result.replayed and result.fetchall() == before.fetchall()
        assert any("an earlier release" in note for note in result.notes)
        closer = db.query(COUNT, accuracy="0.04%")
        assert not closer.replayed and not any("charged first" in note for note in closer.notes)
        assert db.query(COUNT, accuracy="0.04%").replayed


@pytest.mark.parametrize("accuracy", [300, "5%"])
def test_a_better_answer_that_is_already_there_is_free(accuracy: Accuracy) -> None:
    with connect() as db:
        better = db.query("SELECT count(*) AS n, sum(x) AS s FROM t", epsilon=2)
        result = db.query(COUNT, accuracy=accuracy)
        assert result.replayed and result.cost.epsilon == 0
        assert result.fetchall()[0][0] == better.fetchall()[0][0]


def test_a_better_answer_of_somebody_else_is_not_counted_against_what_a_looser_one_costs(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        t = frame()
        database.register("f", t)
        database.execute("CREATE TABLE t AS SELECT * FROM f")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 100, "delta": 1e-6},
        "limits": {"epsilon": 2},
        "tables": TABLES,
    }
    with dpsql.connect(path, policy=policy, ledger=tmp_path / "l", analyst="ana") as ana:
        ana.query(COUNT, epsilon=2)
    with dpsql.connect(path, policy=policy, ledger=tmp_path / "l", analyst="ben") as ben:
        told = ben.explain(COUNT, accuracy=300).cost
        assert ben.query(COUNT, accuracy=300).cost == told
        account = ben.budget().analyst
        assert account is not None and account.spent.epsilon <= told.epsilon * 1.01


def test_a_looser_goal_is_answered_by_a_tighter_one_and_a_tighter_one_uses_its_pilots() -> None:
    with connect() as db:
        results = [db.query(COUNT, accuracy=accuracy) for accuracy in ("2%", "5%", "0.5%", "2%")]
    assert [result.replayed for result in results] == [False, True, False, True]
    assert results[1].fetchall() == results[0].fetchall()


def test_a_pilot_with_too_much_noise_is_followed_by_a_larger_one_and_never_decides() -> None:
    """Of three groups of very different sizes, all in reach at the limit, none is given up."""
    with connect(units=3_000, replay=False, budget={"epsilon": 1_000, "delta": 1e-6}) as db:
        sql = "SELECT k, avg(x) AS a FROM t WHERE k <> 'none' GROUP BY k"
        results = [db.query(sql, accuracy="10%") for _ in range(20)]
    notes = [note for result in results for note in result.notes]
    assert not any("out of reach" in note for note in notes)
    assert sum("is missed" in note for note in notes) <= 5
    assert all(result.cost.epsilon <= 2 for result in results)
    assert any("pilots were charged first" in note for note in notes)


def test_what_could_be_in_reach_is_answered_with_all_that_is_allowed() -> None:
    with connect(units=20, replay=False, budget={"epsilon": 1_000, "delta": 1e-6}) as db:
        results = [db.query(COUNT, accuracy="40%") for _ in range(20)]
    assert not any("out of reach" in note for result in results for note in result.notes)
    assert sum(result.cost.epsilon > 1.98 for result in results) >= 10


def test_what_is_out_of_reach_costs_the_pilots_only_and_says_what_the_limit_gives() -> None:
    with connect(units=100) as db:
        result = db.query(COUNT, accuracy="0.1%")
        assert any("out of reach" in note and "epsilon 2 would give n ±" in note for note in result.notes)
        assert result.cost.epsilon < 0.25
        assert db.query(COUNT, accuracy="0.1%").replayed


def test_a_row_that_cannot_reach_its_goal_does_not_decide_for_the_others() -> None:
    """An empty group that happens to look larger in the pilots may still cost the whole price: about one run in ten."""
    cheap = 0
    for _ in range(15):
        with connect() as db:
            result = db.query("SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k", accuracy="5%")
            cheap += result.cost.epsilon < 0.5
            assert any("is missed in 1 of 3 rows" in note for note in result.notes)
            shown = dict(result.fetchall())
            assert shown["a"] == pytest.approx(16_000, rel=0.1) and shown["b"] == pytest.approx(4_000, rel=0.1)
    assert cheap >= 8


@pytest.mark.parametrize("accuracy", ["2%", 100])
def test_what_is_left_is_the_most_that_it_may_cost(accuracy: Accuracy) -> None:
    with connect(budget={"epsilon": 2, "delta": 1e-6}, limits={"epsilon": 2}) as db:
        db.query("SELECT sum(x) FROM t", epsilon=1.5)
        left = db.budget().largest
        assert left < 2
        assert db.explain(COUNT, accuracy=accuracy).cost.epsilon <= left
        result = db.query(COUNT, accuracy=accuracy)
        assert 0 < result.cost.epsilon <= left
        assert db.query(COUNT, accuracy=accuracy).replayed


def test_a_refusal_names_an_accuracy_that_fits_what_is_left() -> None:
    with connect(budget={"epsilon": 2, "delta": 1e-6}, limits={"epsilon": 2}) as db:
        db.query("SELECT sum(x) FROM t", epsilon=1.5)
        spent, left = db.budget().dataset.spent, db.budget().largest
        with pytest.raises(dpsql.BudgetExceeded, match="n ± ") as caught:
            db.query(COUNT, accuracy=1)
        assert db.budget().dataset.spent == spent
        assert caught.value.hint is not None
        size = float(caught.value.hint.partition("n ± ")[2].partition(" ")[0])
        assert f"accuracy={{'n': {size:g}}}" in caught.value.hint and f"--within n={size:g} " in caught.value.hint
        assert db.query(COUNT, accuracy={"n": size}).cost.epsilon <= left


def test_a_main_release_that_is_refused_after_all_leaves_the_pilot_that_was_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connect() as db:
        reserve, calls = db.ledger.reserve, []

        def once(request: object) -> int:
            calls.append(request)
            if len(calls) > 1:
                raise dpsql.BudgetExceeded("somebody else was faster")
            return reserve(request)  # type: ignore[arg-type]

        monkeypatch.setattr(db.ledger, "reserve", once)
        result = db.query(COUNT, accuracy="2%")
        assert result.notes[-1] == "this is the pilot only: somebody else was faster"
        assert 0 < result.cost.epsilon < 0.05 and not result.replayed


def test_private_keys_that_no_pilot_shows_tell_no_price() -> None:
    with connect(units=30) as db:
        result = db.query("SELECT c, count(*) AS n FROM t GROUP BY c", accuracy="5%")
        assert result.fetchall() == []
        assert any("no group was shown" in note for note in result.notes)


def test_the_other_mechanism_is_priced_for_the_same_goal() -> None:
    with connect() as db:
        plan = db.explain(COUNT, accuracy=100)
        [other] = plan.alternatives.values()
        assert plan.expected_error()["n"] == pytest.approx(100, rel=0.01)
        assert other.expected_error()["n"] == pytest.approx(100, rel=0.01)
        assert other.cost != plan.cost


def test_a_percentage_of_a_negative_number_is_one_of_its_size() -> None:
    with connect() as db:
        up, down = (db.query(f"SELECT sum({sign}x) AS s FROM t", accuracy="2%") for sign in ("", "-"))
        assert float(down.fetchall()[0][0]) < 0
        assert worst(down, "2%") <= 1 and not any("missed" in note for note in down.notes)
        assert down.cost.epsilon == pytest.approx(up.cost.epsilon, rel=0.2)
