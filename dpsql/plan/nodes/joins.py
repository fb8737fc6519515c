"""Inner and outer joins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod

from dpsql.bounds import infer, narrow
from dpsql.bounds.domain import Domain, RowDomains
from dpsql.expressions.expression import Call, Column, Expression, columns_of
from dpsql.expressions.types import BOOLEAN, Kind
from dpsql.expressions.typing import call, common
from dpsql.plan.nodes.relation import UNIT, Field, JoinSide, Relation, UniqueKeys, require, same_owner, side_of
from dpsql.plan.normal_form import conjunction, conjuncts
from dpsql.policy.identifiers import fold

# lookups: sides of which at most one row matches ----------------------------------------------------------------------
# Lookups: sides of a join of which at most one row matches.


Unique = Callable[[str, frozenset[str]], bool]

MOST_KEYS = 64
"""A join has a key for each combination of its parts' keys; so many of them are looked at."""


def looked_up(parts: Sequence[JoinSide], conditions: Sequence[Expression], unique: Unique) -> frozenset[int]:
    """The parts that are looked up, directly or one from another, from those that remain; one private part remains.

    **Theorem.** The join has at most as many rows (per unit) as the join of the remaining parts. **Proof.** By
    induction over the order in which `_reached` adds parts: each has a key, all of whose columns are equated to
    expressions over the parts before it, or has at most one row per unit, and a private part before it tells the unit;
    so each combination of those fits at most one of its rows. A column of a private part that holds its owner on every
    row need not be equated where a private part is before it: all private rows of a combination have one owner. An
    equality is TRUE of values that are not NULL only, so a row with NULL in its key is found by nobody.
    **Requires** verified keys, and equalities that compare without rounding (`_exact`).
    **Checked by** the neighbour test of joins (rules `row` and `single_row`), `tests/properties/test_join_flags.py`,
    and the planted bugs "single in spite of fan-out" and "a join believes half of a key".
    """
    roots = set(range(len(parts)))
    for index in sorted(roots, key=lambda i: (parts[i].private, -parts[i].relation.rows_per_unit)):
        rest = roots - {index}
        kept = any(parts[i].private for i in rest) or not any(part.private for part in parts)
        if rest and kept and index in _reached(parts, rest, conditions, unique):
            roots = rest
    return frozenset(range(len(parts))) - roots


def _reached(
    parts: Sequence[JoinSide], roots: Collection[int], conditions: Sequence[Expression], unique: Unique
) -> set[int]:
    """The roots, and all that is looked up from what was reached before."""
    reached = set(roots)
    while True:
        more = {i for i in range(len(parts)) if i not in reached and _fits_once(parts, i, reached, conditions, unique)}
        if not more:
            return reached
        reached |= more


def _fits_once(
    parts: Sequence[JoinSide], index: int, others: Collection[int], conditions: Sequence[Expression], unique: Unique
) -> bool:
    names = {name for j in others for name in parts[j].names}
    return fits_once(parts[index], names, any(parts[j].private for j in others), conditions, unique)


def fits_once(part: JoinSide, names: Set[str], owned: bool, conditions: Sequence[Expression], unique: Unique) -> bool:
    """Whether at most one row of the part can match these fields. `owned`: a private row of the same owner is there."""
    if owned and part.private and part.relation.single:
        return True
    units = {f.name for f in part.fields if owned and part.private and f.unit}
    columns = equated(part, conditions, lambda e: columns_of(e) <= names)
    return is_key(part.relation, part.own(columns | units), unique)


def equated(part: JoinSide, conditions: Sequence[Expression], holds: Callable[[Expression], bool]) -> frozenset[str]:
    """The part's columns that are equal to some expression of that kind; compared without rounding."""
    found = set()
    for sides in equations(conditions):
        for column, other in (sides, sides[::-1]):
            if isinstance(column, Column) and column.name in part.names and _exact(column, other) and holds(other):
                found.add(column.name)
    return frozenset(found)


def _exact(one: Expression, two: Expression) -> bool:
    return one.type == two.type or (one.type.kind is Kind.INTEGER and two.type.kind is Kind.INTEGER)


def is_key(relation: Relation, columns: frozenset[str], unique: Unique) -> bool:
    """Do the columns name at most one row of the relation?"""
    if any(key <= columns for key in relation.unique_keys()):
        return True
    table, names = relation.stored_columns() or ("", {})
    return bool(columns & names.keys()) and unique(table, frozenset(names[c] for c in columns if c in names))


def combined_keys(keys: Sequence[UniqueKeys]) -> UniqueKeys:
    """One key of each, for all combinations of them."""
    return frozenset(
        frozenset().union(*each) for each in islice(product(*(sorted(k, key=sorted) for k in keys)), MOST_KEYS)
    )


