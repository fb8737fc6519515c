"""What a query costs before and after the engine runs: planning, and finishing."""

from __future__ import annotations

import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable

import duckdb
from measure import Row, progress

import dpsql
from dpsql.answers.estimation import tabulate

POLICY = {
    "dataset": "shop",
    "budget": {"epsilon": 1_000_000, "delta": "1e-6"},
    "limits": {"epsilon": 10, "delta": "1e-8"},
    "defaults": {"epsilon": 1, "delta": "1e-8"},
    "replay": False,
    "tables": {
        "orders": {
            "unit": "customer_id",
            "max_rows_per_unit": 20,
            "columns": {
                "amount": {"min": 0, "max": 500},
                "region": {"values": ["north", "south", "east", "west"]},
                "status": {"values": ["paid", "open", "lost"]},
                "placed": {"min": "2024-01-01", "max": "2025-12-31"},
            },
        }
    },
}
QUERIES = {
    "averages by region": "SELECT region, count(*) AS n, avg(amount) FROM orders GROUP BY region ORDER BY n DESC",
    "mean spending per customer": (
        "SELECT avg(total) FROM (SELECT customer_id, sum(amount) AS total FROM orders WHERE status = 'paid' "
        "GROUP BY customer_id)"
    ),
    "monthly shares": (
        "WITH monthly AS (SELECT date_trunc('month', placed) AS month, status, "
        "sum(CASE WHEN amount > 10 THEN amount ELSE 0 END) AS total, count(*) AS n "
        "FROM orders WHERE placed >= DATE '2024-07-01' GROUP BY 1, 2) "
        "SELECT month, status, total / sum(total) OVER (PARTITION BY month) AS share, "
        "rank() OVER (PARTITION BY month ORDER BY n DESC) AS place FROM monthly WHERE n > 20 ORDER BY month, place"
    ),
}


def measure(times: int = 60, *, profile: bool = False) -> list[Row]:
    """A row for each query: the median of planning, of finishing, and of both together."""
    connection = _shop(20_000)
    with dpsql.connect(connection, policy=POLICY, ledger=":memory:") as db:
        return [_row(db, name, sql, times, profile=profile) for name, sql in QUERIES.items()]


def _shop(size: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute(
        "CREATE TABLE orders AS SELECT (hash(i) % 2000)::INTEGER AS customer_id, (hash(i + 1) % 50000) / 100.0::DOUBLE AS amount, "
        "['north', 'south', 'east', 'west'][(1 + hash(i + 2) % 4)::INTEGER] AS region, "
        "['paid', 'open', 'lost'][(1 + hash(i + 3) % 3)::INTEGER] AS status, "
        f"DATE '2024-01-01' + (hash(i + 4) % 730)::INTEGER AS placed FROM range({size}) AS r(i)"
    )
    return connection


def _row(db: dpsql.Connection, name: str, sql: str, times: int, *, profile: bool) -> Row:
    prepared = db.prepare(sql)
    released = db.conductor.release(prepared).tables

    def plan() -> object:
        return db.prepare(sql)

    def finish() -> object:
        return db.dataset.finisher.run(prepared.plan, {n: tabulate(table) for n, table in released.items()})

    planning, finishing = _median(plan, times), _median(finish, times)
    if profile:
        _profile(f"planning: {name}", plan, times)
        _profile(f"finishing: {name}", finish, times)
    both = planning + finishing
    progress(f"planning: {name}: {planning:.1f} ms, finishing {finishing:.1f} ms")
    measured = f"{both:.1f} ms ({planning:.1f} + {finishing:.1f})"
    return Row(f"planning and finishing, {name}", measured, "≤ 25 ms", both, 25)


def _median(work: Callable[[], object], times: int) -> float:
    """The median CPU time of a call in milliseconds."""
    spent = []
    for _ in range(times):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return 1000 * statistics.median(spent)


def _profile(title: str, work: Callable[[], object], times: int) -> None:
    """Where the time goes, on stderr."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(times):
        work()
    profiler.disable()
    progress(f"\n{title} ({times} runs)")
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumulative").print_stats(45)
