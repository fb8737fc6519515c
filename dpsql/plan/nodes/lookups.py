"""Lookups: sides of a join of which at most one row matches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from itertools import islice, product

from dpsql.expressions.expression import Call, Column, Expression, columns_of
from dpsql.expressions.types import Kind
from dpsql.plan.nodes.relation import JoinSide, Relation, UniqueKeys
from dpsql.plan.normal_form import conjuncts

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
    """Does at most one row of the part fit what has these names? `owned`: a private row of the same owner is there."""
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
