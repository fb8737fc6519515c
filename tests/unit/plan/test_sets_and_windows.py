"""Set operations and windows below the aggregate: what is proved of them, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit import trace
from dpsql.bounds.domain import Domain
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.postgres.dialect import Postgres
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.unit_windows import _check
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.types import integer
from dpsql.plan.nodes.relation import Aggregate, PublicScan, Relation, aggregate_type
from dpsql.plan.nodes.union import UnionAll, union_all
from dpsql.plan.nodes.windows import Frame, WindowCall, Windowed, windowed

DIFFERENT = Aggregate("count", None, distinct=True)
TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, area VARCHAR);
CREATE TABLE orders (id BIGINT, n INTEGER, x DOUBLE, day DATE, stamp TIMESTAMP, price DECIMAL(9,2));
CREATE TABLE texts (id VARCHAR, n INTEGER);
CREATE TABLE visits (n INTEGER);
CREATE TABLE clicks (n INTEGER);
CREATE TABLE areas (area VARCHAR);
INSERT INTO people SELECT i, 20 + i, ['n', 's'][1 + i % 2] FROM range(10) r(i);
INSERT INTO orders SELECT i % 12, i % 5, i % 7, DATE '2024-01-01' + (i % 9)::INTEGER, TIMESTAMP '2024-01-01', i / 4 FROM range(40) r(i);
INSERT INTO visits SELECT i % 3 FROM range(7) r(i);
INSERT INTO clicks SELECT i % 3 FROM range(5) r(i);
INSERT INTO areas VALUES ('n');
"""
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 10_000, "delta": 1e-6},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 18, "max": 90}, "area": {"values": ["n", "s"]}}},
        "orders": {"unit": "id", "max_rows_per_unit": 9, "columns": {"n": {"min": 0, "max": 4}, "x": {"min": 0, "max": 10}, "day": {"min": "2024-01-01", "max": "2024-12-31"}, "stamp": {"min": "2024-01-01", "max": "2024-12-31"}, "price": {"min": 0, "max": 10}}},
        "texts": {"unit": "id", "columns": {"n": {"min": 0, "max": 9}}},
        "visits": {"unit": "row", "columns": {"n": {"min": 0, "max": 2}}},
        "clicks": {"unit": "row", "columns": {"n": {"min": 0, "max": 2}}},
        "areas": {"public": True},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    data.execute(TABLES)
    with dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True) as connection:
        yield connection


def source(db: dpsql.Connection, sql: str) -> Relation:
    return db.prepare(sql, epsilon=1.0, delta=1e-6, mechanism="laplace").plan.releases[0].source


def rule(db: dpsql.Connection, sql: str) -> str:
    return trace(db, sql, salt=b"s", epsilon=1.0)[0].rule


def refusal(db: dpsql.Connection, sql: str) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        db.explain(sql)
    return caught.value


def test_a_union_adds_up_rows_and_joins_domains(db: dpsql.Connection) -> None:
    made = source(db, "SELECT sum(v) FROM (SELECT id, age AS v FROM people UNION ALL SELECT id, n FROM orders)")
    assert made.rows_per_unit == 10 and not made.single
    assert (made.field("v").domain.lower, made.field("v").domain.upper) == (0, 90)
    assert made.field("id").unit and made.field("id").attribute and not made.field("v").attribute


@pytest.mark.parametrize(
    ("one", "two", "kind"),
    [("n", "x", "double"), ("n", "price", "decimal"), ("day", "stamp", "timestamp"), ("n", "NULL", "integer")],
)
def test_columns_have_a_common_type(db: dpsql.Connection, one: str, two: str, kind: str) -> None:
    made = source(
        db, f"SELECT count(v) FROM (SELECT id, {one} AS v FROM orders UNION ALL SELECT id, {two} FROM orders)"
    )
    assert made.field("v").type.kind.value == kind


def test_dates_and_timestamps_share_an_axis(db: dpsql.Connection) -> None:
    sql = "SELECT date_trunc('month', v) AS m, count(*) FROM (SELECT id, day AS v FROM orders UNION ALL SELECT id, stamp FROM orders) GROUP BY m"
    [release] = trace(db, sql, salt=b"s", epsilon=1.0)
    assert sum(1 for key in release.keys if key != (None,)) == 12


