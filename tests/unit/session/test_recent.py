"""What a session asked before is answered without planning it again, and is a replay in every respect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql import query_draft
from dpsql.budget import open_ledger
from dpsql.errors import InternalError
from dpsql.session import Conductor

SQL = "SELECT k, count(*) AS n, avg(x) AS a FROM t GROUP BY k ORDER BY n"
POLICY: dict[str, Any] = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 5, "delta": 1e-6, "analysts": {"ana": {"epsilon": 2}, "bob": {"epsilon": 2}}},
    "tables": {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}, "k": {"values": ["a", "b"]}}}},
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS u, i % 9.0 AS x, chr((97 + i % 2)::INT) AS k FROM range(99) r(i)"
        )
    return path


def connect(database: Path, analyst: str = "ana", **changes: Any) -> dpsql.Connection:
    policy = {**POLICY, **changes}
    return dpsql.connect(database, policy=policy, ledger=database.with_suffix(".ledger"), analyst=analyst)


def unplanned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise InternalError("planned again")

    monkeypatch.setattr(query_draft, "build", refuse)


def test_the_same_text_with_other_values_is_another_query(database: Path) -> None:
    sql = "SELECT count(*) FROM t WHERE x < ?"
    with connect(database) as db:
        assert not db.query(sql, parameters=[3]).replayed
        assert db.query(sql, parameters=[3]).replayed
        assert not db.query(sql, parameters=[6]).replayed


def test_the_same_text_is_not_planned_again(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database) as db:
        first, spent = db.query(SQL), db.budget().dataset.spent
        unplanned(monkeypatch)
        second = db.query(SQL)
        assert second.replayed and second.cost.epsilon == 0 and not first.replayed
        assert second.fetchall() == first.fetchall() and second.notes == first.notes
        assert second.intervals().equals(first.intervals())
        assert db.budget().dataset.spent == spent
        for changed in ({"epsilon": 0.7}, {"clipped": True}, {"accuracy": 50}):
            with pytest.raises(InternalError, match="planned again"):
                db.query(SQL, **changed)
        db.settle("SET dpsql.epsilon = 0.6")
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL)


def test_a_part_of_an_earlier_release_is_remembered_too(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database) as db:
        db.query(SQL)
        part = "SELECT count(*) AS n FROM t WHERE k = 'a' GROUP BY k"
        first = db.query(part)
        unplanned(monkeypatch)
        second = db.query(part)
        assert first.replayed and second.replayed
        assert (first.fetchall(), first.notes) == (second.fetchall(), second.notes)


def test_what_is_asked_otherwise_is_another_question(database: Path) -> None:
    sql = "SELECT count(*) AS n FROM t WHERE x < ?"
    with connect(database) as db:
        seen = [db.query(sql, [5], epsilon=0.1)]
        seen += [db.query(sql, [6], epsilon=0.1), db.query(sql, [5], epsilon=0.2)]
        seen += [db.query(sql, [5], epsilon=0.1, mechanism="laplace")]
        db.settle("SET dpsql.epsilon = 0.3")
        seen += [db.query(sql, [5]), db.query(sql, [5], epsilon=0.1, clipped=True)]
        assert not any(each.replayed for each in seen)
        assert len({each.fetchall()[0] for each in seen}) > 1
        db.settle("SET dpsql.epsilon = 0.4")
        assert not db.query(sql, [5]).replayed
        assert db.query(sql, [5], epsilon=0.1).fetchall() == seen[0].fetchall()


def test_another_version_is_asked_anew(database: Path) -> None:
    with connect(database) as db:
        db.query(SQL)
        with open_ledger(database.with_suffix(".ledger"), "d") as opened:
            opened.bump("second", "the steward")
        assert not db.query(SQL).replayed


def test_replay_can_be_switched_off_and_answers_grow_old(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database, replay=False) as db:
        assert [db.query(SQL).replayed for _ in range(2)] == [False, False]
    with connect(database, replay={"keep": "1 hours"}) as db:
        db.query(SQL, epsilon=0.3)
        assert db.query(SQL, epsilon=0.3).replayed
        from datetime import timedelta

        from dpsql.budget.ledger import chained_ledger

        later = chained_ledger.now() + timedelta(hours=2)
        monkeypatch.setattr(chained_ledger, "now", lambda: later)
        assert not db.query(SQL, epsilon=0.3).replayed


def test_anothers_release_counts_once(database: Path) -> None:
    with connect(database) as ana, connect(database, "bob") as bob:
        ana.query(SQL)
        spent = bob.budget().dataset.spent
        assert bob.query(SQL).replayed
        own = bob.budget().analyst
        assert bob.query(SQL).replayed and own is not None and own.spent.epsilon > 0
        assert bob.budget().analyst == own and bob.budget().dataset.spent == spent


def test_an_answer_that_reads_the_clock_is_not_kept(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = ["current_date", "current_timestamp", "today()"]
    with connect(database) as db:
        for clock in timed:
            db.query(f"SELECT count(*), {clock} AS d FROM t")
        unplanned(monkeypatch)
        for clock in timed:
            with pytest.raises(InternalError, match="planned again"):
                db.query(f"SELECT count(*), {clock} AS d FROM t")


def test_the_oldest_answer_goes_first(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database) as db:
        db.query(SQL)
        for number in range(200):
            db.query(f"{SQL} LIMIT {number + 1}")
        unplanned(monkeypatch)
        assert db.query(f"{SQL} LIMIT 200").replayed
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL)


def test_a_plan_is_made_once_where_answers_are_fresh(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database, replay=False) as db:
        first = db.query(SQL)
        db.describe("SELECT count(*) AS n FROM t")
        unplanned(monkeypatch)
        second = db.query(SQL)
        assert not second.replayed and second.cost == first.cost and second.fetchall() != first.fetchall()
        assert db.query("SELECT count(*) AS n FROM t").columns == ("n",)
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL, epsilon=0.7)


def test_a_plan_is_made_anew_for_another_version_and_another_setting(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(database, replay=False) as db:
        db.query(SQL)
        unplanned(monkeypatch)
        version = db.data_version()
        monkeypatch.setattr(db.dataset, "version", lambda: f"{version} bumped")
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL)
        monkeypatch.setattr(db.dataset, "version", lambda: version)
        db.query(SQL)
        db.settle("SET dpsql.mechanism = laplace")
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL)


def test_a_connection_to_which_somebody_writes_is_planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = duckdb.connect(":memory:")
    raw.execute("CREATE TABLE t AS SELECT i AS u, i % 9.0 AS x, 'a' AS k FROM range(99) r(i)")
    with dpsql.connect(raw, policy={**POLICY, "replay": False}, ledger=":memory:", analyst="ana") as db:
        db.query(SQL)
        unplanned(monkeypatch)
        with pytest.raises(InternalError, match="planned again"):
            db.query(SQL)


def test_an_answer_that_is_kept_is_not_finished_again(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise InternalError("finished again")

    with connect(database) as db:
        first = db.query(SQL)
        monkeypatch.setattr(Conductor, "finish", refuse)
        assert db.query(SQL).fetchall() == first.fetchall()


def test_where_others_write_public_rows_are_read_anew_for_the_same_question() -> None:
    own = duckdb.connect()
    own.execute("CREATE TABLE t AS SELECT i AS u, i % 9.0 AS x, chr((97 + i % 2)::INT) AS k FROM range(99) r(i)")
    own.execute("CREATE TABLE names AS SELECT 'a' AS k, 'old' AS name")
    policy = POLICY | {"tables": {**POLICY["tables"], "names": {"public": True}}}
    with dpsql.connect(own, policy=policy, ledger=":memory:", analyst="ana") as db:
        sql = "SELECT name, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) JOIN names USING (k)"
        [(_, count)] = db.query(sql).fetchall()
        own.execute("UPDATE names SET name = 'new'")
        again = db.query(sql)
        assert again.replayed and again.fetchall() == [("new", count)]
