"""What can be protected: pandas, Polars and Arrow tables, and Parquet files, as the engine reads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from dpsql.errors import InterfaceError


def read_table(table: Any) -> Any:
    """The table as the engine takes it, and as it is now: later changes of the caller's frame do not reach it."""
    if isinstance(table, str | os.PathLike):
        return _parquet(Path(table))
    library = type(table).__module__.partition(".")[0]
    kind = type(table).__name__
    if library == "pandas" and kind == "DataFrame":
        return _pandas(table)
    if library == "polars" and kind in ("DataFrame", "LazyFrame"):
        return (table.collect() if kind == "LazyFrame" else table).to_arrow()
    if library == "pyarrow" and kind in ("Table", "RecordBatch", "RecordBatchReader"):
        return _arrow(table, kind)
    raise InterfaceError(
        f"a {kind} cannot be protected",
        hint="give a pandas, Polars or Arrow table, or the path of a Parquet file; pd.DataFrame(…) makes a table",
    )


def _parquet(path: Path) -> str:
    if not path.is_file() or path.suffix.lower() not in (".parquet", ".pq"):
        raise InterfaceError(
            f"there is no Parquet file {path}",
            hint="give the path of a .parquet file; read other files first: pd.read_csv(…).dp.protect(…)",
        )
    return str(path)


def _arrow(table: Any, kind: str) -> Any:
    if kind == "RecordBatchReader":
        return table.read_all()
    return sys.modules["pyarrow"].Table.from_batches([table]) if kind == "RecordBatch" else table


def _pandas(frame: Any) -> Any:
    """A copy (lazy where pandas copies on write) whose named index levels are columns like others."""
    if not all(isinstance(name, str) for name in frame.columns):
        raise InterfaceError(
            "the columns need names that are text", hint="rename them first: df.columns = ['user_id', 'amount', …]"
        )
    if not frame.columns.is_unique:
        raise InterfaceError("two columns have the same name", hint="rename one of them: df.columns = […]")
    lazy = int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3
    levels = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
    copied = frame.copy(deep=not lazy)
    return copied.reset_index(levels) if levels else copied
