"""What one analyst may see and spend, door by door, and what the budget shows of it."""

from __future__ import annotations

import io
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from rich.console import Console

import dpsql
from dpsql.interfaces.cli.output import budget_json, budget_table
from dpsql.interfaces.cli.shell import Shell
from dpsql.interfaces.visible_tables import visible_tables

COUNT = "SELECT count(*) FROM visits"
HIDDEN = ("person_no", "diagnosis", "salary", "margin")
TABLES = {
    "stays": {
        "unit": "person_no",
        "max_rows_per_unit": 2,
        "columns": {
            "days": {"min": 0, "max": 30},
            "ward": {"values": ["a", "b"]},
            "diagnosis": {},
            "salary": {"min": 0, "max": 9},
        },
    },
    "visits": {"unit": "row", "columns": {"minutes": {"min": 0, "max": 60}}},
    "prices": {"public": True},
}
GRANT = {"stays": ["days", "ward"], "prices": ["ward", "price"]}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            "CREATE TABLE stays AS SELECT (range % 50)::INT AS person_no, 3.0::DOUBLE AS days, 'a' AS ward,"
            " 'flu' AS diagnosis, 1 AS salary FROM range(100);"
            "CREATE TABLE visits AS SELECT range::INT AS minutes FROM range(60);"
            "CREATE TABLE prices AS SELECT 'a' AS ward, 5 AS price, 2 AS margin"
        )
    return path


def policy(*, epsilon: float = 3, delta: float = 1e-6, **ana: Any) -> dict[str, Any]:
    budget = {"epsilon": epsilon, "delta": delta, "analysts": {"ana": ana, "bob": None}}
    return {"dataset": "d", "search": False, "budget": budget, "tables": TABLES}


def connect(database: Path, analyst: str = "ana", purpose: str | None = None, **options: Any) -> dpsql.Connection:
    chosen = options.pop("policy", None) or policy(**options)
    ledger = database.parent / "d.ledger"
    return dpsql.connect(database, policy=chosen, ledger=ledger, analyst=analyst, purpose=purpose)


# columns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {} FROM stays",
        "SELECT count({}) FROM stays",
        "SELECT count(DISTINCT {}) FROM stays",
        "SELECT {}, count(*) FROM stays GROUP BY {}",
        "SELECT count(*) FROM stays WHERE {} IS NOT NULL",
        "SELECT avg(n) FROM (SELECT {}, count(*) AS n FROM stays GROUP BY {})",
        "SELECT count(*) FROM (SELECT * FROM stays) AS s WHERE s.{} = 1",
        'SELECT count("{}") FROM stays',
    ],
)
def test_a_hidden_column_is_refused_as_one_that_does_not_exist(database: Path, sql: str) -> None:
    with connect(database, tables=GRANT) as db:
        for ask in (db.query, db.explain):
            told = {}
            for name in ("person_no", "diagnosis", "nonesuch_"):
                with pytest.raises(dpsql.ParseError) as caught:
                    ask(sql.format(name, name))
                told[name] = (caught.value.message.replace(name, "…"), (caught.value.hint or "").replace(name, "…"))
                assert not [each for each in HIDDEN if each != name and each in str(caught.value)]
            assert told["person_no"] == told["diagnosis"] == told["nonesuch_"]


def test_what_is_granted_works_and_rows_keep_their_owner(database: Path) -> None:
    sql = "SELECT ward, count(*), sum(days) FROM stays GROUP BY ward"
    with connect(database, tables=GRANT) as db, connect(database, "bob") as other:
        mine, theirs = db.explain(sql), other.explain(sql)
        assert [s.sensitivity for s in mine.releases[0].statistics] == [
            s.sensitivity for s in theirs.releases[0].statistics
        ]
        first = db.query(sql)
        assert other.query(sql).replayed, "the same release, whoever asks"
        assert len(first.fetchall()) == 2
        assert db.query("SELECT * FROM prices").columns == ("ward", "price")
        assert db.query("SELECT count(*) FROM (SELECT * FROM stays)").cost.epsilon > 0


