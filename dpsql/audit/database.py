"""Databases in memory, made from the rows of a world; and the rows of a steward's database, read as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpsql.errors import InterfaceError
from dpsql.policy.database_catalog import quote

Cell = object
Row = tuple[Cell, ...]
Raw = duckdb.DuckDBPyConnection
LoadError = duckdb.Error
"""What loading tables raises where the rows do not fit."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A table: columns with their types, constraints as SQL writes them, and rows in the order of the columns.

    A cell is NULL (`None`) or anything whose text the database can cast to the column's type.
    """

    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    constraints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, columns: Mapping[str, str], rows: Sequence[Mapping[str, Cell]], constraints: tuple[str, ...] = ()
    ) -> Stored:
        """A table from rows by name; what a row leaves out is NULL."""
        return cls(columns, tuple(tuple(row.get(name) for name in columns) for row in rows), constraints)

    def place(self, column: str) -> int:
        """Where a column stands in a row."""
        folded = [name.casefold() for name in self.columns]
        return folded.index(column.casefold())

    def create(self, name: str) -> str:
        """The statement that makes the table."""
        columns = [f"{quote(column)} {type_}" for column, type_ in self.columns.items()]
        return f"CREATE TABLE {quote(name)} ({', '.join([*columns, *self.constraints])})"

    def insert(self, name: str) -> str:
        """The statement that fills it, as a person would run it; nothing for no rows."""
        rows = [f"({', '.join(_literal(cell) for cell in row)})" for row in self.rows]
        return f"INSERT INTO {quote(name)} VALUES\n  " + ",\n  ".join(rows) if rows else ""


def text_of(cell: Cell) -> str | None:
    """A cell as the text that is cast to the column's type."""
    return None if cell is None else str(cell)


def _literal(cell: Cell) -> str:
    said = text_of(cell)
    if said is None:
        return "NULL"
    quoted = "'" + said.replace("'", "''") + "'"
    return quoted if "\0" not in said else "(" + quoted.replace("\0", "' || chr(0) || '") + ")"


def load(tables: Mapping[str, Stored]) -> duckdb.DuckDBPyConnection:
    """The tables in a fresh database in memory, in the order in which they are given (parents first)."""
    raw = duckdb.connect(":memory:", config={"threads": 1})
    for name, table in tables.items():
        raw.execute(table.create(name))
        if table.rows:
            columns = [[text_of(row[i]) for row in table.rows] for i in range(len(table.columns))]
            listed = ", ".join(f"unnest(${i + 1}::VARCHAR[])" for i in range(len(columns)))
            raw.execute(f"INSERT INTO {quote(name)} SELECT {listed}", columns)
    return raw


@contextmanager
def reading(source: str | Path | duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A steward's database: a file, opened read-only, or a connection, which stays the caller's."""
    if isinstance(source, duckdb.DuckDBPyConnection):
        with source.cursor() as cursor:
            yield cursor
        return
    if not Path(source).is_file():
        raise InterfaceError(f"there is no database file {source}", hint="check the path; it is never created here")
    try:
        raw = duckdb.connect(str(source), read_only=True)
    except duckdb.Error as problem:
        raise InterfaceError(
            f"the database {source} cannot be opened read-only: {type(problem).__name__}",
            hint="close other connections that write to it",
        ) from problem
    with raw:
        yield raw
