"""The engine's work as CPU ratios to plain DuckDB, in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
from measure import Row, interleaved, progress
from workload import orders, policy

import dpsql

SALT = b"bench"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the policy it runs under, and the ratio that is asked for."""

    what: str
    unit: str
    sql: str
    limit: float | None = None
    listed: bool = True


BY = "FROM orders GROUP BY category"
CASES = (
    Case("row unit, COUNT and SUM by 1,000 categories", "row", f"SELECT category, count(*), sum(amount) {BY}", 2),
    Case("row unit, SUM", "row", "SELECT sum(amount) FROM orders", 4),
    Case("row unit, AVG", "row", "SELECT avg(amount) FROM orders"),
    Case("unit column, SUM by 1,000 categories", "customer_id", f"SELECT category, sum(amount) {BY}", 14),
    Case(
        "unit column, COUNT and SUM by 1,000 categories",
        "customer_id",
        f"SELECT category, count(*), sum(amount) {BY}",
        24,
    ),
    Case("unit column, AVG by 1,000 categories", "customer_id", f"SELECT category, avg(amount) {BY}"),
    Case("unit column, COUNT(DISTINCT unit)", "customer_id", "SELECT count(DISTINCT customer_id) FROM orders"),
    Case("unit column, COUNT by private keys", "customer_id", f"SELECT category, count(*) {BY}", None, False),
)


def measure(size: int = 10_000_000, times: int = 7) -> list[Row]:
    """A row for each case: the release alone (up to the noise), and the whole query."""
    progress(f"speed: making {size:,} rows")
    connection = orders(size, spoiled=True)
    return [_row(connection, case, times) for case in CASES]


def _row(connection: duckdb.DuckDBPyConnection, case: Case, times: int) -> Row:
    declared = policy(case.unit, listed=case.listed)
    with dpsql.connect(connection, policy=declared, ledger=":memory:", steward=True) as db:
        [priced] = db.prepare(case.sql, epsilon=1, delta=1e-8).bill.releases
        permit = db.permit_trace()
        works: dict[str, Callable[[], object]] = {
            "plain": lambda: connection.execute(case.sql).fetchall(),
            "release": lambda: db.engine.run(priced, SALT, permit),
            "query": lambda: db.query(case.sql, epsilon=1, delta=1e-8),
        }
        spent = {name: min(seconds) for name, seconds in interleaved(works, times).items()}
    ratio, whole = (spent[name] / spent["plain"] for name in ("release", "query"))
    progress(f"speed: {case.what}: plain {spent['plain']:.3f} s, release {ratio:.2f}×, query {whole:.2f}×")
    asked = "" if case.limit is None else f"≤ {case.limit:g}×"
    return Row(
        f"{case.what}: CPU against plain DuckDB", f"{ratio:.1f}× (whole query {whole:.1f}×)", asked, ratio, case.limit
    )
