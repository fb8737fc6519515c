"""Do 95% intervals hold the bounded answer in 95 of 100 runs, and are they no wider than that takes?

`python tests/bench/coverage.py` runs every cell: a statistic, ε of 0.1 and 1, Laplace and Gaussian noise, groups of 5
to 100,000 units. The engine runs once for each; the noise is drawn again for each run, over the same exact integers.
The data keep to their bounds, so the bounded answer is what plain DuckDB says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from math import isfinite, sqrt
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import dpsql
from dpsql.answers.analytic_bars import form_of
from dpsql.answers.error_bars import row_ends
from dpsql.answers.noise_stage import Released, add_noise
from dpsql.budget.pricing import Priced
from dpsql.engines.sealed import Integers
from dpsql.query_draft import PreparedQuery

sys.path.append(str(Path(__file__).parents[1]))

from unlocked import integers, sealed

SIZES = (5, 100, 1_000, 100_000)
EPSILONS = (0.1, 1.0)
MECHANISMS = ("laplace", "gaussian")
EXACT = {"count": "count(*)", "sum": "sum(x)", "avg": "avg(x)", "ratio": "sum(x) / sum(y)"}
MIXED = {"ratio of averages": "avg(x) / avg(y)", "difference of averages": "avg(x) - avg(y)"}
GROUPED = {"count": "count(*)", "sum": "sum(x)", "avg": "avg(x)"}
SHAPES = {"": "SELECT {} AS v FROM t WHERE g = '{}'", "by public key": "SELECT g, {} AS v FROM t GROUP BY g",
          "by private key": "SELECT note, {} AS v FROM t GROUP BY note"}  # fmt: skip
POLICY = {
    "dataset": "coverage", "search": False,
    "budget": {"epsilon": 1000, "delta": 1e-3},
    "limits": {"epsilon": 100, "delta": 1e-4},
    "defaults": {"delta": 1e-6},
    "tables": {"t": {"unit": "id", "max_rows_per_unit": 3, "columns": {
        "x": {"min": 0, "max": 100, "nulls": False}, "y": {"min": 0, "max": 40, "nulls": False},
        "g": {"values": [f"g{size}" for size in SIZES], "nulls": False}, "note": {}}}},
}  # fmt: skip
DRAWN = 1_000
"""Rows at a time where each is resampled."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table. `open`: the share of runs in which an end is missing, infinite or both are at the bounds,
    so that nothing, or little, is said; `narrower`: the coverage of the next narrower interval, by the exact law, for
    what has one noise."""

    statistic: str
    epsilon: float
    mechanism: str
    units: int
    runs: int
    coverage: float
    open: float
    narrower: float | None

    @property
    def problem(self) -> str:
        """What is wrong with the cell, or nothing."""
        if self.runs < 500:
            return ""
        if self.coverage < min(0.94, 0.95 - 3 * sqrt(0.95 * 0.05 / self.runs)):
            return "too low"
        if self.narrower is not None:
            return "" if self.narrower < 0.95 else "wasteful"
        return "wasteful" if self.coverage > 0.98 and self.open == 0 else ""


def world() -> duckdb.DuckDBPyConnection:
    """Units with one to three rows each, in one group each."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (id BIGINT, x DOUBLE, y DOUBLE, g VARCHAR, note VARCHAR)")
    for number, size in enumerate(SIZES):
        connection.execute(
            f"INSERT INTO t SELECT {number * 10**6} + u, (u * 37 + r * 11) % 81, (u * 13 + r * 7) % 41, 'g{size}', 'g{size}' "
            f"FROM range({size}) AS units(u), range(3) AS rows(r) WHERE r <= u % 3"
        )
    return connection


def cells(kinds: dict[str, str], shape: str, runs: int, sizes: tuple[int, ...] = SIZES) -> Iterator[Cell]:
    """The cells of some statistics in one shape of query."""
    with world() as data, dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True) as db:
        for (kind, sql), epsilon, mechanism in product(kinds.items(), EPSILONS, MECHANISMS):
            name = f"{kind} {shape}".strip()
            for size in sizes if not shape else sizes[:1]:
                text = SHAPES[shape].format(sql, f"g{size}")
                prepared = db.prepare(text, epsilon=epsilon, mechanism=mechanism)
                exact = integers(db.engine, prepared.bill.releases[0], b"salt")
                for place, key in enumerate(exact.keys):
                    units = int(key[0][1:]) if key else size
                    if units in sizes:
                        [truth] = data.execute(f"SELECT {sql} FROM t WHERE g = 'g{units}'").fetchone() or (0,)
                        low, high = _ends(db, prepared, _only(exact, place), runs)
                        yield _cell((name, epsilon, mechanism, units), prepared, float(truth), low, high)


