"""Error at equal price, ours against the textbook form of each: `python tests/bench/errors.py [--runs 100]`.

Ours are real queries of a session; the textbook forms are a few lines of numpy. The data are generated with a fixed
seed, the noise is not: ratios move by a few percent from run to run. Each should stay below 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpsql
from dpsql.mechanisms.zcdp_conversion import rho_for

Floats = NDArray[np.float64]
EPSILON, DELTA = 1.0, 1e-6
LOW, HIGH = 18.0, 110.0
GROUPS, KEYS = 40, 400
GROUP_CAP, ROW_CAP, TOP = 5, 20, 100.0
RANDOM = np.random.default_rng(7)
"""For data and the textbook's noise, which protects nobody here."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One task: the error of one run of ours, and of one of the textbook's."""

    name: str
    measure: str
    ours: Callable[[], float]
    textbook: Callable[[], float]


@dataclass(frozen=True, slots=True)
class World:
    """The same rows for both sides."""

    db: dpsql.Connection
    ages: Floats
    vip: NDArray[np.bool_]
    sales: pd.DataFrame
    marks: pd.DataFrame


def make_world() -> World:
    """2,000 ages; 1,500 customers who buy in a few or in many of 40 shops; 20,000 people with marks out of 400."""
    ages = np.clip(RANDOM.normal(44, 14, 2_000), LOW, HIGH).round(2)
    vip = RANDOM.random(len(ages)) < 0.15
    rows = np.minimum(RANDOM.geometric(0.12, 1_500), ROW_CAP)
    shops = RANDOM.choice(GROUPS, rows.sum(), p=_zipf(GROUPS, 0.8))
    sales = pd.DataFrame(
        {"id": np.repeat(np.arange(1_500), rows), "shop": shops, "amount": RANDOM.uniform(5, TOP, rows.sum()).round(2)}
    )
    many = RANDOM.integers(1, 13, 20_000)
    marks = pd.DataFrame(
        {"id": np.repeat(np.arange(20_000), many), "mark": RANDOM.choice(KEYS, many.sum(), p=_zipf(KEYS, 1.0))}
    )
    raw = duckdb.connect()
    raw.register("people_", pd.DataFrame({"age": ages, "vip": vip}))
    raw.register("sales_", sales)
    raw.register("marks_", marks.assign(mark="m" + marks["mark"].astype(str)))
    for name in ("people", "sales", "marks"):
        raw.execute(f"CREATE TABLE {name} AS FROM {name}_")
    return World(dpsql.connect(raw, policy=_policy(), ledger=":memory:"), ages, vip, sales, marks.drop_duplicates())


def _policy() -> dict[str, Any]:
    unit = {"unit": "id", "max_rows_per_unit": ROW_CAP, "max_groups_per_unit": 12}
    return {
        "dataset": "errors",
        "budget": {"epsilon": 10**6, "delta": "1e-2"},
        "limits": {"epsilon": 10, "delta": "1e-3"},
        "replay": False,
        "tables": {
            "people": {"unit": "row", "columns": {"age": {"min": LOW, "max": HIGH, "nulls": False}, "vip": {"nulls": False}}},
            "sales": {**unit, "columns": {"shop": {"min": 0, "max": GROUPS - 1, "nulls": False}, "amount": {"min": 0, "max": TOP, "nulls": False}}},
            "marks": {**unit, "columns": {"mark": {}}},
        },
    }  # fmt: skip


def _zipf(size: int, power: float) -> Floats:
    weights = np.arange(1, size + 1, dtype=np.float64) ** -power
    return weights / weights.sum()


def contests(world: World) -> list[Contest]:
    """All tasks; MEDIAN only where this version answers it."""
    db, ages = world.db, world.ages

    def number(sql: str, truth: float, mechanism: str) -> Callable[[], float]:
        def run() -> float:
            said = db.query(
                sql, epsilon=EPSILON, delta=DELTA if mechanism == "gaussian" else 0, mechanism=mechanism
            ).fetchall()[0][0]
            return abs((0.0 if said is None else float(said)) - truth)

        return run

    mean, spread, middle = float(ages.mean()), float(ages.std(ddof=1)), float(np.median(ages))
    share = float(ages[world.vip].sum() / ages.sum())
    made = [
        Contest("AVG, Laplace", "error", number("SELECT avg(age) FROM people", mean, "laplace"), lambda: abs(_mean(ages, _laplace) - mean)),
        Contest("AVG, Gaussian", "error", number("SELECT avg(age) FROM people", mean, "gaussian"), lambda: abs(_mean(ages, _gaussian) - mean)),
        Contest("STDDEV, Laplace", "error", number("SELECT stddev(age) FROM people", spread, "laplace"), lambda: abs(_spread(ages, _laplace) - spread)),
        Contest("STDDEV, Gaussian", "error", number("SELECT stddev(age) FROM people", spread, "gaussian"), lambda: abs(_spread(ages, _gaussian) - spread)),
        Contest("a part's share of a sum, Laplace", "error",
                number("SELECT sum(age) FILTER (WHERE vip) / sum(age) FROM people", share, "laplace"), lambda: abs(_share(world) - share)),
        Contest("SUM by 40 groups, per unit", "RMSE", _sums(world), lambda: _sampled_sums(world)),
        Contest("ROLLUP of 10 by 4 groups", "RMSE", _rollup(world), lambda: _separate_rollup(world)),
        Contest("private keys", "keys missed", _keys(world), lambda: _threshold(world)),
    ]  # fmt: skip
    median = "SELECT median(age) FROM people"
    if _answered(db, median):
        made.insert(
            4, Contest("MEDIAN", "error", number(median, middle, "laplace"), lambda: abs(_median(ages) - middle))
        )
    return made


def _answered(db: dpsql.Connection, sql: str) -> bool:
    try:
        db.explain(sql, epsilon=EPSILON, mechanism="laplace")
    except dpsql.Error:
        return False
    return True


# the textbook -----------------------------------------------------------------------------------------------------------

Noise = Callable[[float, float], float]


def _laplace(sensitivity: float, part: float) -> float:
    return float(RANDOM.laplace(0, sensitivity / (EPSILON * part)))


def _gaussian(sensitivity: float, part: float) -> float:
    """The same ρ for the same (ε, δ) as ours, so that only the algorithm differs."""
    rho = float(rho_for(Fraction(EPSILON), Fraction(DELTA))) * part
    return float(RANDOM.normal(0, sensitivity / sqrt(2 * rho)))


def _mean(x: Floats, noise: Noise) -> float:
    return (float(x.sum()) + noise(HIGH, 1 / 2)) / max(1.0, len(x) + noise(1, 1 / 2))


def _spread(x: Floats, noise: Noise) -> float:
    total, square, n = (
        float(x.sum()) + noise(HIGH, 1 / 3),
        float((x**2).sum()) + noise(HIGH**2, 1 / 3),
        len(x) + noise(1, 1 / 3),
    )
    return sqrt(max(0.0, square / n - (total / n) ** 2))


def _share(world: World) -> float:
    part, whole = float(world.ages[world.vip].sum()), float(world.ages.sum())
    return (part + _laplace(HIGH, 1 / 2)) / (whole + _laplace(HIGH, 1 / 2))


def _median(x: Floats) -> float:
    """Where the noisy histogram of 1,000 bins passes half of its own total."""
    counts, edges = np.histogram(x, bins=1_000, range=(LOW, HIGH))
    noisy = counts + RANDOM.laplace(0, 1 / EPSILON, len(counts))
    at = int(np.searchsorted(np.maximum.accumulate(np.cumsum(noisy)), noisy.sum() / 2))
    return float(edges[min(at, 999)])


def _sampled_sums(world: World) -> float:
    """Each unit keeps 5 of its groups and 4 rows in each, so that the noise is that of 20 rows, as ours."""
    shuffled = world.sales.iloc[RANDOM.permutation(len(world.sales))]
    pairs = shuffled[["id", "shop"]].drop_duplicates().groupby("id").head(GROUP_CAP)
    kept = shuffled.merge(pairs, on=["id", "shop"]).groupby(["id", "shop"]).head(ROW_CAP // GROUP_CAP)
    noisy = _by_shop(kept) + RANDOM.laplace(0, ROW_CAP * TOP / EPSILON, GROUPS)
    return float(np.sqrt(((noisy - _by_shop(world.sales)) ** 2).mean()))


def _by_shop(sales: pd.DataFrame) -> Floats:
    totals = sales.groupby("shop")["amount"].sum().reindex(range(GROUPS), fill_value=0.0)
    return totals.to_numpy(np.float64)


def _separate_rollup(world: World) -> float:
    """A third of ε for the groups, for their totals and for the grand total, which do not agree afterwards."""
    truth = _rolled_up(world)
    noisy = truth + RANDOM.laplace(0, 3 * ROW_CAP * TOP / EPSILON, len(truth))
    return float(np.sqrt(((noisy - truth) ** 2).mean()))


def _rolled_up(world: World) -> Floats:
    """The shops, four of them together, and all."""
    shops = _by_shop(world.sales)
    return np.concatenate([shops, shops.reshape(-1, 4).sum(axis=1), [shops.sum()]])


def _threshold(world: World) -> float:
    """Each unit keeps 5 of its keys; a key is shown if its count plus Laplace noise passes τ."""
    shuffled = world.marks.iloc[RANDOM.permutation(len(world.marks))]
    counts = shuffled.groupby("id").head(GROUP_CAP)["mark"].value_counts()
    cut = 1 + GROUP_CAP / EPSILON * log(GROUP_CAP / (2 * DELTA))
    shown = (counts + RANDOM.laplace(0, GROUP_CAP / EPSILON, len(counts)) >= cut).sum()
    return float(world.marks["mark"].nunique() - shown)


# ours -------------------------------------------------------------------------------------------------------------------


def _sums(world: World) -> Callable[[], float]:
    truth = _by_shop(world.sales)

    def run() -> float:
        answer = world.db.query(
            "SELECT shop, sum(amount) AS s FROM sales GROUP BY shop ORDER BY shop",
            epsilon=EPSILON,
            delta=0,
            mechanism="laplace",
        )
        return float(np.sqrt(((answer.df()["s"].to_numpy(np.float64) - truth) ** 2).mean()))

    return run


def _rollup(world: World) -> Callable[[], float]:
    truth = _rolled_up(world)
    sql = (
        "SELECT shop // 4 AS area, shop % 4 AS place, sum(amount) AS s FROM sales GROUP BY ROLLUP (area, place) "
        "ORDER BY grouping(area, place), area, place"
    )

    def run() -> float:
        answer = world.db.query(sql, epsilon=EPSILON, delta=0, mechanism="laplace")
        return float(np.sqrt(((answer.df()["s"].to_numpy(np.float64) - truth) ** 2).mean()))

    return run


def _keys(world: World) -> Callable[[], float]:
    every = world.marks["mark"].nunique()
    return lambda: float(
        every - len(world.db.query("SELECT mark FROM marks GROUP BY mark", epsilon=EPSILON, delta=DELTA))
    )


def main() -> int:
    """Run all, print one table; the exit code tells whether every ratio is below 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    world, worst = make_world(), 0.0
    print(f"{'task':34} {'measure':12} {'ours':>12} {'textbook':>12} {'ratio':>7}")
    for contest in contests(world):
        ours, textbook = (float(np.mean([side() for _ in range(runs)])) for side in (contest.ours, contest.textbook))
        worst = max(worst, ours / textbook)
        print(
            f"{contest.name:34} {contest.measure:12} {ours:12.5g} {textbook:12.5g} {ours / textbook:7.2f}", flush=True
        )
    return 0 if worst < 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
