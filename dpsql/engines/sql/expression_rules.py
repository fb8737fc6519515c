"""The type of a rule that writes an operation as SQL. It gets the call and a function that writes an operand."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.engines.sql.sql_types import whole
from dpsql.expressions.expression import Call, Expression, Literal

Emit = Callable[[Expression, str], str]
Rule = Callable[[Call, Emit], str]


def width_of(call: Call) -> str:
    """An integer type that holds the operands and the result."""
    return whole(*(end for t in (call.type, *(a.type for a in call.args)) for end in (t.lower, t.upper)))


def nonzero(divisor: Expression, emit: Emit, width: str) -> str:
    """A divisor that is NULL where it would be zero."""
    made = emit(divisor, width)
    return made if isinstance(divisor, Literal) and divisor.value else f"nullif({made}, 0)"
