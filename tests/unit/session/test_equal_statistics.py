"""What is equal, or arithmetic on the same sums, is released once."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(
    {
        "id": np.arange(3000) % 1000,
        "k": RNG.choice(["a", "b"], 3000),
        "x": np.where(RNG.random(3000) < 0.1, np.nan, np.where(RNG.random(3000) < 0.05, 900.0, RNG.uniform(0, 100, 3000))),
        "n": RNG.integers(1, 9, 3000),
        "y": RNG.uniform(-5, 5, 3000),
    }
)  # fmt: skip
COLUMNS = {"k": {"values": ["a", "b"]}, "x": {"min": 0, "max": 200}, "n": {"min": 0, "max": 10, "nulls": False},
           "y": {"min": -5, "max": 5}}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["search", "caps"])
def db(request: pytest.FixtureRequest) -> Iterator[dpsql.Connection]:
    policy = {
        "dataset": "d", "search": request.param, "budget": {"epsilon": 10**6, "delta": 1e-6},
        "limits": {"epsilon": 10**5}, "tables": {"t": {"unit": "id", "max_rows_per_unit": 3, "columns": COLUMNS}},
    }  # fmt: skip
    with dpsql.connect({"t": ROWS}, policy=policy, ledger=":memory:") as connection:
        yield connection


def statistics(db: dpsql.Connection, select: str) -> int:
    return len(
        db.prepare(f"SELECT {select}", epsilon=1.0, delta=1e-8, mechanism="gaussian")
        .bill.releases[0]
        .bounded.statistics
    )


@pytest.mark.parametrize(
    ("select", "number"),
    [
        ("bool_or(x > 50), count_if(x > 50) FROM t", 1),
        ("bool_or(x > 50), count(*) FILTER (WHERE x > 50), count(CASE WHEN x > 50 THEN 'yes' END) FROM t", 1),
        ("sum(CASE WHEN x > 50 THEN 1 ELSE 0 END), count_if(x > 50) FROM t", 1),
        ("sum(CASE WHEN x > 50 THEN 2 ELSE 0 END), count_if(x > 50) FROM t", 2),
        ("count_if(x > 50), count_if(x > 60) FROM t", 2),
        ("var_pop(x), var_samp(x), stddev(x), stddev_pop(x) FROM t", 3),
        ("corr(x, y) FROM t", 6),
        ("corr(x, y), corr(y, x), covar_pop(x, y), regr_slope(x, y), regr_r2(x, y), regr_count(y, x) FROM t", 6),
        ("var_pop(x), corr(x, n), regr_avgx(n, x) FROM t", 6),
        ("sum(x + 1), sum(x + 2), sum(2 * x) FROM t", 2),
        ("k, sum(n), sum(3 - n), avg(2 * n), avg(n + 1), count(n) FROM t GROUP BY k", 2),
        ("sum(x), sum(2 * x), sum(-x) FROM t", 1),
        ("sum(x + 1) FROM t", 1),
        ("sum(x + 1), sum(y + 1) FROM t", 2),
        ("sum(x) FILTER (WHERE k = 'a'), sum(2 * x) FILTER (WHERE k = 'b') FROM t", 2),
        ("sum(x + 1) FILTER (WHERE n > 2), sum(x - 1) FILTER (WHERE n > 2) FROM t", 2),
    ],
)
def test_the_number_of_statistics(db: dpsql.Connection, select: str, number: int) -> None:
    assert statistics(db, select) == number


def test_linear_sums_are_those_of_clamped_values_without_nulls(db: dpsql.Connection) -> None:
    """Values beyond the bounds are clamped as x is, and rows without one add nothing, not even the constant."""
    clamped = "(SELECT *, CASE WHEN NOT isnan(x) THEN least(x, 200) END AS v FROM rows)"
    asked = "sum(x + 1), sum(x + 2), sum(2 * x), avg(3 - x), sum(-0.5 * (x - 4)) FILTER (WHERE n > 2), sum(x) FILTER (WHERE n > 2)"
    made = db.query(f"SELECT {asked} FROM t", epsilon=50_000).fetchall()
    with duckdb.connect() as plain:
        plain.register("rows", ROWS)
        exact = plain.execute(f"SELECT {asked.replace('x', 'v')} FROM {clamped}").fetchall()
    # under a search a few units lie above the clip that was found
    assert list(map(float, made[0])) == pytest.approx(list(map(float, exact[0])), rel=0.02)


def test_sums_of_whole_numbers_stay_whole(db: dpsql.Connection) -> None:
    [[one, two]] = db.query("SELECT sum(n), sum(2 * n + 1) FROM t", epsilon=50_000).fetchall()
    assert isinstance(one, int) and isinstance(two, int) and two == pytest.approx(2 * one + 3000, abs=30)


def test_an_order_by_the_same_form_is_free(db: dpsql.Connection) -> None:
    assert statistics(db, "k, sum(n), sum(n + 1) FROM t GROUP BY k HAVING sum(n + 2) > 0 ORDER BY sum(n + 1)") == 2


@pytest.mark.parametrize(
    "select", ["covar_samp(x, y)", "corr(x, y)", "regr_slope(x, y)", "stddev(x)", "k, var_pop(x), avg(y)"]
)
def test_moments_are_parts_of_the_vector_that_is_clipped(db: dpsql.Connection, select: str) -> None:
    key = " GROUP BY k" if select.startswith("k") else ""
    bounded = (
        db.prepare(f"SELECT {select} FROM t{key}", epsilon=1.0, delta=1e-8, mechanism="gaussian")
        .bill.releases[0]
        .bounded
    )
    assert (bounded.vector is not None) == (bounded.rule == "vector") == db.policy.searches
    if bounded.vector is None:
        return
    assert bounded.vector.members == tuple(range(len(bounded.statistics)))
    assert [share for share, _ in bounded.shares] == [bounded.vector.members]
