"""Placeholders become literals before parsing: every style, every type, and nothing that a value could say."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.sql import parse_query


def bound(sql: str, parameters: Any = None) -> str:
    return parse_query(sql, parameters).sql("duckdb")


def refusal(sql: str, parameters: Any = None) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        parse_query(sql, parameters)
    caught.value.sql = sql
    return caught.value


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT count(*) FROM t WHERE a > ? AND b = ?", (30, "x")),
        ("SELECT count(*) FROM t WHERE a > ? AND b = ?", [30, "x"]),
        ("SELECT count(*) FROM t WHERE a > :low AND b = :b", {"low": 30, "b": "x", "more": 1}),
        ("SELECT count(*) FROM t WHERE a > :1 AND b = :2", (30, "x")),
        ("SELECT count(*) FROM t WHERE a > $1 AND b = $2", (30, "x")),
        ("SELECT count(*) FROM t WHERE a > $2 AND b = $1", ("x", 30)),
        ("SELECT count(*) FROM t WHERE a > $low AND b = $b", {"low": 30, "b": "x"}),
        ("SELECT count(*) FROM t WHERE a > %s AND b = %s", (30, "x")),
        ("SELECT count(*) FROM t WHERE a > %(low)s AND b = %(b)s", {"low": 30, "b": "x"}),
        ("SELECT count(*) FROM t WHERE a > %(limit)s AND b = %(date)s", {"limit": 30, "date": "x"}),
    ],
)
def test_every_style(sql: str, parameters: Any) -> None:
    assert bound(sql, parameters) == "SELECT COUNT(*) FROM t WHERE a > 30 AND b = 'x'"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"), (True, "TRUE"), (False, "FALSE"), (7, "7"), (-7, "(-7)"), (0.1, "0.1"), (-2.5, "(-2.5)"), (1e-7, "1e-07"),
        (np.datetime64("NaT"), "NULL"), (Decimal("1.50"), "1.50"), (Decimal("1E+3"), "1000"), (Decimal("-0.001"), "(-0.001)"), (10**38 - 1, "9" * 38), ("it's", "'it''s'"),
        ("?", "'?'"), ("a' OR 1=1 --", "'a'' OR 1=1 --'"), ("\\", "'\\'"), ("", "''"), (date(2024, 2, 29), "CAST('2024-02-29' AS DATE)"),
        (datetime(2024, 2, 29, 13, 5), "CAST('2024-02-29 13:05:00.000000' AS TIMESTAMP)"),
        (datetime(2024, 2, 29, 13, tzinfo=timezone(timedelta(hours=2))), "CAST('2024-02-29 11:00:00.000000' AS TIMESTAMP)"),
        (date(87, 1, 2), "CAST('0087-01-02' AS DATE)"), (datetime(87, 1, 2), "CAST('0087-01-02 00:00:00.000000' AS TIMESTAMP)"),
        (np.int64(7), "7"), (np.float64(0.5), "0.5"), (np.bool_(True), "TRUE"), (np.str_("a"), "'a'"), (np.datetime64("2024-02-29"), "CAST('2024-02-29' AS DATE)"),
        (pd.Timestamp("2024-02-29 13:05"), "CAST('2024-02-29 13:05:00.000000' AS TIMESTAMP)"),
        (UUID(int=1), "'00000000-0000-0000-0000-000000000001'"), (StrEnum("E", ["red"]).red, "'red'"), (IntEnum("I", ["one"]).one, "1"),
    ],
)  # fmt: skip
def test_every_type(value: Any, written: str) -> None:
    assert bound("SELECT a FROM t WHERE a = ?", [value]) == f"SELECT a FROM t WHERE a = {written}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan"), (float("-inf"), "-inf"), (Decimal("sNaN"), "sNaN"), (Decimal("Infinity"), "Infinity"), (10**38, "38 digits"), (10**5000, "38 digits"),
        (Decimal("1e-40"), "38 digits"), (b"x", "bytes"), (bytearray(b"x"), "bytearray"), (time(3), "time"), (timedelta(1), "timedelta"), (["a"], "list"), (("a",), "tuple"),
        ({"a": 1}, "dict"), (pd.NaT, "NaT"), (pd.NA, "NAType"), ("a\0b", "NUL"), ("\ud800", "Unicode"), (object(), "object"), (1j, "complex"),
        (pd.Timestamp(1), "nanoseconds"), (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "calendar"),
    ],
    ids=[f"value {i}" for i in range(22)],
)  # fmt: skip
def test_what_has_no_literal_is_refused_with_a_hint(value: Any, message: str) -> None:
    error = refusal("SELECT a FROM t WHERE a = ?", [value])
    assert message in error.message and error.hint and error.message.startswith("parameter 1: ")
    assert str(error).splitlines()[2].endswith("^") and error.column == 27


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '? :a %s %(a)s $1' AS x, \"?\" FROM t -- ? :a %s\nWHERE a = 1 /* ? %(a)s $1 */",
        "SELECT $$ ? :a %s $$ AS x FROM t",
        "SELECT a %s FROM t",
        "SELECT (a + 1)%s FROM t",
        "SELECT l[a:b] FROM t",
        "SELECT {'a':b} FROM t",
        "SELECT a::INT FROM t",
    ],
)
def test_strings_names_comments_and_operators_are_untouched(sql: str) -> None:
    assert bound(sql) == bound(sql, ()) == bound(sql, {"a": 1, "b": 2, "s": 3})
    assert not list(parse_query(sql).find_all(exp.Placeholder))


@pytest.mark.parametrize(
    ("sql", "parameters", "message", "column"),
    [
        ("SELECT ?", None, "parameter 1 has no value", 8),
        ("SELECT %s", (), "parameter 1 has no value", 8),
        ("SELECT :a", {}, "parameter a has no value", 8),
        ("SELECT $1", None, "parameter 1 has no value", 8),
        ("SELECT ?, ?", [1], "2 values needed, 1 given", 11),
        ("SELECT ?", [1, 2], "1 value needed, 2 given", 8),
        ("SELECT $2", [1, 2, 3], "2 values needed, 3 given", 8),
        ("SELECT 1", [1], "0 values needed, 1 given", None),
        ("SELECT '?'", [1], "0 values needed, 1 given", None),
        ("SELECT ?, :a", [1], "two styles", 11),
        ("SELECT :a, %s", {"a": 1}, "two styles", 12),
        ("SELECT :a", [1], "parameter a is named", 8),
        ("SELECT ?", {"a": 1}, "parameter 1 has no value", 8),
        ("SELECT :b", {"a": 1}, "parameter b has no value", 8),
    ],
)
def test_values_that_do_not_fit_are_refused(sql: str, parameters: Any, message: str, column: int | None) -> None:
    error = refusal(sql, parameters)
    assert isinstance(error, dpsql.ProgrammingError)
    assert message in error.message and error.column == column and error.hint


@pytest.mark.parametrize("parameters", ["abc", b"abc", 5, {1, 2}, iter([1])])
def test_parameters_are_a_list_or_a_dict(parameters: Any) -> None:
    assert isinstance(refusal("SELECT ?", parameters), dpsql.InterfaceError)


def test_values_count_as_length() -> None:
    assert "characters" in refusal("SELECT ?", ["x" * 200_001]).message


def test_a_value_at_the_end_of_an_operand_is_no_second_operand() -> None:
    assert bound("SELECT 2 - ?, 2 ^ ?, ? % ?", [-3, -3, 7, -2]) == "SELECT 2 - (-3), POWER(2, (-3)), 7 % (-2)"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_no_text_can_leave_its_place(text: str) -> None:
    """The tree is that of any other text, with this one as a leaf; written out and read again it is the same."""
    tree = parse_query("SELECT a FROM t WHERE a = ? AND b = 1", [text])
    [literal] = [each for each in tree.find_all(exp.Literal) if each.is_string]
    assert literal.this == text
    literal.replace(exp.Literal.string("x"))
    assert tree == parse_query("SELECT a FROM t WHERE a = 'x' AND b = 1")


@settings(max_examples=100, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**38) + 1, 10**38 - 1))
def test_no_number_changes(number: float | int) -> None:
    [literal] = parse_query("SELECT ?", [number]).find_all(exp.Literal)
    assert type(number)(literal.this) == abs(number)


def test_utc_is_what_it_says() -> None:
    assert bound("SELECT ?", [datetime(2024, 1, 1, tzinfo=UTC)]) == bound("SELECT ?", [datetime(2024, 1, 1)])
