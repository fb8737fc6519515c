"""Which constructs a query uses, read off its syntax tree: what a search has really tried."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp, parse_one

from dpsql.audit.traces import ReleaseTrace
from dpsql.expressions.functions.table import find

CLAUSES: dict[type[exp.Expr], str] = {
    exp.CTE: "WITH", exp.Exists: "EXISTS", exp.Case: "CASE", exp.Rollup: "ROLLUP", exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS", exp.Having: "HAVING", exp.Qualify: "QUALIFY", exp.Order: "ORDER BY",
    exp.Limit: "LIMIT", exp.Filter: "FILTER", exp.Between: "BETWEEN", exp.Like: "LIKE", exp.Cast: "CAST",
    exp.Where: "WHERE", exp.Or: "OR", exp.Interval: "INTERVAL", exp.IgnoreNulls: "IGNORE NULLS",
    exp.WithinGroup: "WITHIN GROUP",
}  # fmt: skip


def constructs_of(sql: str) -> frozenset[str]:
    """Names of clauses, joins, sets, windows, aggregates and functions."""
    return frozenset(name for node in parse_one(sql, dialect="duckdb").walk() for name in _named(node))


def shapes_of(releases: list[ReleaseTrace]) -> frozenset[str]:
    """What the planner made of it: rules, private keys, trees, choices, and the noise."""
    statistics = [statistic for release in releases for statistic in release.statistics]
    kinds = {f"{s.mechanism} noise" for s in statistics if s.mechanism != "exponential"}
    kinds |= {"private keys" for s in statistics if s.name == "selection"}
    return frozenset(kinds | ({"several releases"} if len(releases) > 1 else set()))


def _named(node: exp.Expr) -> Iterator[str]:
    if type(node) in CLAUSES:
        yield CLAUSES[type(node)]
    elif isinstance(node, exp.Join):
        words = [str(node.args.get(part) or "") for part in ("method", "side", "kind")]
        yield " ".join([*(word for word in words if word), "JOIN"]) + (" USING" if node.args.get("using") else "")
    elif isinstance(node, exp.SetOperation):
        yield type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
    elif isinstance(node, exp.Window):
        yield f"{_word(node.this)} OVER"
    elif isinstance(node, exp.In):
        yield "IN (subquery)" if node.args.get("query") else "IN (list)"
    elif isinstance(node, exp.Select) and node.args.get("distinct"):
        yield "SELECT DISTINCT"
    elif isinstance(node, exp.Subquery):
        yield "derived table" if isinstance(node.parent, exp.From | exp.Join) else "scalar subquery"
    elif isinstance(node, exp.AggFunc):
        yield f"{_word(node)}(DISTINCT)" if isinstance(node.this, exp.Distinct) else _word(node)
    elif isinstance(node, exp.Func | exp.Binary | exp.Unary) and (found := find(node)) is not None:
        yield f"{found[0].name}()"


def _word(node: exp.Expr) -> str:
    """An aggregate's own name."""
    inner = node.this if isinstance(node, exp.IgnoreNulls | exp.Filter | exp.WithinGroup) else node
    return inner.sql_name().lower() if isinstance(inner, exp.Func) else type(inner).__name__.lower()
