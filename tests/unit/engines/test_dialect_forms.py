"""What every dialect shares, and DuckDB's own words: constants, casts of stored columns, and what has no SQL."""

from __future__ import annotations

import math
from decimal import Decimal

import duckdb
import pytest

from dpsql.engines.duckdb.dialect import DUCKDB, DuckDB
from dpsql.engines.postgres.dialect import Postgres
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, TEXT, Type, integer

X = Column(integer(0, 9), name="x")


def eq(one: Expression, two: Expression) -> Call:
    return Call(BOOLEAN, op="eq", args=(one, two))


@pytest.mark.parametrize("type_", [BIGINT, TEXT, DATE, DOUBLE, BOOLEAN])
def test_nothing_is_written_as_null_of_the_wanted_type(type_: Type) -> None:
    name = {BIGINT: "BIGINT", TEXT: "VARCHAR", DATE: "DATE", DOUBLE: "DOUBLE", BOOLEAN: "BOOLEAN"}[type_]
    assert DUCKDB.literal(None, type_) == f"CAST(NULL AS {name})"
    assert DUCKDB.sql(Literal(type_, value=None), DUCKDB.quote) == f"CAST(NULL AS {name})"


def test_a_null_beside_a_number_has_the_type_in_which_both_are_compared() -> None:
    wide = Column(BIGINT, name="y")
    assert (
        DUCKDB.sql(eq(wide, Literal(integer(0, 9), value=None)), DUCKDB.quote)
        == '(CAST("y" AS BIGINT) = CAST(NULL AS BIGINT))'
    )
    assert (
        DUCKDB.sql(eq(wide, Column(NULL, name="nothing")), DUCKDB.quote)
        == '(CAST("y" AS BIGINT) = CAST(NULL AS BIGINT))'
    )


def test_a_constant_of_another_kind_than_its_type_is_an_error() -> None:
    for value, type_ in (("x", BIGINT), (1, TEXT), (1.5, BIGINT), (1, DATE)):
        with pytest.raises(InternalError, match="no literal"):
            DUCKDB.literal(value, type_)


def test_what_is_no_operation_of_the_engine_is_refused() -> None:
    with pytest.raises(InternalError, match="no SQL"):
        DUCKDB.sql(Expression(BIGINT), DUCKDB.quote)
    with pytest.raises(UnsupportedQuery, match="NONSENSE is not computed by this database"):
        DUCKDB.sql(Call(BIGINT, op="nonsense", args=(X,)), DUCKDB.quote)


class Long(DuckDB):
    """An operation whose SQL is as long as its option says."""

    def rule(self, node: Call) -> Rule | None:
        def written(call: Call, emit: Emit) -> str:
            return "x" * int(str(call.option))

        return written


def test_sql_of_half_a_million_letters_is_written_and_longer_is_refused() -> None:
    assert len(Long().sql(Call(TEXT, op="long", args=(X,), option=500_000), DUCKDB.quote)) == 500_000
    with pytest.raises(UnsupportedQuery, match="nested too deeply"):
        Long().sql(Call(TEXT, op="long", args=(X,), option=500_001), DUCKDB.quote)


def test_an_engine_without_copies_says_so() -> None:
    with pytest.raises(InternalError, match="no prepared copies"):
        Postgres().copied("t", "within")
    assert DUCKDB.copied('O"rders', "over") == 'dpsql_prepared.over."o""rders"'


def test_a_total_adds_up_all_rows_or_different_values() -> None:
    asked = f"SELECT {DUCKDB.total('v')}, {DUCKDB.total('v', distinct=True)} FROM (VALUES (5), (5), (7)) AS t(v)"
    assert duckdb.sql(asked).fetchall() == [(17, 12)]
    running = f"SELECT {DUCKDB.total('v', ' OVER (ORDER BY v)')} FROM (VALUES (5), (7)) AS t(v)"
    assert sorted(duckdb.sql(running).fetchall()) == [(5,), (12,)]


CAN = {
    "ignores_nulls": "SELECT last_value(v IGNORE NULLS) OVER (ORDER BY v) FROM t",
    "windows_of_different": "SELECT count(DISTINCT v) OVER () FROM t",
    "full_joins_by_any": "SELECT 1 FROM t FULL JOIN t AS s ON t.v < s.v",
}


@pytest.mark.parametrize("word", CAN)
def test_what_duckdb_is_said_to_have_it_has(word: str) -> None:
    assert getattr(DUCKDB, word) is True is getattr(Dialect, word)
    duckdb.sql(f"WITH t AS (SELECT 1 AS v) {CAN[word]}").fetchall()


def test_words_that_pass_over_null_stand_inside_the_brackets_and_scans_are_by_piece_in_duckdb_only() -> None:
    assert not DUCKDB.ignores_nulls_behind
    assert DUCKDB.scans_by_piece and not Dialect.scans_by_piece and not Postgres().scans_by_piece


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.1, 0.1), (-0.0, 0.0), (5, 5.0), (Decimal("-2.5"), -2.5), (10**400, math.inf), (-(10**400), -math.inf),
        (math.inf, math.inf), (-math.inf, -math.inf), (5e-324, 5e-324), (1.7976931348623157e308, 1.7976931348623157e308),
    ],
)  # fmt: skip
def test_a_number_with_a_binary_point_comes_back_as_it_is_and_beyond_its_range_as_infinity(
    value: float | Decimal, wanted: float
) -> None:
    text = DUCKDB.double(value)
    assert duckdb.sql(f"SELECT {text}, typeof({text})").fetchall() == [(wanted, "DOUBLE")]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("DOUBLE", '"x"'),
        ("double", '"x"'),
        ("FLOAT", 'TRY_CAST("x" AS DOUBLE)'),
        ("TIMESTAMP", '"x"'),
        ("TIMESTAMP_S", 'TRY_CAST("x" AS TIMESTAMP)'),
        ("TIMESTAMP WITH TIME ZONE", 'TRY_CAST("x" AS TIMESTAMP)'),
        ("VARCHAR", '("x" COLLATE "C")'),
        ("UUID", '(TRY_CAST("x" AS VARCHAR) COLLATE "C")'),
        ("ENUM('a')", '(TRY_CAST("x" AS VARCHAR) COLLATE "C")'),
        ("INTEGER", '"x"'),
        ("DATE", '"x"'),
        ("BOOLEAN", '"x"'),
        ("BLOB", '"x"'),
    ],
)
def test_a_stored_column_is_read_in_the_type_that_is_computed_with(stored: str, wanted: str) -> None:
    assert DUCKDB.read('"x"', stored) == wanted
