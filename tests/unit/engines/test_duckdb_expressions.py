"""The emitted SQL is total, has the type that was promised, and means what the analyst wrote."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb import dialect
from dpsql.engines.duckdb.datetime_rules import _CALENDAR
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.sql_types import physical
from dpsql.engines.sql.unit_windows import _into
from dpsql.errors import Error, UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BOOLEAN, DATE, DOUBLE, INT64, TEXT, TIMESTAMP, Kind, Type, from_engine, integer

DATES = [
    "'infinity'::DATE", "'-infinity'::DATE", "DATE '5877642-06-25 (BC)'", "DATE '5881580-07-10'", "DATE '0001-01-01'",
    "DATE '0001-01-01 (BC)'", "DATE '9999-12-31'", "DATE '10000-01-01'", "DATE '1970-01-01'", "DATE '2024-02-29'",
]  # fmt: skip
TIMESTAMPS = [
    "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "TIMESTAMP '290309-12-22 (BC) 00:00:00'",
    "TIMESTAMP '294247-01-10 04:00:54.775806'", "TIMESTAMP '0001-01-01 00:00:00'",
    "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP '1969-12-31 23:59:59.999999'",
    "TIMESTAMP '2024-02-29 12:34:56.789'",
]  # fmt: skip
TEXTS = [
    "''", "' '", "'abc'", "'-9223372036854775809'", "'1e400'", "'nan'", "'-inf'", "'infinity'", "'2024-02-30'",
    "'2024-02-29'", "'0.1'", "'é%_\\'", "'🤦🏼‍♂️'", "'İßΑΣ'", "repeat('a', 300000)", "chr(0) || 'x'", "'true'",
    "'294247-01-10 04:00:54.775806'", "'5881580-07-10'",
]  # fmt: skip
DOUBLES = ["'nan'", "'inf'", "'-inf'", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "-0.0", "0",
           "-1", "0.5", "2.5", "9223372036854775808", "-1e19"]  # fmt: skip


def integers(bits: int, signed: bool = True) -> list[str]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [f"'{v}'" for v in {low, low + 1, 0, 1, -1 if signed else 2, 7, high - 1, high}]


def decimals(width: int, scale: int) -> list[str]:
    top = str(Decimal(10**width - 1).scaleb(-scale)) if width <= 28 else "9" * (width - scale) + "." + "9" * scale
    return [f"'{v}'" for v in (top, "-" + top, "0", "0.5" if width == scale else "1", "-0.5", "0.005")]


STORED: dict[str, list[str]] = {
    "TINYINT": integers(8), "SMALLINT": integers(16), "INTEGER": integers(32), "BIGINT": integers(64),
    "HUGEINT": integers(128), "UTINYINT": integers(8, False), "UINTEGER": integers(32, False),
    "UBIGINT": integers(64, False), "DECIMAL(4,2)": decimals(4, 2), "DECIMAL(9,0)": decimals(9, 0),
    "DECIMAL(18,3)": decimals(18, 3), "DECIMAL(18,18)": decimals(18, 18), "DECIMAL(38,10)": decimals(38, 10),
    "DECIMAL(38,0)": decimals(38, 0), "DOUBLE": DOUBLES, "FLOAT": [*DOUBLES[:3], "3.4e38", "0", "1e-45", "-2.5"],
    "VARCHAR": TEXTS, "BOOLEAN": ["true", "false"], "DATE": DATES, "TIMESTAMP": TIMESTAMPS,
    "ENUM('north', '12', '')": ["'north'", "'12'", "''"], "UUID": ["'00000000-0000-0000-0000-000000000000'"],
}  # fmt: skip

UNARY = [
    "-a", "abs(a)", "round(a)", "round(a, 2)", "round(a, -1)", "round(a, -15)", "round(a, 15)", "floor(a)", "ceil(a)",
    "trunc(a)", "sqrt(a)", "ln(a)", "exp(a)", "sign(a)", "log10(a)", "log2(a)", "power(a, 2)", "power(a, -1)",
    "power(a, 0.5)", "power(2, a)", "isnan(a)", "a IS NULL", "a IS NOT NULL", "a + 1", "a - 1", "1 - a", "a * 2",
    "a * -3", "a * 0.5", "a + 0.001", "a / 2", "2 / a", "a // 2", "2 // a", "a % 2", "2 % a", "a % -1", "a // -1",
    "a % 0", "a // 0", "a % 1.5", "a // 1.5", "a * 1e300", "a + 9223372036854775807", "a = 5", "a < 0.001",
    "a >= 1e300", "a IN (1, 2.5, 3)", "a IN (1, NULL)", "a BETWEEN -1 AND 1.5", "a = NULL", "nullif(a, 0)",
    "nullif(a, 0.5)", "coalesce(a, 0)", "coalesce(a, 0.5)", "greatest(a, 1.5, NULL)", "least(a, 0)",
    "CASE WHEN a > 0 THEN a ELSE 1.5 END", "CASE WHEN a > 0 THEN a END", "a AND TRUE", "NOT a", "a IS TRUE",
    "a IS NOT FALSE", "a OR NULL", "CASE WHEN a THEN 1 ELSE 0 END", "if(a IS NULL, 1, 2)",
    *(f"CAST(a AS {t})" for t in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(4,2)", "DECIMAL(18,3)",
        "DECIMAL(2,2)", "DECIMAL(5,0)", "VARCHAR", "DATE", "TIMESTAMP")),
    "CAST(CAST(a AS VARCHAR) AS INTEGER)", "CAST(CAST(a AS VARCHAR) AS DATE) + 1",
    "a = 'x'", "a < 'm'", "a IN ('x', 'é', NULL)", "a LIKE 'a%'", "a NOT LIKE '%a_'", "a ILIKE '%É%'", "lower(a)",
    "upper(a)", "length(a)", "trim(a)", "ltrim(a)", "rtrim(a, 'a')", "trim(a, '')", "substring(a, 2)",
    "substring(a, -3, 2)", "substring(a, 0, 3)", "substring(a, 2, -1)", "left(a, 2)", "left(a, -2)", "right(a, 2)",
    "right(a, -1)", "a || 'x'", "a || a || a", "concat(a, NULL, 'x')", "replace(a, 'a', 'bcd')", "replace(a, '', 'x')",
    "replace(a, 'a', a)", "replace(lower(a) || a, left(a, 1), 'zz')", "strpos(a, 'b')", "starts_with(a, 'a')",
    "ends_with(a, '')", "contains(a, 'b')", "coalesce(a, '') || 'x'", "upper(a || a)", "left(a, 3) || '!'",
    *(f"extract({p} FROM a)" for p in (
        "year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "isodow", "doy", "decade",
        "century")),
    *(f"date_trunc('{u}', a)" for u in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "a + INTERVAL 1000 YEAR", "a - INTERVAL 13 MONTH", "a + INTERVAL 400000 DAY", "a - INTERVAL 999999 HOUR",
    "a + INTERVAL 1 SECOND", "a + INTERVAL 1 YEAR + INTERVAL 1 MONTH - INTERVAL 3 DAY", "a + 1000000", "a - 7",
    "a + 1 + 2 - 3", "date_trunc('week', coalesce(a, DATE '2020-01-01'))", "date_trunc('day', CAST(a AS DATE))",
    "date_trunc('month', CASE WHEN a > DATE '2020-01-01' THEN a END) + INTERVAL 1 MONTH",
    "greatest(a, DATE '2020-01-01') - INTERVAL 1 DAY", "a = DATE '2020-01-01'", "a < TIMESTAMP '2020-01-01 10:00:00'",
    "a - DATE '2020-01-01'", "date_diff('week', a, DATE '2020-01-01')", "date_diff('second', DATE '2020-01-01', a)",
    "extract(week FROM a + INTERVAL 1 DAY)", "nullif(a, DATE '2020-01-01') + 1",
]  # fmt: skip
BINARY = [
    *(f"a {op} b" for op in ("+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">=", "||", "AND", "OR")),
    "a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "power(a, b)", "nullif(a, b)", "coalesce(a, b)",
    "greatest(a, b)", "least(a, b)", "CASE WHEN a > b THEN a ELSE b END", "CASE WHEN a = b THEN b END", "concat(a, b)",
    "replace(a, b, 'x')", "replace(a, 'a', b)", "strpos(a, b)", "starts_with(a, b)", "ends_with(a, b)",
    "contains(a, b)", "trim(a, b)", "(a + b) * a", "(a - b) // a", "a * b % 10", "abs(a - b)", "-(a * b)",
    *(f"date_diff('{u}', a, b)" for u in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "date_trunc('week', greatest(a, b))", "coalesce(a, b) + INTERVAL 1 MONTH",
]  # fmt: skip


class Row:
    """A resolver for the columns of one row."""

    def __init__(self, **types: Type) -> None:
        self.types = types

    def column(self, node: exp.Column) -> Expression:
        return Column(self.types[node.name], name=node.name)


@cache
def _parsed(text: str) -> exp.Expression:
    """Once for each text, which is asked with many types; nobody changes the tree."""
    return sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0]


def expression(text: str, **types: Type) -> Expression:
    return convert(_parsed(text), Row(**types))


def convertible(texts: list[str], **types: Type) -> dict[str, Expression]:
    made = {}
    for text in texts:
        try:
            made[text] = expression(text, **types)
            DUCKDB.sql(made[text], DUCKDB.quote)
        except Error:
            made.pop(text, None)
    return made


def engine_type(name: str) -> Type:
    found = from_engine(name)
    assert found is not None
    return found


def table(db: duckdb.DuckDBPyConnection, name: str, type_: str, values: list[str]) -> None:
    db.execute(f"CREATE OR REPLACE TABLE {name} (v {type_})")
    for value in ["NULL", *values]:
        try:
            db.execute(f"INSERT INTO {name} SELECT CAST({value} AS {type_})")
        except duckdb.ConversionException:
            continue


@pytest.fixture(scope="module")
def edges() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    for number, (type_, values) in enumerate(STORED.items()):
        table(db, f"t{number}", type_, values)
        assert db.execute(f"SELECT count(*) FROM t{number}").fetchall()[0][0] >= min(3, len(values))
    return db


def check(db: duckdb.DuckDBPyConnection, made: dict[str, Expression], columns: dict[str, str], source: str) -> None:
    """Run all expressions at once; on failure name the one that failed. Types and hard ranges must hold too."""
    emitted = {text: DUCKDB.sql(e, columns.__getitem__) for text, e in made.items()}
    if not emitted:
        return
    parts = [
        f"ANY_VALUE(typeof({s})), MIN({s}), MAX({s})" if made[t].type.kind in (Kind.INTEGER, Kind.DECIMAL)
        else f"ANY_VALUE(typeof({s})), NULL, COUNT({s})" for t, s in emitted.items()
    ]  # fmt: skip
    try:
        (row,) = db.execute(f"SELECT {', '.join(parts)} FROM {source}").fetchall()
    except duckdb.Error:
        for text, part in zip(emitted, parts, strict=True):
            try:
                db.execute(f"SELECT {part} FROM {source}").fetchall()
            except duckdb.Error as problem:
                pytest.fail(f"{text} over {source} raises: {problem}\n{emitted[text]}")
        raise
    for index, (text, e) in enumerate(made.items()):
        type_, low, high = row[3 * index : 3 * index + 3]
        assert type_ == physical(e.type), f"{text} over {source}: {type_} is not {physical(e.type)}\n{emitted[text]}"
        if low is not None:
            inside = (
                e.type.lower <= Fraction(low) * 10**e.type.scale and Fraction(high) * 10**e.type.scale <= e.type.upper
            )
            assert inside, f"{text} over {source} leaves its range"


@pytest.mark.parametrize("number", range(len(STORED)), ids=list(STORED))
def test_no_edge_value_makes_an_expression_raise(edges: duckdb.DuckDBPyConnection, number: int) -> None:
    name = list(STORED)[number]
    made = convertible(UNARY, a=engine_type(name))
    assert len(made) >= 10
    check(edges, made, {"a": "v"}, f"t{number}")


@pytest.mark.parametrize("number", range(len(STORED)), ids=list(STORED))
def test_no_pair_of_edge_values_makes_an_expression_raise(edges: duckdb.DuckDBPyConnection, number: int) -> None:
    names = list(STORED)
    for other in range(len(STORED)):
        made = convertible(BINARY, a=engine_type(names[number]), b=engine_type(names[other]))
        check(edges, made, {"a": "x.v", "b": "y.v"}, f"t{number} x CROSS JOIN t{other} y")


def test_every_operation_is_in_the_sweep() -> None:
    """Here, or by the forms of the table, which `tests/properties/test_functions.py` sweeps."""
    from dpsql.expressions.functions.table import FUNCTIONS

    swept, listed = set(), [form for function in FUNCTIONS.values() for form in function.written]
    for name in ("BIGINT", "DECIMAL(4,2)", "VARCHAR", "DATE", "BOOLEAN", "DOUBLE"):
        types = {"a": engine_type(name), "b": engine_type(name)}
        for made in convertible([*UNARY, *BINARY, *listed], **types).values():
            swept |= {node.op for node in made.walk() if hasattr(node, "op")}
    assert swept >= set(dialect.RULES)


CONSTANTS = [
    "-9223372036854775808", "9223372036854775807", "0", "-1", "0.5", "1e308", "NULL", "'x'", "DATE '9999-12-31'",
    "170141183460469231731687303715884105727", "12345678901234567890.5",
]  # fmt: skip


def with_constants(text: str, **values: str) -> str:
    def put(node: exp.Expression) -> exp.Expression:
        return sqlglot.parse_one(f"({values[node.name]})", dialect="duckdb") if isinstance(node, exp.Column) else node

    return sqlglot.parse_one(text, dialect="duckdb").transform(put).sql("duckdb")


@pytest.mark.parametrize("one", CONSTANTS)
def test_constants_fold_without_raising(edges: duckdb.DuckDBPyConnection, one: str) -> None:
    for two in CONSTANTS:
        check(edges, convertible([with_constants(t, a=one, b=two) for t in BINARY]), {}, "t0")
    check(edges, convertible([with_constants(t, a=one) for t in UNARY]), {}, "t0")


def test_guards_do_not_depend_on_the_order_of_evaluation(edges: duckdb.DuckDBPyConnection) -> None:
    types = {"a": engine_type("BIGINT"), "d": DATE}
    condition = expression("a <> 0 AND 10 // a > 1 AND d + 1 > DATE '2020-01-01' AND a % a = 0", **types)
    number, day = list(STORED).index("BIGINT"), list(STORED).index("DATE")
    text = DUCKDB.sql(condition, {"a": "x.v", "d": "y.v"}.__getitem__)
    for optimizer in ("", "filter_pushdown,expression_rewriter,reorder_filter,common_subexpressions"):
        edges.execute(f"SET disabled_optimizers = '{optimizer}'")
        edges.execute(f"SELECT count(*) FROM t{number} x CROSS JOIN t{day} y WHERE {text}").fetchall()
    edges.execute("SET disabled_optimizers = ''")


ORDINARY: dict[str, list[str]] = {
    "INTEGER": ["0", "1", "-7", "10", "25", "-35"], "BIGINT": ["0", "3", "-2", "100", "103"],
    "DECIMAL(9,2)": ["0", "2.50", "-2.50", "0.01", "99.99", "-7.25"], "DOUBLE": ["0", "2.5", "-2.5", "0.1", "7", "3.5"],
    "VARCHAR": ["''", "'abc'", "'Hello World'", "'  x '", "'é'", "'12'", "'2024-02-29'", "'aXbXc'"],
    "BOOLEAN": ["true", "false"], "DATE": ["DATE '2024-02-29'", "DATE '2021-01-01'", "DATE '1969-12-30'"],
    "TIMESTAMP": ["TIMESTAMP '2024-02-29 12:34:56.789'", "TIMESTAMP '1999-12-31 23:59:59'"],
    "ENUM('north', '12', '')": ["'north'", "'12'", "''"],
}  # fmt: skip
DIFFERENT = {
    ("BOOLEAN", "CAST(a AS DECIMAL(2,2))"): "DuckDB reads TRUE as 0.01",
    ("ENUM('north', '12', '')", "a < 'm'"): "an ENUM is a text here, and ordered as text",
}


@pytest.fixture(scope="module")
def ordinary() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    for number, (type_, values) in enumerate(ORDINARY.items()):
        table(db, f"t{number}", type_, values)
    return db


def same(one: object, two: object) -> bool:
    if isinstance(one, float | Decimal | int) and isinstance(two, float | Decimal | int):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return one == two or math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-9)
    return one == two


NULL_IS_ZERO = ("round(a, -15)",)
"""DuckDB gives 0 for a NULL decimal that is rounded so far that no digit is left; dpsql gives NULL."""


@pytest.mark.parametrize("first", range(len(ORDINARY)), ids=list(ORDINARY))
def test_the_emitted_sql_means_what_was_written(ordinary: duckdb.DuckDBPyConnection, first: int) -> None:
    names, compared = list(ORDINARY), 0
    for second, second_name in enumerate(names):
        enum = "ENUM" in names[first] + second_name
        texts = ([] if enum else BINARY) + [t for t in UNARY if second == 0 and (names[first], t) not in DIFFERENT]
        made = convertible(texts, a=engine_type(names[first]), b=engine_type(second_name))
        for text, e in made.items():
            emitted = DUCKDB.sql(e, {"a": "x.v", "b": "y.v"}.__getitem__)
            original = sqlglot.parse_one(text, dialect="duckdb").transform(
                lambda n: exp.column("v", table="x" if n.name == "a" else "y") if isinstance(n, exp.Column) else n
            )
            query = f"SELECT x.v, y.v, TRY({original.sql('duckdb')}), {emitted} FROM t{first} x CROSS JOIN t{second} y"
            try:
                rows = ordinary.execute(query).fetchall()
            except (duckdb.BinderException, duckdb.ConversionException):
                continue
            for a, b, expected, got in rows:
                if expected is not None and not (a is None and text in NULL_IS_ZERO):
                    compared += 1
                    assert same(expected, got), f"{text} for {a!r}, {b!r}: {expected!r}, not {got!r}\n{emitted}"
    assert compared > 60


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("a + 1", integer(0, 100), '(CAST("a" AS INTEGER) + 1)'),
        ("a + 1", integer(0, 2**31 - 1), '(CAST("a" AS BIGINT) + CAST(1 AS BIGINT))'),
        ("a % 10", integer(-(2**63), 2**63 - 1), 'CAST((CAST("a" AS BIGINT) % CAST(10 AS BIGINT)) AS INTEGER)'),
        ("a > 2.5", DOUBLE, "(CAST(\"a\" AS DOUBLE) > CAST(CAST('2.5' AS DECIMAL(2,1)) AS DOUBLE))"),
        ("a = 'it''s'", TEXT, "(CAST(\"a\" AS VARCHAR) = 'it''s')"),
        ("a", BOOLEAN, '"a"'),
        ("extract(year FROM a)", DATE, "CAST(date_part('year', \"a\") AS INTEGER)"),
        ("a < DATE '2020-01-01'", DATE, "(\"a\" < DATE '2020-01-01')"),
        ("a < DATE '2020-01-01'", TIMESTAMP, "(\"a\" < TRY_CAST(DATE '2020-01-01' AS TIMESTAMP))"),
    ],
)
def test_fast_forms_have_no_guard(text: str, type_: Type, expected: str) -> None:
    assert DUCKDB.sql(expression(text, a=type_), DUCKDB.quote) == expected


@pytest.mark.parametrize(
    "text", ["a" + " || a" * 100, "replace(replace(replace(a, 'a', repeat_), 'a', repeat_), 'a', repeat_)"]
)
def test_texts_cannot_grow_without_bound(text: str) -> None:
    text = text.replace("repeat_", "'" + "a" * 100 + "'")
    db = duckdb.connect()
    db.execute("CREATE TABLE t AS SELECT repeat('a', 200000) AS a")
    try:
        emitted = DUCKDB.sql(expression(text, a=TEXT), DUCKDB.quote)
    except UnsupportedQuery:
        return
    assert (db.execute(f"SELECT max(strlen({emitted})) FROM t").fetchall()[0][0] or 0) <= 2**18


def test_a_long_concatenation_of_short_texts_is_whole() -> None:
    emitted = DUCKDB.sql(expression(" || ".join(["a"] * 40), a=TEXT), DUCKDB.quote)
    assert duckdb.sql(f"SELECT {emitted} FROM (SELECT 'xyz' AS a)").fetchall() == [("xyz" * 40,)]


def test_nested_guards_do_not_make_the_sql_explode() -> None:
    text = "d" + " + INTERVAL 1 DAY" * 60
    assert len(DUCKDB.sql(expression(text, d=DATE), DUCKDB.quote)) < 10_000
    with pytest.raises(UnsupportedQuery, match="200,000 years"):
        DUCKDB.sql(expression("d" + " + INTERVAL 1000 YEAR" * 200, d=DATE), DUCKDB.quote)


NUMERIC = ["TINYINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "DECIMAL(4,2)", "DECIMAL(18,3)", "DOUBLE"]


def random_text(rng: random.Random, depth: int, kind: str) -> str:
    """A random expression of a kind (n: number, b: boolean, d: moment, s: text) over columns n0…, d0…, s0…"""
    if depth == 0:
        return rng.choice({
            "n": ["n0", "n1", "n2", "1", "-3", "0.5", "2.25", "0"], "b": ["b0", "n0 > 1", "s0 = 'abc'", "TRUE"],
            "d": ["d0", "d1", "DATE '2021-03-04'"], "s": ["s0", "s1", "'x'", "''"]}[kind])  # fmt: skip
    n, b, d, s = (lambda k=k: random_text(rng, depth - 1, k) for k in "nbds")
    forms = {
        "n": [
            lambda: f"({n()} {rng.choice('+-*/%')} {n()})", lambda: f"({n()} // {n()})", lambda: f"abs({n()})",
            lambda: f"(- {n()})", lambda: f"round({n()}, {rng.randint(-3, 3)})", lambda: f"floor({n()})",
            lambda: f"CASE WHEN {b()} THEN {n()} ELSE {n()} END", lambda: f"coalesce({n()}, {n()})",
            lambda: f"greatest({n()}, {n()})", lambda: f"least({n()}, {n()})", lambda: f"nullif({n()}, {n()})",
            lambda: f"CAST({n()} AS {rng.choice(['INTEGER', 'BIGINT', 'DOUBLE', 'DECIMAL(9,2)', 'TINYINT'])})",
            lambda: f"length({s()})", lambda: f"extract({rng.choice(['year', 'week', 'dow'])} FROM {d()})",
            lambda: f"date_diff('{rng.choice(['day', 'month', 'hour'])}', {d()}, {d()})", lambda: f"sqrt({n()})",
            lambda: f"ceil({n()})", lambda: f"sign({n()})", lambda: f"power({n()}, 2)", lambda: f"exp({n()})",
        ],
        "b": [
            lambda: f"({n()} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {n()})", lambda: f"(NOT {b()})",
            lambda: f"({b()} {rng.choice(['AND', 'OR'])} {b()})", lambda: f"({n()} IS NULL)",
            lambda: f"({n()} BETWEEN -1 AND 50)", lambda: f"({n()} IN (1, 2, 3.5))", lambda: f"({d()} < {d()})",
            lambda: f"({s()} LIKE 'a%')", lambda: f"({s()} = {s()})", lambda: f"({b()} IS TRUE)",
        ],
        "d": [
            lambda: f"({d()} + INTERVAL {rng.randint(1, 900)} MONTH)", lambda: f"({d()} - INTERVAL 30 HOUR)",
            lambda: f"date_trunc('{rng.choice(['month', 'week', 'day', 'hour'])}', {d()})",
            lambda: f"(CAST({d()} AS DATE) + CAST({n()} AS INTEGER))", lambda: f"coalesce({d()}, {d()})",
            lambda: f"CASE WHEN {b()} THEN {d()} END", lambda: f"greatest({d()}, {d()})",
        ],
        "s": [
            lambda: f"lower({s()})", lambda: f"substring({s()}, 2, 3)", lambda: f"({s()} || {s()})",
            lambda: f"CAST({n()} AS VARCHAR)", lambda: f"CASE WHEN {b()} THEN {s()} ELSE {s()} END",
            lambda: f"replace({s()}, 'a', {s()})", lambda: f"concat({s()}, {s()})", lambda: f"trim({s()})",
            lambda: f"left({s()}, 2)",
        ],
    }  # fmt: skip
    return rng.choice(forms[kind])()


def test_random_expressions_over_edge_values_never_raise(edges: duckdb.DuckDBPyConnection) -> None:
    names = list(STORED)
    for seed in range(60):
        rng = random.Random(seed)
        chosen = {
            **{f"n{i}": rng.choice(NUMERIC) for i in range(3)}, "d0": "DATE", "d1": "TIMESTAMP", "s0": "VARCHAR",
            "s1": "ENUM('north', '12', '')", "b0": "BOOLEAN",
        }  # fmt: skip
        source = ", ".join(f"(SELECT v AS {c} FROM t{names.index(t)} USING SAMPLE 3 ROWS)" for c, t in chosen.items())
        texts = [random_text(rng, rng.randint(1, 4), rng.choice("nbds")) for _ in range(12)]
        made = convertible(texts, **{c: engine_type(t) for c, t in chosen.items()})
        check(
            edges,
            made,
            {c: c for c in chosen},
            f"({source.replace('), (', ') CROSS JOIN (')})".join(["(SELECT * FROM ", ")"]),
        )


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (-(2**63), engine_type("BIGINT")), (2**127 - 1, engine_type("HUGEINT")), (-5, integer(-5, -5)),
        (Decimal("-0.05"), Type(Kind.DECIMAL, -5, -5, 2)), (1e300, DOUBLE), (math.inf, DOUBLE), ("a'b\0\n", TEXT),
        (True, BOOLEAN),
    ],
)  # fmt: skip
def test_literals_come_back_unchanged(value: object, type_: Type) -> None:
    text = DUCKDB.literal(value, type_)  # type: ignore[arg-type]
    assert duckdb.sql(f"SELECT {text}, typeof({text})").fetchall() == [(value, physical(type_))]


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        (integer(*INT64), "BIGINT"), (integer(0, 9), "BIGINT"), (integer(INT64[0] - 1, 0), "HUGEINT"),
        (integer(0, INT64[1] + 1), "HUGEINT"), (Type(Kind.DECIMAL, -999, 10**18 - 1, 2), "DECIMAL(18,2)"),
        (Type(Kind.DECIMAL, -5, 7, 2), "DECIMAL(18,2)"), (Type(Kind.DECIMAL, 0, 4, 3), "DECIMAL(18,3)"),
    ],
)  # fmt: skip
def test_a_total_of_a_unit_is_cut_to_the_range_of_its_type(type_: Type, stored: str) -> None:
    """Beyond 64 bits no cast fails: what the range holds fits, and what lies outside is moved to the nearer end."""
    ends = [Decimal(end).scaleb(-type_.scale) for end in (type_.lower, type_.upper)]
    totals = [*ends, *(end + step for end, step in zip(ends, (-1, 1), strict=True)), 0, None]
    wide = f"DECIMAL(38,{type_.scale})" if type_.scale else "HUGEINT"
    listed = ", ".join(f"(CAST({'NULL' if each is None else repr(str(each))} AS {wide}))" for each in totals)
    made = f"SELECT {_into(DUCKDB, 'v', type_)} AS v FROM (VALUES {listed}) AS t(v)"
    assert duckdb.sql(f"SELECT DISTINCT typeof(v) FROM ({made})").fetchall() == [(stored,)]
    assert duckdb.sql(made).fetchall() == [(ends[0],), (ends[1],), (ends[0],), (ends[1],), (0,), (None,)]


@pytest.mark.parametrize("few", [1, 11, 308])
def test_the_reach_of_a_hash_is_its_share_of_all_hashes_and_always_a_hash(few: int) -> None:
    groups = [1, few, few + 1, 10 * few, 10**6 * few]
    listed = ", ".join(f"({each})" for each in groups)
    made = f"SELECT {DUCKDB.reach('g', few)} AS r FROM (VALUES {listed}) AS t(g)"
    top = 2**64 - 1
    assert duckdb.sql(f"SELECT r, typeof(r) FROM ({made})").fetchall() == [
        (top if each <= few else top // each * few, "UBIGINT") for each in groups
    ]


@pytest.mark.parametrize("name", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"])
def test_a_cast_to_a_whole_number_keeps_to_the_range_that_the_analyst_wrote(name: str) -> None:
    wanted = engine_type(name)
    made = DUCKDB.sql(expression(f"CAST(v AS {name})", v=TEXT), DUCKDB.quote)
    ends = [wanted.lower - 1, wanted.lower, wanted.upper, wanted.upper + 1]
    listed = ", ".join(f"('{end}')" for end in ends)
    found = duckdb.sql(f"SELECT {made} FROM (VALUES {listed}) AS t(v)").fetchall()
    assert found == [(None,), (ends[1],), (ends[2],), (None,)]


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("d", 10_000),
        ("make_date(n, 1, 1)", 10_001),
        ("d + INTERVAL 364 DAY", 10_001),
        ("d + INTERVAL 365 DAY", 10_002),
        ("d + INTERVAL 12 MONTH", 10_002),
        ("d - INTERVAL 12 MONTH", 10_002),
        ("make_date(n, 1, 1) + INTERVAL 100 YEAR", 10_103),
        ("coalesce(d, d + INTERVAL 12 MONTH)", 10_003),
    ],
)
def test_how_far_from_the_year_0_a_moment_can_lie(text: str, years: int) -> None:
    """Months are taken for 31 days: rather too far than not far enough, for beyond the engine's range it would raise."""
    assert _CALENDAR.reach(expression(text, d=DATE, n=engine_type("INTEGER"))) == years


