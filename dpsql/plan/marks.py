"""EXISTS and IN inside an expression: where they stand in a SELECT over private rows, and what takes their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.bounds.domain import finite
from dpsql.expressions.expression import Expression, columns_of
from dpsql.expressions.types import BOOLEAN
from dpsql.plan.clauses import is_grouped, unaliased
from dpsql.plan.computed import computed
from dpsql.plan.group import has_aggregate, is_aggregate
from dpsql.plan.join import Part
from dpsql.plan.mark import Marked
from dpsql.plan.membership import Membership, conjuncts_of, membership
from dpsql.plan.relate import known_of
from dpsql.plan.relation import Field, Relation
from dpsql.policy.identifiers import fold


def marked(source: Relation, inner: Part, condition: Expression, name: str) -> Marked:
    """The rows with their mark."""
    known = known_of(source)
    fields = [replace(f, domain=known.columns.get(f.name, f.domain)) for f in source.fields]
    read = columns_of(condition) - set(inner.names)
    alike = source.single or source.by_row or all(source.field(column).attribute for column in read)
    mark = Field(name, BOOLEAN, finite((False, True), BOOLEAN, nullable=False), alike)
    return Marked((*fields, mark), source.by_row, source.rows_per_unit, source.single, source, inner, condition, name)


def memberships(root: exp.Expr) -> list[Membership]:
    """EXISTS and IN with a subquery, wherever they stand in an expression; each without its NOT."""
    found = [membership(node) for node in root.walk(prune=_is_membership) if _is_membership(node)]
    return [member for member in found if member is not None]


def with_memberships(conditions: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conditions of WHERE without, and those with EXISTS or IN inside them; without any, they stay whole."""
    if not any(map(memberships, conditions)):
        return list(conditions), []
    parts = [part for condition in conditions for part in conjuncts_of(condition)]
    return [part for part in parts if not memberships(part)], [part for part in parts if memberships(part)]


def _is_membership(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or (not isinstance(node, exp.Not | exp.Paren) and membership(node) is not None)


def computed_by_row(node: exp.Select) -> list[exp.Expr]:
    """The parts of a SELECT besides WHERE that are computed for each row, below the aggregate if it has one.

    All of its list without an aggregate; else the keys, and what aggregates are taken of.
    """
    if not is_grouped(node):
        return list(node.expressions)
    group = node.args.get("group")
    above = [*node.expressions, *(node.args[p] for p in ("having", "qualify", "order") if node.args.get(p) is not None)]
    keys = list(_keys(node, group)) if group is not None else []
    arguments = [a for e in above for a in e.walk(prune=_ends) if is_aggregate(a)]
    return [*keys, *([group] if group is not None else []), *arguments]


def _ends(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or is_aggregate(node)


def _keys(node: exp.Select, group: exp.Expr) -> Iterator[exp.Expr]:
    """The items of the SELECT list that GROUP BY means: by place, name or text, or ALL."""
    texts = {e.sql("duckdb") for e in group.expressions}
    names = {fold(e.name) for e in group.expressions if isinstance(e, exp.Column) and not e.table}
    for place, item in enumerate(node.expressions, 1):
        meant = str(place) in texts or fold(item.alias) in names or unaliased(item).sql("duckdb") in texts
        if meant or (group.args.get("all") and not has_aggregate(item)):
            yield item


def instead(names: Sequence[str], member: Membership) -> exp.Expr:
    """What takes the place of EXISTS or IN: IN is NULL if it found nothing and a NULL stands on either side."""
    found, *unknown = (computed(name, member.node) for name in names)
    if not unknown:
        return found
    either: exp.Expr = unknown[0]
    for other in unknown[1:]:
        either = exp.Or(this=either, expression=other)
    branches = [exp.If(this=found, true=exp.true()), exp.If(this=either, true=exp.null())]
    return exp.Paren(this=exp.Case(ifs=branches, default=exp.false()))
