"""Choose the engine for a source. Only this module knows that there are several engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql.engines.base import Engine, Resources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.engine import Source as DuckDBSource
from dpsql.errors import InterfaceError
from dpsql.policy import Policy
from dpsql.server_address import HINT, SCHEMES, NoAddress, read_server

# Spark's sources ------------------------------------------------------------------------------------------------------
# Recognize the sources that are opened with Spark, without importing it.


MASTERS = ("spark://", "local[")


def is_spark(source: object) -> bool:
    """Whether a source is opened with Spark."""
    if isinstance(source, tuple):
        return len(source) == 2 and is_spark(source[0])
    if isinstance(source, Mapping):
        return any(of_pyspark(value) for value in source.values())
    return source.startswith(MASTERS) if isinstance(source, str) else of_pyspark(source)


def of_pyspark(value: object) -> bool:
    """Whether the value is a session, a DataFrame or another object of PySpark."""
    return type(value).__module__.startswith("pyspark.")


Source = DuckDBSource | Any
"""What DuckDB opens, the address of a PostgreSQL server, or what Spark opens (`dpsql.engines.open_engine`)."""


def open_engine(source: Source, limits: Resources, policy: Policy | None = None, copies: Path | None = None) -> Engine:
    """Open a file, a connection, a mapping of frames, or the address of a database server or a cluster.

    Columns that are stored as text get their types from the policy. Only DuckDB reads prepared copies.
    """
    if isinstance(source, str) and source.startswith(SCHEMES):
        return _postgres(source, limits)
    if is_spark(source):
        from dpsql.engines.spark.engine import SparkEngine

        return SparkEngine(source, limits, policy)
    return DuckDBEngine(source, limits, policy=policy, copies=copies)


def is_address(source: object) -> bool:
    """Whether the source is the address of a server or a cluster."""
    return isinstance(source, str) and (source.startswith(SCHEMES) or is_spark(source))


def shown(source: str) -> str:
    """A file or an address for display, without the password."""
    return read_server(source).written if source.startswith(SCHEMES) else source


def _postgres(address: str, limits: Resources) -> Engine:
    try:
        from dpsql.engines.postgres.engine import PostgresEngine

        server = read_server(address)
    except ImportError:
        raise InterfaceError(
            "PostgreSQL as the engine needs the package of dpsql[postgres]", hint="pip install 'dpsql[postgres]'"
        ) from None
    except NoAddress:
        raise InterfaceError("the address of the database cannot be read", hint=HINT) from None
    return PostgresEngine(server, limits)


__all__ = ["Source", "is_address", "open_engine", "shown"]