def _only(exact: Integers, place: int) -> Integers:
    """The exact integers of one group."""
    selection = None if exact.selection is None else exact.selection[place : place + 1]
    return Integers(exact.keys[place : place + 1], tuple(v[place : place + 1] for v in exact.values), selection)


def _ends(db: dpsql.Connection, prepared: PreparedQuery, exact: Integers, runs: int) -> tuple[Floats, Floats]:
    """The intervals of many runs: each is a row of a released table, as a group would be."""
    formula, priced = prepared.plan.outputs[-1].formula, prepared.bill.releases[0]
    assert formula is not None
    batch = min(runs, DRAWN) if form_of(formula[1], priced) is None else runs
    ends = []
    for _ in range(runs // batch):
        released = _released(priced, exact, batch)
        if len(released.keys):
            ends += row_ends(db.dataset.finisher, prepared.plan, released, {}, [formula[1]], 0.95)
    low, high = (np.concatenate([np.empty(0), *(e[i] for e in ends)]) for i in (0, 1))
    return low, high


def _released(priced: Priced, exact: Integers, times: int) -> Released:
    selection = None if exact.selection is None else np.repeat(exact.selection, times)
    return add_noise(priced, sealed(exact.keys * times, tuple(np.repeat(v, times) for v in exact.values), selection))


def _cell(name: tuple[str, float, str, int], prepared: PreparedQuery, truth: float, low: Floats, high: Floats) -> Cell:
    slack = 1e-6 * (1 + abs(truth))
    missed = (low - slack > truth) | (truth > high + slack)
    whole = ~np.isfinite(low) | ~np.isfinite(high)
    if name[0].startswith("avg"):
        whole |= (low <= 0) & (high >= 100)
    shares = [float(np.mean(each)) if len(low) else float("nan") for each in (~missed, whole)]
    return Cell(*name, len(low), *shares, _narrower(prepared.bill.releases[0]))


def _narrower(priced: Priced) -> float | None:
    """The coverage of the interval that is one step of the noise grid narrower at both ends."""
    if len(priced.noised) != 1:
        return None
    noise = priced.noised[0].noise
    return 1 - 2 * noise.survival(noise.half_width(0.95))


def study(runs: int, sizes: tuple[int, ...] = SIZES) -> Iterator[Cell]:
    """The whole table."""
    yield from cells(EXACT, "", runs, sizes)
    yield from cells(MIXED, "", max(DRAWN, runs // 5), sizes)
    yield from cells(GROUPED, "by public key", runs, sizes)
    yield from cells(GROUPED, "by private key", runs, sizes)


def main() -> int:
    """Print the table; 1 if a cell is off."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--runs", type=int, default=10_000, help="noise draws for each cell (a fifth where resampled)")
    options.add_argument("--json", type=Path, help="also write the cells to this file")
    asked = options.parse_args()
    done = []
    print(f"{'statistic':<26}{'ε':>5} {'noise':<9}{'units':>7}{'runs':>7}{'coverage':>10}{'open':>7}{'narrower':>10}")
    for cell in study(asked.runs):
        done.append(cell)
        next_ = "" if cell.narrower is None else f"{cell.narrower:.4%}"
        share = f"{cell.coverage:.1%}" if isfinite(cell.coverage) else "not shown"
        print(f"{cell.statistic:<26}{cell.epsilon:>5g} {cell.mechanism:<9}{cell.units:>7}{cell.runs:>7}{share:>10}"
              f"{cell.open:>7.0%}{next_:>10} {cell.problem}", flush=True)  # fmt: skip
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(cell) for cell in done], indent=1))
    for line in summary(done):
        print(line)
    return 1 if any(cell.problem for cell in done) else 0


def summary(done: list[Cell]) -> list[str]:
    """The least and the most coverage of each statistic, where intervals say something and where some are open."""
    lines = []
    for name in dict.fromkeys(cell.statistic for cell in done):
        mine = [c for c in done if c.statistic == name and c.runs >= 500]
        for title, chosen in (
            ("", [c for c in mine if c.open == 0]),
            (" (some open)", [c for c in mine if c.open > 0]),
        ):
            if chosen:
                shares = [c.coverage for c in chosen]
                lines.append(f"{name}{title}: {min(shares):.1%} to {max(shares):.1%} in {len(chosen)} cells")
    return lines


if __name__ == "__main__":
    sys.exit(main())
