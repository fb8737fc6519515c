"""Error bars: right coverage against the bounded answer, exact where the law is exact, and honest at the edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from unlocked import sealed

import dpsql
from dpsql.answers.analytic_bars import half_width, interval
from dpsql.answers.error_bars import row_ends
from dpsql.answers.noise_stage import add_noise

POLICY = {
    "dataset": "intervals",
    "search": False,
    "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {"t": {"unit": "row", "columns": {"x": {"min": -5, "max": 10}, "k": {"values": ["a"]}}}},
}
RUNS = 4_000


@pytest.fixture
def db() -> dpsql.Connection:
    frame = pd.DataFrame({"x": [1.0], "k": ["a"]})
    return dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:")


def covered(db: dpsql.Connection, aggregate: str, mechanism: str, n: int, mean: float) -> float:
    """How often the 95% interval holds the exact answer, over many draws of the noise."""
    priced = db.prepare(f"SELECT {aggregate} FROM t", epsilon=1.0, mechanism=mechanism).bill.releases[0]
    values = []
    for statistic, noised in zip(priced.bounded.statistics, priced.noised, strict=True):
        argument = priced.bounded.arguments[statistic.part.argument]
        total = statistic.part.alpha * round(n * mean / float(argument.grid)) + statistic.part.beta * n
        values.append(np.full(RUNS, total >> noised.shift))
    released = add_noise(priced, sealed(tuple((i,) for i in range(RUNS)), tuple(values), None))
    low, high = interval(released, 0, 0.95)
    truth = {"count": n, "sum": n * mean, "avg": mean}[aggregate.split("(", maxsplit=1)[0]]
    return float(np.mean((low - 1e-6 <= truth) & (truth <= high + 1e-6)))


@pytest.mark.parametrize(
    ("aggregate", "mechanism", "n"),
    list(product(["count(x)", "sum(x)", "avg(x)"], ["laplace", "gaussian"], [5, 100, 5_000])),
)
def test_ninety_five_percent_means_ninety_five_percent(
    db: dpsql.Connection, aggregate: str, mechanism: str, n: int
) -> None:
    share = covered(db, aggregate, mechanism, n, 2.5)
    assert share > 0.937
    if aggregate != "count(x)" and n > 50:
        assert share < 0.965


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_next_narrower_count_interval_would_not_do(db: dpsql.Connection, mechanism: str) -> None:
    priced = db.prepare("SELECT count(*) FROM t", epsilon=0.7, mechanism=mechanism).bill.releases[0]
    noise, width = priced.noised[0].noise, half_width(priced, 0, 0.95)
    assert width == int(width)
    assert 1 - 2 * noise.tail(int(width) + 1) >= 0.95
    assert 1 - 2 * noise.tail(int(width)) < 0.95


def test_an_average_of_nothing_is_null_with_the_whole_range_as_interval(db: dpsql.Connection) -> None:
    result = db.query("SELECT k, avg(x) AS a FROM t WHERE x > 9 GROUP BY k", epsilon=0.01, mechanism="laplace")
    ends = result.intervals()
    assert ends["a_low"].min() >= -5
    assert ends["a_high"].max() <= 10


def test_expressions_and_joins_get_intervals_too(db: dpsql.Connection) -> None:
    sql = "WITH c AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT a.k, a.n, a.n * 2 + b.n AS m FROM c a JOIN c b USING (k)"
    ends = db.query(sql, epsilon=1).intervals()
    assert list(ends.columns) == ["n_low", "n_high", "m_low", "m_high"]
    assert (ends["m_high"] - ends["m_low"] > ends["n_high"] - ends["n_low"]).all()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", ["sum(x) / count(*)", "round(sum(x) / count(*), 6)"])
def test_a_ratio_is_covered_row_by_row(db: dpsql.Connection, sql: str, mechanism: str) -> None:
    """Exactly as a quotient, and (behind a ROUND) by resampling; in 1,000 draws of the noise, each a row."""
    runs, n, mean = 1_000, 2_000, 2.5
    prepared = db.prepare(f"SELECT k, {sql} AS r FROM t GROUP BY k", epsilon=1.0, mechanism=mechanism)
    priced, formula = prepared.bill.releases[0], prepared.plan.outputs[1].formula
    assert formula is not None
    values = []
    for statistic, noised in zip(priced.bounded.statistics, priced.noised, strict=True):
        grid = priced.bounded.arguments[statistic.part.argument].grid
        total = statistic.part.alpha * round(n * mean / float(grid)) + statistic.part.beta * n
        values.append(np.full(runs, total >> noised.shift))
    released = add_noise(priced, sealed((("a",),) * runs, tuple(values), None))
    [(low, high)] = row_ends(db.dataset.finisher, prepared.plan, released, {}, [formula[1]], 0.9)
    hits = int(np.sum((low <= mean) & (mean <= high)))
    assert binom.ppf(1e-7, runs, 0.89) <= hits <= binom.ppf(1 - 1e-7, runs, 0.91)


def test_wrong_confidence_is_an_error(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.InterfaceError, match="between 0 and 1"):
        db.query("SELECT count(*) FROM t").intervals(95)


def test_notes_name_what_intervals_do_not_cover(db: dpsql.Connection) -> None:
    notes = db.query("SELECT sum(x) FROM t").notes
    assert notes == ("values of x outside [-5, 10] are clamped",)


def test_how_many_private_groups_there_are_has_no_error_bar_rather_than_none_left() -> None:
    frame = pd.DataFrame({"k": [f"g{i % 3}" for i in range(900)]})
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"t": {"unit": "row", "columns": {"k": {}}}},
    }
    with dpsql.connect({"t": frame}, policy=policy, ledger=":memory:") as db:
        ends = db.query(
            "SELECT count(*) AS groups FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", epsilon=1
        ).intervals()
    assert ends.isna().all().all()
