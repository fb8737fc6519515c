"""Joins from their sides: the domain of every column, what stays an attribute, and how many rows a unit may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dpsql.bounds import infer, narrow
from dpsql.bounds.known import Known
from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.plan.join import Exists, Inner, Outer, Part, first_of, whole
from dpsql.plan.lookup import Unique, equated, fits_once, is_key, looked_up
from dpsql.plan.normal import conjunction, conjuncts
from dpsql.plan.relate import known_of
from dpsql.plan.relation import UNIT, Field, Relation, same_owner


def joined(parts: Sequence[Part], conditions: Sequence[Expression], unique: Unique) -> Inner:
    """The flat inner join; equalities narrow both of their sides."""
    attributes = _attributes(parts, conditions, unique)
    offered = [replace(f, attribute=f.name in attributes) for part in parts for f in part.fields]
    fields = _narrowed(offered, conjunction(conditions))
    lookups = looked_up(parts, conditions, unique)
    roots = [part for i, part in enumerate(parts) if i not in lookups]
    return Inner(
        fields,
        any(part.relation.by_row for part in parts),
        prod(part.relation.rows_per_unit for part in roots if part.private),
        all(part.private and part.relation.single for part in roots),
        tuple(parts),
        tuple(conditions),
        lookups,
    )


def _narrowed(fields: Sequence[Field], condition: Expression) -> tuple[Field, ...]:
    known = narrow(Known({f.name: f.domain for f in fields}), condition)
    return tuple(replace(f, domain=infer(Column(f.type, name=f.name), known)) for f in fields)


def _attributes(parts: Sequence[Part], conditions: Sequence[Expression], unique: Unique) -> frozenset[str]:
    """The fields that are functions of the owner alone.

    **Theorem.** An attribute of a private part is one of the join; so is each field of a public part that is looked
    up by a unique key equated to attributes. **Proof.** All private rows of a combination have one owner, who decides
    their attributes, hence the key, hence the one public row. **Requires** verified uniqueness.
    **Checked by** the neighbour test of joins (rule `one_group`), and the planted bug "fan-out kept as attribute".
    """
    found = {f.name for p in parts if p.private for f in p.fields if f.attribute or p.relation.single}
    waiting = [part for part in parts if not part.private]
    while True:
        more = [p for p in waiting if is_key(p.relation, p.own(_equal_to(p, conditions, found)), unique)]
        if not more:
            return frozenset(found)
        found |= {name for part in more for name in part.names}
        waiting = [part for part in waiting if part not in more]


def _equal_to(part: Part, conditions: Sequence[Expression], names: set[str]) -> frozenset[str]:
    return equated(part, conditions, lambda e: columns_of(e) <= names)


def matches_once(left: Part, right: Part, condition: Expression, unique: Unique) -> bool:
    """Does each left row have at most one match, by verified uniqueness?"""
    return fits_once(right, frozenset(left.names), left.private, [condition], unique)


def outer_joined(
    left: Part,
    right: Part,
    full: bool,
    condition: Expression,
    merged: Sequence[tuple[str, str, str]],
    unique: Unique,
) -> Outer:
    """The outer join. The condition says something of the padded side only, and nothing of NULL."""
    matched = {f.name: f for f in _narrowed([*left.fields, *right.fields], condition)}
    single = left.relation.single
    lefts = [_padded(f, f) if full else replace(f, attribute=f.attribute or single) for f in left.fields]
    rights = [_padded(f, f if full else matched[f.name]) for f in right.fields]
    once = matches_once(left, right, condition, unique)
    paired = right.private and right.relation.single and _units_only(left, right, condition)
    alone = single and (paired if full else once)
    rows = _outer_rows(left, right, full, once, matches_once(right, left, condition, unique))
    return Outer(
        (*lefts, *rights, *(_merged(name, left, right, pair) for name, *pair in merged)),
        left.relation.by_row,
        1 if alone else rows,
        alone,
        left,
        right,
        full,
        condition,
        once,
        tuple(merged),
    )


def _outer_rows(left: Part, right: Part, full: bool, once: bool, other: bool) -> int:
    """How many rows of a unit an outer join has; `once` and `other`: a left row, a right row has one match at most.

    **Theorem.** With l and r ≥ 1 rows of a unit on the sides, a LEFT join has at most l·r rows: l where a left row has
    one match at most, l + r where a right row has. A FULL join has at most max(l + r, l·r), l + r in both these cases.
    **Proof.** Say a left and b right rows have a match. The rows are the pairs, the l − a left rows that match nothing
    and, in a FULL join, the r − b right ones. With pairs ≤ ab this is largest at a corner of 0 ≤ a ≤ l, 0 ≤ b ≤ r. With
    pairs = a it is l, or l + r − b. With pairs = b it is l − a + b ≤ l + r, or l − a + r.
    **Requires** private sides; the fan-out of a public one is not counted, since what is capped are the join's rows.
    **Checked by** `tests/unit/plan/test_keys_of_columns.py`, and the planted bug "an outer join forgets the rows that
    match nothing".
    """
    one, two = left.relation.rows_per_unit, right.relation.rows_per_unit
    if not right.private or (once and not full):
        return one
    every = max(one * two, one + two) if full else one * two
    return min(every, one + two) if once or other else every


def _padded(field: Field, matched: Field) -> Field:
    """A field of a side that may be missing: it can be NULL, on some rows of an owner and not on others."""
    return replace(field, domain=replace(matched.domain, nullable=True), attribute=False, padded=True)


def _units_only(left: Part, right: Part, condition: Expression) -> bool:
    """Is the condition that the owners are equal, and nothing more? Then a unit's two single rows always meet."""
    units = {f.name for f in (*left.fields, *right.fields) if f.unit}
    return len(conjuncts(condition)) == 1 and columns_of(condition) <= units


def _merged(name: str, left: Part, right: Part, pair: Sequence[str]) -> Field:
    one, two = (next(f for f in part.fields if f.name == n) for part, n in zip((left, right), pair, strict=True))
    made = first_of(one, two)
    domain = infer(made, Known({f.name: replace(f.domain, nullable=True) for f in (one, two)}))
    nullable = one.domain.nullable or two.domain.nullable or one.type.kind is not two.type.kind
    owner = one.owner if same_owner(one, two) and not (one.padded or two.padded) else None
    return Field(name, made.type, replace(domain, nullable=nullable), owner == UNIT, owner)


def existing(source: Relation, inner: Part, condition: Expression, *, negated: bool) -> Exists:
    """EXISTS as a filter; what the condition says of the row holds where it was met."""
    before = known_of(source)
    fields = tuple(replace(f, domain=before.columns.get(f.name, f.domain)) for f in source.fields)
    if not negated:
        fields = _narrowed([*fields, *inner.fields], condition)[: len(fields)]
    return Exists(fields, source.by_row, source.rows_per_unit, source.single, source, inner, condition, negated)


def renamed(part: Part, unique: Unique) -> Relation:
    """The part as a relation of its own."""
    return part.relation if part == whole(part.relation) else joined([part], [], unique)
