"""The catalog of a database: tables, column types and constraints, read without looking at rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.policy.identifiers import Names, fold

if TYPE_CHECKING:
    import duckdb

Place = tuple[str, str]

_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "VARCHAR": "text",
    "VARCHAR COLLATE": "text",
    "ENUM": "enum",
    "UUID": "uuid",
    "DATE": "date",
}
_HERE = "(database_name = 'temp' OR (database_name = current_database() AND schema_name = current_schema()))"


@dataclass(frozen=True, slots=True)
class Link:
    """A declared foreign key of one column."""

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True)
class CatalogRelation:
    """One table or view; `keys` are the sets of columns that constraints make unique, `filled` those without NULL."""

    name: str
    database: str
    view: bool
    columns: Names[str]
    keys: tuple[tuple[str, ...], ...] = ()
    primary: str | None = None
    links: tuple[Link, ...] = ()
    filled: tuple[str, ...] = ()

    @property
    def required(self) -> frozenset[str]:
        """The columns, folded, that constraints keep from being NULL."""
        return frozenset(map(fold, (*self.filled, *([self.primary] if self.primary else []))))

    def is_key(self, *columns: str) -> bool:
        """Whether a constraint makes these columns together unique, as GROUP BY and joins compare their values."""
        asked = set(map(fold, columns))
        return any(asked >= set(map(fold, key)) for key in self.keys)


def quote(name: str) -> str:
    """A name as SQL, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def family(data_type: str) -> str | None:
    """The kind of values that a DuckDB type holds; None for types that a policy cannot describe."""
    return _FAMILIES.get(data_type.partition("(")[0]) if not data_type.endswith("]") else None


def read_catalog(connection: duckdb.DuckDBPyConnection) -> Names[CatalogRelation]:
    """The relations that an unqualified name reaches: a temporary one hides a stored one, as in the engine.

    A frame that was registered from Python is a temporary view to DuckDB, and a table to us.
    """
    views = _views(connection)
    constraints = _constraints(connection)
    return Names(
        {
            place[1]: _relation(place, place in views, columns, constraints.get(place, ()))
            for place, columns in _columns(connection).items()
        }
    )


def _relation(place: Place, view: bool, columns: dict[str, str], constraints: Iterable[Any]) -> CatalogRelation:
    """Of foreign keys, and of what names the rows of a table, only constraints on a single column matter."""
    constraints = tuple(constraints)
    single = [(kind, own[0], table, other) for kind, own, table, other in constraints if len(own) == 1]
    primary = [column for kind, column, _, _ in single if kind == "PRIMARY KEY"]
    links = [Link(column, table, other[0]) for kind, column, table, other in single if kind == "FOREIGN KEY"]
    return CatalogRelation(
        name=place[1],
        database=place[0],
        view=view,
        columns=Names(columns),
        keys=tuple(tuple(own) for kind, own, _, _ in constraints if kind in ("PRIMARY KEY", "UNIQUE")),
        primary=primary[0] if primary else None,
        links=tuple(links),
        filled=tuple(column for kind, column, _, _ in single if kind == "NOT NULL"),
    )


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[Place, dict[str, str]]:
    """Columns and types by table; what is computed when it is read is no column to us, as in the engine."""
    found: dict[Place, dict[str, str]] = {}
    for database, table, column, data_type in connection.execute(
        "SELECT database_name, table_name, column_name, data_type FROM duckdb_columns() "
        f"WHERE NOT internal AND {_HERE} AND (database_name, schema_name, table_name, column_name) NOT IN (SELECT "
        "(table_catalog, table_schema, table_name, column_name) FROM information_schema.columns "
        "WHERE is_generated = 'ALWAYS') ORDER BY database_name = 'temp', table_name, column_index"
    ).fetchall():
        found.setdefault((database, table), {})[column] = data_type
    return found


def _views(connection: duckdb.DuckDBPyConnection) -> set[Place]:
    return set(
        connection.execute(
            f"SELECT database_name, view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary AND {_HERE}"
        ).fetchall()
    )


def _constraints(connection: duckdb.DuckDBPyConnection) -> dict[Place, list[Any]]:
    """Constraints by table, without those that a collation makes worthless.

    A UNIQUE text column compares bytes, but GROUP BY compares by the collation: under NOCASE a unique column
    may hold both `a` and `A`, which are then one unit with two rows.
    """
    collated = _collated(connection)
    columns = _columns(connection)
    found: dict[Place, list[Any]] = {}
    for database, table, kind, own, parent, keys in connection.execute(
        "SELECT database_name, table_name, constraint_type, constraint_column_names, referenced_table, "
        f"referenced_column_names FROM duckdb_constraints() WHERE {_HERE}"
    ).fetchall():
        place = (database, table)
        text = any(family(columns[place][each]) == "text" for each in own)
        if not (text and place in collated and kind != "FOREIGN KEY"):
            found.setdefault(place, []).append((kind, own, parent, keys))
    return found


def _collated(connection: duckdb.DuckDBPyConnection) -> set[Place]:
    return set(
        connection.execute(
            "SELECT database_name, table_name FROM duckdb_tables() "
            f"WHERE {_HERE} AND (current_setting('default_collation') <> '' OR sql ILIKE '%collate%')"
        ).fetchall()
    )


# reading rows for the steward


class UnreadableDatabase(Exception):
    """The database failed; the text is the database's own, for the steward's eyes."""


class DatabaseReader(ABC):
    """A database that a steward looks at. Types go by DuckDB's names."""

    @abstractmethod
    def catalog(self) -> Names[CatalogRelation]:
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


class DuckDBReader(DatabaseReader):
    """Reads through a DuckDB connection that the caller owns and closes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def catalog(self) -> Names[CatalogRelation]:
        return read_catalog(self._connection)

    def rows(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        import duckdb

        try:
            return self._connection.execute(sql, list(parameters)).fetchall()
        except duckdb.Error as problem:
            raise UnreadableDatabase(str(problem)) from problem


def reader_of(source: DatabaseReader | duckdb.DuckDBPyConnection) -> DatabaseReader:
    """A reader as it is, or one of a DuckDB connection."""
    return source if isinstance(source, DatabaseReader) else DuckDBReader(source)
