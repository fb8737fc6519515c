"""Replies come at multiples of the pad, refusals too; the residual is a figure and never a verdict."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from attack import timing

import dpsql
from dpsql.answers import execute, noise_stage
from dpsql.audit.outcome import Settings

POLICY: dict[str, Any] = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 100},
    "limits": {"pad": 0.2},
    "tables": {"t": {"unit": "id", "columns": {"x": {"min": 0, "max": 1}}}},
}


@pytest.fixture
def frames() -> dict[str, Any]:
    import pandas as pd

    return {"t": pd.DataFrame({"id": [1, 2, 3], "x": [0.0, 0.5, 1.0]})}


@pytest.mark.parametrize("sql", ["SELECT count(*) FROM t", "SELECT x FROM t", "SELECT count(*) FROM nothing"])
def test_replies_and_refusals_wait_for_the_next_multiple(frames: dict[str, Any], sql: str) -> None:
    with dpsql.connect(frames, policy=POLICY, ledger=":memory:") as db:
        begun = time.monotonic()
        with suppress(dpsql.Error):
            db.query(sql)
        taken = time.monotonic() - begun
    assert taken >= 0.2 - 1e-3


@pytest.mark.parametrize("pad", [0, -1, 4000, "soon"])
def test_a_pad_is_a_sensible_number_of_seconds(frames: dict[str, Any], pad: object) -> None:
    with pytest.raises(dpsql.PolicyError):
        dpsql.connect(frames, policy={**POLICY, "limits": {"pad": pad}}, ledger=":memory:")


def test_noise_is_drawn_before_the_database_is_asked(frames: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {**POLICY, "limits": {}}
    order: list[str] = []
    with dpsql.connect(frames, policy=policy, ledger=":memory:") as db:
        run, ahead = db.engine.run, noise_stage.drawn_ahead
        monkeypatch.setattr(db.engine, "run", lambda *args: (order.append("database"), run(*args))[1])
        monkeypatch.setattr(execute, "drawn_ahead", lambda priced: (order.append("noise"), ahead(priced))[1])
        drawn = noise_stage._draw
        monkeypatch.setattr(noise_stage, "_draw", lambda *args: (order.append("drawn"), drawn(*args))[1])
        db.query("SELECT count(*), sum(x) FROM t")
    assert order == ["noise", "drawn", "database"]


def test_the_check_gives_figures_and_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "RUNS", 2)
    monkeypatch.setattr(timing, "ROWS", 500)
    monkeypatch.setattr(timing, "PADS", (None, 0.05))
    made = timing.check((), Settings(), lambda done, of: None)
    assert made.passed and len(made.figures) == 4 * len(timing.QUESTIONS)
