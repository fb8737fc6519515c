"""Functions of the table as SQL: each argument in its parameter's type, moments guarded, and long texts NULL."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.function_rules import listed
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.functions.function import Elsewhere
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import BIGINT, DATE, TEXT, TIMESTAMP

TYPES = {"d": DATE, "t": TIMESTAMP, "n": BIGINT}


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(TYPES.get(node.name, TEXT), name=node.name)


def emitted(text: str) -> str:
    return DUCKDB.sql(convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row()), DUCKDB.quote)


@pytest.mark.parametrize("sizes", [(256, 1), (257, 1), (1, 256), (1, 257)])
def test_texts_are_compared_letter_by_letter_up_to_256_bytes_and_longer_ones_are_null(sizes: tuple[int, int]) -> None:
    source = f"(SELECT repeat('x', {sizes[0]}) AS a, repeat('y', {sizes[1]}) AS b)"
    [(found, wanted)] = duckdb.sql(f"SELECT {emitted('levenshtein(a, b)')}, levenshtein(a, b) FROM {source}").fetchall()
    assert found == (wanted if max(sizes) <= 256 else None)


@pytest.mark.parametrize(
    "text", ["epoch_ns({})", "dayname({})", "monthname({})", "last_day({})", "epoch({})", "epoch_ms({})", "julian({})"]
)
def test_moments_are_guarded_and_handed_over_in_the_type_that_the_function_takes(text: str) -> None:
    """Of extreme moments nothing raises; of ordinary ones the function says what it says of the timestamp."""
    for column, type_ in (("d", "DATE"), ("t", "TIMESTAMP")):
        made = emitted(text.format(column))
        values = ["'2024-02-29'", "'1969-12-31'", "'infinity'", "'-infinity'", "'290000-01-01'", "NULL"]
        rows = ", ".join(f"({value}::{type_})" for value in values)
        found = duckdb.sql(f"SELECT {made} FROM (VALUES {rows}) AS r({column})").fetchall()
        plain = [duckdb.sql(f"SELECT {text.format(f'{value}::{type_}::TIMESTAMP' if 'epoch' in text else f'{value}::{type_}')}").fetchall()[0] for value in values[:2]]  # fmt: skip
        assert found[:2] == plain and found[5] == (None,)
        assert "BETWEEN" in made
        assert ("TRY_CAST" in made) == (column == "d" and text.startswith("epoch_ns"))


def test_a_line_of_the_table_has_its_form_there_unless_it_is_elsewhere_or_none() -> None:
    for name, function in FUNCTIONS.items():
        plain = bool(function.takes or function.gives) and not isinstance(function.sql, Elsewhere)
        assert (listed(Call(TEXT, op=name)) is function) == plain
    assert listed(Call(TEXT, op="nonsense")) is None


def test_whole_numbers_and_moments_come_back_in_the_type_of_the_call() -> None:
    assert emitted("levenshtein(a, b)").startswith("CAST(levenshtein(")
    assert emitted("reverse(a)") == 'reverse(CAST("a" AS VARCHAR))'
