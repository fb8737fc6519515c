"""One spelling for conditions and expressions that mean the same, so that they are planned, bounded and emitted alike.

**Theorem.** `normal(e)` has the value of `e` on every row, NULL and NaN included, and never raises where `e` does not.
**Proof.** By induction, each step being an equality of three-valued logic or of the engine's arithmetic:
AND and OR are minimum and maximum on FALSE < NULL < TRUE, so they may be flattened, sorted and freed of repetitions,
TRUE is neutral for AND and absorbs OR, FALSE the other way round; `NOT NOT a` is `a`. The engine's order of values is
total (NaN is the largest and equal to itself) and a comparison is NULL exactly if a side is, so `a < b` is `b > a` and
`NOT a < b` is `a >= b`. `=`, `<>`, IS [NOT] DISTINCT FROM, `+` and `*` are symmetric (`+` and `*` of DOUBLE too, which
are only swapped and never regrouped); their types and widths are symmetric in the operands. `x IN (l)` is `x = l`, and
an IN list is a set. A comparison of two constants is decided only for exact numbers, and for equality of texts, dates
and booleans, none of them NULL. Every expression is total (`dpsql.engines.sql.dialect`), so the order in which
operands are evaluated cannot be observed.
`x = x` is no constant (it is NULL for NULL) and stays.
**Requires** that an engine compares and adds as is said here, in every dialect (`tests/engines` compares them), and
that constants have the types of `dpsql.expressions.types`.
**Checked by** `tests/properties/test_canonical.py`, which compares both on rows with NULL, NaN and ±0 in DuckDB.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

from dpsql.bounds.predicates import NEGATED, SWAPPED
from dpsql.expressions.expression import Call, Expression, Literal, order
from dpsql.expressions.types import BOOLEAN, Kind

TRUE, FALSE = (Literal(BOOLEAN, value=value) for value in (True, False))
_MIRRORED = {**SWAPPED, **{op: op for op in ("is_distinct", "is_not_distinct", "add", "mul")}}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def normal(expression: Expression) -> Expression:
    """The one spelling of an expression."""
    if not isinstance(expression, Call):
        return expression
    if expression.op in ("and", "or"):
        return _joined(expression.op, [normal(part) for part in _parts(expression.op, expression)])
    made = replace(expression, args=tuple(normal(a) for a in expression.args))
    if made.op == "in":
        made = _listed(made)
    if made.op == "not":
        return _negated(made)
    return _decided(_turned(made)) if made.op in _MIRRORED else made


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """What a normal condition asks of a row, all of which must be TRUE."""
    return () if condition == TRUE else tuple(_parts("and", condition))


def conjunction(parts: Iterable[Expression]) -> Expression:
    """The normal condition that asks all of these normal conditions."""
    return _joined("and", [part for each in parts for part in _parts("and", each)])


def _parts(op: str, expression: Expression) -> list[Expression]:
    """The operands of nested ANDs (or ORs), without recursion: a WHERE may have thousands."""
    found, waiting = [], [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.op == op:
            waiting += reversed(node.args)
        else:
            found.append(node)
    return found


def _joined(op: str, operands: list[Expression]) -> Expression:
    neutral, absorbing = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    flat = [part for operand in operands for part in _parts(op, operand) if part != neutral]
    if absorbing in flat or not flat:
        return absorbing if flat else neutral
    return reduce(lambda one, two: Call(BOOLEAN, op=op, args=(one, two), span=one.span), _in_order(flat))


def _in_order(expressions: Iterable[Expression]) -> list[Expression]:
    """Each once. By their text: 0.0 and -0.0 are equal as constants, and differ as divisors."""
    found = {order(each): each for each in expressions}
    return [found[text] for text in sorted(found)]


def _turned(call: Call) -> Call:
    """Puts a constant on the right, and otherwise orders the sides, so that a comparison is `<` or `<=`."""
    one, two = call.args
    constants = isinstance(one, Literal), isinstance(two, Literal)
    if constants[0] != constants[1]:
        swap = constants[0]
    elif call.op in ("lt", "le", "gt", "ge"):
        swap = call.op in ("gt", "ge")
    else:
        swap = order(two) < order(one)
    return replace(call, op=_MIRRORED[call.op], args=(two, one)) if swap else call


def _decided(call: Call) -> Expression:
    one, two = call.args
    if not (isinstance(one, Literal) and isinstance(two, Literal) and call.op in _COMPARED):
        return call
    kinds = {one.type.kind, two.type.kind}
    exact = kinds <= {Kind.INTEGER, Kind.DECIMAL}
    same = len(kinds) == 1 and kinds <= {Kind.TEXT, Kind.DATE, Kind.BOOLEAN} and call.op in ("eq", "ne")
    if None in (one.value, two.value) or not (exact or same):
        return call
    return TRUE if _COMPARED[call.op](one.value, two.value) else FALSE


def _listed(call: Call) -> Call:
    it, *constants = call.args
    listed = _in_order(constants)
    if len(listed) == 1:
        return replace(call, op="eq", args=(it, listed[0]))
    return replace(call, args=(it, *listed))


def _negated(call: Call) -> Expression:
    [it] = call.args
    if it in (TRUE, FALSE):
        return FALSE if it == TRUE else TRUE
    if isinstance(it, Call) and it.op == "not":
        return it.args[0]
    if isinstance(it, Call) and it.op in NEGATED:
        return _turned(replace(it, op=NEGATED[it.op]))
    return call
