"""How fast `dpsql serve` is, to real clients on this machine: `python tests/bench/server.py`.

Asked for: a connection with TLS and SCRAM in 40 ms, a replayed chart in 10 ms (p50), 100,000 rows of an answer a second.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "server"))

import duckdb
import psycopg
from served import PASSWORD, Served, run, start, stop

import dpsql

POLICY = """
dataset: shop
budget: {epsilon: 1000, delta: 1e-6, analysts: {ana: {}}}
limits: {max_public_keys: 1000000}
tables:
  orders:
    unit: customer_id
    max_rows_per_unit: 4
    columns:
      amount: {min: 0, max: 500, nulls: false}
      status: {values: [paid, open, lost], nulls: false}
      day: {min: 1, max: 200000, nulls: false}
  numbers: {public: true}
"""
ROWS = 200_000
CHART = "SELECT status, count(*) AS n, avg(amount) AS a FROM orders GROUP BY status ORDER BY n DESC"


def made(folder: Path) -> Served:
    """A server over orders and a public table of many rows."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT i % 20000 AS customer_id, (i % 500)::DOUBLE AS amount, i % 200000 AS day, "
            "['paid', 'open', 'lost'][i % 3 + 1] AS status FROM range(100000) r(i)"
        )
        connection.execute(
            f"CREATE TABLE numbers AS SELECT i AS id, 'name ' || i AS name, i / 7 AS x, DATE '2024-01-01' + (i % 365)::INT "
            f"AS day FROM range({ROWS}) r(i)"
        )
    (folder / "policy.yaml").write_text(POLICY)
    run(folder, "user", "add", "ana", "--password-stdin", stdin=PASSWORD + "\n")
    return start(folder)


def times(task: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of several runs."""
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        task()
        found.append(1000 * (time.perf_counter() - begun))
    return found


def say(what: str, found: list[float]) -> None:
    """Median and 95th percentile."""
    print(f"{what:<55} p50 {statistics.median(found):7.1f} ms   p95 {sorted(found)[int(len(found) * 0.95)]:7.1f} ms")


def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as name:
        served = made(Path(name))
        try:
            measure(served)
        finally:
            stop(served)


def measure(served: Served) -> None:
    """All figures."""
    psycopg.connect(served.dsn()).close()
    say("connect with TLS and SCRAM (psycopg)", times(lambda: psycopg.connect(served.dsn()).close(), 50))
    with psycopg.connect(served.dsn(), autocommit=True) as db:
        db.execute(CHART)
        say("a replayed chart, simple protocol", times(lambda: db.execute(CHART).fetchall(), 200))
        prepared = CHART.replace("ORDER BY", "HAVING count(*) > %s ORDER BY")
        db.execute(prepared, (1,))
        say("a replayed chart, prepared", times(lambda: db.execute(prepared, (1,)).fetchall(), 200))
        for binary in (False, True):
            sql = "SELECT * FROM numbers"
            db.execute(sql, binary=binary).fetchall()
            begun = time.perf_counter()
            cursor = psycopg.RawCursor(db) if not binary else db.cursor()
            cursor.execute(sql, binary=binary)
            taken = time.perf_counter() - begun
            kind = "binary" if binary else "text"
            print(f"{f'{ROWS:,} rows of 4 columns, {kind}':<55} {ROWS / taken:,.0f} rows/s ({taken:.2f} s)")
    address = f"dpsql://ana@127.0.0.1:{served.port}/shop"
    say("connect from Python", times(lambda: dpsql.connect(address, password=PASSWORD).close(), 30))
    with dpsql.connect(address, password=PASSWORD) as far:
        far.query(CHART)
        say("a replayed chart from Python", times(lambda: far.query(CHART).fetchall(), 200))


if __name__ == "__main__":
    main()
