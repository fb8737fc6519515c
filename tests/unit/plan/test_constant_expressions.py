"""Constant expressions become the literals that DuckDB computes, where a constant must stand."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one

from dpsql.answers.finish import Finisher
from dpsql.engines.base import PublicRows
from dpsql.plan.constant_expressions import compute_constants


def _none(table: str) -> PublicRows:
    raise AssertionError(table)


FINISHER = Finisher(_none)


def computed(sql: str) -> str:
    tree = parse_one(sql, dialect="duckdb")
    assert isinstance(tree, exp.Query)
    return compute_constants(tree, FINISHER.constants).sql("duckdb")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("x IN (1999, 1999 + 1)", "x IN (1999, 2000)"),
        ("x IN (-(2 + 3), 2 ** 3)", "x IN ((-5), 8.0e0)"),
        ("x IN (10 / 4, 0.1 + 0.2)", "x IN (2.5e0, CAST(0.3 AS DECIMAL(3, 1)))"),
        ("x IN (3000000000 + 1)", "x IN (3000000001)"),
        ("x IN (upper('a') || 'b')", "x IN ('Ab')"),
        ("x < DATE '2024-01-31' + INTERVAL '1' MONTH", "x < CAST('2024-02-29 00:00:00' AS TIMESTAMP)"),
        ("x < y - INTERVAL '1 month 2 days'", "x < y - INTERVAL '1 months 2 days 0 microseconds'"),
        ("x < y - 2 * INTERVAL 1 WEEK", "x < y - INTERVAL '0 months 14 days 0 microseconds'"),
        ("round(x, 1 + 1) = 1", "ROUND(x, 2) = 1"),
        ("x IN (strptime('2024-05', '%Y-%m'))", "x IN (CAST('2024-05-01 00:00:00' AS TIMESTAMP))"),
    ],
)
def test_a_constant_is_computed_where_it_must_be_one(written: str, expected: str) -> None:
    assert computed(f"SELECT 1 FROM t WHERE {written}") == f"SELECT 1 FROM t WHERE {expected}"


@pytest.mark.parametrize(
    "written",
    [
        "SELECT 1 FROM t WHERE x > 1 + 1 AND y = -(2)",
        "SELECT x FROM t GROUP BY 1 + 1 ORDER BY 1 + 1",
        "SELECT 1 FROM t WHERE x IN (1 // 0, CAST('a' AS INT) + 1, NULL + 1)",
        "SELECT 1 FROM t WHERE x IN (1e308 * 10)",
        "SELECT 1 FROM t WHERE x IN (a + 1, (SELECT 1) + 1)",
        "SELECT 1 FROM t WHERE x IN (RANDOM() + 1, some_function(2) + 1)",
        "SELECT 1 FROM t WHERE x > y - INTERVAL '3' MONTH AND z < CAST('2024-01-01' AS DATE)",
    ],
)
def test_what_need_not_be_a_literal_or_has_no_value_stays(written: str) -> None:
    tree = parse_one(written, dialect="duckdb")
    assert computed(written) == tree.sql("duckdb")


def test_limits_and_titles() -> None:
    assert computed("SELECT x FROM t LIMIT 5 + 5 OFFSET 2 * 3") == "SELECT x FROM t LIMIT 10 OFFSET 6"
    assert computed("SELECT round(x, 1 + 1) FROM t") == 'SELECT ROUND(x, 2) AS "round(x, 1 + 1)" FROM t'


@pytest.mark.parametrize(
    "interval",
    ["INTERVAL '14 months -3 days 05:03:02.5'", "3 * INTERVAL '-1 hour'", "INTERVAL '1 year' - INTERVAL '90 days'"],
)
def test_an_interval_keeps_its_months_days_and_microseconds(interval: str) -> None:
    made = computed(f"SELECT x + {interval} AS y FROM t").partition(" + ")[2].partition(" AS ")[0]
    [(same,)] = duckdb.sql(f"SELECT ({made}) = ({interval})").fetchall()
    assert same and made != interval
