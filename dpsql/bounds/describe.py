"""Conditions as people write them, for the origin of a bound."""

from __future__ import annotations

from dpsql.expressions.expression import Call, Expression

_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR", "add": "+",
    "sub": "-", "mul": "*", "div": "/", "idiv": "//", "mod": "%", "like": "LIKE", "ilike": "ILIKE", "join": "||",
    "is_not_distinct": "IS NOT DISTINCT FROM", "is_distinct": "IS DISTINCT FROM", "add_days": "+", "sub_days": "-",
    "days": "-",
}  # fmt: skip
LONGEST = 60


def describe(expression: Expression) -> str:
    """The expression in SQL's own signs, cut where it is long."""
    text = _text(expression)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(node: Expression) -> str:
    if not isinstance(node, Call):
        return str(node)
    parts = [f"({_text(a)})" if isinstance(a, Call) and a.op in _INFIX else _text(a) for a in node.args]
    if node.op in _INFIX:
        return f" {_INFIX[node.op]} ".join(parts)
    if node.op == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if node.op in ("not", "neg"):
        return f"{'NOT ' if node.op == 'not' else '-'}{parts[0]}"
    if node.op == "is_null":
        return f"{parts[0]} IS NULL"
    option = [] if node.option is None else [str(node.option)]
    return (
        f"{node.option if node.op == 'part' else node.op}({', '.join(parts if node.op == 'part' else option + parts)})"
    )
