"""The centre and spread of an expression's values, from what searches found of its columns.

It decides around what a sum is centred and how it is scaled beside others (`dpsql.sensitivity.bound`), so it matters to
the error of an answer and to nothing else: any public numbers would do.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.plan.nodes.relation import Aggregate, Relation

TypicalRange = tuple[float, float]
_ALIKE = ("cast", "round", "coalesce", "abs", "least", "greatest", "floor", "ceil")
"""Operations that change little of where values lie: they are taken for their first argument."""

SEVERAL = 4
"""How many rows a unit is taken to have where its rows are added up."""


def typical_range_of_unit(aggregate: Aggregate, source: Relation) -> TypicalRange | None:
    """The centre and spread of a sum over one unit's rows, or of one value chosen from them."""
    rows = min(SEVERAL, source.rows_per_unit)
    if aggregate.function == "count":
        return float(rows), float(rows)
    known = None if aggregate.argument is None else typical_range(aggregate.argument, source)
    if known is None or aggregate.function != "sum":
        return known
    centre, spread = known
    return rows * centre, rows * max(spread, abs(centre))


def typical_range(expression: Expression, source: Relation) -> TypicalRange | None:
    """The centre and the spread of an expression's values; None where nothing is known."""
    match expression:
        case Column():
            return next((field.usual for field in source.fields if field.name == expression.name), None)
        case Literal() if isinstance(expression.value, int | float | Decimal) and not isinstance(
            expression.value, bool
        ):
            return float(expression.value), 0.0
        case Call():
            return _of_call(expression, source)
    return None


def _of_call(node: Call, source: Relation) -> TypicalRange | None:
    if node.op == "case":
        *pairs, default = node.args
        values = [v for v in (*pairs[1::2], default) if not (isinstance(v, Literal) and v.value is None)]
        return typical_range(values[0], source) if len(values) == 1 else None
    if node.op in _ALIKE and node.args:
        return typical_range(node.args[0], source)
    known = [typical_range(each, source) for each in node.args]
    if len(known) == 1 and known[0] is not None and node.op == "neg":
        return -known[0][0], known[0][1]
    if len(known) != 2 or known[0] is None or known[1] is None:
        return None
    (one, around), (two, spread) = known[0], known[1]
    if node.op == "mul" and node.args[0] == node.args[1]:
        return one * one + 2 * around * around, 2 * abs(one) * around + 4 * around * around
    match node.op:
        case "add":
            return one + two, around + spread
        case "sub":
            return one - two, around + spread
        case "mul":
            return one * two, abs(one) * spread + abs(two) * around + around * spread
        case "div" if two != 0:
            return one / two, (around + abs(one / two) * spread) / abs(two)
    return None


def columns_behind(expression: Expression, source: Relation) -> tuple[tuple[str, str], ...]:
    """The stored columns of an expression, if its operations keep the centre and spread of their values."""
    match expression:
        case Column():
            found = (field.behind for field in source.fields if field.name == expression.name)
        case Call(op="case"):
            *pairs, default = expression.args
            found = (columns_behind(each, source) for each in (*pairs[1::2], default))
        case Call():
            found = (columns_behind(each, source) for each in expression.args)
        case _:
            found = (() for _ in ())
    return tuple(dict.fromkeys(column for each in found for column in each))
