"""A list of values that is certain to have each once is not grouped where that is slow."""

from __future__ import annotations

import pytest

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.keys import lookup
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DATE, DOUBLE, TEXT, Kind, Type

WHOLE = Type(Kind.INTEGER, -(2**31), 2**31 - 1)


@pytest.mark.parametrize(("values", "type_"), [(["a", "b", "é"], TEXT), ([], TEXT), ([3, 1, 2], WHOLE)])
def test_texts_and_whole_numbers_that_differ_are_listed_as_they_are(values: list[Value], type_: Type) -> None:
    assert "GROUP BY" not in lookup(SPARK, values, type_)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a", "b", "a"], TEXT),
        (["\ud800", "\udfff"], TEXT),
        ([1, 2, 1], WHOLE),
        ([0.0, -0.0], DOUBLE),
        ([1.0, 2.0], DOUBLE),
        ([], DATE),
    ],
)
def test_all_others_are_grouped_so_that_no_row_is_found_twice(values: list[Value], type_: Type) -> None:
    assert lookup(SPARK, values, type_).endswith("GROUP BY v)")


def test_where_grouping_is_cheap_it_is_always_done() -> None:
    assert lookup(DUCKDB, ["a", "b"], TEXT).endswith("GROUP BY v)")
