"""The price in SQL: hints and settings are read exactly, or refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

import dpsql
from dpsql.options import QueryOptions
from dpsql.sql import read_hints, read_setting


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT count(*) FROM t", QueryOptions()),
        ("SELECT /*+ epsilon(0.2) */ count(*) FROM t", QueryOptions(Decimal("0.2"))),
        ("/*+ epsilon(0.2) */ SELECT count(*) FROM t", QueryOptions(Decimal("0.2"))),
        ("SELECT count(*) FROM t /*+ EPSILON( 0.2 ), delta(1e-8)*/", QueryOptions(Decimal("0.2"), Decimal("1e-8"))),
        ("-- BI tool\nWITH a AS (SELECT /*+ mechanism(Laplace) */ 1) SELECT 1 /*+ epsilon(1) */", QueryOptions(Decimal(1), None, "laplace")),
        ("SELECT /*+ epsilon(0.2) */ 1 /*+ epsilon(0.20) */", QueryOptions(Decimal("0.20"))),
        ("SELECT '/*+ epsilon(9) */', \"/*+ nonsense */\" FROM t -- /*+ epsilon(8) */", QueryOptions()),
        ("SELECT 1 --+-----+\n", QueryOptions()),
        ("SELECT /* + epsilon(0.2) */ 1", QueryOptions()),
        ("SELECT /*+ */ 1", QueryOptions()),
    ],
)  # fmt: skip
def test_hints_are_read_wherever_they_stand(sql: str, asked: QueryOptions) -> None:
    assert read_hints(sql) == asked


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("epsilon 0.2", "could not be parsed"),
        ("epsilon(0.2", "could not be parsed"),
        ("epsilon(0.2) and more", "could not be parsed"),
        ("epsilon()", "could not be parsed"),
        ("epsilon(much)", "is a number, not much"),
        ("parallel(4)", "no setting parallel"),
        ("mechanism(none)", "no mechanism none"),
        ("epsilon(0.2) epsilon(0.3)", "two values"),
    ],
)
def test_a_hint_that_cannot_be_read_is_refused_and_marked(hint: str, said: str) -> None:
    sql = f"SELECT /*+ {hint} */ count(*) FROM t"
    with pytest.raises(dpsql.ParseError, match=said) as caught:
        read_hints(sql)
    assert caught.value.span is not None
    assert sql[caught.value.span.start : caught.value.span.end] == f"/*+ {hint} */"
    assert caught.value.hint


NOW = QueryOptions(Decimal(1), Decimal(0), "laplace")


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        ("SET dpsql.epsilon = 0.2", QueryOptions(Decimal("0.2"), Decimal(0), "laplace")),
        ("  set session DPSQL.Epsilon TO '0.2' ;\n", QueryOptions(Decimal("0.2"), Decimal(0), "laplace")),
        ("/* tool */ -- two\nSET dpsql.delta=1e-8", QueryOptions(Decimal(1), Decimal("1e-8"), "laplace")),
        ("SET dpsql.mechanism = gaussian", QueryOptions(Decimal(1), Decimal(0), "gaussian")),
        ("SET dpsql.mechanism TO DEFAULT", QueryOptions(Decimal(1), Decimal(0))),
        ("RESET dpsql.epsilon", QueryOptions(None, Decimal(0), "laplace")),
        ("reset all;", QueryOptions()),
        ("SELECT 1", None),
        ("SET threads = 1", None),
        ("SELECT 'SET dpsql.epsilon = 1'", None),
        ("SET dpsql_epsilon = 3", None),
    ],
)
def test_settings_are_taken_in(sql: str, after: QueryOptions | None) -> None:
    assert read_setting(sql, NOW) == after


@pytest.mark.parametrize(
    "sql",
    ["SET dpsql.epsilon", "SET dpsql.epsilon = ", "SET dpsql.noise = 0", "SET dpsql.epsilon = 1; SELECT 1", "RESET dpsql.x",
     "SET LOCAL dpsql.epsilon = 1", "SET dpsql.epsilon = much", "SET dpsql.mechanism = none"],
)  # fmt: skip
def test_a_setting_that_cannot_be_read_is_refused_with_what_there_is(sql: str) -> None:
    with pytest.raises(dpsql.ParseError) as caught:
        read_setting(sql, NOW)
    assert "dpsql.epsilon" in str(caught.value.hint) or "laplace" in str(caught.value.hint)


def test_many_comments_before_a_statement_are_passed_over_in_linear_time() -> None:
    assert read_setting("/* a */" * 20_000 + "x", NOW) is None
