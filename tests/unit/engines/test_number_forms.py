"""Arithmetic as emitted, over the edges of every stored type: exact where the type is, by Python's own fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind, from_engine

Number = Fraction | float | None
WHOLE = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127, "UTINYINT": -8, "UBIGINT": -64}
VALUES: dict[str, list[str]] = {
    name: [str(each) for each in ((0, 1, 7, 2**-bits - 1) if bits < 0 else (-(2**bits), -7, -1, 0, 1, 7, 2**bits - 1))]
    for name, bits in WHOLE.items()
}
VALUES |= {
    "DECIMAL(4,2)": ["-99.99", "-2.50", "-0.01", "0", "0.05", "1", "99.99"],
    "DECIMAL(18,3)": ["-999999999999999.999", "-0.125", "0", "2.5", "999999999999999.999"],
    "DOUBLE": ["-2.5", "-1", "0", "0.1", "3", "1e300"],
}
PAIRED = [name for name in VALUES if name not in ("SMALLINT", "UTINYINT")]


class Row:
    def __init__(self, **types: str) -> None:
        self.types = types

    def column(self, node: exp.Column) -> Expression:
        type_ = from_engine(self.types[node.name])
        assert type_ is not None
        return Column(type_, name=node.name)


def expression(text: str, **types: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row(**types))


def table(name: str, type_: str) -> str:
    return f"(SELECT CAST(v AS {type_}) AS {name} FROM (VALUES {', '.join(f'(${v}$)' for v in VALUES[type_])}) AS t(v))".replace("$", "'")  # fmt: skip


def exact(value: object) -> Fraction | float:
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else value
    return Fraction(value)  # type: ignore[arg-type]


def agree(found: object, wanted: Number, *, exactly: bool, among: float = 1.0) -> bool:
    """Equal, or (of numbers with a binary point) as near as the digits of the operands allow."""
    if found is None or wanted is None:
        return found is wanted
    if exactly:
        return exact(found) == wanted
    one, two = float(found), _float(wanted)  # type: ignore[arg-type]
    return (
        (math.isnan(one) and math.isnan(two))
        or one == two
        or math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-12 * among)
    )


def _float(value: Fraction | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def quotient(a: Fraction, b: Fraction, whole: bool) -> Number:
    if b == 0:
        return None
    return Fraction(math.trunc(a / b)) if whole else a / b


def ratio(a: Fraction, b: Fraction) -> Number:
    return a / b if b else math.nan if a == 0 else math.copysign(math.inf, a)


def remainder(a: Fraction, b: Fraction) -> Number:
    return None if b == 0 else a - b * math.trunc(a / b)


def floating_remainder(a: Fraction, b: Fraction) -> Number:
    return math.nan if b == 0 else math.fmod(a, b)


@pytest.mark.parametrize("two", PAIRED)
@pytest.mark.parametrize("one", PAIRED)
def test_arithmetic_of_any_two_numbers_is_exact_or_null_and_never_overflows(one: str, two: str) -> None:
    whole = one in WHOLE and two in WHOLE
    wanted: dict[str, Callable[[Fraction, Fraction], Number]] = {
        "a + b": lambda a, b: a + b,
        "a - b": lambda a, b: a - b,
        "a * b": lambda a, b: a * b,
        "a / b": ratio,
        "a // b": lambda a, b: quotient(a, b, whole),
        "a % b": remainder,
        "a % -1": lambda a, _: remainder(a, Fraction(-1)),
        "a // -1": lambda a, _: quotient(a, Fraction(-1), one in WHOLE),
        "a // 0": lambda a, b: None,
    }
    made = {text: expression(text, a=one, b=two) for text in wanted}
    wanted |= {text: floating_remainder for text in ("a % b",) if made[text].type.kind is Kind.DOUBLE}
    wanted |= {"a % -1": lambda a, _: floating_remainder(a, Fraction(-1))} if one == "DOUBLE" else {}
    listed = ", ".join(f"{DUCKDB.sql(e, DUCKDB.quote)}" for e in made.values())
    types = ", ".join(f"typeof({DUCKDB.sql(e, DUCKDB.quote)})" for e in made.values())
    found = duckdb.sql(f"SELECT a, b, {listed}, {types} FROM {table('a', one)} CROSS JOIN {table('b', two)}").fetchall()
    assert len(found) == len(VALUES[one]) * len(VALUES[two])
    for a, b, *rest in found:
        for (text, e), value, type_ in zip(made.items(), rest[: len(made)], rest[len(made) :], strict=True):
            said, among = wanted[text](Fraction(a), Fraction(b)), max(abs(float(a)), abs(float(b)))
            exactly = e.type.kind is not Kind.DOUBLE
            assert agree(value, said, exactly=exactly, among=among), f"{text} of {a} and {b} is {value}"
            assert type_ == physical(e.type)


def placed(a: Fraction, places: int, way: str) -> Fraction:
    digits = Context(prec=60)
    return Fraction(digits.divide(a.numerator, a.denominator).quantize(Decimal(1).scaleb(-places), way, digits))


def cut(a: Fraction, places: int) -> Fraction:
    return Fraction(math.trunc(a * Fraction(10) ** places)) / Fraction(10) ** places


UNARY: dict[str, Callable[[Fraction], Number]] = {
    "-a": lambda a: -a,
    "abs(a)": abs,
    "round(a)": lambda a: placed(a, 0, ROUND_HALF_UP),
    "round(a, 1)": lambda a: placed(a, 1, ROUND_HALF_UP),
    "round_even(a, 1)": lambda a: placed(a, 1, ROUND_HALF_EVEN),
    "trunc(a, 1)": lambda a: cut(a, 1),
    "floor(a)": lambda a: Fraction(math.floor(a)),
    "ceil(a)": lambda a: Fraction(math.ceil(a)),
    "trunc(a)": lambda a: Fraction(math.trunc(a)),
    "sign(a)": lambda a: Fraction((a > 0) - (a < 0)),
}


@pytest.mark.parametrize("one", [name for name in VALUES if name != "DOUBLE"])
def test_a_number_is_rounded_cut_or_turned_in_a_type_that_holds_the_result(one: str) -> None:
    made = {text: expression(text, a=one) for text in UNARY}
    listed = ", ".join(DUCKDB.sql(e, DUCKDB.quote) for e in made.values())
    types = ", ".join(f"typeof({DUCKDB.sql(e, DUCKDB.quote)})" for e in made.values())
    for a, *rest in duckdb.sql(f"SELECT a, {listed}, {types} FROM {table('a', one)}").fetchall():
        for (text, e), value, type_ in zip(made.items(), rest[: len(made)], rest[len(made) :], strict=True):
            exactly = e.type.kind is not Kind.DOUBLE
            assert agree(value, UNARY[text](Fraction(a)), exactly=exactly), f"{text} of {a} is {value}"
            assert type_ == physical(e.type)


@pytest.mark.parametrize("one", [*VALUES, "VARCHAR", "BOOLEAN"])
def test_a_cast_is_what_duckdb_makes_of_it_and_null_where_it_would_fail(one: str) -> None:
    values = {"VARCHAR": ["''", "'7'", "'-7.5'", "'x'", "'999'", "'1e3'", "'true'"], "BOOLEAN": ["true", "false"]}
    source = table("a", one) if one in VALUES else f"(VALUES {', '.join(f'({v})' for v in values[one])}) AS t(a)"
    targets = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(4,2)", "DECIMAL(18,3)", "VARCHAR", "BOOLEAN"]  # fmt: skip
    for target in targets:
        e = expression(f"CAST(a AS {target})", a=one)
        plain = "a::INTEGER" if one == "BOOLEAN" and "DECIMAL" in target else "a"
        asked = f"SELECT {DUCKDB.sql(e, DUCKDB.quote)}, TRY_CAST({plain} AS {target}), typeof({DUCKDB.sql(e, DUCKDB.quote)})"
        for ours, theirs, type_ in duckdb.sql(f"{asked} FROM {source}").fetchall():
            assert ours == theirs and type_ == physical(e.type), (one, target)
    null = expression("CAST(NULL AS DECIMAL(4,2)) + 1", a=one)
    assert duckdb.sql(f"SELECT {DUCKDB.sql(null, DUCKDB.quote)}").fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a // 7", '(CAST("a" AS INTEGER) // 7)'),
        ("a % 7", 'CAST((CAST("a" AS INTEGER) % 7) AS INTEGER)'),
        ("7 // a", '(7 // nullif(CAST("a" AS INTEGER), 0))'),
        ("7 % a", 'CAST((7 % CASE WHEN CAST("a" AS INTEGER) = -1 THEN 1 ELSE nullif(CAST("a" AS INTEGER), 0) END) AS INTEGER)'),
        ("a % -7", 'CAST((CAST("a" AS INTEGER) % (-7)) AS INTEGER)'),
        ("a // 0", '(CAST("a" AS INTEGER) // nullif(0, 0))'),
    ],
)  # fmt: skip
def test_only_a_divisor_that_may_be_zero_or_minus_one_is_guarded(text: str, expected: str) -> None:
    assert DUCKDB.sql(expression(text, a="TINYINT"), DUCKDB.quote) == expected


COMPARED = ["a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b", "a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b",
            "a IN (1, 7)", "a NOT IN (0, 7)", "NOT (a < b)", "a < b AND b > 1", "a < b OR b > 1", "a IS NULL", "nullif(a, b)",
            "nullif(a, 7)", "nullif(a, 0.5)", "coalesce(a, b)", "greatest(a, b)", "least(a, b)",
            "CASE WHEN a < b THEN a WHEN a = b THEN 5 ELSE b END", "CASE WHEN a > b THEN a END"]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), [("INTEGER", "TINYINT"), ("UBIGINT", "BIGINT"), ("DECIMAL(4,2)", "INTEGER"), ("DOUBLE", "INTEGER")])  # fmt: skip
def test_comparisons_and_choices_are_those_of_duckdb_for_edges_and_null(one: str, two: str) -> None:
    first, second = (
        f"(SELECT {n} FROM {table(n, t)} UNION ALL SELECT NULL) AS t{n}" for n, t in (("a", one), ("b", two))
    )
    listed = ", ".join(f"{DUCKDB.sql(expression(text, a=one, b=two), DUCKDB.quote)}, {text}" for text in COMPARED)
    for row in duckdb.sql(f"SELECT {listed} FROM {first} CROSS JOIN {second}").fetchall():
        for text, ours, theirs in zip(COMPARED, row[::2], row[1::2], strict=True):
            assert ours == theirs, text
