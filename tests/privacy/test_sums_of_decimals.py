"""Sums of decimals over a unit's rows: whether a query fails must not depend on whether there are rows.

DuckDB 2.0 failed on one row and not on none where it rewrote a window over a whole partition into a join, and replaced
the sum of a narrow decimal after a look at the column's statistics: the total became HUGEINT instead of DECIMAL.
"""

from __future__ import annotations

import re

import duckdb
import pytest

import dpsql
from dpsql.audit import trace

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 10**6, "delta": "1e-3"},
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 5, "columns": {"x": {"min": 0, "max": 10}, "d": {}, "y": {}}}},
}  # fmt: skip
ROWS = {
    "none": "", "one": "(1, 1, 1.5, 'a')", "all NULL": "(1, NULL, NULL, NULL), (2, 1, NULL, 'a')",
    "some": "(1, 1, 1.5, 'a'), (1, 2, 2, 'b'), (2, 1, -1, 'a'), (3, 1, 0, NULL), (4, 2, NULL, 'a')",
}  # fmt: skip
TYPES = ("DECIMAL(4,1)", "DECIMAL(9,2)", "DECIMAL(18,3)")
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
VALUES = (
    "(SELECT *, sum(d) OVER (PARTITION BY u) AS w FROM t)",
    "(SELECT *, sum(DISTINCT d) OVER (PARTITION BY u) AS w FROM t)",
    f"(SELECT *, avg(d) OVER (PARTITION BY u, y ORDER BY x {WHOLE}) AS w FROM t)",
    "(SELECT *, avg(d) OVER (PARTITION BY u ORDER BY x) AS w FROM t)",
    "(SELECT u, y, max(x) AS x, sum(d) AS w FROM t GROUP BY u, y)",
)
CONDITIONS = ("w IS NULL", "w IS NOT NULL", "w < 5", "w IN (1.5, NULL)")
QUERIES = (
    "SELECT w, count(DISTINCT y) FILTER (WHERE {condition}) FROM {values} AS q GROUP BY 1",
    "SELECT w, count(DISTINCT x), count(*) FROM {values} AS q WHERE {condition} GROUP BY 1",
)


def opened(type_: str, rows: str) -> dpsql.Connection:
    raw = duckdb.connect()
    raw.execute(f"CREATE TABLE t (u INTEGER, x INTEGER, d {type_}, y VARCHAR)")
    if rows:
        raw.execute(f"INSERT INTO t VALUES {rows}")
    return dpsql.connect(raw, policy=POLICY, ledger=":memory:", steward=True)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("values", VALUES)
def test_a_condition_on_a_units_sum_of_decimals_fails_on_no_rows(values: str, type_: str) -> None:
    texts = [query.format(condition=each, values=values) for query in QUERIES for each in CONDITIONS]
    for rows in ROWS.values():
        with opened(type_, rows) as db:
            for text in texts:
                trace(db, text, salt=b"salt")


@pytest.mark.parametrize("type_", TYPES)
def test_a_units_sum_of_decimals_keeps_its_scale(type_: str) -> None:
    """With a wrong type the same total was read as 1.5e-74."""
    text = QUERIES[0].format(condition="w IS NULL", values=VALUES[0])
    with opened(type_, ROWS["some"]) as db:
        (release,) = trace(db, text, salt=b"salt")
    assert sorted(float(str(key)) for (key,) in release.keys if key is not None) == [-1, 0, 3.5]


def test_duckdb_adds_no_narrow_decimals() -> None:
    """The optimizer leaves only sums of 128-bit decimals as they are, whatever the statistics say."""
    with opened("DECIMAL(9,2)", "") as db:
        for values in VALUES:
            emitted = db.explain(QUERIES[0].format(condition="w < 5", values=values)).sql
            emitted = re.sub(r"\(\s+", "(", re.sub(r"\s+\)", ")", emitted))
            assert re.search(r"sum\((DISTINCT )?CAST\(CAST\(\S+ AS DECIMAL\(9,2\)\) AS DECIMAL\(38,2\)\)\)", emitted)
            assert not re.search(r"sum\((DISTINCT )?CAST\([\w.]+ AS DECIMAL", emitted)


@pytest.mark.parametrize("window", ["OVER (PARTITION BY u)", ""])
def test_duckdb_replaces_no_sum_of_wide_decimals(window: str) -> None:
    """What the proof of `DuckDB.addend` says of DuckDB: the plan for a narrow decimal has another sum."""
    raw = duckdb.connect()
    raw.execute("CREATE TABLE t AS SELECT 1 AS u, 1.5::DECIMAL(9,2) AS d")
    plans = [
        raw.execute(f"EXPLAIN SELECT sum({added}) {window} FROM t{'' if window else ' GROUP BY u'}").fetchall()[0][1]
        for added in ("d", "CAST(d AS DECIMAL(38,2))")
    ]
    assert ["sum_no_overflow" in plan for plan in plans] == [True, False]
