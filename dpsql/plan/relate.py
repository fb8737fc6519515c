"""New relations from old ones, with the domain of every column inferred on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsql.bounds import infer, narrow
from dpsql.bounds.aggregates import aggregate_domain
from dpsql.bounds.domain import Domain
from dpsql.bounds.known import Known
from dpsql.errors import UnboundedColumn
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import DOUBLE, INT64, INT128, Kind, Type, decimal, integer
from dpsql.parse.span import refuse
from dpsql.plan.join import Exists, Inner, Outer, Part, whole
from dpsql.plan.mark import Marked
from dpsql.plan.normal import conjunction, conjuncts, normal
from dpsql.plan.numbered import rows_left
from dpsql.plan.relation import Aggregate, Field, Filter, Item, Project, Relation, UnitGroup
from dpsql.plan.usual import columns_behind, usual_of, usual_of_unit


def known_of(relation: Relation) -> Known:
    """What is known of a relation's rows: the domains of its fields, narrowed by the filters on top of it."""
    if isinstance(relation, Filter):
        return relation.known
    if isinstance(relation, Exists | Marked):
        assert relation.source is not None
        return Known({f.name: f.domain for f in relation.fields}, known_of(relation.source).refinements)
    known = Known({f.name: f.domain for f in relation.fields}, _refinements(relation))
    return narrow(known, conjunction(relation.conditions)) if isinstance(relation, Inner) else known


def _refinements(relation: Relation) -> Mapping[Expression, Domain]:
    """What is known of expressions over one side of a join that keeps its names: each joined row has a row of it."""
    sides: tuple[Part | None, ...] = ()
    if isinstance(relation, Inner):
        sides = relation.parts
    elif isinstance(relation, Outer) and not relation.full:
        sides = (relation.left,)
    kept = [side.relation for side in sides if side is not None and side == whole(side.relation)]
    return {e: domain for each in kept for e, domain in known_of(each).refinements.items()}


def filtered(source: Relation, condition: Expression) -> Relation:
    """A filter in its normal spelling, with the fields' domains narrowed by it."""
    condition = normal(condition)
    known = narrow(known_of(source), condition)
    fields = tuple(replace(f, domain=infer(Column(f.type, name=f.name), known)) for f in source.fields)
    left = rows_left(source, conjuncts(condition))
    rows = source.rows_per_unit if left is None else min(left, source.rows_per_unit)
    return Filter(fields, source.by_row, rows, source.single or left == 1, source, condition, known)


def _offered(source: Relation, item: Item, known: Known) -> Field:
    """A named expression as a field; a column, unchanged, keeps what it tells of the owner."""
    expression = item.expression
    before = source.field(expression.name) if isinstance(expression, Column) else None
    owner, padded = (None, False) if before is None else (before.owner, before.padded)
    response = None if before is None else before.response
    attribute = source.is_attribute(expression)
    made = Field(item.name, expression.type, infer(expression, known), attribute, owner, padded, response=response)
    behind, usual = columns_behind(expression, source), usual_of(expression, source)
    return replace(made, stored=None if before is None else before.stored, behind=behind, usual=usual)


def projected(source: Relation, items: Sequence[Item]) -> Relation:
    """A projection, with the domain of each item inferred."""
    known = known_of(source)
    fields = tuple(_offered(source, i, known) for i in items)
    return Project(fields, source.by_row, source.rows_per_unit, source.single, source, tuple(items))


def unit_grouped(source: Relation, keys: Sequence[Item], aggregates: Sequence[tuple[str, Aggregate]]) -> Relation:
    """GROUP BY the owner and `keys`; at most one row per unit if all keys are attributes of the unit.

    Where a key determines the owner this is GROUP BY `keys`: rows that agree on it have one owner.
    """
    known = known_of(source)
    single = all(source.is_attribute(k.expression) for k in keys)
    rows = 1 if single else source.rows_per_unit
    fields = [_offered(source, k, known) for k in keys]
    for name, aggregate in aggregates:
        argument = None if aggregate.argument is None else infer(aggregate.argument, known)
        domain = aggregate_domain(aggregate.function, argument, source.rows_per_unit)
        made = Field(name, aggregate_type(aggregate, domain), domain, attribute=single)
        read = () if aggregate.argument is None else columns_behind(aggregate.argument, source)
        fields.append(replace(made, behind=read, usual=usual_of_unit(aggregate, source)))
    return UnitGroup(tuple(fields), False, rows, single, source, tuple(keys), tuple(aggregates))


def aggregate_type(aggregate: Aggregate, domain: Domain) -> Type:
    """The type of a per-unit aggregate. Sums are exact: integers by type, doubles on a grid that needs bounds."""
    argument = aggregate.argument
    if aggregate.function == "count":
        return integer(0, 2**62)
    assert argument is not None
    wide = argument.type == DOUBLE or argument.type.lower < INT64[0] or argument.type.upper > INT64[1]
    if wide and aggregate.function in ("sum", "avg") and not domain.bounded:
        raise unbounded(aggregate.function, argument)
    if aggregate.function == "avg":
        return DOUBLE
    if aggregate.function == "sum" and argument.type != DOUBLE:
        if domain.lower is None or domain.upper is None:
            return integer(*INT128) if argument.type.kind is Kind.INTEGER else DOUBLE
        if wide and max(-domain.lower, domain.upper) >= 2**50:
            return DOUBLE
        scale = 10**argument.type.scale
        return decimal(int(domain.lower * scale), int(domain.upper * scale), argument.type.scale)
    return argument.type


def unbounded(function: str, argument: Expression) -> UnboundedColumn:
    """The refusal of a sum without bounds, with both ways out."""
    error = refuse(
        f"{function.upper()}({argument}) needs bounds: how much one row can add cannot be inferred for {argument}",
        argument.span,
        kind=UnboundedColumn,
        hint=f"clamp it in the query to bounds of your own, such as {function}(least(greatest({argument}, 0), 1000)), "
        f"or ask the steward to declare min and max for the column in the policy",
        reason="bounds",
    )
    assert isinstance(error, UnboundedColumn)
    return error
