"""Which engine a source means: the only place outside their folders that knows of several."""

from __future__ import annotations

from typing import Any

from dpsql.engines.base import Engine, Resources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.engine import Source as DuckDBSource
from dpsql.engines.spark.open import is_spark

Source = DuckDBSource | Any


def open_engine(source: Source, limits: Resources) -> Engine:
    """The engine of a file, a connection, a mapping of frames, or the address of a database server."""
    if is_spark(source):
        from dpsql.engines.spark.engine import SparkEngine

        return SparkEngine(source, limits)
    return DuckDBEngine(source, limits)


__all__ = ["Source", "open_engine"]
