"""Which parts of a join are looked up: at most one of their rows fits each combination of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from itertools import islice, product

from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.expressions.types import Kind
from dpsql.plan.join import Exists, Inner, Outer, Part, equations
from dpsql.plan.mark import Marked
from dpsql.plan.relation import Filter, Project, PublicScan, Relation, Scan, UnitGroup
from dpsql.plan.released import ReleasedScan
from dpsql.plan.window import Windowed

Unique = Callable[[str, frozenset[str]], bool]
Keys = frozenset[frozenset[str]]
MOST_KEYS = 64
"""A join has a key for each combination of its parts' keys; so many of them are looked at."""


def looked_up(parts: Sequence[Part], conditions: Sequence[Expression], unique: Unique) -> frozenset[int]:
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
    parts: Sequence[Part], roots: Collection[int], conditions: Sequence[Expression], unique: Unique
) -> set[int]:
    """The roots, and all that is looked up from what was reached before."""
    reached = set(roots)
    while True:
        more = {i for i in range(len(parts)) if i not in reached and _fits_once(parts, i, reached, conditions, unique)}
        if not more:
            return reached
        reached |= more


def _fits_once(
    parts: Sequence[Part], index: int, others: Collection[int], conditions: Sequence[Expression], unique: Unique
) -> bool:
    names = {name for j in others for name in parts[j].names}
    return fits_once(parts[index], names, any(parts[j].private for j in others), conditions, unique)


def fits_once(part: Part, names: Set[str], owned: bool, conditions: Sequence[Expression], unique: Unique) -> bool:
    """Does at most one row of the part fit what has these names? `owned`: a private row of the same owner is there."""
    if owned and part.private and part.relation.single:
        return True
    units = {f.name for f in part.fields if owned and part.private and f.unit}
    columns = equated(part, conditions, lambda e: columns_of(e) <= names)
    return is_key(part.relation, part.own(columns | units), unique)


def equated(part: Part, conditions: Sequence[Expression], holds: Callable[[Expression], bool]) -> frozenset[str]:
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
    if any(key <= columns for key in keys_of(relation)):
        return True
    table, names = stored_columns(relation) or ("", {})
    return bool(columns & names.keys()) and unique(table, frozenset(names[c] for c in columns if c in names))


def stored_columns(relation: Relation) -> tuple[str, Mapping[str, str]] | None:
    """A public table under filters and projections: its name, and the fields that are its columns, unchanged."""
    match relation:
        case PublicScan(table=table):
            return table, {f.name: f.name for f in relation.fields}
        case Filter(source=Relation() as source) | Exists(source=Relation() as source):
            return stored_columns(source)
        case Project(source=Relation() as source, items=items):
            below = stored_columns(source)
            names = {i.name: i.expression.name for i in items if isinstance(i.expression, Column)}
            return None if below is None else (below[0], {n: below[1][c] for n, c in names.items() if c in below[1]})
    return None


def keys_of(relation: Relation) -> Keys:
    """Sets of fields each of which names at most one row, NULL apart, on any data; the empty set: there is one row.

    **Theorem.** No two rows of the relation agree on all fields of a key and are not NULL there. **Proof.** By
    induction. A table: verified. A filter, EXISTS, a mark and window functions add no rows, and change no field; a
    projection shows the fields of the key unchanged. A grouping has one row for each of its keys and each owner, and
    one key determines the owner. An inner join: two of its rows that agree on a key of each root come from the same
    rows of the roots, hence of the parts that are looked up. An outer join: two of its rows that agree on a key of the
    left side, and are not NULL there, come from one left row; they are one if each left row has one match at most, or
    if they also agree on a key of the right side. Rows that match nothing are NULL on the other side, so a key that
    reaches there says nothing of them; the key without fields would, so a FULL join does not have it. A union has no
    keys: both sides may have the same row.
    **Requires** verified keys of tables (`make_catalog`), and `lookups` and `once` that hold (`looked_up`).
    **Checked by** `tests/properties/test_join_flags.py`, which looks for two such rows, and the planted bugs "a join
    believes half of a key" and "a key outlives the join that repeats it".
    """
    match relation:
        case Scan(keys=keys) | PublicScan(keys=keys):
            return keys
        case ReleasedScan(key=frozenset() as key):
            return frozenset({key})
        case Filter(source=Relation() as source) | Exists(source=Relation() as source):
            return keys_of(source)
        case Windowed(source=Relation() as source) | Marked(source=Relation() as source):
            return keys_of(source)
        case Project(source=Relation() as source, items=items):
            return _shown(
                keys_of(source), [(i.expression.name, i.name) for i in items if isinstance(i.expression, Column)]
            )
        case UnitGroup(source=Relation() as source, keys=items):
            owned = any(source.owner_of(k.expression) is not None for k in items)
            return frozenset({frozenset(k.name for k in items)} if owned else ())
        case Inner(parts=parts, lookups=lookups):
            return _together([_keys_in_join(part) for number, part in enumerate(parts) if number not in lookups])
        case Outer(left=Part() as left, right=Part() as right, once=once, full=full):
            keys = _together([_keys_in_join(left), *([] if once else [_keys_in_join(right)])])
            return keys - {frozenset()} if full else keys
    return frozenset()


def _keys_in_join(part: Part) -> Keys:
    return _shown(keys_of(part.relation), [(f.name, n) for f, n in zip(part.relation.fields, part.names, strict=True)])


def _shown(keys: Keys, names: Sequence[tuple[str, str]]) -> Keys:
    """Keys under other names; one whose fields are not all shown is none any more."""
    shown = dict(names)
    return frozenset(frozenset(shown[c] for c in key) for key in keys if key <= shown.keys())


def _together(keys: Sequence[Keys]) -> Keys:
    """One key of each, for all combinations of them."""
    return frozenset(
        frozenset().union(*each) for each in islice(product(*(sorted(k, key=sorted) for k in keys)), MOST_KEYS)
    )