def test_explain_names_nothing_hidden(database: Path) -> None:
    with connect(database, tables=GRANT) as db:
        for sql in (
            "SELECT ward, avg(days) FROM stays GROUP BY ward",
            "SELECT days, count(*) FROM stays GROUP BY days",
        ):
            plan = db.explain(sql)
            told = f"{plan} {plan.sql} {plan.finishing} {plan.notes} {plan.releases!r}"
            assert not [name for name in HIDDEN if name in told]
            assert '"<unit>"' in plan.sql
    with connect(database, "bob") as db:
        assert '"person_no"' in db.explain("SELECT count(*) FROM stays").sql


def test_public_columns_that_are_hidden_do_not_exist_above_the_aggregate_either(database: Path) -> None:
    with connect(database, tables=GRANT) as db:
        for sql in ("SELECT margin FROM prices", "SELECT p.margin FROM prices p", "SELECT sum(margin) FROM prices"):
            with pytest.raises(dpsql.Error) as caught:
                db.query(sql)
            with pytest.raises(dpsql.Error) as unknown:
                db.query(sql.replace("margin", "nargim"))
            assert str(caught.value).replace("margin", "…") == str(unknown.value).replace("nargim", "…")


def test_listings_and_completion_name_nothing_hidden(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: set[str] = set()
    monkeypatch.setattr("dpsql.interfaces.cli.shell.line_editing", lambda names: offered.update(names) or _nothing())
    shown = io.StringIO()
    monkeypatch.setattr("dpsql.interfaces.cli.shell.screen", lambda: Console(file=shown, width=200))
    monkeypatch.setattr("sys.stdin", io.StringIO("\\tables\n\\d stays\n\\d prices\n"))
    with connect(database, tables=GRANT) as db:
        assert Shell(db).run()
        assert [[c.name for c in t.columns] for t in visible_tables(db)] == [["days", "ward"], ["ward", "price"]]
    assert {"stays", "days", "ward", "price"} <= offered
    assert "each unit has up to 2 rows" in shown.getvalue()
    assert not [name for name in (*HIDDEN, "visits") if name in shown.getvalue() or name in offered]


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_a_policy_that_does_not_fit_tells_the_analyst_no_names(database: Path) -> None:
    broken = policy(tables=GRANT)
    broken["tables"] = {**TABLES, "stays": {**TABLES["stays"], "unit": "persn"}}
    with connect(database, policy=broken) as db, pytest.raises(dpsql.PolicyError) as caught:
        db.query("SELECT count(*) FROM stays")
    assert "dpsql check" in str(caught.value)
    assert not [name for name in (*HIDDEN, "persn", "visits") if name in str(caught.value)]


# purposes and windows -----------------------------------------------------------------------------------------------


def test_a_purpose_is_named_and_has_its_own_cap(database: Path) -> None:
    caps = {"epsilon": 1, "delta": 0, "purposes": {"report": {"epsilon": 0.5}, "research": {}}}
    with pytest.raises(dpsql.PolicyError, match="a purpose is required"):
        connect(database, **caps)
    with pytest.raises(dpsql.PolicyError, match="no purpose 'fun'"):
        connect(database, purpose="fun", **caps)
    with connect(database, purpose="report", **caps) as db:
        db.query(COUNT, epsilon=0.5)
        with pytest.raises(dpsql.BudgetExceeded, match=r"left for ana for report: nothing; left for ana: 100\.00%"):
            db.query("SELECT count(*) FROM stays WHERE days > 3", epsilon=0.25)
        status = db.budget()
        assert status.purpose is not None and status.purpose.remaining.epsilon == status.largest == 0
    with connect(database, purpose="research", **caps) as db:
        assert db.budget().largest == 0.5
        again = db.query(COUNT, epsilon=0.5)
        assert again.replayed and any("own cap" in note for note in again.notes)
        assert db.budget().analyst is not None and db.budget().analyst.remaining.epsilon == 0.5
        db.query(COUNT, epsilon=0.25)


def test_a_window_is_shown_as_the_weaker_promise_that_it_is(database: Path) -> None:
    with connect(database, epsilon=1, every="month", delta=1e-6) as db:
        db.query(COUNT, epsilon=0.3)
        status = db.budget()
        assert status.analyst is not None and status.analyst.every == "month" and status.analyst.renews is not None
        for text in (str(status), _printed(status), budget_json(status)):
            flat = " ".join(text.split())
            assert f"refreshes on {status.analyst.renews}" in flat
            assert "only the dataset's cap bounds it" in flat
        assert status.dataset.renews is None


def test_a_window_that_was_added_to_the_policy_is_not_in_force_until_the_steward_raises_it(database: Path) -> None:
    with connect(database, epsilon=1) as db:
        db.query(COUNT, epsilon=0.3)
    with connect(database, epsilon=1, every="day") as db:
        status = db.budget()
        assert status.analyst is not None and status.analyst.renews is None
        assert status.analyst.spent.epsilon > 0


# what is shown ------------------------------------------------------------------------------------------------------


def _printed(status: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(budget_table(status))
    return out.getvalue()


PASTS: list[list[dict[str, Any]]] = [
    [],
    [{"epsilon": 0.3}],
    [{"epsilon": 0.1}, {"epsilon": 0.5}, {"epsilon": 0.1, "mechanism": "laplace"}],
    [{"epsilon": 0.05 + i / 100, "mechanism": "laplace"} for i in range(8)],
]


@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("delta", [1e-6, 0])
@pytest.mark.parametrize("own", [0.9, 3])
def test_exactly_what_is_left_can_be_asked_for_and_hardly_more(
    past: list[dict[str, Any]], mechanism: str, delta: float, own: float
) -> None:
    if mechanism == "gaussian" and delta == 0:
        pytest.skip("Gaussian noise needs a delta")
    chosen = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 3, "delta": delta, "analysts": {"ana": {"epsilon": own}}},
        "defaults": {"mechanism": mechanism},
        "replay": False,
        "tables": {"visits": TABLES["visits"]},
    }
    frames = {"visits": pd.DataFrame({"minutes": [1, 2, 3]})}
    with dpsql.connect(frames, policy=chosen, ledger=":memory:", analyst="ana") as db:
        for price in past:
            db.query(COUNT, **({**price, "mechanism": "laplace"} if delta == 0 else price))
        status = db.budget()
        assert status.analyst is not None
        for kind, largest in ((None, status.largest), ("laplace", status.largest_laplace)):
            with pytest.raises(dpsql.Error):
                db.query(COUNT, epsilon=max(largest * 1.001, 1e-4), mechanism=kind)
        kind, words = (
            ("laplace", "mechanism laplace, epsilon ") if status.largest == 0 else (None, "may ask for epsilon ")
        )
        largest = status.largest_laplace if kind else status.largest
        shown = float(status.details.partition(words)[2].split()[0])
        assert 0.999 * largest < shown <= largest
        db.query(COUNT, epsilon=shown, mechanism=kind)