@pytest.mark.parametrize("month", [0, 1, 2, 12, 13])
@pytest.mark.parametrize("year", [-1, 0, 1, 2, 2023, 2024, 9999, 10_000])
def test_a_date_is_made_of_its_parts_or_is_null(year: int, month: int) -> None:
    made = DUCKDB.sql(expression("make_date(y, m, d)", **dict.fromkeys("ymd", engine_type("INTEGER"))), DUCKDB.quote)
    for day in (0, 1, 28, 29, 31, 32):
        [(found,)] = duckdb.sql(f"SELECT {made} FROM (SELECT {year} AS y, {month} AS m, {day} AS d)").fetchall()
        try:
            wanted = date(year, month, day)
        except ValueError:
            wanted = None
        assert found == wanted


@pytest.mark.parametrize("stored", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER"])
def test_bits_are_those_of_the_type_that_is_stored(edges: duckdb.DuckDBPyConnection, stored: str) -> None:
    """A negative number has as many leading ones as its own type is wide."""
    table = f"t{list(STORED).index(stored)}"
    for text in ("bit_count(v)", "v >> 1", "v >> 3"):
        made = DUCKDB.sql(expression(text, v=engine_type(stored)), DUCKDB.quote)
        found = edges.sql(f"SELECT {made}, {text} FROM {table} WHERE v IS NOT NULL").fetchall()
        assert len(found) > 3 and all(ours == theirs for ours, theirs in found)
