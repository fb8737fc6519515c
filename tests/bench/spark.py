"""Spark's work as ratios to Spark's own plain query, in one run, from Parquet: CPU seconds of the JVM, and the clock.

`python tests/bench/spark.py 1000000 10000000` prints a row for each case and size.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import Row, markdown, progress
from workload import orders, policy

import dpsql

SALT, LIMIT = b"bench", 3.0
BY = "FROM orders GROUP BY category"
CASES = (
    ("row unit, SUM by 1,000 categories", "row", f"SELECT category, sum(amount) {BY}"),
    ("row unit, COUNT and SUM by 1,000 categories", "row", f"SELECT category, count(*), sum(amount) {BY}"),
    ("unit column, SUM by 1,000 categories", "customer_id", f"SELECT category, sum(amount) {BY}"),
    ("unit column, COUNT and SUM by 1,000 categories", "customer_id", f"SELECT category, count(*), sum(amount) {BY}"),
)


def started() -> Any:
    """A local session on all cores, with the memory of a small executor."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("dpsql-bench").config("spark.ui.enabled", "false")
    for name, value in {"driver.bindAddress": "127.0.0.1", "driver.host": "127.0.0.1", "driver.memory": "4g"}.items():
        builder = builder.config(f"spark.{name}", value)
    session = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def spent(work: Callable[[], object], process: int) -> tuple[float, float]:
    """CPU seconds of the JVM, and seconds of the clock."""
    before, begin = cpu_of(process), time.perf_counter()
    work()
    return cpu_of(process) - before, time.perf_counter() - begin


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(size: int, times: int = 5) -> list[Row]:
    """A row for each case: the release alone, up to the noise."""
    session = started()
    process = session.sparkContext._gateway.proc.pid
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        path = f"{folder}/orders.parquet"
        progress(f"spark: making {size:,} rows")
        with orders(size, spoiled=True) as raw:
            raw.execute(f"COPY orders TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 500000)")
        session.read.parquet(path).createOrReplaceTempView("orders")
        return [_row(session, process, path, size, *case, times) for case in CASES]


def _row(session: Any, process: int, path: str, size: int, what: str, unit: str, sql: str, times: int) -> Row:
    with dpsql.connect((session, {"orders": path}), policy=policy(unit), ledger=":memory:") as db:
        [priced] = db.prepare(sql, 1, 1e-8, None).bill.releases
        works: dict[str, Callable[[], object]] = {
            "plain": lambda: session.sql(sql).collect(),
            "release": lambda: db._engine.run(priced, SALT),
        }
        for work in works.values():
            work()
        rounds = [{name: spent(work, process) for name, work in works.items()} for _ in range(times)]
    cpu, clock = ({name: min(each[name][kind] for each in rounds) for name in works} for kind in (0, 1))
    ratio, wall = cpu["release"] / cpu["plain"], clock["release"] / clock["plain"]
    progress(
        f"spark: {size:,} rows, {what}: plain {cpu['plain']:.2f} s CPU, {clock['plain']:.2f} s; {ratio:.2f}×, {wall:.2f}×"
    )
    return Row(
        f"Spark, {size:,} rows, {what}: CPU against plain Spark",
        f"{ratio:.1f}× ({wall:.1f}× by the clock)",
        f"≤ {LIMIT:g}×",
        ratio,
        LIMIT,
    )


if __name__ == "__main__":
    print(markdown([row for size in sys.argv[1:] or ["1000000"] for row in measure(int(size))]))
