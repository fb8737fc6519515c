"""What nested queries released, as temporary tables of one connection, in the types that the planner computes with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb
import numpy as np

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.sql_types import physical
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in


@contextmanager
def placed(cursor: duckdb.DuckDBPyConnection, relation: Relation, contents: Mapping[str, Content]) -> Iterator[None]:
    """The released tables that a relation reads stand beside the stored ones, for as long as this lasts."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    try:
        for name, scan in scans.items():
            _create(cursor, name, scan, contents[scan.digest or ""])
        yield
    finally:
        for name in scans:
            cursor.execute(f"DROP TABLE IF EXISTS temp.{DUCKDB.quote(name)}")


def _create(cursor: duckdb.DuckDBPyConnection, name: str, scan: ReleasedScan, content: Content) -> None:
    """Values come as text and become what they were: no cast of a type's own text can fail."""
    columns = [f"c{i}" for i in range(len(scan.fields))]
    arrays = {c: np.array([row[i] for row in content.rows], dtype=object) for i, c in enumerate(columns)}
    listed = [
        f"TRY_CAST(CAST({c} AS VARCHAR) AS {physical(f.type)}) AS {c}"
        for c, f in zip(columns, scan.fields, strict=True)
    ]
    cursor.register("_incoming", arrays)
    cursor.execute(f"CREATE TEMP TABLE {DUCKDB.quote(name)} AS SELECT {', '.join(listed)} FROM _incoming")
    cursor.unregister("_incoming")
