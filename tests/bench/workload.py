"""The benchmark's data: skewed units and categories, log-normal amounts, always the same."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

CATEGORIES = 1_000
UNITS = 50_000
UPPER = 500.0
NAMES = [f"c{i:04d}" for i in range(CATEGORIES)]


def skewed(random: np.random.Generator, size: int, ranks: int) -> NDArray[np.int64]:
    """Ranks from 0 with P(rank) ∝ (rank + 1)^-½."""
    weights = np.arange(1, ranks + 1) ** -0.5
    drawn: NDArray[np.int64] = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(size))
    return drawn


def amounts(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Log-normal (median 33, σ = 1) up to 500."""
    drawn: NDArray[np.float64] = np.minimum(random.lognormal(3.5, 1.0, size), UPPER)
    return drawn


def orders(size: int, *, spoiled: bool, seed: int = 20) -> duckdb.DuckDBPyConnection:
    """An in-memory database with one table, `orders`; spoiled: 1% of the amounts are NULL, 0.1% NaN, 0.1% beyond the bound."""
    random = np.random.default_rng(seed)
    amount, category, unit = amounts(random, size), skewed(random, size, CATEGORIES), skewed(random, size, UNITS)
    fate = random.random(size) if spoiled else np.ones(size)
    amount[fate < 0.001] = np.nan
    amount[(fate >= 0.001) & (fate < 0.002)] *= 100
    missing = (fate >= 0.002) & (fate < 0.012)
    connection = duckdb.connect(":memory:")
    columns = {
        "unit": unit.astype(np.int32),
        "category": category.astype(np.int16),
        "amount": amount,
        "missing": missing,
    }
    for name, values in columns.items():
        connection.register(f"_{name}", {name: values})
    connection.execute(
        "CREATE TABLE orders AS SELECT unit AS customer_id, 'c' || lpad(category::VARCHAR, 4, '0') AS category, "
        "CASE WHEN NOT missing THEN amount END AS amount "
        "FROM _unit POSITIONAL JOIN _category POSITIONAL JOIN _amount POSITIONAL JOIN _missing"
    )
    for name in columns:
        connection.unregister(f"_{name}")
    return connection


def policy(unit: str, *, rows: int = 10, listed: bool = True) -> dict[str, Any]:
    """One table with an amount up to 500 and 1,000 categories (listed: declared); an account without end, no replay."""
    category: dict[str, Any] = {"values": NAMES} if listed else {}
    table: dict[str, Any] = {"unit": unit, "columns": {"amount": {"min": 0, "max": UPPER}, "category": category}}
    if unit != "row":
        table["max_rows_per_unit"] = rows
    return {
        "dataset": "bench",
        "budget": {"epsilon": 1_000_000, "delta": "1e-6"},
        "limits": {"epsilon": 10, "delta": "1e-8"},
        "defaults": {"epsilon": 1, "delta": "1e-8"},
        "replay": False,
        "tables": {"orders": table},
    }