def test_rows_that_are_units_stay_one_row_in_a_union_of_two_tables(db: dpsql.Connection) -> None:
    sql = "SELECT n, count(*) FROM (SELECT n FROM visits UNION ALL SELECT n FROM clicks) GROUP BY n"
    [release] = trace(db, sql, salt=b"s", epsilon=1.0)
    assert release.rule == "row" and sum(release.statistics[0].values) == 12


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT count(*) FROM (SELECT n FROM visits UNION ALL (SELECT n FROM clicks UNION ALL SELECT n FROM visits))", "same rows twice"),
        ("SELECT count(*) FROM (SELECT n FROM visits UNION SELECT n FROM clicks)", "needs the unit"),
        ("SELECT count(*) FROM (SELECT id, n FROM texts UNION ALL SELECT id, n FROM orders)", "integer"),
        ("SELECT count(*) FROM (SELECT n FROM texts UNION ALL SELECT n FROM orders)", "different types"),
        ("SELECT count(*) FROM (SELECT id, n FROM orders EXCEPT SELECT n, id FROM orders)", "needs the unit"),
        ("SELECT count(*) FROM (SELECT id + 0, n FROM orders EXCEPT SELECT id, n FROM orders)", "needs the unit"),
        ("SELECT count(*) FROM (SELECT id FROM people UNION ALL SELECT area FROM areas)", "have no owner"),
        ("SELECT count(*) FROM ((SELECT id FROM people LIMIT 1) UNION ALL SELECT id FROM orders)", "LIMIT"),
        ("SELECT count(*) FROM (SELECT id FROM people UNION ALL SELECT id FROM orders ORDER BY id OFFSET 1)", "OFFSET"),
        ("SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY id + 0) AS r FROM orders)", "PARTITION BY"),
        ("SELECT count(*) FROM (SELECT row_number() OVER w AS r FROM orders WINDOW w AS (PARTITION BY n))", "PARTITION BY"),
        ("SELECT count(*) FROM (SELECT row_number() OVER w AS r FROM orders)", "no window w"),
        ("SELECT count(*) FROM (SELECT sum(n) OVER (PARTITION BY p.id) AS r FROM people p LEFT JOIN orders o ON o.id = p.id AND o.n > 2 QUALIFY rank() OVER (PARTITION BY o.id) = 1)", "PARTITION BY"),
        ("SELECT count(*) FROM (SELECT n FROM orders WHERE row_number() OVER (PARTITION BY id) = 1)", "window"),
        ("SELECT count(*) FROM (SELECT ntile(0) OVER (PARTITION BY id) AS r FROM orders)", "from 1"),
        ("SELECT count(*) FROM (SELECT sum(n) OVER (PARTITION BY id ORDER BY n GROUPS 1 PRECEDING) AS r FROM orders)", "GROUPS"),
        ("SELECT count(*) FROM (SELECT sum(n) OVER (PARTITION BY id ORDER BY n ROWS 1 PRECEDING EXCLUDE TIES) AS r FROM orders)", "EXCLUDE"),
    ],
)  # fmt: skip
def test_what_would_mix_people_is_refused(db: dpsql.Connection, sql: str, says: str) -> None:
    error = refusal(db, sql)
    assert says in str(error), error


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(x) FROM (SELECT x FROM orders QUALIFY row_number() OVER (PARTITION BY id ORDER BY day) = 1)", "single_row"),
        ("SELECT sum(x) FROM (SELECT x, row_number() OVER (PARTITION BY id ORDER BY day) AS r FROM orders) WHERE r < 2", "single_row"),
        ("SELECT sum(x) FROM (SELECT x, row_number() OVER (PARTITION BY id, n ORDER BY day) AS r FROM orders) WHERE r = 1", "one_group"),
        ("SELECT sum(x) FROM (SELECT x, rank() OVER (PARTITION BY id ORDER BY day) AS r FROM orders) WHERE r = 1", "one_group"),
        ("SELECT sum(x) FROM (SELECT x, 0 + row_number() OVER (PARTITION BY id ORDER BY day) AS r FROM orders) WHERE r = 1", "one_group"),
        ("SELECT c, count(*) FROM (SELECT count(*) OVER (PARTITION BY id) AS c FROM orders) GROUP BY c", "one_group"),
        ("SELECT c, count(*) FROM (SELECT count(*) OVER (PARTITION BY id ORDER BY n) AS c FROM orders) GROUP BY c", "clip"),
        ("SELECT c, count(*) FROM (SELECT count(*) OVER (PARTITION BY id, n) AS c FROM orders) GROUP BY c", "clip"),
        ("SELECT count(*) FROM (SELECT id FROM orders UNION SELECT id FROM people)", "single_row"),
        ("SELECT count(*) FROM (SELECT id FROM orders UNION ALL SELECT id FROM people)", "one_group"),
        ("SELECT count(*) FROM (SELECT id, age FROM people EXCEPT SELECT id, n FROM orders)", "single_row"),
    ],
)  # fmt: skip
def test_the_rule_follows_from_what_is_proved(db: dpsql.Connection, sql: str, expected: str) -> None:
    assert rule(db, sql) == expected


