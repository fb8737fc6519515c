"""Aggregates over the rows of one unit mean what DuckDB's mean, on data with NULLs, ties, and rows without an owner."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 1e12},
    "limits": {"epsilon": 1e9},
    "tables": {
        "t": {
            "unit": "u",
            "max_rows_per_unit": 50,
            "columns": {
                "x": {"min": 0, "max": 100},
                "n": {"min": -5, "max": 5},
                "half": {"min": 0, "max": 1},
                "p": {"values": ["a", "b", "c"]},
                "placed": {"min": "2026-01-01", "max": "2026-12-31"},
            },
        }
    },
}
EPSILON = 1e8
CREATE = """
    CREATE TABLE t AS
    SELECT CASE WHEN i % 17 = 0 THEN NULL ELSE i * 7 % 30 END AS u,
           CASE WHEN i % 7 = 0 THEN NULL ELSE i * 37 % 400 / 4.0 END::DOUBLE AS x,
           CASE WHEN i % 5 = 0 THEN NULL ELSE i * 13 % 11 - 5 END::INTEGER AS n,
           CASE WHEN i % 6 = 0 THEN NULL ELSE ['a', 'b', 'c'][i * 5 % 3 + 1] END AS p,
           CASE WHEN i % 9 = 0 THEN NULL ELSE TIMESTAMP '2026-01-01' + INTERVAL (i * 11 % 40) DAY END AS placed, i % 2 AS half
    FROM range(260) r(i)
