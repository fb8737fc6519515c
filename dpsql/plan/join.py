"""Joins as nodes: flat inner joins, outer joins, EXISTS. Each is unit-local, for its private rows share an owner.

The fields of a join have names of its own, each once: every side says under which name it offers each of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpsql.expressions.expression import Call, Column, Expression, columns_of
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import call, common
from dpsql.plan.normal import conjuncts
from dpsql.plan.relation import Field, Relation, require, same_owner
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class Part:
    """A side of a join: a relation, and the name that each of its fields has in the join."""

    relation: Relation
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(len(self.names) == len(self.relation.fields), "a name for each field")

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields as the join calls them."""
        return tuple(replace(f, name=n) for f, n in zip(self.relation.fields, self.names, strict=True))

    @property
    def private(self) -> bool:
        """Do its rows have owners?"""
        return not self.relation.public

    def own(self, names: frozenset[str]) -> frozenset[str]:
        """The relation's own names of some of the join's fields."""
        return frozenset(f.name for f, n in zip(self.relation.fields, self.names, strict=True) if n in names)


def whole(relation: Relation) -> Part:
    """A relation whose fields keep their names."""
    return Part(relation, tuple(f.name for f in relation.fields))


def equations(conditions: Sequence[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """Both sides of each top-level conjunct that is an equality."""
    for condition in conditions:
        for part in conjuncts(condition):
            if isinstance(part, Call) and part.op == "eq":
                yield part.args[0], part.args[1]


def share_owner(one: Part, two: Part, conditions: Sequence[Expression]) -> bool:
    """Does a top-level equality of two bare columns say that both rows have one owner?"""
    ones, twos = ({f.name: f for f in part.fields} for part in (one, two))
    for left, right in equations(conditions):
        if isinstance(left, Column) and isinstance(right, Column):
            for a, b in ((left.name, right.name), (right.name, left.name)):
                if a in ones and b in twos and same_owner(ones[a], twos[b]):
                    return True
    return False


def owner_groups(parts: Sequence[Part], conditions: Sequence[Expression]) -> list[list[Part]]:
    """The private parts, those together that the conditions prove to have one owner."""
    groups: list[list[Part]] = []
    for part in (p for p in parts if p.private):
        linked = [g for g in groups if any(share_owner(part, other, conditions) for other in g)]
        groups = [g for g in groups if g not in linked] + [[*(p for g in linked for p in g), part]]
    return groups


def first_of(one: Field, two: Field) -> Expression:
    """The column that USING makes of two: the first that is not NULL, in one type that holds both without raising."""
    type_, sides = common([Column(f.type, name=f.name) for f in (one, two)])
    return call("coalesce", type_, *sides)


def _distinct(names: Sequence[str]) -> bool:
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

    parts: tuple[Part, ...] = ()
    conditions: tuple[Expression, ...] = ()
    lookups: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        names = [name for part in self.parts for name in part.names]
        require(_distinct(names) and [f.name for f in self.fields] == names, "each field of a join once")
        require(all(c.type == BOOLEAN and self.offers(c) for c in self.conditions), "join reads what is not there")
        require(len(owner_groups(self.parts, self.conditions)) <= 1, "private rows joined across owners")
        rows = [p.relation.by_row for p in self.parts if p.private]
        require(not any(rows) or len(rows) == 1, "a row that is a unit joined with private rows")
        alone = all(p.private or i in self.lookups for i, p in enumerate(self.parts))
        require(not any(rows) or (alone and self.by_row), "a row that is a unit multiplied")

    @property
    def public(self) -> bool:
        return not any(part.private for part in self.parts)


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

    left: Part | None = None
    right: Part | None = None
    full: bool = False
    condition: Expression | None = None
    once: bool = False
    merged: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        left, right, condition = self.left, self.right, self.condition
        require(left is not None and right is not None and condition is not None, "outer join")
        assert left is not None and right is not None and condition is not None
        names = [*left.names, *right.names, *(name for name, _, _ in self.merged)]
        require(_distinct(names) and [f.name for f in self.fields] == names, "each field of a join once")
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


@dataclass(frozen=True, slots=True)
class Exists(Relation):
    """The rows of `source` for which `inner` has a row (or, `negated`, none) on which the condition is true.

    **Theorem.** The result is unit-local. **Proof.** It is a filter of `source` whose condition reads the row, public
    rows, and private rows that have the same owner by `same_owner`, and no others: a row of another owner makes the
    condition false or NULL, so it neither finds nor hides anything.
    **Requires** the label equality as a top-level conjunct if `inner` is private.
    **Checked by** the neighbour test of joins, and the planted bug "NOT IN over other people's NULLs".
    """

    source: Relation | None = None
    inner: Part | None = None
    condition: Expression | None = None
    negated: bool = False

    def __post_init__(self) -> None:
        source, inner, condition = self.source, self.inner, self.condition
        require(source is not None and inner is not None and condition is not None, "EXISTS")
        assert source is not None and inner is not None and condition is not None
        names = [*(f.name for f in source.fields), *inner.names]
        require(_distinct(names) and columns_of(condition) <= set(names), "EXISTS reads what is not there")
        if inner.private:
            require(share_owner(whole(source), inner, [condition]), "EXISTS across owners")

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public
