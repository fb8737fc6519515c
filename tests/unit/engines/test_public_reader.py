"""What the planner is told of public tables: their values and ends, and nothing where Python cannot read them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.bounds.domain import number, of_type
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.public_tables import LISTED, PublicReader
from dpsql.expressions.expression import Column
from dpsql.expressions.types import from_engine
from dpsql.plan.nodes.relation import Field, PublicScan


def reader(type_: str, *values: str) -> PublicReader:
    data = duckdb.connect()
    data.execute(f"CREATE TABLE p (v {type_})")
    for value in values:
        data.execute(f"INSERT INTO p VALUES ({value})")
    site = Site({"p": {"v": type_}}, DUCKDB)
    return PublicReader(lambda text: data.execute(text).fetchall(), frozenset, site, lasting=True)


@pytest.mark.parametrize(
    ("type_", "values", "low", "high", "nullable", "nan"),
    [
        ("INTEGER", ["3", "-7"], -7, 3, False, False),
        ("HUGEINT", ["170141183460469231731687303715884105727", "NULL"], 2**127 - 1, 2**127 - 1, True, False),
        ("DECIMAL(9,2)", ["1.25", "NULL"], Decimal("1.25"), Decimal("1.25"), True, False),
        ("DOUBLE", ["1.5", "2.5"], 1.5, 2.5, False, False),
        ("DATE", ["'2024-01-01'", "'9999-12-30'"], number(date(2024, 1, 1)), number(date(9999, 12, 30)), False, False),
        ("TIMESTAMP", ["'2024-01-01'", "NULL"], *[number(datetime(2024, 1, 1))] * 2, True, False),
        ("INTEGER", [], None, None, False, False),
        ("DATE", ["NULL"], None, None, True, False),
    ],
)  # fmt: skip
def test_the_ends_of_a_column(
    type_: str, values: list[str], low: object, high: object, nullable: bool, nan: bool
) -> None:
    found = reader(type_, *values).domains("p", ["v"])["v"]
    assert (found.lower, found.upper, found.nullable, found.nan) == (low, high, nullable, nan)
    assert found.origin == ("public table p",)


UNREADABLE = [
    ("DOUBLE", "'nan'"), ("DOUBLE", "'inf'"), ("DOUBLE", "'-inf'"),
    ("DATE", "'infinity'"), ("DATE", "'-infinity'"), ("DATE", "'5881580-07-10'"), ("DATE", "'0044-03-15 (BC)'"),
    ("TIMESTAMP", "'infinity'"), ("TIMESTAMP", "'-infinity'"), ("TIMESTAMP", "'294247-01-10 04:00:54.775806'"),
    ("TIMESTAMP", "'290309-12-22 (BC) 00:00:00'"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value"), UNREADABLE)
def test_a_value_that_has_no_place_on_its_axis_leaves_the_column_to_its_type(type_: str, value: str) -> None:
    known = from_engine(type_)
    assert known is not None
    asked, ordinary = reader(type_, value, "1" if type_ == "DOUBLE" else "'2024-01-01'"), Column(known, name="v")
    assert asked.domains("p", ["v"])["v"] == of_type(known)
    scan = PublicScan((Field("v", known, of_type(known)),), False, 1, False, "p")
    assert asked.values(scan, ordinary, 10) is None


@pytest.mark.parametrize("type_", ["INTEGER", "DATE", "VARCHAR"])
def test_what_cannot_be_read_at_all_is_known_by_its_type(type_: str) -> None:
    known = from_engine(type_)
    assert known is not None
    broken = PublicReader(lambda text: None, frozenset, Site({"p": {"v": type_}}, DUCKDB), lasting=True)
    assert broken.domains("p", ["v"])["v"] == of_type(known)
    assert not broken.unique("p", frozenset({"v"}))


@pytest.mark.parametrize("over", [0, 1])
def test_so_many_texts_are_listed(over: int) -> None:
    assert LISTED == 64
    found = reader("VARCHAR", *(f"'v{i:02}'" for i in range(64 + over)), "'v00'").domains("p", ["v"])["v"]
    assert found.values == (None if over else tuple(f"v{i:02}" for i in range(64)))


@pytest.mark.parametrize(
    ("values", "lasting", "unique"),
    [
        (["1", "2", "NULL", "NULL"], True, True),
        (["1", "1"], True, False),
        (["1", "2"], False, False),
        ([], True, True),
    ],
)
def test_a_column_is_unique_if_no_value_occurs_twice_and_nobody_can_write(
    values: list[str], lasting: bool, unique: bool
) -> None:
    asked = reader("INTEGER", *values)
    asked._lasting = lasting
    assert asked.unique("P", frozenset({"v"})) == unique
    assert not asked.unique("p", frozenset())


@pytest.mark.parametrize(("type_", "value"), UNREADABLE)
def test_a_private_table_can_be_joined_with_such_a_column(type_: str, value: str) -> None:
    data = duckdb.connect()
    data.execute(f"CREATE TABLE p AS SELECT 1 AS k, {value}::{type_} AS v")
    data.execute("CREATE TABLE t AS SELECT range AS u, 1 AS k FROM range(2000)")
    tables: dict[str, Any] = {"p": {"public": True}, "t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"k": {}}}}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 9, "delta": 1e-6}, "tables": tables}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as db:
        ordinary = "1e9" if type_ == "DOUBLE" else "DATE '2024-01-01'"
        sql = f"SELECT count(*) FROM t JOIN p USING (k) WHERE v IS NOT NULL AND v <> {ordinary}"
        [(found,)] = db.query(sql, epsilon=1).fetchall()
        assert abs(found - 2000) < 200


# what is asked, and how often --------------------------------------------------------------------------------------------


def asked_of(rows: str, **keys: list[str]) -> tuple[PublicReader, list[str]]:
    """A reader of `p (v INTEGER, w VARCHAR, b BOOLEAN)`, with keys by table, and what it asked."""
    data = duckdb.connect()
    data.execute("CREATE TABLE p (v INTEGER, w VARCHAR, b BOOLEAN)")
    data.execute(f"INSERT INTO p VALUES {rows}")
    asked: list[str] = []

    def run(text: str) -> list[Any]:
        asked.append(text)
        return data.execute(text).fetchall()

    known = frozenset((table, frozenset(key.split())) for table, listed in keys.items() for key in listed)
    site = Site({"p": {"v": "INTEGER", "w": "VARCHAR", "b": "BOOLEAN"}}, DUCKDB)
    return PublicReader(run, lambda: known, site, lasting=False), asked


@pytest.mark.parametrize(
    ("columns", "unique"),
    [("v", True), ("v w", True), ("V", True), ("w", False), ("b", False), ("w b", True), ("", False)],
)
def test_columns_that_hold_a_key_of_their_own_table_are_unique_and_no_row_is_read(columns: str, unique: bool) -> None:
    reader_, asked = asked_of("(1, 'a', true)", p=["v", "b w"], other=["w"])
    assert reader_.unique("P", frozenset(columns.split())) == unique and asked == []


@pytest.mark.parametrize(("rows", "unique"), [("(1, 'a', true), (1, 'b', true)", True), ("(1, 'a', true), (1, 'a', true)", False),
                                              ("(1, NULL, true), (1, NULL, true)", True), ("(NULL, 'a', true), (NULL, 'a', true)", True)])  # fmt: skip
def test_rows_are_counted_where_nobody_can_write_and_null_is_equal_to_nothing(rows: str, unique: bool) -> None:
    reader_, asked = asked_of(rows)
    reader_._lasting = True
    for _ in range(2):
        assert reader_.unique("p", frozenset({"v", "w"})) == unique
    assert len(asked) == 1
    reader_.forget()
    assert reader_.unique("p", frozenset({"v", "w"})) == unique and len(asked) == 2


def test_a_column_is_read_once_and_again_after_it_was_forgotten() -> None:
    reader_, asked = asked_of("(1, 'b', true), (3, 'a', true), (3, 'a', true), (2, NULL, true)")
    for _ in range(2):
        found = reader_.domains("p", ["v", "w", "b"])
    assert len(asked) == 3 and (found["v"].lower, found["v"].upper, found["v"].nullable) == (1, 3, False)
    assert (found["w"].values, found["w"].nullable) == (("a", "b"), True)
    assert (found["b"].values, found["b"].nullable) == ((True,), False)
    reader_.forget()
    assert reader_.domains("P", ["w"])["w"].values == ("a", "b") and len(asked) == 4


@pytest.mark.parametrize(("most", "there"), [(4, True), (3, True), (2, False), (1, False)])
def test_the_values_of_an_expression_are_listed_once_each_if_they_are_few_enough(most: int, there: bool) -> None:
    reader_, asked = asked_of("(1, 'b', true), (3, 'a', true), (3, 'a', true), (NULL, NULL, true)")
    known = from_engine("INTEGER")
    assert known is not None
    scan = PublicScan((Field("v", known, of_type(known)),), False, 1, False, "p")
    for _ in range(2):
        found = reader_.values(scan, Column(known, name="v"), most)
        assert (found is not None) == there
        assert found is None or (found.values, found.nullable, found.origin) == ((1, 3), True, ("public tables",))
    assert len(asked) == 1
