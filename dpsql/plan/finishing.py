"""The allow-list of the finishing SQL: what may run over released and public tables.

It runs in a sealed database that holds nothing private, so this list guards the machine rather than the data: no
table functions, settings, catalogue functions or volatile statements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.functions.table import CALLED
from dpsql.plan.plan import Bar
from dpsql.sql.span import refuse

_NAMES = frozenset([
    "list_sum", "list_avg", "array_length", "mode", "skewness", "kurtosis", "entropy", "percent_rank", "cume_dist",
    "ntile", "dense_rank", "isfinite", "isinf", "even", "gamma", "lgamma", "date_part", "weekday", "monthname",
    "dayname", "prefix", "suffix", "reverse", "translate", "ord",
    "chr", "degrees", "radians", "cot", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "cbrt", "yearweek",
    "century", "decade", "epoch_ms", "make_date", "make_timestamp", "to_days", "to_months", "to_years", "fmod", "add",
    "subtract", "multiply", "divide", "bit_count", "favg", "fsum", "product", "geomean", "geometric_mean",
    "weighted_avg", "first", "last", "any_value",
])  # fmt: skip
_FORBIDDEN = (
    exp.Command,
    exp.Into,
    exp.Placeholder,
    exp.Parameter,
    exp.Lambda,
    exp.Rand,
    exp.Uuid,
    exp.Lateral,
    exp.Unnest,
    exp.TableSample,
    exp.Pivot,
    exp.UserDefinedFunction,
    exp.SessionParameter,
    exp.ReadCSV,
    exp.CurrentUser,
    exp.SessionUser,
    exp.CurrentVersion,
    exp.CurrentDatabase,
    exp.CurrentCatalog,
    exp.CurrentSchema,
    exp.Try,
    exp.Repeat,
    exp.Pad,
    exp.Space,
    exp.GenerateSeries,
    exp.GenerateDateArray,
    exp.Format,
)


def check_finishing(query: exp.Expr, tables: Collection[str]) -> None:
    """Refuse what is not on the list, naming it; `tables` are those that the planner has placed."""
    known = {*tables, *(cte.alias for cte in query.find_all(exp.CTE))}
    for node in query.walk():
        if is_bar(node):
            raise refuse(
                f"{node.name.upper()} must be in the same SELECT as its aggregate",
                node,
                hint=f"write SELECT count(*) AS n, {node.name.upper()}(count(*)) AS bar FROM … and read bar out here",
                reason="error-bar",
            )
        if isinstance(node, exp.Anonymous) and node.name.lower() not in _NAMES | CALLED.keys():
            raise refuse(
                f"the function {node.name} is not allowed",
                node,
                hint="use plain arithmetic, CASE or a window",
                reason="above",
            )
        if isinstance(node, exp.Table) and (not isinstance(node.this, exp.Identifier) or node.db or node.catalog):
            raise refuse(
                "table functions are not allowed",
                node,
                hint="select from tables of the policy",
                reason="table-function",
            )
        if isinstance(node, exp.Table) and node.name not in known:
            raise refuse(
                f"there is no table {node.name} here",
                node,
                hint="select from it in FROM, or in a subquery",
                reason="name",
            )
        if isinstance(node, exp.Limit | exp.Offset) and not isinstance(node.expression, exp.Literal):
            raise refuse(f"{node.key.upper()} takes a number", node, hint="write LIMIT 10", reason="above")
        if isinstance(node, exp.Div) and node.args.get("typed"):
            raise refuse(
                "PostgreSQL truncates integer division, and it is not evident whether these are integers",
                node,
                hint="write x::numeric / y, or x::bigint / y::bigint",
                reason="dialect",
            )
        if isinstance(node, _FORBIDDEN):
            raise refuse(f"{node.key.upper()} is not allowed", node, hint="leave it out", reason="above")


# DP_LOW, DP_HIGH and DP_ERROR -----------------------------------------------------------------------------------------
# DP_LOW, DP_HIGH and DP_ERROR: the error bar of an expression, as a column of its own.


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
