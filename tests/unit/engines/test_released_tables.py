"""What nested queries released stands beside the stored tables for as long as a query lasts, and a query may be stopped."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest

from dpsql.bounds.domain import of_type
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.engine import placed, stopped_after
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.relations import relation_sql, released_name
from dpsql.expressions.types import BIGINT, DATE, DOUBLE, TEXT
from dpsql.plan.nodes.relation import Field
from dpsql.plan.nodes.released_scan import Content, ReleasedScan

TYPES = {"n": BIGINT, "x": DOUBLE, "d": DATE, "s": TEXT}
CONTENT = Content((("5", "2.5", "2024-01-01", "it's"), (None, "nan", None, ""), ("x", "inf", "2024-02-30", None)))


def scan(digest: str | None) -> ReleasedScan:
    fields = tuple(Field(name, type_, of_type(type_)) for name, type_ in TYPES.items())
    return ReleasedScan(fields, False, 1, False, "inner query", digest=digest)


@pytest.mark.parametrize("digest", ["abc", None])
def test_released_rows_have_the_planners_types_and_are_gone_afterwards(digest: str | None) -> None:
    """What is no value of its type, which a type's own text never is, would be NULL."""
    cursor, relation = duckdb.connect(), scan(digest)
    made = relation_sql(relation, frozenset(TYPES), Site({}, DUCKDB))
    listed = f"SELECT {', '.join(made.columns.values())} FROM {made.source}"
    assert released_name(relation) == ("inner query" if digest is None else "_released_abc")
    for _ in range(2):
        with placed(cursor, relation, {digest or "": CONTENT}):
            found = cursor.execute(listed).fetchall()
            assert found[0] == (5, 2.5, date(2024, 1, 1), "it's") and found[1][0] is None and found[1][3] == ""
            assert found[2] == (None, float("inf"), None, None)
            described = cursor.execute(f"DESCRIBE {listed}").fetchall()
            assert [type_ for _, type_, *_ in described] == ["BIGINT", "DOUBLE", "DATE", "VARCHAR"]
        with pytest.raises(duckdb.CatalogException):
            cursor.execute(listed)


def test_released_rows_are_gone_after_a_failure_too() -> None:
    cursor, relation = duckdb.connect(), scan("abc")
    with pytest.raises(ZeroDivisionError), placed(cursor, relation, {"abc": CONTENT}):
        raise ZeroDivisionError
    assert cursor.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    with pytest.raises(KeyError), placed(cursor, relation, {}):
        pass


def test_a_query_is_stopped_after_its_time_and_never_without_one() -> None:
    cursor = duckdb.connect()
    with stopped_after(None, cursor):
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(duckdb.InterruptException), stopped_after(0.05, cursor):
        cursor.execute("SELECT sum(sqrt(a.range * b.range)) FROM range(1000000) AS a, range(1000000) AS b").fetchall()
    with stopped_after(60, cursor):
        assert cursor.execute("SELECT 2").fetchall() == [(2,)]
