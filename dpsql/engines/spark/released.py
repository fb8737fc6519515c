"""What nested queries released, as temporary views of dpsql's own session, in the types that the planner has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.physical import physical
from dpsql.engines.sql.relations import released_name
from dpsql.plan.relation import Relation
from dpsql.plan.released import Content, ReleasedScan, released_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def placed(session: SparkSession, relation: Relation, contents: Mapping[str, Content]) -> Iterator[None]:
    """The released tables that a relation reads stand beside the stored ones, for as long as this lasts."""
    scans = {released_name(scan): scan for scan in released_in(relation)}
    try:
        for name, scan in scans.items():
            written = _rows(scan, contents[scan.digest or ""])
            session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {SPARK.quote(name)} AS {written}")
        yield
    finally:
        for name in scans:
            with suppress(Exception):
                session.catalog.dropTempView(name)


def _rows(scan: ReleasedScan, content: Content) -> str:
    columns = [f"c{i}" for i in range(len(scan.fields))]
    if not content.rows:
        blank = [f"{SPARK.cast('NULL', physical(f.type))} AS {c}" for c, f in zip(columns, scan.fields, strict=True)]
        return f"SELECT {', '.join(blank)} WHERE FALSE"
    rows = [
        f"({', '.join(SPARK.literal(value, f.type) for value, f in zip(row, scan.fields, strict=True))})"
        for row in content.rows
    ]
    return f"SELECT * FROM VALUES {', '.join(rows)} AS t({', '.join(columns)})"