def test_the_refusal_and_the_budget_say_the_same(database: Path) -> None:
    with connect(database, epsilon=0.9) as db:
        db.query(COUNT, epsilon=0.7)
        with pytest.raises(dpsql.BudgetExceeded) as refusal:
            db.query("SELECT sum(minutes) FROM visits", epsilon=0.9)
        [shown] = re.findall(r"analyst ana, spent [0-9.]+%, left ([0-9.]+%)", str(db.budget()))
        assert f"left for ana: {shown};" in str(refusal.value) and f'ask for price="{shown}"' in str(refusal.value)
        db.query("SELECT sum(minutes) FROM visits", price=shown)


def test_the_sums_of_a_shown_account_add_up(database: Path) -> None:
    with connect(database, epsilon=2) as db:
        db.query("SELECT days, count(*) FROM stays GROUP BY days", epsilon=0.5)
        for _, account in db.budget().accounts():
            assert account.spent.rho + account.remaining.rho == pytest.approx(account.whole.rho)
            assert account.spent_on_keys > 0
            assert account.spent_on_keys + account.remaining.delta == pytest.approx(account.whole.delta)
            assert account.spent.delta + account.remaining.delta <= account.caps.delta
            assert account.whole.rho == account.caps.rho > 0
            assert account.spent.epsilon == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_what_the_rest_would_buy_comes_true(database: Path, mechanism: str) -> None:
    unrepeated = {**policy(epsilon=1.2), "replay": False, "defaults": {"mechanism": mechanism}}
    unrepeated["budget"]["analysts"]["ana"] = {"epsilon": 1.2}
    with connect(database, policy=unrepeated) as db:
        assert db.budget().buys is None
        db.query(COUNT, epsilon=0.2)
        status = db.budget()
        assert status.buys is not None and status.buys.of == "count(*)" and status.buys.half is not None
        error = db.explain(COUNT, epsilon=status.largest).releases[0].statistics[0].expected_error(0.95)
        assert status.buys.half == pytest.approx(error, rel=0.5, abs=1)
        assert f"about {status.buys.times} more quer" in str(status)
        for _ in range(status.buys.times):
            db.query(COUNT, epsilon=0.2)
        left = db.budget()
        assert left.buys is not None and left.buys.times == 0
        assert "does not pay for another query like the last" in str(left)
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(COUNT, epsilon=0.2)


