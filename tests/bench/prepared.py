"""Copies that are bounded at rest, as CPU ratios to plain DuckDB over the same file, in one run; and how cost grows.

`measure` is for the size in docs/performance.md. `grow` makes Parquet files of any size, portion by portion, and asks them with a
memory limit: `python tests/bench/prepared.py 1000000 10000000 100000000`.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from measure import Row, cpu, interleaved, progress
from workload import orders, policy

import dpsql
from dpsql.interfaces import steward_tasks

SQL = "SELECT category, sum(amount) FROM orders GROUP BY category"
SALT = b"bench"
MANY = 1_000
"""A bound that most units keep: 1% of them have more rows, with a tenth of all rows."""
CASES: tuple[tuple[str, str | None, int, float | None], ...] = (
    ("unit column, SUM by 1,000 categories, 10 rows per unit, no copy", None, 10, 14),
    ("… prepared, `keep`", "keep", 10, 1.5),
    ("… prepared, `weigh`: all units have more rows", "weigh", 10, None),
    ("unit column, SUM by 1,000 categories, 1,000 rows per unit, no copy", None, MANY, 14),
    ("… prepared, `keep`", "keep", MANY, 1.5),
    ("… prepared, `weigh`: 1% of the units have more rows", "weigh", MANY, None),
)


def measure(size: int = 10_000_000, times: int = 7) -> list[Row]:
    """A row for each case, all over one file."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        path = Path(folder) / "bench.duckdb"
        progress(f"prepared: making {size:,} rows")
        with orders(size, spoiled=True) as made:
            made.execute(f"ATTACH '{path}' AS stored")
            made.execute("COPY FROM DATABASE memory TO stored")
        return [_row(path, times, *case) for case in CASES]


def _row(path: Path, times: int, what: str, mode: str | None, rows: int, limit: float | None) -> Row:
    ratio, took = ratio_of(path, said(mode, rows), times)
    written = f"; written in {took:.0f} s" if mode else ""
    progress(f"prepared: {what}: {ratio:.2f}×{written}")
    asked = "" if limit is None else f"≤ {limit:g}×"
    return Row(f"{what}: CPU against plain DuckDB", f"{ratio:.1f}×{written}", asked, ratio, limit)


def said(mode: str | None, rows: int, memory: str | None = None) -> dict[str, Any]:
    """The policy of the benchmark, with a copy of that kind."""
    made = policy("customer_id", rows=rows)
    made["tables"]["orders"] |= {"prepare": mode} if mode else {}
    made["limits"] |= {"memory": memory, "spill": "60 GB"} if memory else {}
    return made


def ratio_of(source: Any, asked: dict[str, Any], times: int, folder: Path | None = None) -> tuple[float, float]:
    """CPU of the release against the plain query on the same connection, and the seconds that a copy took."""
    ledger = (folder or Path(source).parent) / "bench.ledger"
    took = 0.0
    if asked["tables"]["orders"].get("prepare"):
        with dpsql.connect(source, policy=asked, ledger=ledger, steward=True) as db:
            begin = time.perf_counter()
            steward_tasks.prepare(db, lambda *_: None)
            took = time.perf_counter() - begin
    with dpsql.connect(source, policy=asked, ledger=ledger, steward=True) as db:
        [priced] = db.prepare(SQL, epsilon=1, delta=1e-8).bill.releases
        permit = db.permit_trace()
        works: dict[str, Callable[[], object]] = {
            "plain": lambda: _plain(db),
            "release": lambda: db.engine.run(priced, SALT, permit),
        }
        spent = {name: min(seconds) for name, seconds in interleaved(works, times).items()}
    progress(f"prepared: plain {spent['plain']:.2f} s, release {spent['release']:.2f} s of CPU")
    return spent["release"] / spent["plain"], took


def _plain(db: Any) -> object:
    with db.engine._running() as cursor:
        return cursor.execute(SQL).fetchall()


# how cost grows -----------------------------------------------------------------------------------------------------------


def lake(folder: Path, size: int, portion: int = 5_000_000) -> Path:
    """Parquet files of one table, of up to so many rows each."""
    table = folder / "orders"
    table.mkdir(parents=True)
    for number, begin in enumerate(range(0, size, portion)):
        progress(f"lake: rows {begin:,} of {size:,}")
        with orders(min(portion, size - begin), spoiled=True, seed=number) as made:
            made.execute(f"COPY orders TO '{table / f'part-{number:04d}.parquet'}' (FORMAT parquet)")
    return folder


def grow(sizes: list[int], memory: str = "8 GB") -> list[Row]:
    """Plain and private CPU over Parquet files of each size, within a memory limit, with and without a copy."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="dpsql-lake-", dir=Path.cwd()) as made:
            folder = lake(Path(made) / "lake", size)
            for mode in (None, "keep"):
                begin = cpu()
                ratio, took = ratio_of(folder, said(mode, 10, memory), 3, Path(made))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                what = f"{size:,} rows of Parquet, SUM by 1,000 categories, {mode or 'no copy'}, {memory} of memory"
                told = f"{ratio:.1f}×" + (f"; written in {took:.0f} s" if mode else "")
                rows.append(Row(what, f"{told}; peak {peak:.1f} GB", "", ratio))
                progress(f"{what}: {told}; peak so far {peak:.1f} GB; {cpu() - begin:.0f} s of CPU in all")
    return rows


if __name__ == "__main__":
    from measure import markdown

    duckdb.default_connection().close()
    print(markdown(grow([int(each) for each in sys.argv[1:]] or [1_000_000])))
