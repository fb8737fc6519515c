"""Whether a row is read depends on that row alone: neither on the statistics of a file nor on anybody else's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import dpsql
from dpsql.audit.traces import trace

NAN = float("nan")
Column = Sequence[float | None]
BASES: dict[str, tuple[Column, float]] = {
    "half are NaN": ([NAN if i % 2 else i / 2 % 10 for i in range(1000)], 11.0),
    "one value and NaN": ([NAN, 5.0] * 500, 6.0),
    "all are NaN": ([NAN] * 1000, 5.0),
    "NULL and NaN": ([*[NAN, None] * 500, 5.0], 6.0),
    "zeros of two signs": ([-0.0, 5.0] * 500, 0.0),
    "infinite": ([NAN, float("-inf")] * 500, float("inf")),
}
"""The values of some units, and that of the one who is added."""

FORMS = (
    "SELECT count(*) FROM t WHERE x > 10",
    "SELECT count(*) FROM t WHERE f > 10",
    "SELECT count(*) FROM t WHERE x >= 5.5",
    "SELECT count(*) FROM t WHERE x <> 5",
    "SELECT count(*) FROM t WHERE x = 5",
    "SELECT count(*) FROM t WHERE x = 0",
    "SELECT count(*) FROM t WHERE x IN (0, 5, 11)",
    "SELECT count(*) FROM t WHERE NOT (x <= 9)",
    "SELECT count(*) FROM t WHERE isnan(x)",
    "SELECT count(*) FROM t WHERE NOT isnan(f)",
    "SELECT count(*) FROM t WHERE isfinite(x)",
    "SELECT count(*) FROM t WHERE abs(x) > 10",
    "SELECT count(*) FROM t WHERE x IS NULL",
    "SELECT count(x), sum(x) FROM t",
    "SELECT count(*), sum(f) FROM t WHERE f < 100",
    "SELECT count(*) FILTER (WHERE x > 10) FROM t",
    "SELECT sum(CASE WHEN x > 10 THEN 1 ELSE 0 END) FROM t",
    "SELECT median(x) FROM t",
    "SELECT count(DISTINCT x) FROM t",
    "SELECT count(DISTINCT id) FROM t WHERE x > 10",
    "SELECT kind, count(*) FROM t WHERE x > 10 GROUP BY kind",
    "SELECT count(*) FROM (SELECT id, max(x) AS m FROM t GROUP BY id) AS u WHERE m > 10",
    "SELECT count(*) FROM (SELECT id, x, row_number() OVER (PARTITION BY id ORDER BY x) AS r FROM t) AS w WHERE x > 10",
    "SELECT count(*) FROM t JOIN p ON t.x = p.x",
    "SELECT count(*) FROM t JOIN p ON t.x > p.x AND p.n = 3",
    "SELECT count(*) FROM t WHERE x IN (SELECT x FROM p)",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.x = t.x)",
    "SELECT count(*) FROM t WHERE x NOT IN (SELECT x FROM p WHERE x < 9)",
    "SELECT count(*) FROM t JOIN v ON t.id = v.id AND t.x = v.x",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.id = t.id AND v.x >= t.x)",
)


def frame(values: Column, more: Sequence[float]) -> pa.Table:
    """Unit, the value as a double and as a float, and a kind."""
    x = [*values, *more]
    wide = pa.array(x, pa.float64())
    return pa.table({"id": list(range(len(x))), "x": wide, "f": wide.cast(pa.float32()), "kind": ["a"] * len(x)})


def public() -> pa.Table:
    """More rows than there are units, so that joins build on the private side."""
    return pa.table({"n": list(range(3000)), "x": pa.array([NAN, *(i / 300 for i in range(2999))], pa.float64())})


def by_pyarrow(table: pa.Table, path: Path, **options: Any) -> Path:
    pyarrow.parquet.write_table(table, path.with_suffix(".parquet"), **options)
    return path.with_suffix(".parquet")


def by_duckdb(table: pa.Table, path: Path) -> Path:
    """DuckDB adds Bloom filters to columns of few values."""
    with duckdb.connect() as data:
        data.register("rows", table)
        data.execute(f"COPY rows TO '{path}.parquet' (ROW_GROUP_SIZE 2048)")
    return path.with_suffix(".parquet")


def by_polars(table: pa.Table, path: Path) -> Path:
    polars = pytest.importorskip("polars")
    polars.from_arrow(table).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_ipc(table: pa.Table, path: Path) -> Path:
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as file:
        file.write_table(table)
    return path.with_suffix(".arrow")


def in_memory(table: pa.Table, _: Path) -> pa.Table:
    return table


def as_pandas(table: pa.Table, _: Path) -> pd.DataFrame:
    made: pd.DataFrame = table.to_pandas().astype({"kind": "string"} if "kind" in table.column_names else {})
    return made


BLOOM = {"bloom_filter_options": {"x": {"ndv": 100}, "f": {"ndv": 100}}}
Writer = Callable[[pa.Table, Path], Any]
SOURCES: dict[str, tuple[Writer, Writer]] = {
    "pyarrow": (by_pyarrow, by_pyarrow),
    "pyarrow, Bloom filters": (partial(by_pyarrow, **BLOOM), by_pyarrow),
    "pyarrow, several row groups": (partial(by_pyarrow, row_group_size=100, write_page_index=True), by_pyarrow),
    "polars": (by_polars, by_polars),
    "duckdb": (by_duckdb, by_duckdb),
    "arrow and public parquet": (in_memory, by_pyarrow),
    "arrow": (in_memory, in_memory),
    "ipc": (as_ipc, as_ipc),
    "pandas": (as_pandas, in_memory),
}


def policy() -> dict[str, Any]:
    bounded = {"min": 0, "max": 100}
    columns = {"x": bounded, "f": bounded, "kind": {"values": ["a", "b"]}}
    private = {"unit": "id", "max_rows_per_unit": 1, "columns": columns}
    return {
        "dataset": "reading",
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "tables": {"t": private, "v": private, "p": {"public": True}},
    }


def opened(folder: Path, source: tuple[Writer, Writer], values: Column, more: Sequence[float]) -> dpsql.Connection:
    folder.mkdir(exist_ok=True)
    write, write_public = source
    rows = frame(values, more)
    tables = {"t": write(rows, folder / "t"), "v": write(rows, folder / "v")}
    tables["p"] = write_public(public(), folder / "p")
    return dpsql.connect(tables, policy=policy(), ledger=":memory:", steward=True)


def moves(one: dpsql.Connection, other: dpsql.Connection, sql: str) -> list[str]:
    """The statistics that moved by more than they claim."""
    found = []
    for a, b in zip(trace(one, sql, salt=b"s"), trace(other, sql, salt=b"s"), strict=True):
        keys = sorted({*a.keys, *b.keys}, key=repr)
        for first, second in zip(a.statistics, b.statistics, strict=True):
            if first.mechanism == "exponential":
                continue
            left, right = (
                dict(zip(r.keys, s.values, strict=True)) if len(r.keys) == len(s.values) else dict(enumerate(s.values))
                for r, s in ((a, first), (b, second))
            )
            keys = list(left | right)
            moved = sum(abs(left.get(k, 0) - right.get(k, 0)) for k in keys)
            if first.l1 is not None and moved > first.l1:
                found.append(f"{sql}: {first.name} moved {moved} for a claim of {first.l1}")
    return found


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("source", SOURCES)
def test_one_unit_decides_about_no_others_row(tmp_path: Path, source: str, base: str) -> None:
    values, added = BASES[base]
    with (
        opened(tmp_path / "without", SOURCES[source], values, []) as one,
        opened(tmp_path / "with", SOURCES[source], values, [added]) as other,
    ):
        assert [each for sql in FORMS for each in moves(one, other, sql)] == []
