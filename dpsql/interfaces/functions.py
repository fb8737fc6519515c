"""What may stand below an aggregate, read off the planner's own allow-list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from sqlglot import exp, parse_one
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from dpsql.expressions.convert import _CASTS, _RULES, PARTS, UNITS
from dpsql.plan.bars import BARS
from dpsql.plan.group import _FUNCTIONS
from dpsql.plan.moments import PAIRS, SPREADS

REFUSED_AGGREGATES = frozenset({"min", "max"})
_KINDS = {
    "_arithmetic": "arithmetic", "_same": "arithmetic", "_compare": "comparison", "_between": "comparison",
    "_in": "comparison", "_is": "comparison", "_like": "comparison", "_logic": "logic", "_case": "conditions",
    "_if": "conditions", "_variadic": "conditions", "_nullif": "conditions", "_round": "numbers", "_whole": "numbers",
    "_number": "numbers", "_width_bucket": "numbers",
    "_log": "numbers", "_power": "numbers", "_text": "text", "_trim": "text",
    "_substring": "text", "_side": "text", "_concat": "text", "_extract": "dates", "_trunc": "dates", "_diff": "dates",
    "_named_part": "dates", "_cast": "casts",
}  # fmt: skip
_WRITTEN = {
    exp.WidthBucket: "width_bucket",
    exp.Neg: "-x", exp.Between: "BETWEEN", exp.In: "IN (…)", exp.Is: "IS NULL", exp.Like: "LIKE", exp.ILike: "ILIKE",
    exp.Case: "CASE WHEN … THEN … ELSE … END", exp.Not: "NOT", exp.Cast: "CAST(x AS …)",
    exp.TryCast: "TRY_CAST(x AS …)", exp.Extract: "extract(… FROM x)",
    exp.DateAdd: "x + INTERVAL 3 DAY", exp.DateSub: "x - INTERVAL 3 DAY",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%", exp.DPipe: "||",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
_SILENT = {exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Escape, exp.Anonymous, exp.DateTrunc}
_BY_NAME = {"dates": ["date_part", "weekday"], "text": ["prefix", "suffix"]}
_GRAMMAR = {"coalesce", "nullif", "if", "ifnull"}
"""Functions that DuckDB's grammar has and its catalogue does not list."""
_OPERANDS = ("x", "x, y", "x, y, z", "'day', x", "'day', x, y")


def listing() -> dict[str, list[str]]:
    """The allowed forms by group, in the order in which people look for them."""
    groups: dict[str, list[str]] = {"aggregates": _aggregates()}
    spelled = _spellings()
    for kind, rule in _RULES.items():
        if kind not in _SILENT:
            group = groups.setdefault(_group(kind, rule), [])
            group += [_WRITTEN[kind]] if kind in _WRITTEN else spelled.get(kind, [kind.key])
    for name, more in _BY_NAME.items():
        groups[name] += more
    groups["error bars"] = [f"{name}(<aggregate>[, 0.95])" for name in BARS]
    groups["date parts"] = [part.lower() for part in PARTS]
    groups["date units"] = [unit.lower() for unit in UNITS]
    groups["types"] = ["decimal(p, s)", *_types()]
    return groups


def _types() -> list[str]:
    """As DuckDB spells them, each once."""
    return list(dict.fromkeys(exp.DataType.build(name).sql("duckdb").lower() for name in _CASTS))


def _aggregates() -> list[str]:
    names = {"count(*)", "count(DISTINCT x)", "approx_count_distinct(x)"}
    for kind, name in _FUNCTIONS.items():
        if name not in REFUSED_AGGREGATES:
            names.add("count_if(…)" if kind is exp.CountIf else f"{name}(x)")
    composed = [f"{name}(x)" for name in dict.fromkeys(SPREADS.values())] + [f"{name}(y, x)" for name in PAIRS.values()]
    return [*sorted(names), *composed, "bool_or(…)", "bool_and(…)", "… FILTER (WHERE …)"]


def _group(kind: type[exp.Expr], rule: Callable[..., object]) -> str:
    if kind in (exp.DateAdd, exp.DateSub):
        return "dates"
    return _KINDS.get(rule.__qualname__.partition(".")[0], "other")


def _spellings() -> dict[type[exp.Expr], list[str]]:
    """The names that DuckDB itself knows for each form: found by parsing a call of every name there is."""
    import duckdb

    with duckdb.connect() as connection:
        known = {
            name for (name,) in connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
        }
    found: dict[type[exp.Expr], list[str]] = {}
    for name in sorted(name.lower() for name in DuckDB.Parser.FUNCTIONS):
        if name in known | _GRAMMAR:
            for kind in set(_parsed(name)):
                found.setdefault(kind, []).append(name)
    return found


def _parsed(name: str) -> Iterator[type[exp.Expr]]:
    """What a call of that name means; the parser answers a wrong number of operands with errors of many kinds."""
    for operands in _OPERANDS:
        with suppress(SqlglotError, LookupError, TypeError, ValueError, AttributeError):
            yield type(parse_one(f"{name}({operands})", dialect="duckdb"))
