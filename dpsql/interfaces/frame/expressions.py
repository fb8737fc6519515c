"""Python values and operators as SQL expressions, with pandas' meaning: a missing value compares as false."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dpsql.errors import InterfaceError

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Kind(Enum):
    """What a column holds, as far as verbs have to know. A mask is never missing; a stored boolean may be."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    MASK = "mask"
    TIME = "date"


def identifier(name: str) -> exp.Identifier:
    """A name, in quotes where SQL would read something else."""
    plain = _SIMPLE.fullmatch(name) and name.upper() not in DuckDB.Tokenizer.KEYWORDS
    return exp.to_identifier(name, quoted=not plain)


def column(name: str, table: str | None = None) -> exp.Column:
    """A column by name."""
    return exp.Column(this=identifier(name), table=None if table is None else identifier(table))


def constant(value: Any) -> exp.Expr:
    """A Python, NumPy or pandas scalar as a literal."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item() if type(value).__name__ != "datetime64" else value.astype("datetime64[us]").item()
    if hasattr(value, "__len__") and not isinstance(value, str):
        raise _no_constant(value)
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        raise InterfaceError("nothing equals a missing value", hint="use .isna() or .notna()")
    match value:
        case bool():
            return exp.Boolean(this=value)
        case int() | Decimal():
            return _number(str(value), negative=value < 0)
        case float() if math.isfinite(value):
            return _number(repr(value), negative=math.copysign(1, value) < 0)
        case str():
            return exp.Literal.string(value)
        case datetime():
            return exp.Literal.string(value.isoformat(sep=" "))
        case date():
            return exp.Literal.string(value.isoformat())
    raise _no_constant(value)


def _no_constant(value: object) -> InterfaceError:
    return InterfaceError(
        f"a {type(value).__name__} cannot stand in a private query",
        hint="use numbers, text, dates, booleans, or columns of the same private frame",
    )


def _number(text: str, *, negative: bool) -> exp.Expr:
    literal = exp.Literal(this=text.lstrip("-"), is_string=False)
    return exp.Paren(this=exp.Neg(this=literal)) if negative else literal


def inside(expression: exp.Expr) -> exp.Expr:
    """An operand, in brackets where the operator around it might bind tighter."""
    loose = (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In, exp.Case)
    return exp.Paren(this=expression.copy()) if isinstance(expression, loose) else expression.copy()


def binary(kind: type[exp.Expr], one: exp.Expr, two: exp.Expr) -> exp.Expr:
    """`one` operator `two`."""
    return kind(this=inside(one), expression=inside(two))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function call."""
    return exp.func(name, *(argument.copy() for argument in arguments), dialect="duckdb")


def floor_divide(one: exp.Expr, two: exp.Expr) -> exp.Expr:
    """`//` rounds down, as in Python; SQL's own rounds towards zero."""
    return exp.cast(call("floor", exp.Div(this=inside(one), expression=inside(two))), "BIGINT")


def modulo(one: exp.Expr, two: exp.Expr) -> exp.Expr:
    """`%` by a positive number is never negative, as in Python."""
    if not isinstance(two, exp.Literal) or two.is_string or float(two.name) <= 0:
        raise InterfaceError("% takes a number above 0 on its right", hint="write frame.x % 10")
    rest = exp.Mod(this=inside(one), expression=two.copy())
    return exp.Mod(this=exp.Paren(this=exp.Add(this=rest, expression=two.copy())), expression=two.copy())


def negated(mask: exp.Expr) -> exp.Expr:
    """Not true: also where a missing value leaves SQL's answer open."""
    true = exp.Is(this=inside(mask), expression=exp.Boolean(this=True))
    return exp.Not(this=exp.Paren(this=true))


def as_number(expression: exp.Expr, kind: Kind) -> exp.Expr:
    """True counts as one; a mask is never missing, a stored boolean may be."""
    if kind is Kind.MASK:
        one = exp.If(this=expression.copy(), true=exp.Literal.number(1))
        return exp.Case(ifs=[one], default=exp.Literal.number(0))
    return exp.cast(expression.copy(), "INTEGER") if kind is Kind.BOOLEAN else expression


def unless_missing(expression: exp.Expr, result: exp.Expr) -> exp.Expr:
    """A missing value stays missing, where the function would make something of it."""
    present = exp.Not(this=exp.Is(this=inside(expression), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=present, true=result)])
