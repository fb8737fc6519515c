"""Rates, averages of per-unit totals, and sums over a condition: how the text alone decides their scales and clips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.answers.analytic_bars import cut_off
from dpsql.answers.result import Result
from dpsql.plan.plan import Plan

RATE = "SELECT k, 100.0 * count(*) FILTER (WHERE died) / count(*) AS rate FROM t GROUP BY k"
BOTH = "SELECT k, 100.0 * count(*) FILTER (WHERE died) / count(*) AS rate, count(*) AS n FROM t GROUP BY k"


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 units with 1 to 40 rows, one row in thirty with a death; amounts are log-normal."""
    random = np.random.default_rng(5)
    rows = np.minimum(np.ceil(random.pareto(1.5, 20_000)), 40).astype(int)
    units = np.repeat(np.arange(len(rows)), rows)
    path = tmp_path_factory.mktemp("stays") / "d.duckdb"
    frame = {
        "u": units,
        "k": random.choice(list("abcd"), len(units)),
        "died": random.random(len(units)) < 1 / 30,
        "x": np.round(random.lognormal(3, 1, len(units)), 2),
    }
    with duckdb.connect(str(path)) as raw:
        import pandas as pd

        made = pd.DataFrame(frame)
        raw.register("made", made)
        raw.execute("CREATE TABLE t AS SELECT u, k, died, CAST(x AS DOUBLE) AS x FROM made")
    return path


def connect(path: Path) -> dpsql.Connection:
    columns: dict[str, Any] = {"k": {"values": list("abcd")}, "died": {}, "x": {"min": 0, "max": 1_000_000}}
    policy = {
        "dataset": "d",
        "search": True,
        "budget": {"epsilon": 50, "delta": 1e-6},
        "tables": {"t": {"unit": "u", "columns": columns}},
    }
    return dpsql.connect(path, policy=policy, ledger=":memory:", analyst="ana")


def asked(db: dpsql.Connection, sql: str) -> Plan:
    plan = db.explain(sql).plan
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.parametrize(
    ("sql", "rates"),
    [
        (RATE, True),
        (RATE + " ORDER BY rate LIMIT 2", True),
        ("SELECT avg(CASE WHEN died THEN 1 ELSE 0 END) FROM t", True),
        ("SELECT (count(*) - count(*) FILTER (WHERE died)) / nullif(count(*), 0) FROM t", True),
        ("SELECT k, stddev(x), var_pop(x), avg(x) FROM t GROUP BY k", True),
        ("SELECT k, stddev(x), sum(x) FROM t GROUP BY k", False),
        (BOTH, False),
        (RATE + " ORDER BY count(*)", False),
        (RATE + " HAVING count(*) > 100", False),
        ("SELECT count(*) / 12 FROM t", False),
        ("SELECT count(*) * (count(*) FILTER (WHERE died)) FROM t", False),
        ("SELECT k, count(*) FILTER (WHERE died) / count(*) FROM t GROUP BY ROLLUP (k)", False),
    ],
)
def test_a_rate_is_what_is_only_divided(stays: Path, sql: str, rates: bool) -> None:
    with connect(stays) as db:
        assert all(release.rates is rates for release in asked(db, sql).releases)


def test_a_rate_is_clipped_lower_than_the_counts_that_it_is_made_of(stays: Path) -> None:
    with connect(stays) as db:
        bounds = []
        for sql in (RATE, BOTH):
            db.query(sql, epsilon=0.5)
            statistics = db.explain(sql, epsilon=0.5).releases[0].statistics
            bounds.append(statistics[0].sensitivity)
        assert bounds[0] < bounds[1]


@pytest.mark.parametrize("shown", ["avg(x)", "stddev(x)"])
def test_a_mean_is_clipped_lower_than_the_sum_that_it_is_made_of(stays: Path, shown: str) -> None:
    with connect(stays) as db:
        vectors = []
        for also in ("", ", sum(x)"):
            db.query(f"SELECT k, {shown}{also} FROM t GROUP BY k", epsilon=0.5)
            prepared = db.prepare(f"SELECT k, {shown}{also} FROM t GROUP BY k", epsilon=0.5)
            vectors.append(prepared.bill.releases[0].bounded.vector)
        alone, beside = vectors
        assert alone is not None
        assert beside is not None
        assert alone.means
        assert alone.left < beside.left


