"""What DuckDB's constraints make unique, of columns that are compared as they are stored."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.engines.sql.public import Ask, Keys
from dpsql.policy.identifiers import fold

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
