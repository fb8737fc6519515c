"""Each break that a review of ledger, replay and prices found, as a test of the behaviour that closes it."""

from __future__ import annotations

import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.budget.ledger import chained_ledger
from dpsql.budget.ledger import entries as hash_chain

POLICY: dict[str, Any] = {
    "dataset": "shop",
    "search": False,
    "budget": {
        "epsilon": 1000,
        "delta": 1e-6,
        "analysts": {
            "ana": {"epsilon": 500},
            "eve": {"epsilon": 2},
            "bob": {"epsilon": 500, "tables": {"orders": ["qty", "amount", "status"]}},
        },
    },
    "limits": {"epsilon": 100, "delta": 1e-8},
    "tables": {
        "orders": {
            "unit": "customer_id",
            "max_rows_per_unit": 20,
            "columns": {
                "amount": {"min": 0, "max": 500},
                "qty": {"min": 0, "max": 10},
                "status": {"values": ["paid", "open"]},
                "secret": {"min": 0, "max": 100},
            },
        }
    },
}
COUNT = "SELECT status, count(*) FROM orders GROUP BY status"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT (i % 600)::INT AS customer_id, (i % 10)::INT AS qty, 1.5::DOUBLE AS amount, "
            "['paid', 'open'][1 + i % 2] AS status, (i % 100)::INT AS secret FROM range(2400) r(i)"
        )
    return path


def connect(database: Path, analyst: str, **changes: Any) -> dpsql.Connection:
    policy = {**copy.deepcopy(POLICY), **changes}
    return dpsql.connect(database, policy=policy, ledger=database.with_suffix(".ledger"), analyst=analyst)


@pytest.mark.parametrize("read", ["sum(secret)", "sum(least(greatest(secret, 0), 42))", "avg(secret)", "count(secret)"])
def test_anothers_release_over_a_hidden_column_is_not_there(database: Path, read: str) -> None:
    with connect(database, "ana") as ana, connect(database, "bob") as bob:
        ana.query(f"SELECT status, count(*), {read} FROM orders GROUP BY status", epsilon=2)
        assert bob.query(COUNT, epsilon=0.5).cost.epsilon == 0.5
    fewer = copy.deepcopy(POLICY["tables"])
    del fewer["orders"]["columns"]["secret"]
    with connect(database, "ana", tables=fewer) as ana:
        assert not ana.query(COUNT, epsilon=1).replayed


def test_a_measured_share_answers_nothing_but_itself(database: Path) -> None:
    with connect(database, "ana") as ana, connect(database, "eve") as eve:
        first = ana.query("SELECT sum(qty) FROM orders", epsilon=2, mechanism="laplace", clipped=True)
        assert eve.query("SELECT count(*) FROM orders", epsilon=0.5, mechanism="laplace").cost.epsilon == 0.5
        again = ana.query("SELECT  sum(qty) FROM orders", epsilon=2, mechanism="laplace", clipped=True)
        assert again.replayed and again.clipped == first.clipped


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders UNION ALL SELECT count(*) FROM orders",
        "SELECT (SELECT count(*) FROM orders WHERE qty > 3) AS a, (SELECT count(*) FROM orders WHERE 3 < qty) AS b",
    ],
)
def test_equal_releases_in_one_query_are_made_and_charged_once(database: Path, sql: str) -> None:
    with connect(database, "ana") as ana:
        made = ana.query(sql, epsilon=1)
        values = [value for row in made.fetchall() for value in row]
        assert values[0] == values[1] and 0 < made.cost.rho < ana.explain(sql, epsilon=1).cost.rho
        assert ana.budget().dataset.spent.rho == pytest.approx(made.cost.rho)
        assert ana.query(f"{sql} ", epsilon=1).fetchall() == made.fetchall()


def test_an_accuracy_costs_no_more_than_was_told(database: Path) -> None:
    sql = "SELECT count(*) FROM orders WHERE qty > 1"
    with connect(database, "ana") as ana, connect(database, "bob") as bob:
        ana.query(sql)
        told = bob.explain(sql, accuracy="9%", epsilon=3).cost
        bob.query(sql, accuracy="9%", epsilon=3)
        own = bob.budget().analyst
        assert own is not None and 0 < own.spent.rho <= told.rho


def test_a_remembered_answer_is_the_one_that_the_ledger_would_replay(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        connect(database, "ana", replay={"keep": "1 day"}) as ana,
        connect(database, "bob", replay={"keep": "1 day"}) as bob,
    ):
        ana.query(COUNT, epsilon=1)
        later = chained_ledger.now() + timedelta(days=1, minutes=5)
        for module in (chained_ledger, hash_chain):
            monkeypatch.setattr(module, "now", lambda: later)
        fresh = bob.query(COUNT, epsilon=1)
        assert not fresh.replayed and ana.query(COUNT, epsilon=1).fetchall() == fresh.fetchall()


def test_caps_are_recorded_before_the_first_replay_too(database: Path) -> None:
    with connect(database, "ana") as ana, connect(database, "eve") as eve:
        ana.query("SELECT sum(qty) FROM orders", epsilon=1.5)
        assert eve.query("SELECT sum(qty) FROM orders", epsilon=1.5).replayed
    raised = copy.deepcopy(POLICY["budget"])
    raised["analysts"]["eve"]["epsilon"] = 50
    with connect(database, "eve", budget=raised) as eve, pytest.raises(dpsql.BudgetExceeded, match="left for eve"):
        eve.query("SELECT sum(qty) FROM orders WHERE qty > 2", epsilon=20)


def test_a_constant_does_not_tell_the_name_of_a_hidden_column(database: Path) -> None:
    with connect(database, "bob") as bob:
        shown = [
            bob.explain(f"SELECT count(*) FROM orders WHERE status = '\"{guess}\"'").sql.replace(guess, "…")
            for guess in ("customer_id", "customer_xx")
        ]
        assert shown[0] == shown[1] and "customer_id" not in bob.explain(COUNT).sql


@pytest.mark.parametrize("value", ["snan", "nan", "inf", "-inf"])
def test_a_hint_that_is_no_number_is_refused(database: Path, value: str) -> None:
    with connect(database, "ana") as ana, pytest.raises(dpsql.ParseError, match="is a number"):
        ana.query(f"SELECT /*+ epsilon({value}) epsilon({value}) */ count(*) FROM orders")


def test_a_hint_in_a_string_makes_no_hint_of_a_line_comment(database: Path) -> None:
    with connect(database, "ana") as ana:
        sql = "SELECT count(*) --+ epsilon(9)\nFROM orders WHERE status <> '/*+ epsilon(9)*/'"
        assert ana.explain(sql).cost.epsilon == 0.5


def test_an_accuracy_is_answered_from_ones_own_release_and_not_from_anothers_of_the_same_mark(database: Path) -> None:
    """Two sessions that ask at once, or without replay, make two releases of one mark."""
    sql, own = "SELECT count(*), sum(qty), sum(qty * qty) FROM orders", {}
    for analyst in ("ana", "bob"):
        with connect(database, analyst, replay=False) as db:
            own[analyst] = db.query(sql, epsilon=0.5).fetchall()
    with connect(database, "bob") as bob:
        found = bob.query(sql, accuracy=10**6)
        assert found.replayed and found.fetchall() == own["bob"] != own["ana"]
