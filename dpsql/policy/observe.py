"""What a steward may look at before choosing bounds: true extremes and values, never for an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from dpsql.policy.catalog import Relation, family, quote
from dpsql.policy.names import Names

if TYPE_CHECKING:
    import duckdb

FEW = 20
_ORDERED = frozenset({"integer", "decimal", "float", "date", "timestamp", "timestamptz"})
_HEADER = """\
# FOR THE STEWARD ONLY: these are true values of private data, not protected by anything.
# Do not share this file, do not commit it, and delete it once the policy is written.
# Bounds that are copied from here tell analysts about single people (the largest income is somebody's):
# take them from what is known about the subject, and use this file only to see whether they are sensible.
"""


def observe(connection: duckdb.DuckDBPyConnection, catalog: Names[Relation]) -> str:
    """Row counts, extremes, and the values of columns that have few, as YAML for the steward's eyes."""
    seen = {name: _table(connection, each) for name, each in catalog.items() if not each.view}
    return _HEADER + yaml.safe_dump({"observed": seen}, sort_keys=False, allow_unicode=True)


def _table(connection: duckdb.DuckDBPyConnection, table: Relation) -> dict[str, Any]:
    columns = {name: _column(connection, table.name, name, kind) for name, kind in table.columns.items()}
    rows = _row(connection, f"SELECT count(*) FROM {quote(table.name)}")[0]
    return {"rows": rows, "columns": {name: seen for name, seen in columns.items() if seen}}


def _column(connection: duckdb.DuckDBPyConnection, table: str, column: str, data_type: str) -> dict[str, Any]:
    kind = family(data_type)
    if kind is None:
        return {}
    name = quote(column)
    nulls, least, most = _row(
        connection,
        f"SELECT count(*) - count({name}), min({name})::VARCHAR, max({name})::VARCHAR FROM {quote(table)}",
    )
    extremes = {"min": least, "max": most} if kind in _ORDERED else {}
    return {"nulls": nulls, **extremes, **_few_values(connection, quote(table), name)}


def _few_values(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> dict[str, Any]:
    found = connection.execute(
        f"SELECT DISTINCT {column}::VARCHAR FROM {table} WHERE {column} IS NOT NULL LIMIT {FEW + 1}"
    ).fetchall()
    return {"values": sorted(value for (value,) in found)} if 0 < len(found) <= FEW else {}


def _row(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(sql).fetchall()[0]
    return row
