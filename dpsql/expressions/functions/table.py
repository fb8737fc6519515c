"""All functions, by name and by the parser's class for them. A new function is one line in a file of its subject."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.expressions.functions import conditions, datetimes, mathematics, patterns, texts
from dpsql.expressions.functions.function import Function

SUBJECTS: dict[str, tuple[Function, ...]] = {
    "numbers": mathematics.FUNCTIONS,
    "text": texts.FUNCTIONS,
    "patterns": patterns.FUNCTIONS,
    "dates": datetimes.FUNCTIONS,
    "conditions": conditions.FUNCTIONS,
}
FUNCTIONS: dict[str, Function] = {f.name: f for functions in SUBJECTS.values() for f in functions}


def called(function: Function) -> tuple[str, ...]:
    """What may be called by name; an operator has a name here, but not in SQL."""
    named = any(f"{function.name}(" in form for form in function.written)
    return (function.name, *function.aliases) if named else function.aliases


CALLED: dict[str, Function] = {name: f for f in FUNCTIONS.values() for name in called(f)}


def _nodes(function: Function) -> tuple[type[exp.Expr], ...]:
    return function.node if isinstance(function.node, tuple) else (function.node,)


PARSED: dict[type[exp.Expr], Function] = {node: f for f in FUNCTIONS.values() for node in _nodes(f)}
HARMLESS = {"safe", "coalesce", "typed", "ignore_nulls", "null_if_pos_overflow", "single_replace", "date_part_boundary",
            "charset"}  # fmt: skip
"""Flags that the parser adds to the arguments and that are DuckDB's default behaviour."""


def find(node: exp.Expr) -> tuple[Function, list[exp.Expr]] | None:
    """The function that a call means, with its arguments in order; None if the table does not have it."""
    if isinstance(node, exp.Anonymous):
        named = CALLED.get(node.name.lower())
        return None if named is None else (named, list(node.expressions))
    if type(node) in _ODD and not (isinstance(node, exp.SHA2) and node.text("length") != "256"):
        name, parts = _ODD[type(node)](node)
        return FUNCTIONS[name], [part for part in parts if part is not None]
    found = PARSED.get(type(node))
    if found is None:
        return None
    reads = found.reads or tuple(node.arg_types)
    if not {key for key, part in node.args.items() if part} <= {*reads, *HARMLESS}:
        return None
    parts = [node.args.get(key) for key in reads if key not in HARMLESS]
    return found, [p for part in parts for p in (part if isinstance(part, list) else [part]) if isinstance(p, exp.Expr)]


def _trim(node: exp.Expr) -> tuple[str, list[exp.Expr | None]]:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return side, [node.this, node.args.get("expression")]


def _pad(node: exp.Expr) -> tuple[str, list[exp.Expr | None]]:
    return "lpad" if node.args.get("is_left") else "rpad", [node.this, node.expression, node.args.get("fill_pattern")]


def _from_unix(node: exp.Expr) -> tuple[str, list[exp.Expr | None]]:
    scale = node.args.get("scale")
    return {"3": "epoch_ms", "6": "make_timestamp"}.get(scale.name if scale else "", "to_timestamp"), [node.this]


def _sha(node: exp.Expr) -> tuple[str, list[exp.Expr | None]]:
    return "sha256", [node.this]


_ODD: dict[type[exp.Expr], Callable[[exp.Expr], tuple[str, list[exp.Expr | None]]]] = {
    exp.SHA2: _sha, exp.Trim: _trim, exp.Pad: _pad, exp.UnixToTime: _from_unix,
}  # fmt: skip
"""Syntax classes that represent several functions, distinguished by flags that the parser adds to the arguments."""
