"""Spark's work as ratios to Spark's own plain query, in one run, from Parquet: CPU seconds of the JVM, and the clock.

`python tests/bench/spark.py` prints a row for each case, row level and unit level, at a million rows; `10M`, or several
sizes, on demand. What Spark's tasks alone took is shown beside it: the JVM also plans, and compiles what it runs, which
weighs most in a short query and in a young process.
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


def spent(work: Callable[[], object], session: Any) -> tuple[float, float, float]:
    """CPU seconds of the JVM, seconds of the clock, and CPU seconds of the tasks."""
    process = session.sparkContext._gateway.proc.pid
    tasks, before, begin = _in_tasks(session), cpu_of(process), time.perf_counter()
    work()
    cpu, clock = cpu_of(process) - before, time.perf_counter() - begin
    return cpu, clock, _in_tasks(session) - tasks


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _in_tasks(session: Any) -> float:
    """CPU seconds of all tasks that this session has run."""
    context = session.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, None)
    return sum(float(stages.apply(i).executorCpuTime()) for i in range(stages.size())) / 1e9


def size_of(written: str) -> int:
    """A number of rows: 10M is ten million."""
    return int(written[:-1]) * 10**6 if written.upper().endswith("M") else int(written)


def measure(size: int, times: int = 5) -> list[Row]:
    """A row for each case: the release alone, up to the noise."""
    session = started()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        path = f"{folder}/orders.parquet"
        progress(f"spark: making {size:,} rows")
        with orders(size, spoiled=True) as raw:
            raw.execute(f"COPY orders TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 500000)")
        session.read.parquet(path).createOrReplaceTempView("orders")
        return [_row(session, path, size, *case, times) for case in CASES]


def _row(session: Any, path: str, size: int, what: str, unit: str, sql: str, times: int) -> Row:
    with dpsql.connect((session, {"orders": path}), policy=policy(unit), ledger=":memory:", steward=True) as db:
        [priced] = db.prepare(sql, epsilon=1, delta=1e-8).bill.releases
        permit = db.permit_trace()
        works: dict[str, Callable[[], object]] = {
            "plain": lambda: session.sql(sql).collect(),
            "release": lambda: db.engine.run(priced, SALT, permit),
        }
        for work in works.values():
            work()
        rounds = [{name: spent(work, session) for name, work in works.items()} for _ in range(times)]
    cpu, clock, tasks = (_ratio([(r["release"][kind], r["plain"][kind]) for r in rounds]) for kind in range(3))
    least = min(each["plain"][0] for each in rounds)
    progress(f"spark: {size:,} rows, {what}: plain {least:.2f} s CPU; {cpu:.2f}×, {clock:.2f}×, tasks {tasks:.2f}×")
    return Row(
        f"Spark, {size:,} rows, {what}: CPU against plain Spark",
        f"{cpu:.1f}× ({clock:.1f}× by the clock, tasks {tasks:.1f}×)",
        f"≤ {LIMIT:g}×",
        cpu,
        LIMIT,
    )


def _ratio(rounds: list[tuple[float, float]]) -> float:
    """The least of the one to the least of the other: whatever else runs on the machine only adds."""
    return min(made for made, _ in rounds) / min(plain for _, plain in rounds)


if __name__ == "__main__":
    print(markdown([row for size in sys.argv[1:] or ["1M"] for row in measure(size_of(size))]))
