"""The coverage study in small: fewer cells and runs, with bounds that chance crosses less than once in a million."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from unlocked import run, sealed

import dpsql
from dpsql.answers import error_bars
from dpsql.answers.error_bars import ends_of, resampled_intervals, row_ends
from dpsql.answers.estimation import tabulate
from dpsql.answers.noise_stage import add_noise

RARE = 1e-7
RUNS = 2_000


def least(runs: int, share: float = 0.95) -> float:
    """What a share of hits falls below once in ten million times."""
    return float(binom.ppf(RARE, runs, share)) / runs


def most(runs: int, share: float = 0.95) -> float:
    """What it rises above as seldom."""
    return float(binom.ppf(1 - RARE, runs, share)) / runs


def study() -> ModuleType:
    """The bench module, by its path."""
    path = Path(__file__).parents[2] / "bench" / "coverage.py"
    spec = importlib.util.spec_from_file_location("bench_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_coverage"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", ["", "by public key", "by private key"])
def test_intervals_hold_as_often_as_they_say(shape: str) -> None:
    bench = study()
    cells = list(bench.cells(bench.EXACT if not shape else bench.GROUPED, shape, RUNS, (5, 1_000)))
    assert len(cells) >= 16
    for cell in cells:
        if cell.runs:
            assert cell.coverage >= least(cell.runs), cell
            assert cell.coverage <= most(cell.runs, 0.98), cell
        if not cell.open and cell.statistic.startswith(("avg", "ratio")):
            assert cell.runs == 0 or cell.coverage <= most(cell.runs, 0.955), cell
        assert cell.narrower is None or cell.narrower < 0.95, cell
    assert any(cell.runs == RUNS for cell in cells)


# many groups at once ----------------------------------------------------------------------------------------------------

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {
        "t": {"unit": "row", "columns": {"k": {"min": 0, "max": 11, "nulls": False}, "x": {"min": 0, "max": 9}}}
    },
}


def opened(counts: list[int]) -> dpsql.Connection:
    frame = pd.DataFrame({"k": np.repeat(np.arange(len(counts)), counts)}).assign(x=lambda f: f.index % 10 * 1.0)
    return dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:", steward=True)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("sql", "truth"), [("count(*)", 200), ("avg(x)", 4.5), ("sum(x) / count(*)", 4.5)])
def test_all_intervals_of_a_column_hold_together(sql: str, truth: float, mechanism: str) -> None:
    """Each alone would leave all twelve standing far less often."""
    runs, counts = 300 if sql == "count(*)" else 100, [200] * 12
    with opened(counts) as db:
        prepared = db.prepare(f"SELECT k, {sql} AS v FROM t GROUP BY k", epsilon=1.0, mechanism=mechanism)
        priced, formula = prepared.bill.releases[0], prepared.plan.outputs[1].formula
        assert formula is not None
        exact = run(db.engine, priced, b"salt")
        hits = {True: 0, False: 0}
        for together, _ in [(t, r) for t in hits for r in range(runs)]:
            released = add_noise(priced, exact)
            [(low, high)] = row_ends(
                db.dataset.finisher, prepared.plan, released, {}, [formula[1]], 0.95, together=together
            )
            hits[together] += bool(np.all((low - 1e-6 <= truth) & (truth <= high + 1e-6)))
    assert hits[False] / runs < least(runs) <= hits[True] / runs


def test_resampled_intervals_hold_together_too() -> None:
    rng, hits, runs = np.random.default_rng(5), {True: 0, False: 0}, 600
    for together in hits:
        for _ in range(runs):
            shown = rng.normal(size=10)
            low, high = ends_of(shown + rng.normal(size=(400, 10)), shown, 0.95, together=together)
            hits[together] += bool(np.all((low <= 0) & (high >= 0)))
    assert hits[True] / runs >= least(runs, 0.94)
    assert hits[False] / runs <= most(runs, 0.65)


def test_simultaneous_intervals_count_the_groups_that_the_answer_leaves_out() -> None:
    """The largest of twelve is chosen for its noise: its interval is the same as without LIMIT."""
    with opened([200] * 12) as db:
        all_, top = (
            db.query(f"SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC {limit}", epsilon=1)
            for limit in ("", "LIMIT 1")
        )
        assert top.replayed
        assert all_.intervals(simultaneous=True).iloc[0].tolist() == top.intervals(simultaneous=True).iloc[0].tolist()
        assert top.intervals()["n_low"][0] < all_.intervals()["n_low"][0]


# what mixes groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "truth"),
    [
        ("SELECT max(n) AS v FROM ({})", 200),
        ("SELECT count(*) AS v FROM ({}) WHERE n > 199", 12),
    ],
)
def test_extremes_and_thresholds_of_equal_groups_are_covered(
    above: str, truth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst case: which group is largest, and which are above 199, is decided by the noise alone."""
    monkeypatch.setattr(error_bars, "TIMES", 39)
    runs, hits = 120, 0
    with opened([200] * 12) as db:
        prepared = db.prepare(
            above.format("SELECT k, count(*) AS n FROM t GROUP BY k"), epsilon=0.5, mechanism="laplace"
        )
        priced, plan = prepared.bill.releases[0], prepared.plan
        exact = run(db.engine, priced, b"salt")
        for _ in range(runs):
            released = add_noise(priced, exact)
            answer = db.dataset.finisher.run(plan, {"_r0": tabulate(released, {})})
            ends = resampled_intervals(
                db.dataset.finisher, plan, {"_r0": released}, {"_r0": {}}, answer, [0], 0.95, together=False
            )
            hits += bool(ends[0][0][0] <= truth <= ends[0][1][0])
    assert hits / runs >= least(runs)


