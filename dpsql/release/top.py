"""ORDER BY … LIMIT k over noisy values: a top k that costs nothing more, and what to know about it."""

from __future__ import annotations

from sqlglot import exp

from dpsql.plan.plan import Plan

TOP = (
    "the first groups are chosen by their noisy values, which is free: near ties may come in either order, and what is"
    " chosen for being large tends to be too large; intervals(simultaneous=True) allow for that"
)


def top_notes(plan: Plan) -> tuple[str, ...]:
    """Said where the outermost query cuts off rows in the order of something that carries noise."""
    order, limit = plan.finishing.args.get("order"), plan.finishing.args.get("limit")
    return (TOP,) if order is not None and limit is not None and _noisy(order, plan) else ()


def _noisy(order: exp.Expr, plan: Plan) -> bool:
    """Does the order read an aggregate of a release, or an output with noise, by its name or its place?"""
    named = {output.name.lower() for output in plan.outputs if output.noisy}
    placed = {str(place) for place, output in enumerate(plan.outputs, 1) if output.noisy}
    names = [column.name.lower() for column in order.find_all(exp.Column)]
    places = [each.this.name for each in order.expressions if isinstance(each.this, exp.Literal)]
    return any(name in named or name.startswith("_a") for name in names) or any(place in placed for place in places)
