"""What a replay counts, how long it is had, which version it is of, and what a killed query leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.budget.ledger import chained_ledger
from dpsql.budget.ledger import entries as hash_chain

COLUMNS = {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}}
COUNT, SUM = "SELECT k, count(*) FROM t GROUP BY k", "SELECT k, sum(x) FROM t GROUP BY k"
BOTH = f"{COUNT} UNION ALL {SUM}"


def policy(**more: Any) -> dict[str, Any]:
    return {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 10, "delta": 0, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 1}}},
        "limits": {"epsilon": 8, "delta": 0},
        "defaults": {"epsilon": 0.5, "delta": 0},
        "tables": {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": COLUMNS}},
        **more,
    }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE t AS SELECT range AS u, 5.0::DOUBLE AS x, 'a' AS k FROM range(100)")
    return path


def connect(database: Path, analyst: str = "ana", **more: Any) -> dpsql.Connection:
    return dpsql.connect(database, policy=policy(**more), ledger=database.parent / "d.ledger", analyst=analyst)


def spent(db: dpsql.Connection) -> float:
    account = db.budget().analyst
    assert account is not None
    return account.spent.epsilon


def test_a_replay_counts_the_release_and_not_the_whole_query_that_paid(database: Path) -> None:
    more = {"budget": {"epsilon": 10, "delta": 0, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 2}}}}
    with connect(database, **more) as db:
        db.query(BOTH, epsilon=0.8)
    with connect(database, "bob", **more) as db:
        first = db.query(COUNT, epsilon=0.8)
        assert first.replayed and spent(db) == pytest.approx(0.4)
        [note] = [note for note in first.notes if "your own cap" in note]
        assert "(20.00%)" in note
        assert db.query(COUNT, epsilon=0.8).notes == tuple(n for n in first.notes if n != note)
        assert spent(db) == pytest.approx(0.4)
        assert db.query(SUM, epsilon=0.8).replayed and spent(db) == pytest.approx(0.8)
        assert db.query(BOTH, epsilon=0.8).replayed and spent(db) == pytest.approx(0.8)
        assert db.budget().dataset.spent.epsilon == pytest.approx(0.8)
    with connect(database, "bob", **more) as db:
        assert spent(db) == pytest.approx(0.8), "the ledger says the same when it is read again"
        assert db.query(COUNT, epsilon=0.8).replayed


def test_an_analyst_is_never_counted_more_than_what_was_asked(database: Path) -> None:
    with connect(database) as db:
        db.query(COUNT, epsilon=8)
    with connect(database, "bob") as db:
        assert not db.query(COUNT, epsilon=0.5).replayed
        assert spent(db) == pytest.approx(0.5)
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(COUNT, epsilon=8)
        assert spent(db) == pytest.approx(0.5)
    with connect(database) as db:
        assert db.query(COUNT, epsilon=0.25).replayed, "what one has paid for oneself is free at a lower price"


@pytest.mark.parametrize(("kept", "replayed"), [("2 days", True), ("12 hours", False), ("forever", True)])
def test_an_answer_is_given_again_for_as_long_as_the_policy_says(
    database: Path, monkeypatch: pytest.MonkeyPatch, kept: str, replayed: bool
) -> None:
    day_after = hash_chain.now() + timedelta(days=1)
    with connect(database) as db:
        db.query("SELECT k, count(*), sum(x) FROM t GROUP BY k")
    monkeypatch.setattr(hash_chain, "now", lambda: day_after)
    monkeypatch.setattr(chained_ledger, "now", lambda: day_after)
    with connect(database, replay={"keep": kept}) as db:
        assert db.query("SELECT k, sum(x) FROM t GROUP BY k").replayed is replayed
        assert db.query("SELECT k, count(*), sum(x) FROM t GROUP BY k").replayed is replayed
        again = db.query("SELECT k, count(*), sum(x) FROM t GROUP BY k")
        assert again.replayed, "a new answer replaces the one that was too old"
    with dpsql.budget.open_ledger(database.parent / "d.ledger", "d") as opened:
        assert len(opened.kept()) == (1 if replayed else 3), "nothing is deleted"


def test_a_clock_that_was_set_back_revives_nothing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = hash_chain.now()
    with connect(database) as db:
        db.query(COUNT)
        for module in (hash_chain, chained_ledger):
            monkeypatch.setattr(module, "now", lambda: start + timedelta(days=3))
        db.query(SUM)
    for module in (hash_chain, chained_ledger):
        monkeypatch.setattr(module, "now", lambda: start)
    with connect(database, replay={"keep": "1 day"}) as db, pytest.raises(dpsql.LedgerError, match="clock"):
        db.query(COUNT)


def test_a_new_file_is_a_new_version_on_the_same_account(database: Path) -> None:
    with connect(database) as db:
        db.query(COUNT)
        assert db.query(COUNT).replayed
    with duckdb.connect(str(database)) as changed:
        changed.execute("INSERT INTO t VALUES (100, 1.0, 'b')")
    with connect(database) as db:
        assert not db.query("SELECT k, count(*) FROM t WHERE k = 'a' GROUP BY k").replayed
        assert not db.query(COUNT).replayed
        assert spent(db) == pytest.approx(1.5)


def test_a_callers_connection_is_a_version_of_its_own_until_the_steward_bumps_it(tmp_path: Path) -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE t AS SELECT 1 AS u, 5.0::DOUBLE AS x, 'a' AS k")
    with dpsql.connect(database, policy=policy(), ledger=tmp_path / "d.ledger", analyst="ana") as db:
        db.query(COUNT)
        assert db.query(COUNT).replayed
        db.ledger.bump("2026-11", "ste")
        assert not db.query(COUNT).replayed
    with dpsql.connect(database, policy=policy(), ledger=tmp_path / "d.ledger", analyst="ana") as db:
        assert not db.query(COUNT).replayed, "another process may have written in between"
        assert spent(db) == pytest.approx(1.5)


KILLED = """
import os, signal, sys
import dpsql
from dpsql.answers import result
from dpsql.answers import execute
from {module} import {name} as real

def dies(*args, **options):
    real(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

{patch}
sys.path.insert(0, {here!r})
from test_replay_accounts import COUNT, connect, Path
connect(Path({database!r})).query(COUNT)
"""


@pytest.mark.parametrize(
    ("name", "module", "patch", "kept"),
    [
        ("add_noise", "dpsql.answers.noise_stage", "execute.add_noise = dies", False),
        ("tabulate", "dpsql.answers.estimation", "result.tabulate = dies", True),
    ],
)
def test_a_retry_of_a_killed_query_is_free_only_if_its_release_was_kept(
    database: Path, name: str, module: str, patch: str, kept: bool
) -> None:
    code = KILLED.format(name=name, module=module, patch=patch, here=str(Path(__file__).parent), database=str(database))
    root = str(Path(dpsql.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    with connect(database) as db:
        assert spent(db) == pytest.approx(0.5), "charged before it ran, and never refunded"
        assert db.query(COUNT).replayed is kept
        assert spent(db) == pytest.approx(0.5 if kept else 1)
        assert db.query(COUNT).replayed