"""
NUMBERS = [
    "stddev(x)", "stddev_samp(n)", "stddev_pop(x)", "variance(n)", "var_samp(x)", "var_pop(n)",
    "covar_pop(x, n)", "covar_samp(n, x)", "corr(x, n)", "regr_count(x, n)", "regr_avgx(x, n)", "regr_avgy(x, n)",
    "regr_sxx(x, n)", "regr_syy(x, n)", "regr_sxy(x, n)", "regr_slope(x, n)", "regr_intercept(x, n)", "regr_r2(x, n)",
    "median(x)", "median(n)", "quantile_cont(x, 0.3)", "quantile_disc(n, 0.25)", "quantile(x, 0.9)",
    "percentile_cont(0.7) WITHIN GROUP (ORDER BY x)", "percentile_disc(0.4) WITHIN GROUP (ORDER BY n)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY n DESC)", "median(x) FILTER (WHERE n > 0)",
    "stddev(x) FILTER (WHERE n > 0)", "len(list(x))", "array_length(array_agg(p))", "len(list(x) FILTER (WHERE n > 3))",
    "favg(x)", "fsum(n)", "mean(x)", "kahan_sum(n)", "geomean(x + 1)", "sum(DISTINCT n)",
    "avg(DISTINCT n)", "count(DISTINCT p)", "max(x) - median(x)",
]  # fmt: skip
CONDITIONS = {
    "bool_or(n > 3)": "bool_or(n > 3)", "bool_and(n > -4)": "bool_and(n > -4)", "every(n > -5)": "bool_and(n > -5)",
    "bool_or(n > 3) FILTER (WHERE x > 50)": "bool_or(n > 3) FILTER (WHERE x > 50)",
    "stddev(n) = 0": "stddev(n) = 0", "bool_or(n > 3) AND median(x) > 20": "bool_or(n > 3) AND median(x) > 20",
}  # fmt: skip
SETTLED = {
    "any_value(n)": "min(n)", "arbitrary(p)": "min(p)",
    "arg_min(n, x)": "(list(n ORDER BY x, n) FILTER (WHERE x IS NOT NULL AND n IS NOT NULL))[1]",
    "arg_max(x, n)": "(list(x ORDER BY n DESC, x) FILTER (WHERE x IS NOT NULL AND n IS NOT NULL))[1]",
    "min_by(x, placed)": "(list(x ORDER BY placed, x) FILTER (WHERE x IS NOT NULL AND placed IS NOT NULL))[1]",
    "max_by(p, placed)": "(list(p ORDER BY placed DESC, p) FILTER (WHERE p IS NOT NULL AND placed IS NOT NULL))[1]",
    "arg_max(x, placed) FILTER (WHERE n > 0)":
        "(list(x ORDER BY placed DESC, x) FILTER (WHERE x IS NOT NULL AND placed IS NOT NULL AND n > 0))[1]",
    "arg_min_null(n, x)": "(list(n ORDER BY x, n NULLS LAST) FILTER (WHERE x IS NOT NULL))[1]",
    "first(x ORDER BY placed)": "(list(x ORDER BY placed, x NULLS LAST))[1]",
    "last(n ORDER BY placed, x)": "(list(n ORDER BY placed DESC NULLS FIRST, x DESC NULLS FIRST, n NULLS LAST))[1]",
    "mode(p)": "(SELECT v FROM (SELECT b.p AS v, count(*) AS c FROM t b WHERE b.u = a.u AND b.p IS NOT NULL GROUP BY b.p)"
        " ORDER BY c DESC, v LIMIT 1)",
}  # fmt: skip
"""What DuckDB leaves to the order of rows is settled by the value itself."""
WINDOWS = [
    "bool_or(n > 3)",
    "stddev(x)",
    "corr(x, n)",
    "median(n)",
    "quantile_disc(x, 0.25)",
    "arg_max(n, n)",
    "var_pop(n)",
]


@pytest.fixture(name="raw", scope="module")
def _raw() -> duckdb.DuckDBPyConnection:
    raw = duckdb.connect()
    raw.execute(CREATE)
    return raw


@pytest.fixture(name="db", scope="module")
def _db(raw: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as opened:
        yield opened


TEXTS = ("arbitrary(p)", "max_by(p, placed)", "mode(p)")


def compare(db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, asked: str, meant: str, kind: str) -> None:
    """How many there are, how many are not NULL, and their sum, where `inside` gives them as v."""
    outer = f"SELECT count(*), count(v), sum({kind}) FROM"
    [wanted] = raw.execute(f"{outer} ({meant})").fetchall()
    [got] = db.query(f"{outer} ({asked})", epsilon=EPSILON).fetchall()
    assert [float(g) for g in got] == pytest.approx([float(w or 0) for w in wanted], abs=0.05)


NUMBER, CONDITION = "least(greatest(v, -200), 10000)", "CASE WHEN v THEN 1 ELSE 0 END"
OWNED = "(SELECT * FROM t WHERE u IS NOT NULL) AS a"


@pytest.mark.parametrize("asked", [*NUMBERS, *CONDITIONS])
def test_an_aggregate_of_a_unit_is_that_of_duckdb(
    db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, asked: str
) -> None:
    meant, kind = CONDITIONS.get(asked, asked), CONDITION if asked in CONDITIONS else NUMBER
    one, two = (f"SELECT u, half, {v} AS v FROM {rows} GROUP BY u, half" for v, rows in ((asked, "t"), (meant, OWNED)))
    compare(db, raw, one, two, kind)


@pytest.mark.parametrize("asked", SETTLED)
def test_what_duckdb_leaves_open_is_settled(db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, asked: str) -> None:
    one, two = (f"SELECT u, {v} AS v FROM {rows} GROUP BY u" for v, rows in ((asked, "t"), (SETTLED[asked], OWNED)))
    kind = "CASE WHEN v = 'a' THEN 1 WHEN v = 'b' THEN 10 WHEN v = 'c' THEN 100 END" if asked in TEXTS else NUMBER
    compare(db, raw, one, two, kind)


@pytest.mark.parametrize("asked", WINDOWS)
def test_the_same_as_windows(db: dpsql.Connection, raw: duckdb.DuckDBPyConnection, asked: str) -> None:
    one, two = (f"SELECT {asked} OVER (PARTITION BY u, half) AS v FROM {rows}" for rows in ("t", OWNED))
    compare(db, raw, one, two, CONDITION if asked.startswith("bool") else NUMBER)


def test_having_and_titles(db: dpsql.Connection, raw: duckdb.DuckDBPyConnection) -> None:
    sql = 'SELECT count(*), sum("median(n)") FROM (SELECT u, median(n), bool_or(n > 4) AS large FROM {} GROUP BY u HAVING large)'
    [wanted] = raw.execute(sql.format(OWNED)).fetchall()
    [got] = db.query(sql.format("t"), epsilon=EPSILON).fetchall()
    assert [float(g) for g in got] == pytest.approx([float(w) for w in wanted], abs=0.05)


@pytest.mark.parametrize(
    "asked", ["first(x)", "string_agg(p, ',')", "product(x)", "skewness(x)", "list(x)", "approx_quantile(x, 0.5)"]
)
def test_what_hangs_on_the_order_of_rows_is_refused(db: dpsql.Connection, asked: str) -> None:
    with pytest.raises(dpsql.Error):
        db.explain(f"SELECT count(v) FROM (SELECT u, {asked} AS v FROM t GROUP BY u)")


@pytest.mark.parametrize(
    "asked", ["stddev(x)", "var_samp(n)", "corr(x, n)", "covar_samp(x, n)", "median(x)", "mode(n)"]
)
def test_the_result_has_bounds_of_its_own(db: dpsql.Connection, asked: str) -> None:
    """A median lies among the values, a correlation within one, a deviation below twice the range."""
    explained = db.explain(f"SELECT sum(v) FROM (SELECT u, {asked} AS v FROM t GROUP BY u)", epsilon=1.0)
    [statistic] = [s for s in explained.releases[0].statistics if s.name.startswith("sum")]
    ends = (statistic.bounds.lower, statistic.bounds.upper)
    assert max(abs(float(end)) for end in ends) <= {
        "var_samp(n)": 200,
        "covar_samp(x, n)": 2000,
        "median(x)": 100,
        "quantile_cont(x, 0.3)": 200,
    }.get(asked, 142)


def test_there_are_enough_names() -> None:
    assert len({each.partition("(")[0] for each in (*NUMBERS, *CONDITIONS, *SETTLED)}) >= 40
