"""How the steward's commands read a database, exactly: DuckDB here, other engines in their own folders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsql.policy.catalog import Relation, quote, read_catalog
from dpsql.policy.names import Names

if TYPE_CHECKING:
    import duckdb


class Unreadable(Exception):
    """The database failed; the text is the database's own, for the steward's eyes."""


class Reader(ABC):
    """A database that a steward looks at. Types go by DuckDB's names."""

    @abstractmethod
    def catalog(self) -> Names[Relation]:
        """The tables, their columns and constraints."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, in which `?` stands for parameters; `Unreadable` if it fails."""

    def table(self, name: str) -> str:
        """A table as SQL."""
        return quote(name)

    def type(self, data_type: str) -> str:
        """A type as SQL."""
        return data_type


class DuckDBReader(Reader):
    """A connection, which stays the caller's."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def catalog(self) -> Names[Relation]:
        return read_catalog(self._connection)

    def rows(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        import duckdb

        try:
            return self._connection.execute(sql, list(parameters)).fetchall()
        except duckdb.Error as problem:
            raise Unreadable(str(problem)) from problem


def reader_of(source: Reader | duckdb.DuckDBPyConnection) -> Reader:
    """A reader as it is, or one of a DuckDB connection."""
    return source if isinstance(source, Reader) else DuckDBReader(source)
