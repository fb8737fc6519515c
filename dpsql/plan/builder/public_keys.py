"""The values that group keys can have, as far as public tables, conditions and released lists say.

**Theorem.** The values that are listed here for a key contain its value in every row of the relation, NULL included, on
any data; and they are a function of the SQL, the policy and public tables.
**Proof.** By induction over the nodes. A filter, EXISTS and windows leave rows out or repeat their fields; a projection
and a grouping compute the key from a row below. An inner join: each of its rows contains a row of every part, on which
all conditions are TRUE, so it contains a row of the join of its public parts under those of the conditions that read
nothing else. A condition on a column that an equality equates to a public column of the same type holds for that one
too. A key that an equality equates to a public expression has one of its values, and is not NULL, because an equality
is TRUE for no NULL. An outer join pads with NULL; a condition that compares a padded column is TRUE for no padded row.
**Requires** public tables whose rows do not change while a query runs, and values that compare equal only if they are
the same value of the key's type (`dpsql.sensitivity.group_keys.on_type` drops those that are none).
**Checked by** `tests/unit/plan/test_public_keys.py`, which compares the keys with all rows that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from dpsql.bounds.domain import Domain, intersect
from dpsql.expressions.expression import Call, Column, Expression, columns_of, substitute
from dpsql.plan.catalog import PublicData
from dpsql.plan.nodes.joins import Inner, Outer, equations, inner_join
from dpsql.plan.nodes.relation import JoinSide, Relation
from dpsql.plan.nodes.released_scan import ReleasedScan, released_in
from dpsql.plan.nodes.semi_joins import Exists, ExistsColumn
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup, filtered
from dpsql.plan.nodes.windows import Windowed
from dpsql.plan.normal_form import conjunction, conjuncts
from dpsql.plan.plan import NestedQuery

_COMPARED = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "in", "like", "between"})


def public_values(relation: Relation, key: Expression, public: PublicData, most: int) -> Domain | None:
    """The values of a key that public tables know; None if they know nothing of it or there are too many."""
    match relation:
        case Filter(
            source=Outer(left=JoinSide(), right=JoinSide() as right, full=False), condition=Call() as condition
        ):
            said = [_padded(right, condition, key, public, most), public_values(_source(relation), key, public, most)]
            return _all_of(said)
        case Filter(source=Relation() as source):
            return public_values(source, key, public, most)
        case Exists(source=Relation() as source):
            return _all_of([public_values(source, key, public, most), _looked_for(relation, key, public, most)])
        case Outer(left=JoinSide() as left, full=False) if columns_of(key) <= set(left.names):
            return public_values(left.relation, own(key, left), public, most)
        case Project(source=Relation() as source, items=items):
            below = substitute(key, {i.name: i.expression for i in items})
            return public_values(source, below, public, most)
        case UnitGroup(source=Relation() as source, keys=keys) if columns_of(key) <= {k.name for k in keys}:
            below = substitute(key, {k.name: k.expression for k in keys})
            return public_values(source, below, public, most)
        case Windowed(source=Relation() as source) | ExistsColumn(source=Relation() as source) if source.offers(key):
            return public_values(source, key, public, most)
        case Inner():
            return _joined(relation, key, public, most)
    return None


def _source(relation: Filter) -> Relation:
    assert relation.source is not None
    return relation.source


def _all_of(said: Iterable[Domain | None]) -> Domain | None:
    """The values that all parts with a list have in common; None if no part has one."""
    known = [each for each in said if each is not None]
    return reduce(intersect, known) if known else None


def own(expression: Expression, part: JoinSide) -> Expression:
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
    for one, other in _equated([condition]):
        if one == key and columns_of(other) and columns_of(other) <= set(inner.names):
            said = public.values(inner.relation, own(other, inner), most)
            return None if said is None else replace(said, nullable=False)
    return None


def _equated(conditions: Sequence[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """The sides of each equality, either way round."""
    for one, two in equations(conditions):
        yield one, two
        yield two, one


def _padded(right: JoinSide, condition: Expression, key: Expression, public: PublicData, most: int) -> Domain | None:
    """The values of a key of the public side of a LEFT JOIN, if a condition leaves out all rows that are padded."""
    if right.private or any(released_in(right)) or not columns_of(key) <= set(right.names):
        return None
    inside = [c for c in conjuncts(condition) if columns_of(c) <= set(right.names)]
    if not any(_compares(c) for c in inside):
        return None
    return public.values(filtered(right.relation, conjunction(own(c, right) for c in inside)), own(key, right), most)


def _compares(condition: Expression) -> bool:
    """Is it a comparison of a column, which is not TRUE where that is NULL?"""
    return isinstance(condition, Call) and condition.op in _COMPARED and isinstance(condition.args[0], Column)


# Inner joins ---------------------------------------------------------------------------------------------------------


def _joined(relation: Inner, key: Expression, public: PublicData, most: int) -> Domain | None:
    """What the parts of a join and the equalities between them say of a key."""
    part = _public_part(relation, key)
    if part is not None:
        return public.values(part, key, most)
    said = [
        public_values(p.relation, own(key, p), public, most) for p in relation.parts if columns_of(key) <= set(p.names)
    ]
    for one, other in _equated(relation.conditions):
        if one == key and columns_of(other) and (part := _public_part(relation, other)) is not None:
            listed = public.values(part, other, most)
            said.append(None if listed is None else replace(listed, nullable=False))
    return _all_of(said)


def _public_part(relation: Inner, key: Expression) -> Relation | None:
    """The public parts that the key reads, with those that equalities link to them, and the conditions on these.

    Every row of the whole join contains a row of this one, so no value is missing.
    """
    names = columns_of(key)
    chosen = [part for part in relation.parts if names & set(part.names)]
    if not chosen or any(part.private or any(released_in(part)) for part in chosen):
        return None
    while (more := _linked(relation, chosen)) is not None:
        chosen.append(more)
    offered = {name for part in chosen for name in part.names}
    said = _through_equalities(relation.conditions, frozenset(offered))
    return inner_join(chosen, [c for c in said if columns_of(c) <= offered], public_unknown)


def _through_equalities(conditions: Sequence[Expression], offered: frozenset[str]) -> list[Expression]:
    """The conditions, with public columns in place of those that equal them and have their type."""
    same = {
        one.name: other
        for one, other in _equated(conditions)
        if isinstance(one, Column) and isinstance(other, Column) and one.type == other.type
        and one.name not in offered and other.name in offered
    }  # fmt: skip
    parts = [part for condition in conditions for part in conjuncts(condition)]
    return list(dict.fromkeys([*conditions, *(substitute(part, same) for part in parts)]))


def _linked(relation: Inner, chosen: list[JoinSide]) -> JoinSide | None:
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
    """Uniqueness does not matter here."""
    return False


# Released lists ------------------------------------------------------------------------------------------------------


def released_lists(relation: Relation, key: Expression) -> Iterator[tuple[str, str]]:
    """The columns of released tables, by table and name, one of whose values the key has in every row.

    A key that an inner join or EXISTS equates to such a column is not NULL, and in the list.
    """
    match relation:
        case Filter(source=Relation() as source):
            yield from released_lists(source, key)
        case Exists(source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition):
            yield from released_lists(source, key)
            if not relation.negated:
                yield from _listed_in([inner], [condition], key)
        case Outer(left=JoinSide() as left, full=False) if columns_of(key) <= set(left.names):
            yield from released_lists(left.relation, own(key, left))
        case Project(source=Relation() as source, items=items):
            yield from released_lists(source, substitute(key, {i.name: i.expression for i in items}))
        case UnitGroup(source=Relation() as source, keys=keys) if columns_of(key) <= {k.name for k in keys}:
            yield from released_lists(source, substitute(key, {k.name: k.expression for k in keys}))
        case Windowed(source=Relation() as source) | ExistsColumn(source=Relation() as source) if source.offers(key):
            yield from released_lists(source, key)
        case Inner():
            for part in relation.parts:
                if columns_of(key) and columns_of(key) <= set(part.names):
                    yield from released_lists(part.relation, own(key, part))
            yield from _listed_in(relation.parts, relation.conditions, key)
        case ReleasedScan() if isinstance(key, Column):
            yield relation.table, key.name


def _listed_in(
    parts: Sequence[JoinSide], conditions: Sequence[Expression], key: Expression
) -> Iterator[tuple[str, str]]:
    for one, other in _equated(conditions):
        for part in parts:
            if one == key and isinstance(other, Column) and other.type == key.type and other.name in part.names:
                yield from released_lists(part.relation, own(other, part))


def is_listed(column: exp.Expr, nested: NestedQuery, name: str) -> exp.Expr:
    """The condition that a key is in the column of a nested query that has this name."""
    names = [output.name for output in nested.plan.outputs]
    titles = [f"c{place}" for place in range(len(names))]
    rows = exp.Subquery(
        this=nested.plan.finishing.copy(),
        alias=exp.TableAlias(this=exp.to_identifier("_list"), columns=[exp.to_identifier(t) for t in titles]),
    )
    values = exp.Select(expressions=[exp.column(titles[names.index(name)], table="_list")], from_=exp.From(this=rows))
    return exp.In(this=column, query=exp.Subquery(this=values))