def test_a_row_number_leaves_so_many_rows(db: dpsql.Connection) -> None:
    numbered = (
        "SELECT sum(x) FROM (SELECT x, row_number() OVER (PARTITION BY id ORDER BY day) AS r FROM orders) WHERE r {}"
    )
    assert source(db, numbered.format("<= 3")).rows_per_unit == 3
    assert source(db, numbered.format("IN (1, 4)")).rows_per_unit == 2
    assert source(db, numbered.format("> 3")).rows_per_unit == 9
    assert source(db, numbered.format("<= 3 OR x > 1")).rows_per_unit == 9


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a UNION (SELECT 2 EXCEPT SELECT 1)",
        "SELECT 1 AS a UNION ALL (SELECT 2 UNION ALL SELECT 1 LIMIT 1)",
        "(SELECT 1 AS a UNION SELECT 2) INTERSECT SELECT 2",
        "SELECT 1 AS a UNION SELECT 2 INTERSECT SELECT 2",
        "SELECT 1 AS a EXCEPT (SELECT 1 EXCEPT SELECT 1)",
    ],
)
def test_brackets_above_the_aggregate_keep_their_meaning(db: dpsql.Connection, sql: str) -> None:
    assert sorted(db.query(sql).fetchall()) == sorted(duckdb.sql(sql).fetchall())


def test_nothing_after_a_bracket_is_overlooked(db: dpsql.Connection) -> None:
    error = refusal(db, "SELECT 1 AS a UNION ALL ((SELECT 2) LIMIT 0)")
    assert "after the closing bracket" in str(error)


def test_a_node_that_mixes_people_is_never_made(db: dpsql.Connection) -> None:
    orders, visits = source(db, "SELECT count(*) FROM orders"), source(db, "SELECT count(*) FROM visits")
    with pytest.raises(InternalError):
        union_all([visits, visits])
    with pytest.raises(InternalError):
        union_all([PublicScan(visits.fields, False, 1, False, "areas")] * 2)
    with pytest.raises(InternalError, match="rows that are units with others"):
        UnionAll(visits.fields[:1], True, 1, True, (visits, replace(orders, fields=orders.fields[:1])))
    with pytest.raises(InternalError):
        windowed(orders, [("w", WindowCall("row_number"))])
    with pytest.raises(InternalError):
        windowed(visits, [("w", WindowCall("row_number"))])
    with pytest.raises(InternalError):
        Frame("RANGE", -1, 0)


