"""One spelling for joins: their fields are called after stored tables and not after aliases, and parts have an order.

**Theorem.** The renamed join has the same rows with the same owners, and knows the same of them. **Proof.** A name
occurs in the fields, the parts and the conditions of one join, and is replaced in all of them, one to one; the parts
of an inner join are all joined alike, so their order is that of names only.
**Requires** that expressions name fields by columns only, and that each name stands once in a join (`dpsql.plan.join`).
**Checked by** `tests/properties/test_canonical.py` and `tests/unit/plan/test_canonical_joins.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace

from dpsql.expressions.expression import Column, Expression, substitute
from dpsql.expressions.write import order
from dpsql.plan.from_clause import distinct
from dpsql.plan.join import Inner, Outer, Part
from dpsql.plan.normal import conjunction, conjuncts, normal
from dpsql.plan.relation import Relation
from dpsql.policy.identifiers import fold

Renamed = tuple[Relation, Mapping[str, Expression]]


def renamed_inner(join: Inner, described: Callable[[Relation], str]) -> Renamed:
    """The join with its parts in order, and what each old field is called there."""
    places = sorted(range(len(join.parts)), key=lambda i: described(join.parts[i].relation))
    parts = [join.parts[i] for i in places]
    names = _names(parts)
    shown = {f.name: f for f in join.fields}
    made = [Part(part.relation, tuple(names[n] for n in part.names)) for part in parts]
    columns = _columns(join, names)
    conditions = sorted((_put(c, columns) for c in join.conditions), key=order)
    listed = tuple(replace(shown[n], name=names[n]) for part in parts for n in part.names)
    lookups = frozenset(places.index(i) for i in join.lookups)
    return replace(join, fields=listed, parts=tuple(made), conditions=tuple(conditions), lookups=lookups), columns


def renamed_outer(join: Outer) -> Renamed:
    """The outer join under names of its own, and what each old field is called there."""
    left, right, condition = join.left, join.right, join.condition
    assert left is not None and right is not None and condition is not None
    names = _names((left, right))
    taken = set(map(fold, names.values()))
    names |= {name: distinct(names[one].rpartition(".")[2], taken) for name, one, _ in join.merged}
    columns = _columns(join, names)
    sides = [Part(part.relation, tuple(names[n] for n in part.names)) for part in (left, right)]
    asked = conjunction(_put(part, columns) for part in conjuncts(condition))
    listed = tuple(replace(f, name=names[f.name]) for f in join.fields)
    merged = tuple((names[a], names[b], names[c]) for a, b, c in join.merged)
    return replace(join, fields=listed, left=sides[0], right=sides[1], condition=asked, merged=merged), columns


def _put(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    return normal(substitute(expression, columns))


def _columns(join: Relation, names: Mapping[str, str]) -> Mapping[str, Expression]:
    return {f.name: Column(f.type, name=names[f.name]) for f in join.fields}


def _names(parts: Sequence[Part]) -> dict[str, str]:
    """New names: that of the relation's own field if it is the only one, else with the table before it.

    A name that is neither the field's own nor one with an alias was given by the planner, to be read, and stays.
    """
    named = [(part, f.name, name) for part in parts for f, name in zip(part.relation.fields, part.names, strict=True)]
    wanted = [own if _is_own(own, name) else name for _, own, name in named]
    alone = {each for each in wanted if sum(fold(each) == fold(other) for other in wanted) == 1}
    taken, names = set(map(fold, alone)), {}
    for (part, _, name), new in zip(named, wanted, strict=True):
        names[name] = new if new in alone else distinct(f"{_table(part.relation)}.{new}", taken)
    return names


def _is_own(field: str, name: str) -> bool:
    given = name.rstrip("'")
    return given == field.rstrip("'") or given.endswith(f".{field}")


def _table(relation: Relation) -> str:
    """The first stored table that a relation reads."""
    table = getattr(relation, "table", None)
    if isinstance(table, str):
        return table
    for each in fields(relation):
        held = getattr(relation, each.name)
        for part in held if isinstance(held, tuple) else (held,):
            below = part.relation if isinstance(part, Part) else part
            if isinstance(below, Relation):
                return _table(below)
    return "rows"
