"""Comparisons, logic and choices: both sides are read in one type that holds them all, so no implicit cast happens."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.engines.sql.sql_types import physical, shared, whole
from dpsql.expressions.expression import Call, Expression, Literal

# the type of a rule ---------------------------------------------------------------------------------------------------
# The type of a rule that writes an operation as SQL. It gets the call and a function that writes an operand.


Emit = Callable[[Expression, str], str]
Rule = Callable[[Call, Emit], str]


def width_of(call: Call) -> str:
    """An integer type that holds the operands and the result."""
    return whole(*(end for t in (call.type, *(a.type for a in call.args)) for end in (t.lower, t.upper)))


def nonzero(divisor: Expression, emit: Emit, width: str) -> str:
    """A divisor that is NULL where it would be zero."""
    made = emit(divisor, width)
    return made if isinstance(divisor, Literal) and divisor.value else f"nullif({made}, 0)"


_SIGNS = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "is_not_distinct": "IS NOT DISTINCT FROM", "is_distinct": "IS DISTINCT FROM",
}  # fmt: skip


def _sides(call: Call, emit: Emit) -> list[str]:
    wanted = shared([a.type for a in call.args])
    return [emit(a, wanted) for a in call.args]


def _infix(sign: str) -> Rule:
    return lambda call, emit: f"({f' {sign} '.join(_sides(call, emit))})"


def _logic(sign: str) -> Rule:
    return lambda call, emit: f"({f' {sign} '.join(emit(a, 'BOOLEAN') for a in call.args)})"


def _in(call: Call, emit: Emit) -> str:
    it, *listed = _sides(call, emit)
    return f"({it} IN ({', '.join(listed)}))"


def _is_null(call: Call, emit: Emit) -> str:
    return f"({emit(call.args[0], physical(call.args[0].type))} IS NULL)"


def _not(call: Call, emit: Emit) -> str:
    return f"(NOT {emit(call.args[0], 'BOOLEAN')})"


def _case(call: Call, emit: Emit) -> str:
    *pairs, default = call.args
    wanted = physical(call.type)
    branches = [
        f"WHEN {emit(condition, 'BOOLEAN')} THEN {emit(result, wanted)}"
        for condition, result in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    return f"CASE {' '.join(branches)} ELSE {emit(default, wanted)} END"


def _function(call: Call, emit: Emit) -> str:
    """coalesce, greatest and least; the last two ignore NULL."""
    wanted = physical(call.type)
    return f"{call.op}({', '.join(emit(a, wanted) for a in call.args)})"


def _nullif(call: Call, emit: Emit) -> str:
    one, two = call.args
    wanted, common = physical(call.type), shared([one.type, two.type])
    if wanted == common:
        return f"nullif({emit(one, wanted)}, {emit(two, wanted)})"
    return f"CASE WHEN {emit(one, common)} = {emit(two, common)} THEN NULL ELSE {emit(one, wanted)} END"


RULES: dict[str, Rule] = {
    **{op: _infix(sign) for op, sign in _SIGNS.items()},
    "and": _logic("AND"), "or": _logic("OR"), "not": _not, "in": _in, "is_null": _is_null, "case": _case,
    "nullif": _nullif, "coalesce": _function, "greatest": _function, "least": _function,
}  # fmt: skip
