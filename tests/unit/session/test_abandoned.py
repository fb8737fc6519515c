"""Work that nobody waits for any more is stopped in the engine and above it; what it charged stays charged."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.cancellation import ClientLeft, ClientTask, interruptible

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 10, "delta": 1e-6},
    "tables": {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 1}}}},
}
ENDLESS = "SELECT sum(a.x) FROM t a JOIN t b ON a.u = b.u AND a.x + b.x <> 1.5"
"""One unit with very many rows, each joined with each: hours of work."""


@pytest.mark.parametrize("isolate", [False, True])
def test_the_engine_stops_and_the_charge_stays(tmp_path: Path, isolate: bool) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as data:
        data.execute("CREATE TABLE t AS SELECT 1 AS u, i / 2e6 AS x FROM range(1000000) r(i)")
    with dpsql.connect(tmp_path / "d.duckdb", policy=POLICY, ledger=":memory:", isolate=isolate) as db:
        errand = ClientTask()
        leaving = threading.Timer(0.5, errand.leave)
        leaving.start()
        with errand.underway(), pytest.raises(dpsql.EngineError) as stopped:
            db.query(ENDLESS, epsilon=1)
        assert str(stopped.value) == dpsql.EngineError.TEXT
        assert db.budget().dataset.spent.epsilon == pytest.approx(1)
        assert len(db.query("SELECT count(*) FROM t", epsilon=1)) == 1, "the next query is not stopped"


def test_what_stands_above_the_aggregate_stops_too() -> None:
    tables = {"p": pd.DataFrame({"i": range(3000)}), "t": pd.DataFrame({"u": [1], "x": [0.5]})}
    policy = {**POLICY, "tables": {**POLICY["tables"], "p": {"public": True}}}  # type: ignore[dict-item]
    with dpsql.connect(tables, policy=policy, ledger=":memory:") as db:
        errand = ClientTask()
        leaving = threading.Timer(0.5, errand.leave)
        began = time.monotonic()
        leaving.start()
        with errand.underway(), pytest.raises(dpsql.Error):
            db.query("SELECT count(*) FROM p a, p b, p c WHERE sin(a.i + b.i * c.i) > 2")
        assert time.monotonic() - began < 8, "it would have been ended for its time after ten seconds"
        assert db.query("SELECT count(*) FROM p").fetchall() == [(3000,)]


def test_nothing_is_begun_for_who_has_left_and_nothing_stopped_after_its_end() -> None:
    stops: list[int] = []
    errand = ClientTask()
    with errand.underway():
        with interruptible(lambda: stops.append(1)):
            pass
        errand.leave()
        with pytest.raises(ClientLeft), interruptible(lambda: stops.append(2)):
            raise AssertionError
    time.sleep(0.3)
    assert stops == []


def test_what_is_left_before_it_began_is_never_begun_and_nothing_waits_for_its_end() -> None:
    errand, before = ClientTask(), threading.active_count()
    errand.leave()
    time.sleep(0.3)
    assert threading.active_count() == before, "nothing may wait for the end of work that never begins"
    with pytest.raises(ClientLeft), errand.underway():
        raise AssertionError
