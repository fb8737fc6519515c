"""Which engine a source means: the only place outside their folders that knows of several."""

from __future__ import annotations

from dpsql.engines.base import Engine, Resources
from dpsql.engines.duckdb.engine import DuckDBEngine, Source

POSTGRES = ("postgresql://", "postgres://")


def open_engine(source: Source, limits: Resources) -> Engine:
    """The engine of a file, a connection, a mapping of frames, or the address of a database server."""
    if isinstance(source, str) and source.startswith(POSTGRES):
        from dpsql.engines.postgres.engine import PostgresEngine

        return PostgresEngine(source, limits)
    return DuckDBEngine(source, limits)


__all__ = ["Source", "open_engine"]
