"""Text functions. Whatever can make a text longer is limited, so that no data exhausts the memory.

A concatenation doubles a text, and forty of them in a row make a terabyte of one letter but leave an empty string
empty: whether the query then fails would tell something about the data.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.engines.duckdb import function_rules
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind

LONGEST = 2**18
"""The most bytes that a function which lengthens a text gives; a part that is too long becomes NULL."""
SHORT = 128
"""No number, date or timestamp has a longer text."""
FLAT = 16


def limited(node: Expression, emit: Emit, limit: int) -> str:
    """The text in at most `limit` bytes; where a stored text is too long, NULL. Guards stand at the leaves."""
    if limit < SHORT:
        raise UnsupportedQuery("this would make texts that are too long", span=node.span, hint="join fewer parts")
    if not isinstance(node, Call) or node.op == "cast":
        return _leaf(node, emit, limit)
    if node.op in LONGER:
        return LONGER[node.op](node, emit, limit)
    if (listed := function_rules.listed(node)) is not None:
        factor, more = function_rules.growth(listed, node)
        return function_rules.written(listed, node, _within(emit, (limit - more) // factor) if factor else emit)
    if node.op in ("left", "right", "substring") and 0 <= _count(node) * 4 <= limit:
        return emit(node, "VARCHAR")
    return _rebuilt(node, emit, limit // 2 if node.op in ("lower", "upper") else limit)


def _leaf(node: Expression, emit: Emit, limit: int) -> str:
    made = emit(node, "VARCHAR")
    if isinstance(node, Literal):
        return made if len(str(node.value or "").encode()) <= limit else "CAST(NULL AS VARCHAR)"
    if isinstance(node, Call) and node.args[0].type.kind is not Kind.TEXT:
        return made
    return f"CASE WHEN strlen({made}) <= {limit} THEN {made} END"


def _count(node: Call) -> int:
    option = node.option[-1] if isinstance(node.option, tuple) and len(node.option) == 2 else node.option
    return option if isinstance(option, int) else -1


def _within(emit: Emit, limit: int) -> Emit:
    """The same, with texts of at most so many bytes."""

    def inner(child: Expression, wanted: str) -> str:
        return (
            limited(child, emit, limit) if child.type.kind is Kind.TEXT and wanted == "VARCHAR" else emit(child, wanted)
        )

    return inner


def _rebuilt(node: Call, emit: Emit, limit: int) -> str:
    """The same call over limited texts; conditions and numbers are left as they are."""
    return {**RULES, **comparison_rules.RULES}[node.op](node, _within(emit, limit))


def _joined(node: Call, emit: Emit, limit: int) -> str:
    leaves = _leaves(node)
    share = limit // (len(leaves) * (2 if node.op == "concat_ws" else 1))
    parts = [limited(leaf, emit, share) for leaf in leaves]
    return _chain(parts) if node.op == "join" else f"{node.op}({', '.join(parts)})"


def _chain(parts: Sequence[str]) -> str:
    """One after the other; many are halved, since DuckDB plans a flat chain in the cube of its length."""
    if len(parts) <= FLAT:
        return f"({' || '.join(parts)})"
    return f"({_chain(parts[: len(parts) // 2])} || {_chain(parts[len(parts) // 2 :])})"


def _leaves(node: Call) -> list[Expression]:
    """The parts of a || b || c, so that each gets its share."""
    if node.op != "join":
        return list(node.args)
    return [leaf for a in node.args for leaf in (_leaves(a) if isinstance(a, Call) and a.op == "join" else [a])]


def _replaced(node: Call, emit: Emit, limit: int) -> str:
    """Every byte of the text may become one replacement."""
    new = node.args[2]
    longest = len(new.value.encode()) if isinstance(new, Literal) and isinstance(new.value, str) else 4 * SHORT
    limits = (limit // max(longest, 1), limit, max(longest, SHORT))
    return f"replace({', '.join(limited(a, emit, most) for a, most in zip(node.args, limits, strict=True))})"


LONGER = {"join": _joined, "concat": _joined, "concat_ws": _joined, "replace": _replaced}


def _plain(call: Call, emit: Emit) -> str:
    """A total function of texts, with its constant positions."""
    positions = call.option if isinstance(call.option, tuple) else () if call.option is None else (call.option,)
    return f"{call.op}({', '.join([*(emit(a, 'VARCHAR') for a in call.args), *map(str, positions)])})"


def _like(call: Call, emit: Emit) -> str:
    it, pattern = call.args
    assert isinstance(pattern, Literal)
    return f"({emit(it, 'VARCHAR')} {call.op.upper()} {emit(pattern, 'VARCHAR')})"


def _to_base(call: Call, emit: Emit) -> str:
    """Of numbers that are not negative; DuckDB takes the radix and the length as INTEGER."""
    it, *rest = call.args
    number = emit(it, "BIGINT")
    parts = [f"CASE WHEN {number} >= 0 THEN {number} END", *(emit(a, "INTEGER") for a in rest)]
    return f"to_base({', '.join(parts)})"


def _bar(call: Call, emit: Emit) -> str:
    return f"bar({', '.join(emit(a, 'DOUBLE') for a in call.args)})"


RULES: dict[str, Rule] = {
    "like": _like, "ilike": _like, "to_base": _to_base, "bar": _bar,
    **dict.fromkeys(
        ("lower", "upper", "length", "trim", "ltrim", "rtrim", "substring", "left", "right", "strpos",
         "starts_with", "ends_with", "contains"), _plain),
}  # fmt: skip
