"""The type in which a value is written holds every value of its hard range, and no narrower one does."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.engines.sql.sql_types import as_decimal, physical, shared, whole
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, NULL, TEXT, TIMESTAMP, Kind, Type, integer

WHOLE = ["INTEGER", "BIGINT", "HUGEINT"]
EDGES = [0, 1, -1, *(sign * 2**bits + step for bits in (31, 63) for sign in (-1, 1) for step in (-1, 0, 1))]


def fits(value: int, type_: str) -> bool:
    return bool(duckdb.execute(f"SELECT TRY_CAST('{value}' AS {type_}) IS NOT NULL").fetchall()[0][0])


@pytest.mark.parametrize("one", EDGES)
def test_a_whole_number_has_the_narrowest_type_that_holds_both_its_ends(one: int) -> None:
    held = {end: {name for name in WHOLE if fits(end, name)} for end in EDGES}
    for two in EDGES:
        wanted = next(name for name in WHOLE if name in held[one] & held[two])
        assert whole(one, two) == whole(two, one) == whole(0, two, one) == wanted
        assert physical(integer(min(one, two), max(one, two))) == wanted


@pytest.mark.parametrize(
    ("lower", "upper", "scale", "wanted"),
    [
        (0, 0, 0, "DECIMAL(1,0)"),
        (0, 9, 1, "DECIMAL(1,1)"),
        (0, 10, 1, "DECIMAL(2,1)"),
        (-10, 9, 1, "DECIMAL(2,1)"),
        (-9, 100, 1, "DECIMAL(3,1)"),
        (0, 1, 4, "DECIMAL(4,4)"),
        (-999, 999, 2, "DECIMAL(3,2)"),
        (0, 10**38 - 1, 2, "DECIMAL(38,2)"),
        (-(10**38) + 1, 0, 0, "DECIMAL(38,0)"),
        (0, 10**38, 2, "DOUBLE"),
        (-(10**38), 0, 2, "DOUBLE"),
    ],
)
def test_an_exact_number_has_the_narrowest_decimal_and_none_beyond_38_digits(
    lower: int, upper: int, scale: int, wanted: str
) -> None:
    type_ = Type(Kind.DECIMAL, lower, upper, scale)
    assert as_decimal(type_) == physical(type_) == wanted


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        (BOOLEAN, "BOOLEAN"),
        (DOUBLE, "DOUBLE"),
        (TEXT, "VARCHAR"),
        (DATE, "DATE"),
        (TIMESTAMP, "TIMESTAMP"),
        (NULL, "INTEGER"),
    ],
)
def test_other_values_have_one_type_each_alone_and_beside_null(type_: Type, wanted: str) -> None:
    assert physical(type_) == shared([type_]) == shared([type_, type_]) == shared([NULL, type_]) == wanted
    assert shared([type_, NULL]) == wanted


CENTS = Type(Kind.DECIMAL, -999, 999, 2)


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        ([], "INTEGER"),
        ([NULL, NULL], "INTEGER"),
        ([DATE, TIMESTAMP], "TIMESTAMP"),
        ([DATE, DATE, NULL], "DATE"),
        ([integer(0, 9), DOUBLE], "DOUBLE"),
        ([CENTS, DOUBLE], "DOUBLE"),
        ([integer(0, 9), integer(-(2**31), 0)], "INTEGER"),
        ([integer(0, 9), integer(0, 2**31)], "BIGINT"),
        ([integer(-(2**63), 0), integer(0, 2**63)], "HUGEINT"),
        ([CENTS, integer(0, 9)], "DECIMAL(3,2)"),
        ([CENTS, integer(0, 10)], "DECIMAL(4,2)"),
        ([CENTS, integer(-10, 0)], "DECIMAL(4,2)"),
        ([integer(0, 10), CENTS, NULL], "DECIMAL(4,2)"),
        ([CENTS, Type(Kind.DECIMAL, 0, 1, 4)], "DECIMAL(5,4)"),
        ([Type(Kind.DECIMAL, 0, 9, 1), Type(Kind.DECIMAL, -99, 0, 1)], "DECIMAL(2,1)"),
        ([CENTS, integer(0, 10**36 - 1)], "DECIMAL(38,2)"),
        ([CENTS, integer(0, 10**36)], "DOUBLE"),
    ],
)
def test_values_are_compared_in_a_type_that_holds_all_of_both(types: list[Type], wanted: str) -> None:
    assert shared(types) == shared(types[::-1]) == wanted
