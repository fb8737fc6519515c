"""What a steward may look at before choosing bounds: true extremes and values, never for an analyst."""

from __future__ import annotations

from typing import Any

import yaml

from dpsql.policy.catalog import Relation, family, quote
from dpsql.policy.names import Names
from dpsql.policy.reader import Reader

FEW = 20
_ORDERED = frozenset({"integer", "decimal", "float", "date", "timestamp", "timestamptz"})
_HEADER = """\
# FOR THE STEWARD ONLY: these are true values of private data, not protected by anything.
# Do not share this file, do not commit it, and delete it once the policy is written.
# Bounds that are copied from here tell analysts about single people (the largest income is somebody's):
# take them from what is known about the subject, and use this file only to see whether they are sensible.
"""


def observe(reader: Reader, catalog: Names[Relation]) -> str:
    """Row counts, extremes, and the values of columns that have few, as YAML for the steward's eyes."""
    seen = {name: _table(reader, each) for name, each in catalog.items() if not each.view}
    return _HEADER + yaml.safe_dump({"observed": seen}, sort_keys=False, allow_unicode=True)


def _table(reader: Reader, table: Relation) -> dict[str, Any]:
    columns = {name: _column(reader, table.name, name, kind) for name, kind in table.columns.items()}
    [(rows,)] = reader.rows(f"SELECT count(*) FROM {reader.table(table.name)}")
    return {"rows": rows, "columns": {name: seen for name, seen in columns.items() if seen}}


def _column(reader: Reader, table: str, column: str, data_type: str) -> dict[str, Any]:
    kind = family(data_type)
    if kind is None:
        return {}
    name, source = quote(column), reader.table(table)
    [(nulls,)] = reader.rows(f"SELECT count(*) - count({name}) FROM {source}")
    seen: dict[str, Any] = {"nulls": nulls}
    if kind in _ORDERED:
        [ends] = reader.rows(f"SELECT min({name})::VARCHAR, max({name})::VARCHAR FROM {source}")
        seen |= zip(("min", "max"), ends, strict=True)
    return seen | _few_values(reader, source, name)


def _few_values(reader: Reader, table: str, column: str) -> dict[str, Any]:
    found = reader.rows(f"SELECT DISTINCT {column}::VARCHAR FROM {table} WHERE {column} IS NOT NULL LIMIT {FEW + 1}")
    return {"values": sorted(value for (value,) in found)} if 0 < len(found) <= FEW else {}
