"""Python values, operators and pandas' aggregates as SQL expressions, with the meaning that they have in pandas.

In a comparison a missing value is false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dpsql.errors import InterfaceError

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ColumnKind(Enum):
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
    """NOT of a condition, which is true also where a missing value makes the condition NULL."""
    true = exp.Is(this=inside(mask), expression=exp.Boolean(this=True))
    return exp.Not(this=exp.Paren(this=true))


def as_number(expression: exp.Expr, kind: ColumnKind) -> exp.Expr:
    """True counts as one; a mask is never missing, a stored boolean may be."""
    if kind is ColumnKind.MASK:
        one = exp.If(this=expression.copy(), true=exp.Literal.number(1))
        return exp.Case(ifs=[one], default=exp.Literal.number(0))
    return exp.cast(expression.copy(), "INTEGER") if kind is ColumnKind.BOOLEAN else expression


def unless_missing(expression: exp.Expr, result: exp.Expr) -> exp.Expr:
    """A missing value stays missing, where the function would make something of it."""
    present = exp.Not(this=exp.Is(this=inside(expression), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=present, true=result)])


# aggregates ----------------------------------------------------------------------------------------------------------

DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
NAMES = ("count", "size", "mean", "sum", "std", "var", "median", "min", "max", "nunique")
_FUNCTIONS = {"mean": "avg", "sum": "sum", "median": "median", "min": "min", "max": "max"}
_SPREADS = {("std", 1): "stddev_samp", ("std", 0): "stddev_pop", ("var", 1): "var_samp", ("var", 0): "var_pop"}


def aggregate(name: Any, of: exp.Expr, kind: ColumnKind, ddof: int = 1) -> exp.Expr:
    """`mean` of an expression, and so on; a function such as `np.mean` counts by its name."""
    name = name if isinstance(name, str) else getattr(name, "__name__", "")
    if name == "size":
        return exp.Count(this=exp.Star())
    if name == "count":
        return exp.Count(this=of.copy())
    if name == "nunique":
        return exp.Count(this=exp.Distinct(expressions=[of.copy()]))
    if name in _FUNCTIONS:
        return call(_FUNCTIONS[name], as_number(of, kind))
    if (name, ddof) in _SPREADS:
        return call(_SPREADS[name, ddof], as_number(of, kind))
    if name.endswith("%"):
        return quantile(of, float(name[:-1]) / 100)
    if name in ("std", "var"):
        raise InterfaceError(f"ddof must be 0 or 1, got {ddof}", hint=f"write .{name}(ddof=1)")
    close = get_close_matches(name, NAMES, n=1) or {"avg": ["mean"], "average": ["mean"], "len": ["size"]}.get(name)
    guess = f"did you mean {close[0]}? " if close else ""
    raise InterfaceError(f"there is no aggregate {name!r}", hint=f"{guess}aggregates: {', '.join(NAMES)}")


def quantile(of: exp.Expr, share: Any) -> exp.Expr:
    """The value below which that share of the rows lies."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InterfaceError(f"a quantile must be between 0 and 1, got {share}", hint="write .quantile(0.5)")
    return call("quantile_cont", of, constant(float(share)))


def named(expression: exp.Expr, name: str) -> exp.Expr:
    """An output column; a plain column of that name needs no alias."""
    if isinstance(expression, exp.Column) and expression.name == name:
        return expression.copy()
    return exp.Alias(this=expression.copy(), alias=identifier(name))


def histogram(of: exp.Expr, ends: tuple[float, float], bins: int) -> tuple[exp.Expr, list[exp.Expr]]:
    """The number of the bin (the last one holds its upper end), and its ends as expressions over that number."""
    low, high = ends
    width = (high - low) / bins
    steps = call("floor", exp.Div(this=exp.Paren(this=exp.Sub(this=of.copy(), expression=constant(low))),
                                  expression=constant(width)))  # fmt: skip
    number = call("least", exp.cast(steps, "BIGINT"), constant(bins - 1))
    edges: list[exp.Expr] = []
    for shift in (0, 1):
        count: exp.Expr = exp.column("bin")
        count = exp.Paren(this=exp.Add(this=count, expression=exp.Literal.number(1))) if shift else count
        edges.append(exp.Add(this=constant(low), expression=exp.Mul(this=count, expression=constant(width))))
    return number, edges


def in_order(names: Sequence[str]) -> list[exp.Expr]:
    """ORDER BY these columns, NULL last."""
    return [exp.Ordered(this=exp.Column(this=identifier(name)), nulls_first=False) for name in names]
