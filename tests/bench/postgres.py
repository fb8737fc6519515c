"""PostgreSQL's work as ratios to its own plain query, in one run: CPU seconds of the session's process, and the clock.

`python tests/bench/postgres.py 1000000` prints a row for each case and size, over a server that it starts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from measure import Row, markdown, progress
from spark import CASES, SALT, cpu_of
from workload import orders, policy

import dpsql

sys.path.append(str(Path(__file__).parents[1]))
import postgres_server

TABLE = "CREATE TABLE orders (customer_id integer, category text, amount double precision)"
SETTINGS = {"fsync": "off", "shared_buffers": "512MB", "max_parallel_workers": "0", "max_wal_size": "4GB"}
PORTION = 100_000


def filled(server: postgres_server.Server, size: int) -> None:
    """The benchmark's orders, copied row by row."""
    with (
        orders(size, spoiled=True) as raw,
        psycopg.connect(server.url(), autocommit=True) as db,
        db.cursor() as cursor,
    ):
        cursor.execute(TABLE)
        rows = raw.execute("SELECT customer_id, category, amount FROM orders")
        with cursor.copy("COPY orders FROM STDIN") as copy:
            while portion := rows.fetchmany(PORTION):
                for row in portion:
                    copy.write_row(row)
        cursor.execute("VACUUM ANALYZE orders")


def measure(size: int, times: int = 5) -> list[Row]:
    """A row for each case: the release alone, up to the noise."""
    with postgres_server.running(settings=SETTINGS, locale="C.UTF-8") as server:
        progress(f"postgres: making {size:,} rows")
        filled(server, size)
        return [_row(server.url(), size, *case, times) for case in CASES]


def _row(address: str, size: int, what: str, unit: str, sql: str, times: int) -> Row:
    with (
        dpsql.connect(address, policy=policy(unit), ledger=":memory:", steward=True) as db,
        psycopg.connect(address, autocommit=True) as plain,
    ):
        [priced] = db.prepare(sql, epsilon=1, delta=1e-8).bill.releases
        engine: Any = db.engine
        permit = db.permit_trace()
        works: dict[str, tuple[Callable[[], object], Callable[[], int]]] = {
            "plain": (lambda: plain.execute(sql.encode()).fetchall(), lambda: plain.info.backend_pid),
            "release": (lambda: engine.run(priced, SALT, permit), lambda: engine._idle[-1].info.backend_pid),
        }
        plain.execute("SET jit = off")
        for work, _ in works.values():
            work()
        rounds = [{name: _spent(*each) for name, each in works.items()} for _ in range(times)]
    cpu, clock = ({name: min(each[name][kind] for each in rounds) for name in works} for kind in (0, 1))
    ratio, wall = cpu["release"] / cpu["plain"], clock["release"] / clock["plain"]
    progress(f"postgres: {size:,} rows, {what}: plain {cpu['plain']:.2f} s CPU; {ratio:.2f}×, {wall:.2f}× by the clock")
    return Row(
        f"PostgreSQL, {size:,} rows, {what}: CPU against plain PostgreSQL",
        f"{ratio:.1f}× ({wall:.1f}× by the clock)", "", ratio, None,
    )  # fmt: skip


def _spent(work: Callable[[], object], process: Callable[[], int]) -> tuple[float, float]:
    before, begin = cpu_of(process()), time.perf_counter()
    work()
    return cpu_of(process()) - before, time.perf_counter() - begin


if __name__ == "__main__":
    print(markdown([row for size in sys.argv[1:] or ["1000000"] for row in measure(int(size))]))
