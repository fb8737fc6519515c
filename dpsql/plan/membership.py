"""EXISTS and IN with a subquery, as they stand among the conditions of WHERE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import call
from dpsql.plan.relation import Field


@dataclass(frozen=True, slots=True)
class Membership:
    """[NOT] EXISTS (query), or operand [NOT] IN (query)."""

    node: exp.Expr
    query: exp.Expr
    operand: exp.Expr | None
    negated: bool


def split_where(condition: exp.Expr) -> tuple[list[exp.Expr], list[Membership]]:
    """The top-level conjuncts: plain ones, and those with a subquery. Without one, the condition stays whole."""
    parts = conjuncts_of(condition)
    found = [(part, membership(part)) for part in parts]
    members = [member for _, member in found if member is not None]
    return ([part for part, member in found if member is None], members) if members else ([condition], [])


def conjuncts_of(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND holds together at the top, brackets taken off."""
    if isinstance(node, exp.And):
        return [*conjuncts_of(node.this), *conjuncts_of(node.expression)]
    return (
        conjuncts_of(node.this)
        if isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren)
        else [node]
    )


def membership(node: exp.Expr) -> Membership | None:
    """The EXISTS or IN that a condition is, in brackets or under NOT; None if it is something else."""
    negated, inner = False, node
    while isinstance(inner, exp.Not | exp.Paren):
        negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
        return Membership(node, inner.this, None, negated)
    if isinstance(inner, exp.In) and isinstance(inner.args.get("query"), exp.Query):
        return Membership(node, inner.args["query"], inner.this, negated)
    if isinstance(inner, exp.EQ) and isinstance(inner.expression, exp.Any) and not negated:
        listed = inner.expression.this
        return Membership(node, listed, inner.this, negated) if isinstance(listed, exp.Query) else None
    return None


def in_conditions(
    operand: Expression, element: Expression, fields: Mapping[str, Field], *, negated: bool
) -> list[Expression]:
    """On which rows of the subquery IN holds; each of those that speak against NOT IN, as a NULL on either side does.

    Columns that determine the owner are never NULL in rows that have one; a declared or inferred domain tells of
    others. (A wrong declaration changes the answer as a wrong bound does, and never whose rows are read.)
    """
    equal = call("eq", BOOLEAN, operand, element)
    loose = [e for e in (operand, element) if not isinstance(e, Column) or _nullable(fields[e.name])]
    return [equal, *(call("is_null", BOOLEAN, e) for e in loose if negated)]


def _nullable(field: Field) -> bool:
    return field.domain.nullable and (field.owner is None or field.padded)
