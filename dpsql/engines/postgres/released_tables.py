"""What nested queries released, as tables of a WITH clause before the statement that reads them."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.sql_types import physical
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in


def with_released(relation: Relation, contents: Mapping[str, Content], dialect: Dialect) -> str:
    """The WITH clause, or nothing. The values are released ones, in the texts of their own types."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    made = [_table(name, scan, contents[scan.digest or ""], dialect) for name, scan in scans.items()]
    return f"WITH {', '.join(made)} " if made else ""


def _table(name: str, scan: ReleasedScan, content: Content, dialect: Dialect) -> str:
    columns = [f"c{i}" for i in range(len(scan.fields))]
    cells = [["NULL" if v is None else dialect.text(v) for v in column] for column in _columns(content, len(columns))]
    arrays = [f"CAST(ARRAY[{', '.join(column)}] AS text[])" for column in cells]
    read = [
        f"{dialect.cast(f'r.{column}', physical(field.type))} AS {column}"
        for column, field in zip(columns, scan.fields, strict=True)
    ]
    rows = f"unnest({', '.join(arrays)}) AS r({', '.join(columns)})"
    return f"{dialect.quote(name)} AS MATERIALIZED (SELECT {', '.join(read)} FROM {rows})"


def _columns(content: Content, width: int) -> list[list[str | None]]:
    return [[row[i] for row in content.rows] for i in range(width)]
