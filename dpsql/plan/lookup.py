"""Which parts of a join are looked up: at most one of their rows fits each combination of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.expressions.types import Kind
from dpsql.plan.join import Exists, Part, equations
from dpsql.plan.mark import Marked
from dpsql.plan.relation import Filter, Project, PublicScan, Relation, Scan, UnitGroup
from dpsql.plan.released import ReleasedScan
from dpsql.plan.window import Windowed

Unique = Callable[[str, frozenset[str]], bool]


def looked_up(parts: Sequence[Part], conditions: Sequence[Expression], unique: Unique) -> frozenset[int]:
    """The parts that are looked up, directly or one from another, from those that remain; one private part remains.

    **Theorem.** The join has at most as many rows (per unit) as the join of the remaining parts. **Proof.** By
    induction over the order in which `_reached` adds parts: each has a unique key, equated to expressions over the
    parts before it, or has at most one row per unit, and a private part before it tells the unit; so each combination
    of those fits at most one of its rows.
    **Requires** verified uniqueness. **Checked by** the neighbour test of joins (rules `row` and `single_row`), and
    the planted bug "single in spite of fan-out".
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
    part = parts[index]
    if part.private and part.relation.single and any(parts[j].private for j in others):
        return True
    names = {name for j in others for name in parts[j].names}
    columns = equated(part, conditions, lambda e: columns_of(e) <= names)
    return is_key(part.relation, part.own(columns), unique)


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
    stored = stored_columns(relation)
    if stored is not None:
        table, names = stored
        return unique(table, frozenset(names[c] for c in columns if c in names)) if columns & names.keys() else False
    return bool(columns & _keys(relation)) or any(key <= columns for key in _joint_keys(relation))


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


def _keys(relation: Relation) -> frozenset[str]:
    """The fields of a private relation that are verified to be unique in it."""
    match relation:
        case Scan(keys=keys):
            return frozenset(keys)
        case Filter(source=Relation() as source) | Exists(source=Relation() as source):
            return _keys(source)
        case Windowed(source=Relation() as source) | Marked(source=Relation() as source):
            return _keys(source)
        case Project(source=Relation() as source, items=items):
            below = _keys(source)
            return frozenset(i.name for i in items if isinstance(i.expression, Column) and i.expression.name in below)
        case UnitGroup(source=Relation() as source, keys=(key,)) if source.owner_of(key.expression) is not None:
            return frozenset({key.name})
    return frozenset()


def _joint_keys(relation: Relation) -> list[frozenset[str]]:
    """Sets of fields that together name at most one row: the keys of a grouping, one row by the empty set."""
    match relation:
        case ReleasedScan(key=frozenset() as key):
            return [key]
        case Filter(source=Relation() as source) | Exists(source=Relation() as source):
            return _joint_keys(source)
        case Project(source=Relation() as source, items=items):
            shown = {i.expression.name: i.name for i in items if isinstance(i.expression, Column)}
            return [frozenset(shown[c] for c in key) for key in _joint_keys(source) if key <= shown.keys()]
        case UnitGroup(source=Relation() as source, keys=keys):
            owned = any(source.owner_of(k.expression) is not None for k in keys)
            return [frozenset(k.name for k in keys)] if owned else []
    return []
