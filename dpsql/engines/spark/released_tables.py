"""What nested queries released, as temporary views of dpsql's own session, in the types that the planner has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.relations import released_name
from dpsql.engines.sql.sql_types import physical
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, ReleasedScan, released_in

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
    """Values come as text and become what they were; the rows are written out, so the SQL has them all."""
    listed = [f"{SPARK.cast(f'c{i}', physical(field.type))} AS c{i}" for i, field in enumerate(scan.fields)]
    names = ", ".join(f"c{i}" for i in range(len(scan.fields)))
    rows = ", ".join(f"({', '.join(map(_text, row))})" for row in content.rows or [[None] * len(scan.fields)])
    return f"SELECT {', '.join(listed)} FROM VALUES {rows} AS t({names}){'' if content.rows else ' WHERE FALSE'}"


def _text(value: object) -> str:
    return "CAST(NULL AS STRING)" if value is None else SPARK.text(str(value))