def equations(conditions: Sequence[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """Both sides of each top-level conjunct that is an equality."""
    for condition in conditions:
        for part in conjuncts(condition):
            if isinstance(part, Call) and part.op == "eq":
                yield part.args[0], part.args[1]


# Nodes ---------------------------------------------------------------------------------------------------------------


def share_owner(one: JoinSide, two: JoinSide, conditions: Sequence[Expression]) -> bool:
    """Does a top-level equality of two columns prove that both rows have one owner?"""
    ones, twos = ({f.name: f for f in part.fields} for part in (one, two))
    for left, right in equations(conditions):
        if isinstance(left, Column) and isinstance(right, Column):
            for a, b in ((left.name, right.name), (right.name, left.name)):
                if a in ones and b in twos and same_owner(ones[a], twos[b]):
                    return True
    return False


def owner_groups(parts: Sequence[JoinSide], conditions: Sequence[Expression]) -> list[list[JoinSide]]:
    """The private parts, those together that the conditions prove to have one owner."""
    groups: list[list[JoinSide]] = []
    for part in (p for p in parts if p.private):
        linked = [g for g in groups if any(share_owner(part, other, conditions) for other in g)]
        groups = [g for g in groups if g not in linked] + [[*(p for g in linked for p in g), part]]
    return groups


def first_of(one: Field, two: Field) -> Expression:
    """The column that USING makes of two: the first that is not NULL, in one type that holds both without raising."""
    type_, sides = common([Column(f.type, name=f.name) for f in (one, two)])
    return call("coalesce", type_, *sides)


def distinct_names(names: Sequence[str]) -> bool:
    return len({fold(name) for name in names}) == len(names)


@dataclass(frozen=True, slots=True)
class Inner(Relation):
    """All combinations of the parts' rows on which every condition is true.

    **Theorem.** If the private parts are linked by equalities that `same_owner` proves, the join is unit-local, with
    the owner of any one private part. **Proof.** Along each link both rows have one owner, so all private rows of a
    combination have; the combination reads those rows and public ones.
    **Requires** one private part where a part has a row as its unit, and then each public part looked up by a unique
    key (`lookups`), so that a row stays one row. **Checked by** the neighbour test of joins, and the planted bugs
    "joined on another column" and "single in spite of fan-out".
    """

    parts: tuple[JoinSide, ...] = ()
    conditions: tuple[Expression, ...] = ()
    lookups: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        names = [name for part in self.parts for name in part.names]
        require(distinct_names(names) and [f.name for f in self.fields] == names, "each field of a join once")
        require(all(c.type == BOOLEAN and self.offers(c) for c in self.conditions), "join reads what is not there")
        require(len(owner_groups(self.parts, self.conditions)) <= 1, "private rows joined across owners")
        rows = [p.relation.by_row for p in self.parts if p.private]
        require(not any(rows) or len(rows) == 1, "a row that is a unit joined with private rows")
        alone = all(p.private or i in self.lookups for i, p in enumerate(self.parts))
        require(not any(rows) or (alone and self.by_row), "a row that is a unit multiplied")

    @property
    def public(self) -> bool:
        return not any(part.private for part in self.parts)

    def row_domains(self) -> RowDomains:
        known = RowDomains({f.name: f.domain for f in self.fields}, _refinements(self.parts))
        return narrow(known, conjunction(self.conditions))

    def unique_keys(self) -> UniqueKeys:
        return combined_keys([part.unique_keys() for i, part in enumerate(self.parts) if i not in self.lookups])


@dataclass(frozen=True, slots=True)
class Outer(Relation):
    """LEFT or FULL: unmatched rows are kept, with NULL on the other side; RIGHT is LEFT the other way round.

    `once`: each left row has at most one match, by verified uniqueness. `merged` are the columns of USING in a FULL
    join: (name, left field, right field), the first that is not NULL.

    **Theorem.** The join is unit-local; the owner is that of the left row, in a FULL join that of whichever is there.
    **Proof.** A left row's matches are public, or have its owner by `same_owner`: whether it has one, and which, hangs
    on that owner's rows alone. The same holds for the right rows of a FULL join. Every row has an owner, since a
    side that is kept whole is private (or nothing is).
    A padded column that is not NULL comes from a match, so it still determines the owner.
    A merged column of two fields with one label, equated by the condition, has that label: whichever side is there
    gives its own owner. **Requires** the label equality as a top-level conjunct of the condition between two private
    sides. **Checked by** the neighbour test of joins, and the planted bug "padded columns as attributes".
    """

    left: JoinSide | None = None
    right: JoinSide | None = None
    full: bool = False
    condition: Expression | None = None
    once: bool = False
    merged: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        left, right, condition = self.left, self.right, self.condition
        require(left is not None and right is not None and condition is not None, "outer join")
        assert left is not None and right is not None and condition is not None
        names = [*left.names, *right.names, *(name for name, _, _ in self.merged)]
        require(distinct_names(names) and [f.name for f in self.fields] == names, "each field of a join once")
        require(self.offers(condition), "join reads what is not there")
        require(left.private or not right.private, "rows without owner kept")
        require(right.private or not (self.full and left.private), "rows without owner kept")
        if right.private:
            require(share_owner(left, right, [condition]), "private rows joined across owners")
            require(not left.relation.by_row and not right.relation.by_row, "a row that is a unit joined")
        require(not left.relation.by_row or self.once, "a row that is a unit multiplied")

    @property
    def public(self) -> bool:
        return self.left is not None and not self.left.private

    def row_domains(self) -> RowDomains:
        kept = [] if self.left is None or self.full else [self.left]
        return RowDomains({f.name: f.domain for f in self.fields}, _refinements(kept))

    def unique_keys(self) -> UniqueKeys:
        assert self.left is not None and self.right is not None
        keys = combined_keys([self.left.unique_keys(), *([] if self.once else [self.right.unique_keys()])])
        return keys - {frozenset()} if self.full else keys


def _refinements(sides: Sequence[JoinSide]) -> Mapping[Expression, Domain]:
    """What is known of expressions over sides that keep their names: each joined row contains a row of theirs."""
    kept = [side.relation for side in sides if side == side_of(side.relation)]
    return {e: domain for each in kept for e, domain in each.row_domains().refinements.items()}


# Construction from the sides -----------------------------------------------------------------------------------------


def inner_join(parts: Sequence[JoinSide], conditions: Sequence[Expression], unique: Unique) -> Inner:
    """The flat inner join; equalities narrow both of their sides."""
    attributes = _attributes(parts, conditions, unique)
    offered = [replace(f, attribute=f.name in attributes) for part in parts for f in part.fields]
    fields = narrowed_fields(offered, conjunction(conditions))
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


def narrowed_fields(fields: Sequence[Field], condition: Expression) -> tuple[Field, ...]:
    known = narrow(RowDomains({f.name: f.domain for f in fields}), condition)
    return tuple(replace(f, domain=infer(Column(f.type, name=f.name), known)) for f in fields)


def _attributes(parts: Sequence[JoinSide], conditions: Sequence[Expression], unique: Unique) -> frozenset[str]:
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


def _equal_to(part: JoinSide, conditions: Sequence[Expression], names: set[str]) -> frozenset[str]:
    return equated(part, conditions, lambda e: columns_of(e) <= names)


def matches_once(left: JoinSide, right: JoinSide, condition: Expression, unique: Unique) -> bool:
    """Whether verified uniqueness limits each left row to at most one match."""
    return fits_once(right, frozenset(left.names), left.private, [condition], unique)


def outer_join(
    left: JoinSide,
    right: JoinSide,
    full: bool,
    condition: Expression,
    merged: Sequence[tuple[str, str, str]],
    unique: Unique,
) -> Outer:
    """The outer join. The condition narrows the padded side only, and does not exclude NULL there."""
    matched = {f.name: f for f in narrowed_fields([*left.fields, *right.fields], condition)}
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


def _outer_rows(left: JoinSide, right: JoinSide, full: bool, once: bool, other: bool) -> int:
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


def _units_only(left: JoinSide, right: JoinSide, condition: Expression) -> bool:
    """Is the condition exactly that the owners are equal? Then the single rows of a unit always match."""
    units = {f.name for f in (*left.fields, *right.fields) if f.unit}
    return len(conjuncts(condition)) == 1 and columns_of(condition) <= units


def _merged(name: str, left: JoinSide, right: JoinSide, pair: Sequence[str]) -> Field:
    one, two = (next(f for f in part.fields if f.name == n) for part, n in zip((left, right), pair, strict=True))
    made = first_of(one, two)
    domain = infer(made, RowDomains({f.name: replace(f.domain, nullable=True) for f in (one, two)}))
    nullable = one.domain.nullable or two.domain.nullable or one.type.kind is not two.type.kind
    owner = one.owner if same_owner(one, two) and not (one.padded or two.padded) else None
    return Field(name, made.type, replace(domain, nullable=nullable), owner == UNIT, owner)


def renamed_side(part: JoinSide, unique: Unique) -> Relation:
    """The part as a relation of its own."""
    return part.relation if part == side_of(part.relation) else inner_join([part], [], unique)
