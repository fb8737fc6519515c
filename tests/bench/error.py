"""The error of a unit-level SUM by category: the product, beside sampling ten groups of each unit with the same noise."""

from __future__ import annotations

import duckdb
import numpy as np
from measure import Row, progress
from numpy.typing import NDArray
from workload import CATEGORIES, UPPER, orders, policy

import dpsql
from dpsql import audit

SQL = "SELECT category, sum(amount) AS total FROM orders GROUP BY category ORDER BY category"
GROUPS = 10
SALT = b"bench"
Totals = NDArray[np.float64]


def measure(size: int = 1_000_000, draws: int = 5) -> list[Row]:
    """Mean relative errors at ε = 1 with Laplace noise, averaged over noise draws."""
    progress(f"error: making {size:,} rows")
    connection = orders(size, spoiled=False)
    exact = _totals(connection, SQL)
    rows = [_clipped(connection, exact, 10, draws, 15), _sampled(connection, exact, draws)]
    return rows + [_clipped(connection, exact, cap, draws, None) for cap in (5, 20, 50)]


def _clipped(connection: duckdb.DuckDBPyConnection, exact: Totals, cap: int, draws: int, limit: float | None) -> Row:
    with dpsql.connect(connection, policy=policy("customer_id", rows=cap), ledger=":memory:", steward=True) as db:
        answers = [db.query(SQL, epsilon=1, mechanism="laplace").fetchall() for _ in range(draws)]
        [traced] = audit.trace(db, SQL, salt=SALT, epsilon=1, mechanism="laplace")
    statistic = traced.statistics[0]
    noiseless = np.array([float(v * statistic.grid) for v in statistic.values])[:CATEGORIES]
    noisy = [np.array([total for category, total in answer if category is not None]) for answer in answers]
    error, bias = 100 * np.mean([_error(a, exact) for a in noisy]), 100 * _error(noiseless, exact)
    progress(f"error: {cap} rows per unit: {error:.1f}%, clipping alone {bias:.1f}%")
    what = f"unit-level SUM by category, ε = 1, max_rows_per_unit {cap}: mean relative error"
    return Row(
        what,
        f"{error:.1f}% (clipping alone {bias:.1f}%)",
        "" if limit is None else f"≤ {limit:g}%",
        float(error),
        limit,
    )


def _sampled(connection: duckdb.DuckDBPyConnection, exact: Totals, draws: int) -> Row:
    """Ten groups of each unit, each clamped to 500: the same L1 sensitivity, so the same noise."""
    kept = _totals(
        connection,
        f"SELECT category, sum(least(total, {UPPER})) FROM (SELECT category, sum(amount) AS total FROM orders "
        f"GROUP BY customer_id, category QUALIFY row_number() OVER (PARTITION BY customer_id "
        f"ORDER BY hash(customer_id, category)) <= {GROUPS}) GROUP BY category ORDER BY category",
    )
    random = np.random.default_rng(1)
    noisy = [kept + random.laplace(scale=GROUPS * UPPER, size=CATEGORIES) for _ in range(draws)]
    error, bias = 100 * np.mean([_error(a, exact) for a in noisy]), 100 * _error(kept, exact)
    progress(f"error: sampling {GROUPS} groups: {error:.1f}%, sampling alone {bias:.1f}%")
    what = f"the same by sampling {GROUPS} groups per unit, same noise: mean relative error"
    return Row(what, f"{error:.1f}% (sampling alone {bias:.1f}%)", "≥ 45% expected")


def _totals(connection: duckdb.DuckDBPyConnection, sql: str) -> Totals:
    return np.array([total for _, total in connection.execute(sql).fetchall()], dtype=np.float64)


def _error(answer: Totals, exact: Totals) -> float:
    return float(np.mean(np.abs(answer - exact) / exact))