def test_the_ledger_holds_error_bars_and_no_answers(database: Path) -> None:
    with connect(database, epsilon=2) as db:
        db.query(COUNT, epsilon=0.5)
        half = db.explain(COUNT, epsilon=0.5).releases[0].statistics[0].expected_error(0.95)
        last = db.ledger.last("ana")
        assert last is not None and last.error is not None
        assert (last.error.of, last.error.half, last.error.noise) == ("count(*)", half, "gaussian")


def test_an_average_has_no_error_bar_in_advance_and_the_rest_is_counted_in_queries(database: Path) -> None:
    with connect(database, epsilon=2) as db:
        db.query("SELECT avg(minutes) FROM visits", epsilon=0.5)
        buys = db.budget().buys
        assert buys is not None and buys.half is None and "±" not in str(buys) and buys.times > 0


def test_an_analyst_without_delta_asks_with_laplace_noise_by_default(database: Path) -> None:
    chosen = policy()
    chosen["budget"]["analysts"]["ana"] = {"epsilon": 1, "delta": 0}
    with connect(database, policy=chosen) as db:
        assert db.query(COUNT, epsilon=0.4).mechanism == "laplace"
        assert db.budget().largest == pytest.approx(0.6)
        db.query("SELECT sum(minutes) FROM visits", epsilon=db.budget().largest)


# costs --------------------------------------------------------------------------------------------------------------

NO_EPSILON = [0, -1, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-310, 1e-300, Decimal("NaN"), "0.5x", True, 10**400]
NO_DELTA = [-1e-9, 1, 2, math.nan, math.inf, 5e-324, 1e-310, Decimal("sNaN"), "much", True]


@pytest.mark.parametrize("value", NO_EPSILON)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_what_is_no_epsilon_is_refused_and_charges_nothing(database: Path, value: Any, mechanism: str) -> None:
    with connect(database, epsilon=2) as db:
        for ask in (db.query, db.explain):
            with pytest.raises(dpsql.Error) as caught:
                ask(COUNT, epsilon=value, mechanism=mechanism)
            assert not isinstance(caught.value, dpsql.EngineError)
        assert db.budget().dataset.spent.rho == 0


@pytest.mark.parametrize("value", NO_DELTA)
def test_what_is_no_delta_is_refused_and_charges_nothing(database: Path, value: Any) -> None:
    with connect(database, epsilon=2) as db:
        with pytest.raises(dpsql.Error):
            db.query(COUNT, delta=value)
        assert db.budget().dataset.spent.rho == 0


def test_what_rounding_leaves_of_a_spent_budget_is_no_offer() -> None:
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 3},
        "tables": {"t": {"unit": "row", "columns": {}}},
    }
    with dpsql.connect({"t": pd.DataFrame({"x": [1]})}, policy=policy, ledger=":memory:") as db:
        db.query("SELECT count(*) FROM t", epsilon=3)
        told = str(db.budget())
    assert "nothing is left except a rounding remainder" in told and "but for one with" not in told
    assert "may ask for" not in told
