"""The conductor: charge before release, replay, caps, constant errors, and nothing for the unnamed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.engines.duckdb import engine as duckdb_engine
from dpsql.errors import EngineError

TABLES = {
    "t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}}}
}


def policy(**budget: object) -> dict[str, object]:
    return {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 3, "delta": 1e-6, **budget},
        "limits": {"epsilon": 1},
        "tables": TABLES,
    }


def connect(ledger: str | Path = ":memory:", **options: object) -> dpsql.Connection:
    frame = pd.DataFrame({"u": [1, 1, 2], "x": [1.0, 2.0, 3.0], "k": ["a", "b", "a"], "secret": ["q", "r", "s"]})
    chosen = options.pop("policy", policy())
    return dpsql.connect({"t": frame}, policy=chosen, ledger=ledger, **options)  # type: ignore[arg-type]


def test_the_charge_is_durable_before_the_engine_runs_and_before_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    with connect() as db:
        for target, name in ((db.ledger, "reserve"), (db.engine, "run"), (db.ledger, "store")):
            original = getattr(target, name)
            monkeypatch.setattr(target, name, lambda *a, _n=name, _o=original: (order.append(_n), _o(*a))[1])
        db.query("SELECT count(*) FROM t")
    assert order == ["reserve", "run", "store"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) AS n FROM t GROUP BY k",
        "SELECT median(x) FROM t",
        "SELECT sum(x) FROM t WHERE x > (SELECT avg(x) FROM t)",
    ],
)
def test_explaining_and_describing_touch_no_data_and_spend_nothing(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("touched")

    with connect() as db:
        for target, name in ((db.ledger, "reserve"), (db.engine, "run"), (db.ledger, "store")):
            monkeypatch.setattr(target, name, refused)
        names, types = db.describe(sql)
        assert len(names) == len(types) == len(db.explain(sql, epsilon=0.5).columns)
        assert db.budget().dataset.spent.epsilon == 0


def test_an_engine_failure_keeps_the_charge_and_says_one_constant_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with connect() as db, caplog.at_level("INFO", "dpsql.steward"):
        monkeypatch.setattr(duckdb_engine, "shared_statements", lambda *_, **__: ["SELECT error('secret value 42')"])
        with pytest.raises(EngineError) as caught:
            db.query("SELECT count(*) FROM t", epsilon=1)
        assert str(caught.value) == EngineError.TEXT
        assert caught.value.__cause__ is None
        assert "42" not in repr(caught.value.__context__)
        assert "a release failed" in caplog.text and "42" not in caplog.text
        assert db.budget().dataset.spent.epsilon > 0


def test_a_repetition_is_replayed_exactly_also_under_other_outer_sql() -> None:
    with connect() as db:
        first = db.query("SELECT k, count(*) AS n FROM t GROUP BY k")
        second = db.query("select K as kk, COUNT(*) as m from T group by k having m > -10000 order by kk limit 500")
        assert second.replayed
        assert second.cost.epsilon == 0
        assert dict(second.fetchall()) == dict(first.fetchall())
        assert not db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=0.75).replayed


def test_replay_can_be_switched_off() -> None:
    with connect(policy={**policy(), "replay": False}) as db:
        assert not db.query("SELECT count(*) FROM t").replayed
        assert not db.query("SELECT count(*) FROM t").replayed


def test_no_query_passes_the_cap_and_a_refusal_costs_nothing() -> None:
    with connect(policy={**policy(), "replay": False}) as db:
        with pytest.raises(dpsql.BudgetExceeded, match="left"):
            for _ in range(200):
                db.query("SELECT count(*) FROM t", epsilon=1)
        spent, whole = db.budget().dataset.spent, db.budget().dataset.whole
        assert spent.rho <= whole.rho and spent.epsilon <= whole.epsilon
        with pytest.raises(dpsql.BudgetExceeded):
            db.query("SELECT count(*) FROM t", epsilon=1)
        assert db.budget().dataset.spent == spent


def test_the_ledger_file_remembers_across_connections(tmp_path: Path) -> None:
    path = tmp_path / "d.ledger"
    with connect(path) as db:
        db.query("SELECT count(*) FROM t", epsilon=1)
        spent = db.budget().dataset.spent
    with connect(path) as db:
        assert db.budget().dataset.spent == spent


def test_one_query_may_not_ask_for_more_than_the_limit() -> None:
    with connect() as db:
        with pytest.raises(dpsql.PolicyError, match="up to 1"):
            db.query("SELECT count(*) FROM t", epsilon=1.5)
        for wrong in (0, -1, float("nan"), float("inf"), "much"):
            with pytest.raises(dpsql.PolicyError):
                db.query("SELECT count(*) FROM t", epsilon=wrong)  # type: ignore[arg-type]
        assert db.budget().dataset.spent.epsilon == 0


def test_an_analyst_has_a_cap_and_tables_of_their_own() -> None:
    analysts = {"ana": {"epsilon": 0.5, "tables": ["t"]}, "bob": {"epsilon": 0.5, "tables": []}}
    with connect(policy=policy(analysts=analysts), analyst="ana") as db:
        db.query("SELECT count(*) FROM t", epsilon=0.4, mechanism="laplace")
        with pytest.raises(dpsql.BudgetExceeded, match="ana"):
            db.query("SELECT sum(x) FROM t", epsilon=0.4, mechanism="laplace")
    with (
        connect(policy=policy(analysts=analysts), analyst="bob") as db,
        pytest.raises(dpsql.ParseError, match="no table"),
    ):
        db.query("SELECT count(*) FROM t")
    with pytest.raises(dpsql.PolicyError, match="no analyst"):
        connect(policy=policy(analysts=analysts), analyst="eve")


def test_what_the_policy_does_not_name_does_not_exist() -> None:
    with connect() as db, pytest.raises(dpsql.ParseError, match="no column secret"):
        db.query("SELECT secret, count(*) FROM t GROUP BY secret")


def test_explain_spends_nothing_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect() as db:
        monkeypatch.setattr(type(db.engine), "run", lambda *_: pytest.fail("explain touched the data"))
        plan = db.explain("SELECT k, count(*), avg(x) FROM t GROUP BY k", epsilon=0.5)
        assert plan.cost.epsilon == 0.5
        assert {s.mechanism for r in plan.releases for s in r.statistics} == {"gaussian"}
        assert set(plan.alternatives) == {"laplace"}
        assert plan.releases[0].statistics[0].expected_error(0.95) > 0
        assert db.budget().dataset.spent.epsilon == 0


def test_an_unverified_unique_is_enforced_and_a_verified_one_is_used(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS u, 5.0::DOUBLE AS x")
    unique = {**policy(), "tables": {"t": {"unit": "u", "unique": True, "columns": {"x": {"min": 0, "max": 10}}}}}
    with dpsql.connect(path, policy=unique, ledger=tmp_path / "d.ledger", steward=True) as db:
        assert db.explain("SELECT sum(x) FROM t").releases[0].rule == "one_group"
        db.ledger.record_fact("t", "unique:u", db.engine.version())
    with dpsql.connect(path, policy=unique, ledger=tmp_path / "d.ledger", steward=True) as db:
        assert db.explain("SELECT sum(x) FROM t").releases[0].rule == "single_row"
    with duckdb.connect(str(path)) as database:
        database.execute("INSERT INTO t VALUES (1, 6.0)")
    with dpsql.connect(path, policy=unique, ledger=tmp_path / "d.ledger", steward=True) as db:
        assert db.explain("SELECT sum(x) FROM t").releases[0].rule == "one_group"


def test_trace_is_for_the_steward() -> None:
    with connect() as db, pytest.raises(dpsql.PolicyError, match="steward"):
        dpsql.audit.trace(db, "SELECT count(*) FROM t", salt=b"s")
    with connect(steward=True) as db:
        [release] = dpsql.audit.trace(db, "SELECT k, count(*) FROM t GROUP BY k", salt=b"s")
        assert release.keys == (("a",), ("b",), (None,))
        assert [round(v * release.statistics[0].grid) for v in release.statistics[0].values] == [2, 1, 0]
        assert db.budget().dataset.spent.epsilon == 0


def test_a_policy_that_is_no_file_needs_a_named_ledger() -> None:
    with pytest.raises(dpsql.InterfaceError, match="ledger"):
        dpsql.connect({"t": pd.DataFrame({"u": [1]})}, policy=policy())


def test_the_callers_connection_stays_the_callers() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE t AS SELECT 1 AS u, 5.0::DOUBLE AS x, 'a' AS k")
    with dpsql.connect(database, policy=policy(), ledger=":memory:") as db:
        db.query("SELECT count(*) FROM t")
    database.execute("SET threads = 1")
    assert database.execute("SELECT count(*) FROM t").fetchall() == [(1,)]


def test_a_deeply_nested_query_is_refused_in_bounded_time() -> None:
    with connect() as db:
        for sql in ("SELECT " + "(" * 10_000 + "1" + ")" * 10_000, "SELECT count(*) FROM t WHERE " + " AND ".join(["x > 1"] * 20_000),
                    "SELECT " + "1+" * 50_000 + "1 FROM t", "SELECT " + "-" * 10_000 + "1"):  # fmt: skip
            with pytest.raises(dpsql.Error):
                db.query(sql)


def test_counts_can_be_shown_without_negative_values() -> None:
    with connect(policy={**policy(), "replay": False}) as db:
        shown = [
            db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=0.01, nonnegative=True) for _ in range(5)
        ]
        assert min(row[1] for result in shown for row in result.fetchall()) >= 0


def test_settings_that_make_arithmetic_raise_are_put_right_for_our_session_only() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE t AS SELECT 1 AS u, 0.0::DOUBLE AS x, 'a' AS k")
    for setting in ("ieee_floating_point_ops = false", "integer_division = true", "default_collation = 'nocase'"):
        database.execute(f"SET GLOBAL {setting}")
    with dpsql.connect(database, policy=policy(), ledger=":memory:") as db:
        db.query("SELECT count(*) FROM t WHERE ln(x) < 0 OR 1 / x > 2 OR sqrt(x - 1) > 0")
    assert database.execute("SELECT 7 / 2").fetchall() == [(3,)]


def test_another_analysts_release_is_noted_as_counted_against_ones_own_cap(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS u, 5.0::DOUBLE AS x, 'a' AS k")
    chosen = policy(analysts={"ana": {"epsilon": 1}, "bob": {"epsilon": 1}})
    notes = []
    for name in ("ana", "bob", "bob"):
        with dpsql.connect(path, policy=chosen, ledger=tmp_path / "d.ledger", analyst=name) as db:
            result = db.query("SELECT count(*) FROM t", epsilon=0.5)
            notes.append((name, result.replayed, any("your own cap" in note for note in result.notes)))
    assert notes == [("ana", False, False), ("bob", True, True), ("bob", True, False)]


def test_a_connection_is_an_analysts_or_the_stewards() -> None:
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": {}}
    with pytest.raises(dpsql.Error, match="either an analyst's or the steward's"):
        dpsql.connect({}, policy=policy, ledger=":memory:", analyst="ana", steward=True)