@pytest.mark.parametrize(
    ("over", "total"),
    [
        (WindowCall("row_number"), True),
        (WindowCall("lag"), True),
        (WindowCall("first_value"), True),
        (WindowCall("rank"), False),
        (WindowCall("cume_dist"), False),
        (WindowCall("sum"), False),
        (WindowCall("sum", frame=Frame("RANGE", None, 0)), False),
        (WindowCall("sum", frame=Frame("ROWS", None, 0)), True),
        (WindowCall("sum", frame=Frame("ROWS", -1, 1)), True),
    ],
)
def test_rows_that_are_equal_in_the_order_are_told_apart_where_that_shows(over: WindowCall, total: bool) -> None:
    assert over.total == total


@pytest.mark.parametrize(
    ("start", "end", "whole", "rows", "around"),
    [(None, None, True, None, True), (None, 0, False, None, True), (-2, 0, False, 3, True), (1, 3, False, 3, False),
     (-3, -1, False, 3, False), (0, 0, False, 1, True), (2, 1, False, 0, False), (-1, None, False, None, True)],
)  # fmt: skip
def test_how_many_rows_a_frame_has(
    start: int | None, end: int | None, whole: bool, rows: int | None, around: bool
) -> None:
    frame = Frame("ROWS", start, end)
    assert (frame.whole, frame.rows, frame.around) == (whole, rows, around)


@pytest.mark.parametrize("day", ["5881580-07-10", "5877642-06-25 (BC)", "2024-05-05"])
def test_a_date_that_no_timestamp_can_hold_is_null_in_a_union_and_no_error(day: str) -> None:
    data = duckdb.connect()
    data.execute(TABLES)
    data.execute(f"INSERT INTO orders VALUES (1, 1, 1, DATE '{day}', TIMESTAMP '2024-01-01', 1)")
    with dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True) as db:
        sql = "SELECT count(v) FROM (SELECT id, day AS v FROM orders UNION ALL SELECT id, stamp FROM orders)"
        [(count,)] = db.query(sql, epsilon=1_000).fetchall()
    assert abs(count - (82 if day.startswith("2024") else 81)) <= 1


@pytest.mark.parametrize("operation", ["INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "UNION"])
@pytest.mark.parametrize(
    ("one", "two", "kind"),
    [
        ("n", "x", "DOUBLE"),
        ("price", "x", "DOUBLE"),
        ("n", "price", "DECIMAL(18,2)"),
        ("day", "stamp", "TIMESTAMP"),
        ("n", "n", "BIGINT"),
    ],
)
def test_every_set_operation_reads_its_columns_in_the_common_type(
    db: dpsql.Connection, operation: str, one: str, two: str, kind: str
) -> None:
    both = f"SELECT id, {one} AS v FROM orders {operation} SELECT id, {two} FROM orders"
    assert db.describe(f"SELECT max(v) FROM ({both})")[1] == (kind,)


@pytest.mark.parametrize(
    ("dialect", "over", "refused"),
    [
        (DUCKDB, WindowCall("lag", ignore_nulls=True), False),
        (DUCKDB, WindowCall("count", aggregate=DIFFERENT), False),
        (Postgres(), WindowCall("lag"), False),
        (Postgres(), WindowCall("lag", ignore_nulls=True), True),
        (Postgres(), WindowCall("count", aggregate=DIFFERENT), True),
        (SPARK, WindowCall("lag", ignore_nulls=True), False),
        (SPARK, WindowCall("count", aggregate=DIFFERENT), True),
    ],
)
def test_a_window_that_an_engine_has_no_words_for_is_refused(dialect: Dialect, over: WindowCall, refused: bool) -> None:
    with pytest.raises(UnsupportedQuery, match="not computed by this database") if refused else nullcontext():
        _check(over, dialect)


@pytest.mark.parametrize(
    "function", ["ntile(4)", "row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
)
def test_a_number_of_a_row_is_never_null(db: dpsql.Connection, function: str) -> None:
    made = source(db, f"SELECT sum(w) FROM (SELECT id, {function} OVER (PARTITION BY id ORDER BY n) AS w FROM orders)")
    assert isinstance(made, Windowed)
    assert [made.field(name).domain.nullable for name, _ in made.calls] == [False]


def test_a_count_of_a_units_rows_has_a_hard_range_that_no_table_leaves() -> None:
    assert aggregate_type(Aggregate("count", None), Domain()) == integer(0, 2**62)
