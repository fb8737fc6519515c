"""No text that a function gives is longer than the limit, whatever is stored: letters have up to four bytes."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.text_rules import SHORT, limited
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import TEXT

LIMIT = 400
STORED = [
    "",
    "a",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "a" * 399,
    "a" * 400,
    "a" * 401,
    "🤦" * 99,
    "🤦" * 100,
    "🤦" * 101,
    "🤦" * 134,
]


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(TEXT, name=node.name)


COUNTS = [0, 1, 99, 100, 101, 133, 134, 400, 401]
CUT = [f"{side}(a, {count})" for side in ("left", "right") for count in [*COUNTS, -1]]
CUT += [f"substring(a, 1, {count})" for count in COUNTS] + [f"substring(a, {start})" for start in COUNTS[1:]]


@pytest.mark.parametrize("form", [*CUT, "a", "trim(a)", "lower(a)", "a || a", "replace(a, 'a', 'bcd')"])
def test_what_is_too_long_is_null(form: str) -> None:
    node = convert(sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").selects[0], Row())

    def emit(child: Expression, wanted: str) -> str:
        return DUCKDB.sql(child, DUCKDB.quote)

    made = limited(node, emit, LIMIT)
    rows = ", ".join(f"('{text}')" for text in STORED)
    asked = f"SELECT a, strlen({made}), {made} = {form}, strlen({form}) FROM (VALUES {rows}) AS t(a)"
    for stored, size, same, full in duckdb.sql(asked).fetchall():
        assert size is None or size <= LIMIT
        assert same or (size is None and max(len(stored.encode()) * 2, full) > LIMIT // 3), "short texts stay"


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("form", ["left(a, {})", "right(a, {})", "substring(a, 2, {})"])
def test_so_few_letters_cannot_be_too_long_and_are_not_measured(form: str, count: int) -> None:
    node = convert(sqlglot.parse_one(f"SELECT {form.format(count)}", dialect="duckdb").selects[0], Row())
    made = limited(node, lambda child, wanted: DUCKDB.sql(child, DUCKDB.quote), LIMIT)
    assert ("CASE" in made) == (count * 4 > LIMIT)


def test_a_share_of_a_few_bytes_is_refused() -> None:
    node = Column(TEXT, name="a")
    with pytest.raises(UnsupportedQuery, match="too long"):
        limited(node, lambda child, wanted: "a", SHORT - 1)
    assert limited(node, lambda child, wanted: "a", SHORT) == f"CASE WHEN strlen(a) <= {SHORT} THEN a END"
