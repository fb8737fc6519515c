"""Aggregates made of counts and sums equal DuckDB's own when the noise is negligible, and ask for no more than bounds allow."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

COLUMNS = {
    "a": {"min": 0, "max": 100},
    "b": {"min": -50, "max": 150},
    "i": {"min": -5, "max": 20},
    "c": {},
    "g": {"values": ["x", "y"]},
    "free": {},
}
FUNCTIONS = [
    "variance(a)", "var_samp(b)", "var_pop(i)", "stddev(a)", "stddev_samp(b)", "stddev_pop(a + b)", "stddev(i) / avg(i)",
    "skewness(a)", "skewness(b)", "skewness(a * a)", "covar_pop(a, b)", "covar_samp(a, i)", "corr(a, b)", "regr_slope(b, a)", "regr_intercept(b, a)", "regr_r2(b, a)",
    "regr_count(b, a)", "regr_avgx(b, a)", "regr_avgy(b, a)", "regr_sxx(b, a)", "regr_sxy(b, a)", "regr_syy(b, a)",
    "stddev(a) FILTER (WHERE c)", "covar_pop(a, b) FILTER (WHERE i > 3)", "corr(a, 2 * a)",
]  # fmt: skip


@pytest.fixture(scope="module")
def data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        "CREATE TABLE t AS SELECT id, a, CASE WHEN id % 7 > 0 THEN a / 2 + 40 * random() END AS b, "
        "(id % 21 - 3)::INTEGER AS i, id % 3 = 0 AS c, CASE id % 2 WHEN 0 THEN 'x' ELSE 'y' END AS g, a AS free "
        "FROM (SELECT range AS id, 100 * random() AS a FROM range(20000))"
    )
    return connection


@pytest.fixture(params=["row", "id"])
def db(request: pytest.FixtureRequest, data: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1e9, "delta": 1e-3},
        "limits": {"epsilon": 1e7},
        "tables": {"t": {"unit": request.param, "columns": COLUMNS}},
        "defaults": {"max_rows_per_unit": 1},
    }
    with dpsql.connect(data, policy=policy, ledger=":memory:") as connection:
        yield connection


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_they_equal_duckdb(db: dpsql.Connection, data: duckdb.DuckDBPyConnection, mechanism: str) -> None:
    for start in range(0, len(FUNCTIONS), 6):
        listed = ", ".join(FUNCTIONS[start : start + 6])
        sql = f"SELECT g, {listed} FROM t GROUP BY g ORDER BY g"
        made = db.query(sql, epsilon=1e6, mechanism=mechanism).fetchall()[:2]
        for mine, theirs in zip(made, data.execute(sql).fetchall(), strict=True):
            assert mine[0] == theirs[0]
            assert mine[1:] == pytest.approx(theirs[1:], rel=1e-3, abs=1e-3), listed


def test_each_sum_has_the_least_sensitivity(db: dpsql.Connection) -> None:
    plan = db.explain("SELECT stddev(a), corr(a, b) FROM t", epsilon=1, mechanism="laplace")
    assert {round(s.sensitivity, 6) for release in plan.releases for s in release.statistics} == {1.0}


def test_noise_never_makes_a_variance_negative_or_a_correlation_leave_its_range(db: dpsql.Connection) -> None:
    for _ in range(20):
        sql = "SELECT var_pop(a), stddev(b), corr(a, b), regr_r2(a, b), skewness(a) FROM t WHERE a < 0.05"
        variance, deviation, correlation, fit, _skewness = db.query(sql, epsilon=0.1 + _ / 1e4).fetchall()[0]
        assert (variance is None or variance >= 0) and (deviation is None or deviation >= 0)
        assert (correlation is None or -1 <= correlation <= 1) and (fit is None or 0 <= fit <= 1)


def test_what_has_no_bounds_is_refused_by_its_own_name(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.UnboundedColumn, match=r"STDDEV\(free\) needs bounds"):
        db.explain("SELECT stddev(free) FROM t")
    with pytest.raises(dpsql.UnsupportedQuery, match="DISTINCT"):
        db.explain("SELECT stddev(DISTINCT a) FROM t")


def test_bool_or_and_bool_and_are_thresholds(db: dpsql.Connection) -> None:
    sql = "SELECT bool_or(a > 50), bool_or(a > 100), bool_and(a >= 0), bool_and(a > 50), bool_or(a > 50) FILTER (WHERE c) FROM t"
    assert db.query(sql, epsilon=100).fetchall() == [(True, False, True, False, True)]
    few = [db.query(f"SELECT bool_or(a > 99.99 AND a <> {n}) FROM t", epsilon=0.01).fetchall()[0][0] for n in range(20)]
    assert few.count(True) <= 8


def test_width_bucket_has_public_keys(db: dpsql.Connection, data: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT width_bucket(a, 10, 90, 4) AS w, count(*) AS n FROM t GROUP BY w HAVING w IS NOT NULL ORDER BY w"
    expected = data.execute(
        "SELECT CASE WHEN a < 10 THEN 0 WHEN a >= 90 THEN 5 ELSE floor((a - 10) / 20) + 1 END AS w, count(*) FROM t "
        "GROUP BY w ORDER BY w"
    ).fetchall()
    assert db.query(sql, epsilon=1e4).fetchall() == expected
    with pytest.raises(dpsql.ParseError, match="WIDTH_BUCKET takes constants"):
        db.explain("SELECT width_bucket(a, 0, b, 4), count(*) FROM t GROUP BY 1")
