"""Which queries have no rows on any data, by their text alone."""

from __future__ import annotations

import pytest
import sqlglot

from dpsql.plan.builder.queries_without_data import is_probe


@pytest.mark.parametrize(
    ("rest", "probe"),
    [
        ("LIMIT 0", True),
        ("LIMIT 1", False),
        ("WHERE false", True),
        ("WHERE true", False),
        ("WHERE 1 = 0", True),
        ("WHERE 1 <> 1", True),
        ("WHERE 1 = 1.0", False),
        ("WHERE 1 <> 1.0", True),
        ("WHERE 'a' = 'b'", True),
        ("WHERE 'a' = 'a'", False),
        ("WHERE 1 = '1'", False),
        ("WHERE 1 = '2'", False),
        ("WHERE x = 1", False),
        ("WHERE x > 3 AND (1 = 0)", True),
        ("WHERE x > 3 OR 1 = 0", False),
        ("WHERE 1 = 0 GROUP BY x", True),
        ("WHERE 1 = 0 GROUP BY ROLLUP (x)", False),
    ],
)
def test_a_query_has_no_rows_if_its_constants_say_so(rest: str, probe: bool) -> None:
    assert is_probe(sqlglot.parse_one(f"SELECT x FROM t {rest}", dialect="duckdb")) == probe


def test_an_aggregate_of_no_rows_is_one_row() -> None:
    assert not is_probe(sqlglot.parse_one("SELECT count(*) FROM t WHERE 1 = 0", dialect="duckdb"))
    assert is_probe(sqlglot.parse_one("SELECT count(*) FROM t LIMIT 0", dialect="duckdb"))