@pytest.mark.parametrize("ones", [0, 1, 20, 50])
def test_an_average_of_flags_with_noise_of_one_step_is_covered(ones: int) -> None:
    """Where the noise is a step or two the continuous law would be too narrow: 92.7% for a single noise."""
    with opened([200] * 12) as db:
        prepared = db.prepare(
            "SELECT avg(CASE WHEN x > 4 THEN 1 ELSE 0 END) AS v FROM t", epsilon=1.0, mechanism="laplace"
        )
        [priced], formula = prepared.bill.releases, prepared.plan.outputs[0].formula
        assert formula is not None
        assert priced.noised[0].noise.scale == 1
        released = add_noise(priced, sealed(((),) * RUNS, (np.full(RUNS, ones), np.full(RUNS, 50 - ones)), None))
        [(low, high)] = row_ends(db.dataset.finisher, prepared.plan, released, {}, [formula[1]], 0.95)
    share = np.mean((low - 1e-9 <= ones / 50) & (ones / 50 <= high + 1e-9))
    assert least(RUNS) <= share


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_confidence_next_to_one_is_answered(mechanism: str) -> None:
    with opened([200] * 12) as db:
        sql = "SELECT DP_LOW(avg(x), 0.9999999999999999), DP_LOW(sum(x) + count(*), 0.9999999999999999) FROM t"
        assert len(db.query(sql, epsilon=5, mechanism=mechanism)) == 1


def test_a_wrong_width_is_noticed() -> None:
    """The check itself can fail: intervals for half the noise hold too seldom."""
    with opened([200] * 12) as db:
        prepared = db.prepare("SELECT count(*) AS v FROM t", epsilon=1.0, mechanism="laplace")
        [other] = db.prepare("SELECT count(*) AS v FROM t", epsilon=0.5, mechanism="laplace").bill.releases
        [priced], formula = prepared.bill.releases, prepared.plan.outputs[0].formula
        assert formula is not None
        released = add_noise(other, sealed(((),) * RUNS, (np.full(RUNS, 2400),), None))
        assert released.priced is other
        ends = row_ends(
            db.dataset.finisher,
            prepared.plan,
            released.shown_as(priced),
            {},
            [formula[1]],
            0.95,
        )
    low, high = ends[0]
    assert np.mean((low <= 2400) & (high >= 2400)) < least(RUNS)
