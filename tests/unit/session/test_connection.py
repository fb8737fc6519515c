"""A connection from its opening to its end: who opens it, what it is asked by default, and that a closed one is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.budget import FREE
from dpsql.errors import Error, InterfaceError, LedgerError, PolicyError
from dpsql.options import QueryOptions

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 5, "delta": 1e-6},
    "limits": {"epsilon": 1, "delta": 1e-7},
    "tables": {
        "t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}, "c": {}}}
    },
}  # fmt: skip
SQL = "SELECT count(*) AS n FROM t"


def frame() -> pd.DataFrame:
    return pd.DataFrame({"u": range(40), "x": [1.5] * 40, "k": ["a", "b"] * 20, "c": [f"rare {i}" for i in range(40)]})


def connect(**more: Any) -> dpsql.Connection:
    return dpsql.connect({"t": frame()}, **{"policy": POLICY, "ledger": ":memory:", **more})


ACTS: dict[str, Callable[[dpsql.Connection], object]] = {
    "query": lambda db: db.query(SQL),
    "explain": lambda db: db.explain(SQL),
    "describe": lambda db: db.describe(SQL),
    "prepare": lambda db: db.prepare(SQL),
    "ask": lambda db: db.ask(QueryOptions(epsilon=0.1)),
    "settle": lambda db: db.settle("SET dpsql.epsilon = 0.1"),
    "budget": lambda db: db.budget(),
    "cursor": lambda db: db.cursor(),
    "commit": lambda db: db.commit(),
    "rollback": lambda db: db.rollback(),
}


def test_a_closed_connection_does_nothing_more_and_its_ledger_is_closed() -> None:
    db = connect()
    for act in ACTS.values():
        act(db)
    db.query(SQL)
    db.close()
    db.close()
    for name, act in ACTS.items():
        with pytest.raises(InterfaceError, match="this connection is closed"):
            act(db)
            pytest.fail(name)
    with pytest.raises(LedgerError):
        db.ledger.spent(None)


def test_a_connection_that_lets_go_of_its_database_leaves_the_ledger_open(monkeypatch: pytest.MonkeyPatch) -> None:
    db, closed = connect(), list[str]()
    db.query(SQL)
    for part, name in ((db.engine, "engine"), (db.dataset.finisher, "finisher")):
        close = part.close
        monkeypatch.setattr(part, "close", lambda name=name, close=close: (closed.append(name), close()))
    db.release()
    assert sorted(closed) == ["engine", "finisher"]
    with pytest.raises(InterfaceError, match="closed"):
        db.query(SQL)
    assert db.ledger.spent(None).rho > 0
    db.ledger.close()


def test_a_connection_that_closes_closes_the_sealed_database_that_it_opened() -> None:
    db = connect()
    db.query(SQL)
    sealed = db.dataset.finisher._connection
    db.close()
    with pytest.raises(duckdb.ConnectionException):
        sealed.execute("SELECT 1")
    unused = connect()
    unused.close()
    assert "finisher" not in unused.dataset.__dict__


def test_a_block_closes_its_connection() -> None:
    with connect() as db:
        assert db.describe(SQL) == (("n",), ("BIGINT",))
    with pytest.raises(InterfaceError, match="closed"):
        db.commit()


def test_a_connection_is_an_analysts_or_the_stewards_and_not_both() -> None:
    with pytest.raises(InterfaceError, match="either an analyst's or the steward's"):
        connect(steward=True, analyst="ana")
    with connect(steward=True) as steward, connect(analyst="ana") as ana, connect() as anybody:
        assert (steward.analyst, steward.steward) == (None, True)
        assert (ana.analyst, ana.steward, ana.purpose) == ("ana", False, None)
        assert (anybody.analyst, anybody.steward, anybody.dialect) == ("analyst", False, "duckdb")


def test_only_dialects_that_are_known_are_spoken() -> None:
    with pytest.raises(Error, match="klingon"):
        connect(dialect="klingon")
    with pytest.raises(Error, match="klingon"):
        dpsql.connect("/no/such.duckdb", policy=POLICY, ledger=":memory:", dialect="klingon")
    with connect(dialect="postgres") as db:
        assert db.dialect == "postgres"


@pytest.mark.parametrize("as_text", [True, False])
def test_a_policy_is_a_path_in_either_form_with_the_ledger_beside_it(tmp_path: Path, as_text: bool) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "dataset: d\nsearch: false\nbudget: {epsilon: 1}\ntables: {t: {unit: row, columns: {x: {min: 0, max: 1}}}}\n"
    )
    with connect(policy=str(file) if as_text else file, ledger=None) as db:
        assert Path(db.ledger.place).parent == tmp_path


def test_what_is_asked_from_now_on_is_inside_the_limits_or_not_taken() -> None:
    with connect() as db:
        db.ask(QueryOptions(epsilon=0.2, mechanism="laplace"))
        for bad in (QueryOptions(epsilon=1.5), QueryOptions(epsilon=-1), QueryOptions(delta=1e-3)):
            with pytest.raises(PolicyError):
                db.ask(bad)
        with pytest.raises(InterfaceError, match="no mechanism"):
            db.ask(QueryOptions(mechanism="geometric"))
        assert db.asked == QueryOptions(epsilon=0.2, mechanism="laplace")
        assert not db.settle(SQL) and db.asked == QueryOptions(epsilon=0.2, mechanism="laplace")
        assert db.settle("SET dpsql.epsilon = 0.3") and db.asked.epsilon is not None and float(db.asked.epsilon) == 0.3
        db.ask(QueryOptions())
        assert db.query(SQL).mechanism == "gaussian"


def test_the_other_mechanism_is_explained_beside_the_one_that_is_taken() -> None:
    with connect() as db:
        assert list(db.explain(SQL).alternatives) == ["laplace"]
        assert list(db.explain(SQL, mechanism="laplace").alternatives) == ["gaussian"]
        assert db.explain(SQL, mechanism="laplace").mechanism == "laplace"
        assert db.explain("SELECT k FROM t GROUP BY k").cost == FREE
    pure = {**POLICY, "budget": {"epsilon": 5}, "limits": {"epsilon": 1}}
    with connect(policy=pure) as db:
        assert (db.explain(SQL).mechanism, dict(db.explain(SQL).alternatives)) == ("laplace", {})


def test_noise_below_zero_is_shown_unless_it_is_asked_not_to_be_and_a_check_only_where_it_is_asked_for() -> None:
    empty = "SELECT k, count(*) AS n FROM t WHERE x > 9 GROUP BY k"
    with connect(policy={**POLICY, "replay": False}) as db:
        shown = [n for _ in range(8) for _, n in db.query(empty, epsilon=0.1).fetchall()]
        assert min(shown) < 0
        assert min(n for _ in range(8) for _, n in db.query(empty, epsilon=0.1, nonnegative=True).fetchall()) == 0
        plain, checked = db.query("SELECT sum(x) FROM t"), db.query("SELECT sum(x) FROM t", clipped=True)
        assert not plain.clipped and len(checked.clipped) == 2
        assert not db.prepare("SELECT sum(x) FROM t").checks and db.prepare("SELECT sum(x) FROM t", clipped=True).checks
        explained = [len(str(db.explain("SELECT sum(x) FROM t", clipped=clipped))) for clipped in (False, True)]
        assert explained[0] < explained[1]
        assert str(db.explain("SELECT sum(x) FROM t")) == str(db.explain("SELECT sum(x) FROM t", clipped=False))
        with pytest.raises(InterfaceError, match="cannot be combined"):
            db.query(SQL, accuracy=10, clipped=True)


def test_the_same_question_is_a_free_replay_and_another_one_is_not() -> None:
    with connect() as db:
        first, again = db.query(SQL), db.query(SQL)
        assert (first.replayed, again.replayed, again.cost) == (False, True, FREE)
        assert again.fetchall() == first.fetchall() and first.cost.epsilon == 0.5
        assert not db.query(SQL, epsilon=0.75).replayed
        spent = db.budget().dataset.spent
        assert db.query(SQL, accuracy=1000).replayed and db.budget().dataset.spent == spent
    with connect(policy={**POLICY, "replay": False}) as db:
        assert [db.query(SQL).replayed for _ in range(2)] == [False, False]


def test_a_new_version_of_the_data_is_asked_anew() -> None:
    with connect() as db:
        before = db.data_version()
        db.query(SQL)
        db.ledger.bump("v2", "ste")
        assert db.data_version() == f"{before} v2".strip()
        assert not db.query(SQL).replayed and db.query(SQL).replayed


def test_a_list_of_private_groups_that_shows_none_says_so_and_any_other_does_not() -> None:
    words = "no group had enough people to be shown"
    with connect() as db:
        rare = db.query("SELECT c, count(*) AS n FROM t GROUP BY c", epsilon=0.1)
        assert rare.fetchall() == [] and any(words in note for note in rare.notes)
        for sql in (
            SQL,
            "SELECT k, count(*) AS n FROM t GROUP BY k",
            "SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > 99999",
        ):
            assert not any(words in note for note in db.query(sql).notes)
        both = "SELECT (SELECT count(*) FROM t), (SELECT max(n) FROM (SELECT c, count(*) AS n FROM t GROUP BY c))"
        assert any(words in note for note in db.query(both, epsilon=0.1).notes)


PURE = {**POLICY, "budget": {"epsilon": 2}, "limits": {"epsilon": 1}}
MEAN = "SELECT avg(x) AS a FROM t"


def test_an_accuracy_is_explained_inside_what_is_left_and_a_price_as_it_was_asked() -> None:
    with connect(policy=PURE) as db:
        assert "the lowest price that gives" in str(db.explain(SQL, accuracy=20))
        assert "the lowest price that gives" not in str(db.explain(SQL))
        assert "at most: a pilot (0." in str(db.explain(MEAN, accuracy="50%"))
        db.query("SELECT sum(x) FROM t", epsilon=1)
        db.query("SELECT sum(x) FROM t WHERE x > 1", epsilon=0.75)
        assert db.explain(SQL, epsilon=0.5).cost.epsilon == 0.5
        assert db.explain(MEAN, accuracy="50%").cost.epsilon == pytest.approx(0.25, rel=0.01)
        assert db.explain(SQL, accuracy=1000).cost.epsilon < 0.25


def test_an_accuracy_for_which_next_to_nothing_is_left_is_refused_before_a_pilot() -> None:
    with connect(policy=PURE) as db:
        db.query("SELECT sum(x) FROM t", epsilon=1)
        db.query("SELECT sum(x) FROM t WHERE x > 1", epsilon="0.9995")
        before = db.ledger.mark()
        for sql, accuracy in ((MEAN, "50%"), (SQL, 5)):
            with pytest.raises(dpsql.BudgetExceeded):
                db.query(sql, accuracy=accuracy)
            assert db.explain(sql, accuracy=accuracy).cost.epsilon > 0
        assert db.ledger.mark() == before


def test_a_list_of_declared_keys_is_answered_without_a_charge() -> None:
    with connect() as db:
        result = db.query("SELECT k FROM t GROUP BY k ORDER BY k")
        assert (result.fetchall(), result.cost) == ([("a",), ("b",)], FREE)
        assert [line.kind for line in db.ledger.log()] == ["account"]


def test_a_part_that_was_released_is_free_and_the_rest_is_charged() -> None:
    both = "SELECT (SELECT count(*) FROM t) AS n, (SELECT sum(x) FROM t WHERE k = 'a') AS s"
    with connect() as db:
        one = db.query(SQL, epsilon=0.5)
        result = db.query(both, epsilon=0.5)
        assert not result.replayed and 0 < result.cost.epsilon < 0.5
        assert result.fetchall()[0][0] == one.fetchall()[0][0]
        assert db.query(both, epsilon=0.5).replayed
