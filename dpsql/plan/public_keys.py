"""The values of a group key that reads public tables only: computed over the public part of the join, exactly.

In `customer, nation, region WHERE … AND r_name = 'ASIA' GROUP BY n_name` the keys are the five nations of Asia. They
are a function of the query and of public rows, so listing them tells nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from dpsql.bounds.domain import Domain, intersect
from dpsql.expressions.expression import Column, Expression, columns_of, substitute
from dpsql.plan.join import Exists, Inner, Outer, Part, equations
from dpsql.plan.mark import Marked
from dpsql.plan.public import PublicData
from dpsql.plan.relate_joins import joined
from dpsql.plan.relation import Filter, Project, Relation, UnitGroup
from dpsql.plan.released import released_in
from dpsql.plan.window import Windowed


def public_values(relation: Relation, key: Expression, public: PublicData, most: int) -> Domain | None:
    """What public tables say of a key; None if it reads anything else, or has too many values."""
    match relation:
        case Filter(source=Relation() as source):
            return public_values(source, key, public, most)
        case Exists(source=Relation() as source):
            said = [public_values(source, key, public, most), _looked_for(relation, key, public, most)]
            return reduce(intersect, listed) if (listed := [each for each in said if each is not None]) else None
        case Outer(left=Part() as left, full=False) if columns_of(key) <= set(left.names):
            return public_values(left.relation, _own(key, left), public, most)
        case Project(source=Relation() as source, items=items):
            below = substitute(key, {i.name: i.expression for i in items})
            return public_values(source, below, public, most)
        case UnitGroup(source=Relation() as source, keys=keys) if columns_of(key) <= {k.name for k in keys}:
            below = substitute(key, {k.name: k.expression for k in keys})
            return public_values(source, below, public, most)
        case Windowed(source=Relation() as source) | Marked(source=Relation() as source) if source.offers(key):
            return public_values(source, key, public, most)
        case Inner():
            part = _public_part(relation, key)
            return None if part is None else public.values(part, key, most)
    return None


def _own(expression: Expression, part: Part) -> Expression:
    """An expression over a part's fields, in the relation's own names for them."""
    return substitute(
        expression,
        {n: Column(f.type, name=f.name) for f, n in zip(part.relation.fields, part.names, strict=True)},
    )


def _looked_for(relation: Exists, key: Expression, public: PublicData, most: int) -> Domain | None:
    """A key that EXISTS equates to an expression over public rows has one of its values there, and is not NULL."""
    inner, condition = relation.inner, relation.condition
    if inner is None or condition is None or relation.negated or inner.private or any(released_in(inner)):
        return None
    for sides in equations([condition]):
        for one, other in (sides, sides[::-1]):
            if one == key and columns_of(other) and columns_of(other) <= set(inner.names):
                said = public.values(inner.relation, _own(other, inner), most)
                return None if said is None else replace(said, nullable=False)
    return None


def _public_part(relation: Inner, key: Expression) -> Relation | None:
    """The public parts that the key reads, with those that equalities link to them, and the conditions on these.

    Rows of the whole join are rows of this one, with more beside them, so no value is missing.
    """
    names = columns_of(key)
    chosen = [part for part in relation.parts if names & set(part.names)]
    if not chosen or any(part.private or any(released_in(part)) for part in chosen):
        return None
    while (more := _linked(relation, chosen)) is not None:
        chosen.append(more)
    offered = {name for part in chosen for name in part.names}
    conditions = [c for c in relation.conditions if columns_of(c) <= offered]
    return joined(chosen, conditions, public_unknown)


def _linked(relation: Inner, chosen: list[Part]) -> Part | None:
    offered = {name for part in chosen for name in part.names}
    for part in relation.parts:
        if part.private or part in chosen or any(released_in(part)):
            continue
        for one, two in equations(relation.conditions):
            read = columns_of(one) | columns_of(two)
            if read & offered and read & set(part.names) and read <= offered | set(part.names):
                return part
    return None


def public_unknown(table: str, columns: frozenset[str]) -> bool:
    """Nothing here hangs on uniqueness."""
    return False