def test_the_bar_of_a_variance_allows_for_squares_that_were_cut_off(stays: Path) -> None:
    """All statistics cut in proportion would leave a quotient as it is: squares of a few heavy values are cut more."""
    with connect(stays) as db:
        answer = db.query("SELECT var_pop(x) AS v FROM t", epsilon=0.5)
        assert isinstance(answer, Result)
        (table,) = answer.released.values()
        noised, statistics = table.priced.noised, table.priced.bounded.statistics
        sizes = [np.abs(cut) * 2.0**n.shift for cut, n in zip(cut_off(table), noised, strict=True)]
        (count,) = [size for size, statistic in zip(sizes, statistics, strict=True) if not statistic.part.alpha]
        for size, statistic in zip(sizes, statistics, strict=True):
            assert not statistic.part.alpha or (size >= 2 * count * 0.999).all()
        ((_, high),) = dict(zip(answer.columns, answer.bars(0.95), strict=True))["v"]
        assert high > answer.fetchall()[0][0]


def test_an_average_of_totals_is_scaled_by_what_is_usual_of_a_row(stays: Path) -> None:
    sql = "SELECT avg(total) AS mean FROM (SELECT u, sum(x) AS total FROM t GROUP BY u)"
    with duckdb.connect(str(stays), read_only=True) as raw:
        truth = raw.sql(sql).fetchall()[0][0]
    with connect(stays) as db:
        answer = db.query(sql, epsilon=0.5)
        assert abs(answer.fetchall()[0][0] - truth) < truth / 5
        assert any("t.x" in note for note in answer.notes)


def test_a_sum_over_a_condition_is_scaled_by_what_the_condition_leaves(stays: Path) -> None:
    sql = "SELECT count(*) AS n, sum(x) AS total FROM t WHERE x > 100"
    with duckdb.connect(str(stays), read_only=True) as raw:
        truth = raw.sql(sql).fetchall()[0][1]
    with connect(stays) as db:
        assert abs(db.query(sql, epsilon=0.5).fetchall()[0][1] - truth) < truth / 4


def test_the_bar_of_an_average_allows_for_the_cut_of_its_sum(stays: Path) -> None:
    """The sum around the centre is near zero: by its size alone it would bear nothing of the cut."""
    with connect(stays) as db:
        answer = db.query("SELECT avg(x) FROM t", epsilon=0.5)
        assert isinstance(answer, Result)
        (table,) = answer.released.values()
        count, centred = cut_off(table)
        shifts = [2.0**noised.shift for noised in table.priced.noised]
        assert (np.abs(centred) * shifts[1] >= 2 * np.abs(count) * shifts[0] * 0.999).all()
        assert centred.any()


@pytest.mark.parametrize("type_", ["INTEGER", "DOUBLE", "DECIMAL(9,2)"])
def test_a_units_average_of_different_values_divides_by_their_number(type_: str) -> None:
    sql = "SELECT avg(a) FROM (SELECT u, avg(DISTINCT x) AS a FROM t GROUP BY u)"
    with duckdb.connect() as raw:
        raw.execute(f"CREATE TABLE t AS SELECT range % 500 AS u, CAST(range % 3 AS {type_}) AS x FROM range(5000)")
        raw.execute("INSERT INTO t SELECT u, 2 FROM t WHERE u % 3 = 0")
        (truth,) = raw.sql(sql).fetchall()[0]
        policy = {
            "dataset": "d",
            "budget": {"epsilon": 10**6},
            "limits": {"epsilon": 10**6},
            "tables": {"t": {"unit": "u", "max_rows_per_unit": 50, "columns": {"x": {"min": 0, "max": 6}}}},
        }
        with dpsql.connect(raw, policy=policy, ledger=":memory:", analyst="ana") as db:
            assert db.query(sql, epsilon=10**5).fetchall()[0][0] == pytest.approx(truth, abs=1e-3)
