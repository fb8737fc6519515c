"""The aggregates by pandas' names, as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.expressions import Kind, as_number, call, constant, identifier

DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
NAMES = ("count", "size", "mean", "sum", "std", "var", "median", "min", "max", "nunique")
_FUNCTIONS = {"mean": "avg", "sum": "sum", "median": "median", "min": "min", "max": "max"}
_SPREADS = {("std", 1): "stddev_samp", ("std", 0): "stddev_pop", ("var", 1): "var_samp", ("var", 0): "var_pop"}


def aggregate(name: Any, of: exp.Expr, kind: Kind, ddof: int = 1) -> exp.Expr:
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
        raise InterfaceError(f"ddof is 0 or 1, not {ddof}", hint=f"write .{name}(ddof=1)")
    close = get_close_matches(name, NAMES, n=1) or {"avg": ["mean"], "average": ["mean"], "len": ["size"]}.get(name)
    guess = f"did you mean {close[0]}? " if close else ""
    raise InterfaceError(f"there is no aggregate {name!r}", hint=f"{guess}aggregates: {', '.join(NAMES)}")


def quantile(of: exp.Expr, share: Any) -> exp.Expr:
    """The value below which that share of the rows lies."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InterfaceError(f"a quantile lies between 0 and 1, not at {share}", hint="write .quantile(0.5)")
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
