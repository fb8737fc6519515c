"""What is computed of one unit's rows comes from whole numbers: no order of rows, thread or other unit changes it."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

import dpsql
from dpsql.audit import trace

INNER = (
    "SELECT count(*) FROM (SELECT id, sum(x) AS s FROM t GROUP BY id) WHERE s > 0.6",
    "SELECT count(*) FROM (SELECT id FROM t GROUP BY id HAVING sum(x) > 0.6)",
    "SELECT count(*) FROM (SELECT id FROM t GROUP BY id HAVING avg(x) > 0.2)",
    "SELECT avg(s) FROM (SELECT id, sum(x) AS s FROM t GROUP BY id)",
    "SELECT count(*) FROM (SELECT id, sum(x) OVER (PARTITION BY id) AS s FROM t) WHERE s > 0.6",
    "SELECT count(*) FROM (SELECT id, avg(x) OVER (PARTITION BY id ORDER BY m) AS s FROM t) WHERE s > 0.2",
    "SELECT count(*) FROM t WHERE x > (SELECT avg(w.x) FROM t AS w WHERE w.id = t.id)",
    "SELECT count(*) FROM (SELECT id, sum(d) AS s FROM (SELECT id, m, sum(x) AS d FROM t GROUP BY id, m) GROUP BY id) WHERE s > 0.6",
)  # fmt: skip
REAL = {exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL}


def connected(rows: Any, search: bool, **bounds: float) -> dpsql.Connection:
    columns = {"x": bounds, "m": {"min": 1, "max": 12}}
    policy = {
        "dataset": "d", "search": search, "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"t": {"unit": "id", "max_rows_per_unit": 12, "columns": columns}},
    }  # fmt: skip
    source = {"t": rows} if isinstance(rows, pd.DataFrame) else rows
    return dpsql.connect(source, policy=policy, ledger=":memory:", steward=True)


def rows_of(units: int = 400) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": [u for u in range(units) for _ in range(3)], "x": [0.1, 0.2, 0.3] * units, "m": [1, 1, 2] * units}
    )


@pytest.mark.parametrize("sql", INNER)
@pytest.mark.parametrize("bounds", [{}, {"min": 0, "max": 1}], ids=["found", "declared"])
def test_every_sum_is_of_whole_numbers(sql: str, bounds: dict[str, float]) -> None:
    with connected(rows_of(), True, **bounds) as db:
        db.query(sql, epsilon=2, delta=1e-8)
        emitted = sqlglot.parse_one(db.explain(sql, epsilon=2, delta=1e-8).sql, dialect="duckdb")
    assert not list(emitted.find_all(exp.Avg, exp.Stddev, exp.StddevPop, exp.Variance, exp.VariancePop))
    for total in emitted.find_all(exp.Sum):
        assert annotate_types(total.this.copy(), dialect="duckdb").type.this not in REAL, total.sql("duckdb")


@pytest.mark.parametrize("sql", INNER)
def test_without_bounds_it_is_found_or_refused(sql: str) -> None:
    with connected(rows_of(4), False) as db, pytest.raises(dpsql.UnboundedColumn, match="needs bounds"):
        db.explain(sql, epsilon=1)


@pytest.mark.parametrize("sql", INNER)
def test_neither_order_nor_threads_nor_other_units_change_a_units_value(sql: str) -> None:
    """As doubles 0.1 + 0.2 + 0.3 is above 0.6, and 0.3 + 0.2 + 0.1 is not."""
    seen = set()
    for order in ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1), (0.2, 0.3, 0.1)):
        for others in (0, 5_000):
            file = duckdb.connect(config={"threads": 4})
            file.execute("CREATE TABLE t (id BIGINT, x DOUBLE, m BIGINT)")
            file.executemany("INSERT INTO t VALUES (1, ?, ?)", [[x, 2 if x == 0.3 else 1] for x in order])
            file.execute(f"INSERT INTO t SELECT 2 + range // 3, 0.0, 1 FROM range({others})")
            with connected(file, False, min=0, max=1) as db:
                [release] = trace(db, sql, salt=b"s", epsilon=1, delta=1e-8)
                values = [value for statistic in release.statistics for value in statistic.values]
            seen.add((others, tuple(values)))
    assert len(seen) == 2, seen
