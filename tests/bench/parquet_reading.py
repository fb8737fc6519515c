"""What it costs to read Parquet files without the statistics that they hold, in one run: CPU, after against before.

`python tests/bench/parquet_reading.py 10000000` writes files with pyarrow and prints a row for each query: the SQL that
dpsql emits, once over plain views of the files (before) and once over the views that dpsql makes of them (after).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from measure import Row, cpu_of, interleaved, markdown, progress

import dpsql
from dpsql.engines.duckdb import parquet
from dpsql.engines.duckdb import register_tables as placing
from dpsql.engines.duckdb.table_files import list_files
from dpsql.expressions.types import Kind

KINDS = [f"kind{i:03}" for i in range(200)]
CASES = {
    "COUNT of one day, rows sorted by day": "SELECT count(*) FROM orders WHERE day = DATE '2024-03-05'",
    "SUM of a few rows by a double": "SELECT sum(qty) FROM orders WHERE amount > 700",
    "SUM of a few rows by an integer": "SELECT sum(amount) FROM orders WHERE store = 17",
    "SUM": "SELECT sum(amount) FROM orders",
    "SUM by 200 words": "SELECT kind, sum(amount) FROM orders GROUP BY kind",
    "join with a public file, SUM by 8 regions": "SELECT region, sum(amount) FROM orders JOIN stores USING (store) GROUP BY region",
    "join that keeps a few rows": "SELECT count(*) FROM orders JOIN stores USING (store) WHERE stores.size > 125",
    "COUNT of units by their maximum": "SELECT count(*) FROM (SELECT id, max(amount) AS m FROM orders GROUP BY id) AS u WHERE m > 400",
}
Tables = Mapping[str, Path]
Place = Callable[[duckdb.DuckDBPyConnection, str, Path], None]


def write(folder: Path, size: int) -> Tables:
    """Orders, sorted by unit and by day, and the public stores."""
    random = np.random.default_rng(1)
    day = np.datetime64("2024-01-01") + np.arange(size) * 365 // size
    orders = pa.table({
        "id": np.sort(random.integers(0, max(1, size // 20), size)),
        "amount": random.gamma(2, 50, size),
        "score": random.normal(0, 1, size).astype(np.float32),
        "qty": random.integers(1, 100, size).astype(np.int32),
        "day": pa.array(day.astype("datetime64[D]")),
        "kind": pa.DictionaryArray.from_arrays(random.integers(0, 200, size), KINDS).cast(pa.string()),
        "store": random.integers(0, 1000, size).astype(np.int32),
    })  # fmt: skip
    regions = [f"r{i % 8}" for i in range(1000)]
    stores = pa.table(
        {"store": np.arange(1000, dtype=np.int32), "region": regions, "size": random.normal(100, 10, 1000)}
    )
    for name, table in (("orders", orders), ("stores", stores)):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    return {name: folder / f"{name}.parquet" for name in ("orders", "stores")}


def policy() -> dict[str, Any]:
    columns: dict[str, Any] = {"amount": {"min": 0, "max": 1000}, "qty": {"min": 0, "max": 100}, "day": {}, "store": {}}
    orders = {"unit": "id", "max_rows_per_unit": 60, "columns": columns | {"kind": {"values": KINDS}}}
    return {
        "dataset": "bench",
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "tables": {"orders": orders, "stores": {"public": True}},
    }


def plain(data: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """How files were placed before: a view that hides nothing, and one scan of what may fail."""
    data.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM read_parquet(['{path}'])")
    placing._decode(data, name, [Kind.TEXT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP])


def screened(data: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """How they are placed now, by a process that has not seen them."""
    placing._DECODED.clear()
    parquet._MEASURED.clear()
    placing.place_files(data, list_files(name, path), None)


def measure(size: int, times: int = 5) -> list[Row]:
    """A row for the opening, and one for each query."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as before, duckdb.connect() as after:
        progress(f"parquet: writing {size:,} rows")
        tables = write(Path(folder), size)
        opening = [
            min(cpu_of(partial(_open, place, data, tables)) for _ in range(3))
            for place, data in ((plain, before), (screened, after))
        ]
        rows = [_row("opening the files", *opening)]
        source = {name: str(path) for name, path in tables.items()}
        with dpsql.connect(source, policy=policy(), ledger=":memory:") as db:
            engine: Any = db.engine
            for what, sql in CASES.items():
                [priced] = db.prepare(sql, epsilon=1, delta=1e-8).bill.releases
                text = engine.emit(priced, b"bench")
                works = {"before": partial(_run, before, text), "after": partial(_run, after, text)}
                spent = {name: min(seconds) for name, seconds in interleaved(works, times).items()}
                rows.append(_row(what, spent["before"], spent["after"]))
    return rows


def _open(place: Place, data: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    for name, path in tables.items():
        place(data, name, path)


def _run(data: duckdb.DuckDBPyConnection, text: str) -> object:
    return data.execute(text).fetchall()


def _row(what: str, before: float, after: float) -> Row:
    progress(f"parquet: {what}: {before:.3f} s before, {after:.3f} s after")
    return Row(f"{what}: CPU, after against before", f"{after / before:.2f}× ({before:.3f} s → {after:.3f} s)")


if __name__ == "__main__":
    print(markdown(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)))
