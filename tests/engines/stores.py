"""Where the suite's world can stand: one store for each engine.

To plug in an engine, write a `Store`, and add it to `STORES`. Everything else in this folder asks for it by name.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import engine_server
import psycopg
import spark_session
import suite

import dpsql
from dpsql.audit.world import StoredTable, load, text_of
from dpsql.engines.base import Engine, Resources
from dpsql.engines.open_engine import open_engine
from dpsql.policy.database_catalog import quote

Policy = Mapping[str, Any]


class Store(ABC):
    """An engine that can hold tables for a while.

    `missing` are the queries of the suite, by name, that this engine refuses because it has no total form of an
    operation, with the operation that it names. It is compared exactly: a query that is answered is no longer missing.
    """

    name: str
    constraints = True
    """Does the engine guarantee keys? Without, DuckDB's own copy is compared without them as well."""
    missing: Mapping[str, str] = {}

    def absent(self) -> str | None:
        """Why this machine does not have the engine; None if it has."""
        return None

    @abstractmethod
    def open(self, tables: Mapping[str, StoredTable], policy: Policy) -> AbstractContextManager[dpsql.Connection]:
        """The steward's connection to these tables, in a place of their own, with a throw-away ledger."""

    def left_out(self, asked: suite.Asked) -> str | None:
        """Why a query is not asked of it in every run; None if it is."""
        return None

    def engine(self, tables: Mapping[str, StoredTable]) -> Engine:
        """An engine over these tables, for the search among neighbours."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to stop
        """Stop what was started."""


class DuckDBStore(Store):
    """The reference: a steward's own connection."""

    name = "duckdb"

    @contextmanager
    def open(self, tables: Mapping[str, StoredTable], policy: Policy) -> Iterator[dpsql.Connection]:
        with load(tables) as raw, dpsql.connect(raw, policy=policy, ledger=":memory:", steward=True) as db:
            yield db


class PostgresStore(Store):
    """Databases on the tests' own server."""

    name = "postgres"

    def absent(self) -> str | None:
        return engine_server.absent()

    @contextmanager
    def open(self, tables: Mapping[str, StoredTable], policy: Policy) -> Iterator[dpsql.Connection]:
        with dpsql.connect(self.placed(tables), policy=policy, ledger=":memory:", steward=True) as db:
            yield db

    def engine(self, tables: Mapping[str, StoredTable]) -> Engine:
        return open_engine(self.placed(tables), Resources())

    def placed(self, tables: Mapping[str, StoredTable]) -> str:
        """The address of a fresh database that holds these tables."""
        name, server = f"world{next(_NUMBERS)}", engine_server.server()
        with server.connect() as raw:
            raw.execute(f"CREATE DATABASE {name}")
        with server.connect(name) as raw:
            for each, table in tables.items():
                raw.execute(_created(table, each))
                _fill(raw, each, table)
        return server.address(name)


def _fill(raw: psycopg.Connection[Any], name: str, table: StoredTable) -> None:
    """The rows, with cells as text that the server casts; it has no NUL."""
    columns = ", ".join(f'"{column}"' for column in table.columns)
    with raw.cursor().copy(f'COPY "{name}" ({columns}) FROM STDIN') as copy:
        for row in table.rows:
            copy.write_row([None if cell is None else str(text_of(cell)).replace("\0", "0") for cell in row])


def _created(table: StoredTable, name: str) -> str:
    made = table.create(name)
    for theirs, ours in (("DOUBLE", "DOUBLE PRECISION"), ("FLOAT", "REAL"), ("VARCHAR", "TEXT")):
        made = re.sub(rf'(?<=" ){theirs}\b', ours, made)
    return re.sub(r"ENUM\([^)]*\)", "TEXT", made)


class SparkStore(Store):
    """One session for all tests; the tables are Parquet files that DuckDB wrote."""

    name = "spark"
    constraints = False
    missing: Mapping[str, str] = {"expressions-19": "CAST"}

    def left_out(self, asked: suite.Asked) -> str | None:
        if os.environ.get("DPSQL_SPARK") == "all" or asked.number % 3 == 0 or asked.name in self.missing:
            return None
        return "Spark takes a second for each query: one in three is asked, all with DPSQL_SPARK=all"

    def absent(self) -> str | None:
        return spark_session.absent()

    @contextmanager
    def open(self, tables: Mapping[str, StoredTable], policy: Policy) -> Iterator[dpsql.Connection]:
        session = spark_session.session()
        with load(tables) as raw, TemporaryDirectory(prefix="dpsql-spark-") as folder:
            paths = {name: f"{folder}/{name}.parquet" for name in tables}
            for name, path in paths.items():
                raw.execute(f"COPY {quote(name)} TO '{path}' (FORMAT parquet)")
            with dpsql.connect((session, paths), policy=policy, ledger=":memory:", steward=True) as db:
                yield db


_NUMBERS = count()
STORES: dict[str, type[Store]] = {"duckdb": DuckDBStore, "postgres": PostgresStore, "spark": SparkStore}


@contextmanager
def opened(store: Store) -> Iterator[dpsql.Connection]:
    """The suite's world in a store."""
    with store.open(suite.tables(constraints=store.constraints), suite.POLICY) as db:
        yield db
