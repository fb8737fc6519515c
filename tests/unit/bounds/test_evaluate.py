"""An operation on listed values gives what DuckDB gives for each of them, or says that it is not sure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.bounds import infer
from dpsql.bounds.constant_folding import Unsure, as_type, evaluate
from dpsql.bounds.domain import RowDomains, finite, interval, number, to_float
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.expressions.expression import Call, Column, Expression, Literal, columns_of
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, from_engine

CENTS = from_engine("DECIMAL(9,2)")
WHOLE = from_engine("INTEGER")
assert CENTS is not None and WHOLE is not None
VALUES: dict[str, tuple[Type, str, list[Any]]] = {
    "n": (WHOLE, "INTEGER", [-128, -7, -3, -1, 0, 1, 2, 5, 127, 128]),
    "m": (CENTS, "DECIMAL(9,2)", [Decimal(v) for v in ("-2.50", "-1.50", "-0.05", "0.00", "0.05", "1.25", "2.50")]),
    "x": (DOUBLE, "DOUBLE", [-1e15, -2.5, -1.5, -0.5, 0.0, 0.05, 0.1, 0.2, 0.5, 1.5, 2.5, 2.675, 1e15]),
    "s": (TEXT, "VARCHAR", ["", "a", "abc", "aXbXa", " ab ", "a%b_", "ABC", "a\nb", "xxaxx", "é", "éaé"]),
    "b": (BOOLEAN, "BOOLEAN", [False, True]),
    "d": (DATE, "DATE", [date(1969, 12, 31), date(2000, 2, 29), date(2023, 1, 1), date(2024, 12, 31)]),
    "t": (
        TIMESTAMP,
        "TIMESTAMP",
        [
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(1970, 1, 1, 0, 0, 0, 1_500),
            datetime(2024, 2, 29, 12, 30, 15, 1),
        ],
    ),
}
NUMBERS = [
    "-{}", "abs({})", "sign({})", "{} + 1", "1 - {}", "{} * 3", "{} * -0.5", "{} / 4", "4 / nullif({}, 0)",
    "floor({})", "ceil({})", "trunc({})", "round({})", "round({}, 1)", "round({}, -1)",
    *(f"{{}} {op} {other}" for op in ("=", "<>", "<", "<=", ">", ">=") for other in ("-1", "0", "0.5", "2", "2.5")),
    "CAST({} AS BOOLEAN)", "CAST({} AS DOUBLE)",
]  # fmt: skip
WHOLES = [
    "{} // 2", "{} // -2", "{} // 0", "7 // {}", "{} % 3", "{} % -3", "{} % 0", "7 % {}", "CAST({} AS VARCHAR)",
    "CAST({} AS TINYINT)", "DATE '2000-01-01' + {}", "DATE '2000-01-01' - {}",
]  # fmt: skip
TEXTS = [
    *(f"left({{}}, {count})" for count in range(-4, 5)), *(f"right({{}}, {count})" for count in range(-4, 5)),
    *(f"substring({{}}, {start})" for start in range(1, 5)),
    *(f"substring({{}}, {start}, {length})" for start in range(1, 4) for length in range(4)),
    "length({})", "trim({})", "ltrim({})", "rtrim({})", "trim({}, 'xa')", "ltrim({}, 'xa')", "rtrim({}, 'xa')",
    "trim({}, '')", "ltrim({}, '')", "rtrim({}, '')", "replace({}, 'X', 'yy')", "replace({}, '', 'z')",
    "strpos({}, 'X')", "strpos({}, '')", "starts_with({}, 'a')", "starts_with({}, '')", "ends_with({}, 'a')",
    "contains({}, 'X')", "{} || '!'", "'<' || {} || '>'", "{} LIKE 'a%'", "{} LIKE '%a'", "{} LIKE '_b_'",
    "{} LIKE 'a_b'", "{} NOT LIKE '%X%'", "{} LIKE ''", "{} = 'abc'", "{} <> 'abc'", "{} < 'abc'", "{} <= 'abc'",
    "{} > 'abc'", "{} >= 'abc'",
]  # fmt: skip
LETTERS = ["lower({})", "upper({})", "{} ILIKE 'AB%'", "{} ILIKE '%_c'"]
MOMENTS = [
    *(f"{part}({{}})" for part in ("year", "month", "day", "quarter", "week", "dayofweek", "isodow", "dayofyear")),
    *(f"date_trunc('{unit}', {{}})" for unit in ("year", "quarter", "month", "week", "day")),
    "{} + INTERVAL 1 MONTH", "{} - INTERVAL 1 YEAR", "{} + INTERVAL 3 DAY", "{} = DATE '2000-02-29'",
    "{} < DATE '2000-02-29'", "{} >= DATE '2000-02-29'", "CAST({} AS DATE)", "CAST({} AS TIMESTAMP)",
]  # fmt: skip
ASKED = [
    *((text, column) for column in "nmx" for text in NUMBERS),
    *((f"{{}} {op} {other}", "x") for op in "+-*/" for other in ("0.1e0", "0.7e0", "3e0")),
    *((text, "n") for text in WHOLES), *((text, "m") for text in ("{} % 3", "{} % -0.2", "{} % 0")),
    *((text, "s") for text in TEXTS), *((text, "s") for text in LETTERS),
    *((text, column) for column in "dt" for text in MOMENTS), ("CAST({} AS VARCHAR)", "d"), ("{} + 5", "d"),
    ("{} - DATE '2000-01-01'", "d"), ("hour({})", "t"), ("minute({})", "t"), ("date_trunc('hour', {})", "t"),
    ("NOT {}", "b"), ("CAST({} AS VARCHAR)", "b"), ("CAST({} AS INTEGER)", "b"), ("CAST({} AS DOUBLE)", "b"),
]  # fmt: skip


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(VALUES[node.name][0], name=node.name)


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for name, (_, type_, values) in VALUES.items():
            made.execute(f"CREATE TABLE {name} (i INTEGER, {name} {type_})")
            made.executemany(f"INSERT INTO {name} VALUES (?, ?)", list(enumerate(values)))
        yield made


@pytest.mark.parametrize(("form", "column"), ASKED, ids=[text.format(column) for text, column in ASKED])
def test_each_listed_value_gives_what_the_engine_gives(tables: Any, form: str, column: str) -> None:
    type_, _, values = VALUES[column]
    asked = convert(sqlglot.parse_one(f"SELECT {form.format(column)}", dialect="duckdb").selects[0], Row())
    emitted = DUCKDB.sql(asked, DUCKDB.quote)
    said = [value for (value,) in tables.execute(f"SELECT {emitted} FROM {column} ORDER BY i").fetchall()]
    for value, wanted in zip(values, said, strict=True):
        made = infer(asked, RowDomains({column: finite((value,), type_, nullable=False)}))
        if made.values in (None, (False, True)):
            assert form in LETTERS and not value.isascii(), "only beyond ASCII nobody is sure of letters"
            continue
        assert made.values == (() if wanted is None else (wanted,)), value
        assert made.nullable == (wanted is None)


AT_ONE_MOMENT = [
    "epoch({})", "epoch_ms({})", "epoch_us({})", "epoch_ns({})", "julian({})", "last_day({})", "millisecond({})",
    "microsecond({})", "date_diff('week', {}, TIMESTAMP '2024-01-01')", "date_sub('week', {}, TIMESTAMP '2024-01-01')",
    *(f"date_diff('{unit}', TIMESTAMP '2001-02-03 04:05:06', {{}})" for unit in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    "date_part('century', {})", "date_part('yearweek', {})", "date_part('isoyear', {})", "date_part('decade', {})",
]  # fmt: skip


@pytest.mark.parametrize("form", AT_ONE_MOMENT)
def test_a_function_of_one_moment_has_its_value_for_both_ends(tables: Any, form: str) -> None:
    """As close as the last digits of a float, a millisecond that may be rounded, or zero, to which whole units stop."""
    _, _, moments = VALUES["t"]
    asked = convert(sqlglot.parse_one(f"SELECT {form.format('t')}", dialect="duckdb").selects[0], Row())
    said = [v for (v,) in tables.execute(f"SELECT {DUCKDB.sql(asked, DUCKDB.quote)} FROM t ORDER BY i").fetchall()]
    for moment, wanted in zip(moments, said, strict=True):
        place = number(moment)
        made = infer(asked, RowDomains({"t": interval(place, place, nullable=False)}))
        low, high, value = made.lower, made.upper, number(wanted)
        assert low is not None and high is not None and low <= value <= high
        assert form.startswith("date_sub") or high - low <= (1 if "_ms" in form else abs(value) * 1e-11)


@pytest.mark.parametrize(
    ("value", "type_", "wanted"),
    [
        (None, DOUBLE, None),
        (True, WHOLE, True),
        ("x", TEXT, "x"),
        (date(2024, 2, 29), DATE, date(2024, 2, 29)),
        (date(2024, 2, 29), TIMESTAMP, datetime(2024, 2, 29)),
        (datetime(2024, 2, 29, 1), TIMESTAMP, datetime(2024, 2, 29, 1)),
        (Fraction(1, 2), DOUBLE, 0.5),
        (Decimal("1.7976931348623157e308"), DOUBLE, 1.7976931348623157e308),
        (Fraction(7, 4), CENTS, Decimal("1.75")),
        (3, CENTS, Decimal("3.00")),
        (Fraction(6, 2), BIGINT, 3),
        (Fraction(3, 2), BIGINT, Decimal("1.5")),
        (Fraction(2, 3), BIGINT, Decimal("0.666666666666666666")),
        (Fraction(2, 3), CENTS, Decimal("0.66")),
    ],
)
def test_a_value_in_the_type_of_its_column(value: Any, type_: Type, wanted: object) -> None:
    made = as_type(value, type_)
    assert made == wanted and type(made) is type(wanted)


BEYOND = [10**400, -(10**400), Decimal("1e309"), Decimal("-1e309"), Fraction(10**400), Fraction(-(10**400))]


@pytest.mark.parametrize("value", BEYOND, ids=lambda v: f"{type(v).__name__} {v > 0}")
def test_a_number_beyond_the_floats_is_no_float(value: Any) -> None:
    assert to_float(value) == (math.inf if value > 0 else -math.inf)
    with pytest.raises(Unsure):
        as_type(value, DOUBLE)


@pytest.mark.parametrize(("op", "sign"), [("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")])
def test_a_whole_number_beside_a_float_is_rounded_before_and_not_after(tables: Any, op: str, sign: str) -> None:
    whole, real = 2**53 + 1, 3.0
    call = Call(DOUBLE, op=op, args=(Column(BIGINT, name="w"), Literal(DOUBLE, value=real)))
    [(said,)] = tables.execute(f"SELECT {whole}::BIGINT {sign} {real}::DOUBLE").fetchall()
    assert infer(call, RowDomains({"w": finite((whole,), BIGINT, nullable=False)})).values == (said,)


@pytest.mark.parametrize(
    "text", ["m // 2", "x // 2", "x % 2", "CAST(t AS VARCHAR)", "CAST(s AS DATE)", "length_grapheme(s)"]
)
def test_what_python_might_do_otherwise_is_not_listed(tables: Any, text: str) -> None:
    """But the engine's answers lie in the bounds."""
    asked = convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())
    column = next(name for name in VALUES if name in columns_of(asked))
    type_, _, values = VALUES[column]
    made = infer(asked, RowDomains({column: finite(values, type_, nullable=False)}))
    assert made.values is None
    said = [v for (v,) in tables.execute(f"SELECT {DUCKDB.sql(asked, DUCKDB.quote)} FROM {column}").fetchall()]
    places = [number(v) for v in said if v is not None and not isinstance(v, str)]
    assert all((made.lower is None or made.lower <= p) and (made.upper is None or p <= made.upper) for p in places)


def test_a_function_that_the_table_computes_is_listed() -> None:
    asked = convert(sqlglot.parse_one("SELECT strlen(s)", dialect="duckdb").selects[0], Row())
    assert infer(asked, RowDomains({"s": finite(("a", "é"), TEXT, nullable=False)})).values == (1, 2)


@pytest.mark.parametrize(
    "call",
    [
        Call(TIMESTAMP, op="shift", args=(Column(DATE, name="d"),), option=None),
        Call(BIGINT, op="part", args=(Column(DATE, name="d"),), option="no such part"),
        Call(BIGINT, op="no such operation", args=(Column(DATE, name="d"),)),
        Call(TEXT, op="substring", args=(Column(TEXT, name="s"),), option=(0,)),
        Call(TEXT, op="substring", args=(Column(TEXT, name="s"),), option=(1, -1)),
    ],
    ids=str,
)
def test_nobody_is_sure_of_what_no_rule_computes(call: Call) -> None:
    with pytest.raises(Unsure):
        evaluate(call, ("abc" if call.op == "substring" else date(2024, 1, 1),))
