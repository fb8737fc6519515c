"""The allow-list of the finishing SQL: what may run over released and public tables.

It runs in a sealed database that holds nothing private, so this list guards the machine rather than the data: no
table functions, settings, catalogue functions or volatile statements.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dpsql.expressions.functions.table import CALLED
from dpsql.plan.builder.error_bar_functions import is_bar
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
