"""DP_LOW, DP_HIGH and DP_ERROR: the error bar of an expression, as a column of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.plan.plan import Bar
from dpsql.sql.span import refuse

BARS: dict[str, Literal["low", "high", "error"]] = {"dp_low": "low", "dp_high": "high", "dp_error": "error"}
CONFIDENCE = 0.95


def is_bar(node: exp.Expr) -> bool:
    """A call of one of the three functions."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in BARS


def bar_of(node: exp.Expr, rewrite: Callable[[exp.Expr], exp.Expr]) -> Bar:
    """The bar of a call; `rewrite` gives its operand over the columns of the release."""
    name, operands = node.name.upper(), node.expressions
    if not 1 <= len(operands) <= 2:
        raise refuse(
            f"{name} takes an aggregate and optionally a confidence",
            node,
            kind=ParseError,
            hint=f"write {name}(count(*)) or {name}(count(*), 0.9)",
            reason="error-bar",
        )
    confidence = _confidence(name, operands[1]) if len(operands) == 2 else CONFIDENCE
    made = rewrite(operands[0].copy()).unnest()
    _check(name, node, made)
    return Bar(BARS[node.name.lower()], made, confidence)


def _confidence(name: str, node: exp.Expr) -> float:
    if isinstance(node, exp.Literal) and not node.is_string and 0 < float(node.name) < 1:
        return float(node.name)
    raise refuse(
        f"the confidence of {name} is a number between 0 and 1",
        node,
        kind=ParseError,
        hint=f"write {name}(count(*), 0.95)",
        reason="error-bar",
    )


def _check(name: str, node: exp.Expr, made: exp.Expr) -> None:
    """What has a bar: aggregates of one row of the release, and arithmetic on them."""
    if any(isinstance(n, exp.Window | exp.Query | exp.Subquery | exp.AggFunc) for n in made.walk()):
        raise refuse(
            f"{name} takes aggregates of one group; this mixes groups, or subqueries",
            node,
            hint="give the expression a column of its own, and read its error bar from result.intervals()",
            reason="error-bar",
        )
    columns = [column.name for column in made.find_all(exp.Column)]
    if any(column.startswith("_b") for column in columns):
        raise refuse(
            f"an error bar has no error bar: {name} takes an aggregate",
            node,
            hint=f"write {name}(count(*))",
            reason="error-bar",
        )
    if not any(column.startswith("_a") for column in columns):
        raise refuse(
            f"this has no noise and so no error bar: {name} takes an aggregate",
            node,
            kind=ParseError,
            hint=f"write {name}(count(*)), {name}(avg(x)) or {name}(sum(x) / count(*))",
            reason="error-bar",
        )
