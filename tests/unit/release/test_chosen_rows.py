"""Rows that were chosen by noisy values: which they are, and that the intervals shown allow for it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpsql
from dpsql.answers.chosen_rows import BARRED, UNBARRED, choosing_columns, confidence_of_each
from dpsql.answers.error_bars import ends_of

POLICY = {
    "dataset": "chosen", "search": False, "budget": {"epsilon": 1000, "delta": 1e-3},
    "tables": {"t": {"unit": "row", "columns": {
        "k": {"min": 0, "max": 11, "nulls": False}, "x": {"min": 0, "max": 9, "nulls": False}}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    frame = pd.DataFrame({"k": np.repeat(np.arange(12), 200)}).assign(x=lambda f: f.index % 10 * 1.0)
    with dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:", steward=True) as connection:
        yield connection


COUNTED = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (f"{COUNTED} ORDER BY n DESC LIMIT 3", {"_r0._a0"}),
        (f"{COUNTED} ORDER BY 2 DESC LIMIT 3", {"_r0._a0"}),
        (f"{COUNTED} ORDER BY n DESC", set()),
        (f"{COUNTED} ORDER BY k LIMIT 3", set()),
        (f"{COUNTED} HAVING count(*) > 10", {"_r0._a0"}),
        (f"{COUNTED} HAVING k > 3", set()),
        (f"{COUNTED} HAVING DP_LOW(count(*)) > 10", {"_r0._a0"}),
        (f"{COUNTED} QUALIFY row_number() OVER (ORDER BY sum(x)) <= 2", {"_r0._a1"}),
        (f"SELECT k, m FROM (SELECT k, 2 * n AS m FROM ({COUNTED})) ORDER BY m LIMIT 2", {"_r0._a0"}),
        (f"WITH c(g, m) AS ({COUNTED}) SELECT g FROM c WHERE m > 3", {"_r0._a0"}),
        (f"SELECT max(n) FROM ({COUNTED})", set()),
        ("SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY ROLLUP (k) ORDER BY s LIMIT 2", {"_f0._a0"}),
    ],
)
def test_what_chooses_rows_is_found(db: dpsql.Connection, sql: str, columns: set[str]) -> None:
    plan = db.prepare(sql, epsilon=1).plan
    found = choosing_columns(plan)
    assert {each.replace(plan.families[0].name, "_f0") if plan.families else each for each in found} == columns
    notes = db.explain(sql, epsilon=1).notes
    assert (BARRED in notes or UNBARRED in notes) == bool(columns)


def test_intervals_of_chosen_rows_are_wider_and_others_are_not(db: dpsql.Connection) -> None:
    sql = "SELECT k, count(*) AS n, avg(x) AS m, sum(x) AS s, sqrt(count(*)) AS r FROM t GROUP BY k"
    every = db.query(sql, epsilon=1).intervals().to_numpy()
    top = db.query(f"{sql} ORDER BY n DESC LIMIT 2", epsilon=1)
    assert top.replayed and any(note == BARRED for note in top.notes)
    rows = [row[0] for row in top.fetchall()]
    wider = np.diff(top.intervals().to_numpy())[:, ::2] / np.diff(every)[rows][:, ::2]
    assert (wider[:, 0] > 1.2).all() and (wider[:, 1] > 1.2).all() and (wider[:, 3] > 1.2).all()
    assert db.query(f"{sql} ORDER BY n DESC LIMIT 12", epsilon=1).intervals().sum().sum() == pytest.approx(every.sum())
    assert (top.intervals(simultaneous=True)["n_low"] <= top.intervals()["n_low"]).all()


def test_noise_of_other_statistics_needs_no_allowance(db: dpsql.Connection) -> None:
    sql = "SELECT k, count(*) FILTER (WHERE x < 7) AS n, count(*) FILTER (WHERE x > 5) AS s FROM t GROUP BY k ORDER BY n DESC"
    every, top = (db.query(f"{sql} {limit}", epsilon=1, mechanism="gaussian").intervals() for limit in ("", "LIMIT 2"))
    assert top["n_low"][0] < every["n_low"][0] and top["s_low"][0] == every["s_low"][0]
    widths = dict(db.query(f"{sql} LIMIT 2", epsilon=1, mechanism="gaussian").half_widths())
    assert widths["n"] == pytest.approx((top["n_high"][0] - top["n_low"][0]) / 2, abs=1)


def test_fewer_rows_of_more_candidates_need_more_confidence() -> None:
    assert confidence_of_each(0.95, 12, 12) == 0.95 == pytest.approx(confidence_of_each(0.95, 5, 1))
    assert confidence_of_each(0.95, 1, 50) == pytest.approx(0.999)
    assert confidence_of_each(0.95, 0, 50) == pytest.approx(0.999)
    assert confidence_of_each(1 - 2**-53, 1, 50) < 1


def test_more_confidence_than_there_are_draws_reaches_beyond_them() -> None:
    values = np.random.default_rng(3).laplace(size=(199, 1_000))
    low, high = ends_of(values, np.zeros(1_000), 0.9999, together=False)
    assert (low < values.min(axis=0)).all() and (high > values.max(axis=0)).all()
    assert np.median(high) == pytest.approx(-np.log(0.0001), rel=0.25)


# the study in small -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["first", "first 5", "above 300", "outer above 300"])
def test_chosen_rows_are_covered(choice: str) -> None:
    path, runs = Path(__file__).parents[2] / "bench" / "chosen_rows.py", 150
    spec = importlib.util.spec_from_file_location("bench_chosen_rows", path)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    sys.modules["bench_chosen_rows"] = bench
    spec.loader.exec_module(bench)
    [cell] = bench.cells("equal", "gaussian", runs, runs, (choice,))
    assert cell.covered >= binom.ppf(1e-6, runs, 0.95) / runs, cell
    assert cell.plain < cell.covered, cell
    if choice == "first":
        assert cell.plain < binom.ppf(1e-6, runs, 0.95) / runs, "the check can fail"
