"""What a DuckDB database says of itself: tables, column types, collations and constraints, without looking at rows.

Which columns hold text of which DuckDB takes several spellings for one: `id VARCHAR COLLATE NOCASE`.

dpsql compares text byte by byte. A person whose id the database knows in several spellings would be several units to
dpsql, and move an answer by several times what it claims. So such a column leads to no owner (`dpsql.plan.ownership`);
as a key or in a condition its spelling is a function of the row alone.

DuckDB tells a column's collation nowhere but in the statement that would make the table again. **Theorem.** A column
that DuckDB does not compare byte by byte is found. **Proof.** The statement is DuckDB's own, so each COLLATE of a
column is a constraint of that column in it, in the syntax that is read here; where it cannot be read, all columns of a
table whose statement has that word count.
**Requires** a session without a default collation (`dpsql.engines.duckdb.open`), which no table's statement would show.
**Checked by** `tests/privacy/test_units_in_several_spellings.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.engines.sql.public_tables import Ask, Keys
from dpsql.errors import InterfaceError
from dpsql.expressions.types import SPELLINGS
from dpsql.policy.identifiers import fold

_STORAGE = "SELECT type FROM duckdb_databases() WHERE database_name = current_database()"


def require_own_storage(found: list[Any]) -> None:
    """Refuse a current database that another system stores: a catalogue of files is read by the files' statistics.

    DuckDB's own tables have statistics that DuckDB computes, in its own order of values; those of Parquet files behind
    DuckLake or Iceberg are their writers' (see `dpsql.engines.duckdb.parquet`).
    """
    if found != [("duckdb",)]:
        raise InterfaceError(
            "the connection's current database is not stored by DuckDB itself",
            hint="USE a DuckDB database, or give the files: dpsql.connect({'orders': 'orders/*.parquet'}, …)",
        )


def describe(connection: duckdb.DuckDBPyConnection, *, views: bool) -> dict[str, dict[str, str]]:
    """Columns and types of the tables that a bare name means here.

    A view may mix the rows of different units, so it is no table; only those that `_frames` made itself are. A
    generated column is computed when it is read: it may raise on some rows (DuckDB does not look when rows are
    updated), and by `random()` it gives each scan other values. So it is no column. A text of which DuckDB takes
    several spellings for one (`dpsql.engines.duckdb.system_catalogue`) has a type of its own, which is no unit.
    """
    require_own_storage(connection.execute(_STORAGE).fetchall())
    kinds = "('BASE TABLE', 'LOCAL TEMPORARY', 'VIEW')" if views else "('BASE TABLE', 'LOCAL TEMPORARY')"
    rows = connection.execute(
        "SELECT c.table_catalog = 'temp', c.table_name, c.column_name, c.data_type FROM information_schema.columns c "
        "JOIN information_schema.tables t USING (table_catalog, table_schema, table_name) "
        "WHERE c.table_schema = 'main' AND c.table_catalog IN (current_database(), 'temp') "
        f"AND t.table_type IN {kinds} AND c.is_generated <> 'ALWAYS' ORDER BY c.table_name, c.ordinal_position"
    ).fetchall()
    hidden = {fold(table) for temporary, table, _, _ in rows if temporary}
    spelled = columns_of_spellings(connection)
    schema: dict[str, dict[str, str]] = {}
    for temporary, table, column, type_ in rows:
        if temporary or fold(table) not in hidden:
            several = type_ == "VARCHAR" and (temporary, fold(table), fold(column)) in spelled
            schema.setdefault(fold(table), {})[column] = SPELLINGS if several else type_
    return schema


# collations -----------------------------------------------------------------------------------------------------------

_BY_BYTES = ({"c"}, {"posix"}, {"binary"})
Place = tuple[bool, str, str]
"""Whether a table is temporary; its name and that of the column, folded."""


def columns_of_spellings(connection: duckdb.DuckDBPyConnection) -> set[Place]:
    """The columns of the tables here that are not compared byte by byte."""
    made = connection.execute(
        "SELECT temporary, table_name, sql FROM duckdb_tables() WHERE schema_name = 'main' "
        "AND database_name IN (current_database(), 'temp') AND sql ILIKE '%collate%'"
    ).fetchall()
    names = connection.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
    found: set[Place] = set()
    for temporary, table, statement in made:
        all_columns = [column for other, column in names if other == table]
        found |= {(temporary, fold(table), fold(column)) for column in _collated(statement, all_columns)}
    return found


def _collated(statement: str, columns: Iterable[str]) -> Iterable[str]:
    try:
        read = sqlglot.parse_one(statement, dialect="duckdb")
    except SqlglotError:
        return columns
    if not isinstance(read, exp.Create):
        return columns
    return [column.name for column in read.find_all(exp.ColumnDef) if any(map(_mixes, column.constraints))]


def _mixes(constraint: exp.Expression) -> bool:
    """Is it a collation under which different bytes can be equal?"""
    kind = constraint.args.get("kind")
    if not isinstance(kind, exp.CollateColumnConstraint):
        return False
    return {fold(name.name) for name in kind.find_all(exp.Identifier)} not in _BY_BYTES


# unique keys ----------------------------------------------------------------------------------------------------------

_PLAIN = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "VARCHAR", "DATE", "UUID"}


def unique_keys(rows: Ask, columns: Mapping[str, Mapping[str, str]]) -> Keys:
    """Unique column sets by table; a temporary table hides another."""
    found = rows(
        "SELECT table_name, constraint_column_names FROM duckdb_constraints() "
        "WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND schema_name = 'main' "
        "AND database_name = current_database()"
    )
    hidden = rows(
        "SELECT table_name FROM duckdb_tables() WHERE temporary UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE temporary"
    )
    unsure = None if hidden is None else {fold(name) for (name,) in hidden}
    keys = {
        (fold(table), frozenset(fold(column) for column in names))
        for table, names in found or ()
        if unsure is not None and fold(table) not in unsure
    }
    return {(table, names) for table, names in keys if _plain(columns.get(table, {}), names)}


def _plain(stored: Mapping[str, str], names: frozenset[str]) -> bool:
    types = {fold(name): type_.upper() for name, type_ in stored.items()}
    return all(types.get(name) in _PLAIN for name in names)
