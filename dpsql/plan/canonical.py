"""The canonical sub-plan: releases that ask the same of the same rows become the same plan, however they are spelt.

**Theorem.** The canonical release has, on every database, the groups and the exact totals of the release, and its
relation has the same rows with the same owners. Its bounds are at least as tight.
**Proof.** Expressions are put into their normal form, which keeps every value (`dpsql.plan.normal_form`). A projection
computes each row from one row and keeps its owner, so reading its definition in place of its column changes no value;
filters in a row keep the rows on which all of them are TRUE, which is one filter on their conjunction. A column that
nobody reads, and a per-unit aggregate that nobody reads, change no row. Sorting the keys and aggregates of a per-unit
grouping renames its columns and nothing else. Narrowing intersects what single conjuncts say until nothing changes
(`dpsql.bounds.infer.narrow`), so one filter says at least what a chain of them did, in any order.
**Requires** deterministic and total expressions, which the converter guarantees. A definition is not put in place where
the copies would grow beyond MOST_NODES; then the projection stays, and the release is merely not recognised.
**Checked by** `tests/properties/test_canonical.py` (the same answers as the query itself) and
`tests/unit/session/test_replay.py` (variants are free, near misses are not).

One spelling for joins: their fields are called after stored tables and not after aliases, and parts have an order.

**Theorem.** The renamed join has the same rows with the same owners, and knows the same of them. **Proof.** A name
occurs in the fields, the parts and the conditions of one join, and is replaced in all of them, one to one; the parts of
an inner join are all joined alike, so their order is that of names only. **Requires** that expressions name fields by
columns only, and that each name stands once in a join (`dpsql.plan.nodes.joins`). **Checked by**
`tests/properties/test_canonical.py` and `tests/unit/plan/test_canonical_joins.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from dpsql.expressions.expression import Call, Column, Expression, columns_of, order, substitute, write
from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import Aggregate, Item, JoinSide, PublicScan, Relation, Scan, unused_name
from dpsql.plan.nodes.released_scan import ReleasedScan, released_in, with_digests
from dpsql.plan.nodes.semi_joins import Exists, ExistsColumn
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup, filtered, projected, unit_grouped
from dpsql.plan.nodes.union import UnionAll
from dpsql.plan.nodes.windows import WindowCall, Windowed
from dpsql.plan.normal_form import TRUE, conjunction, conjuncts, normal
from dpsql.plan.plan import Release
from dpsql.policy.identifiers import fold

MOST_NODES = 2_000

Names = Mapping[str, Expression]


def canonical(release: Release) -> Release:
    """The release over its canonical relation; names, and the order of keys and aggregates, stay."""
    read = [k.expression for k in release.keys] + [a.argument for a in release.aggregates if a.argument is not None]
    source, names = _relation(release.source, read)
    keys = tuple(Item(k.name, _put(k.expression, names)) for k in release.keys)
    return replace(
        release, source=source, keys=keys, aggregates=tuple(_aggregate(a, names) for a in release.aggregates)
    )


def without(relation: Relation, dropped: Iterable[Expression]) -> Relation:
    """A canonical relation with fewer conjuncts in its outermost filter."""
    base, asked = split(relation)
    gone = {order(each) for each in dropped}
    return _kept(base, conjunction(each for each in asked if order(each) not in gone))


def split(relation: Relation) -> tuple[Relation, tuple[Expression, ...]]:
    """The relation below the outermost filter, and the conjuncts of that filter."""
    if isinstance(relation, Filter) and relation.source is not None and relation.condition is not None:
        return relation.source, conjuncts(relation.condition)
    return relation, ()


def describe_relation(relation: Relation) -> list[Any]:
    """A canonical relation as a JSON value."""
    match relation:
        case Filter(source=Relation() as source, condition=Expression() as condition):
            return ["filter", describe_relation(source), write(condition)]
        case Project(source=Relation() as source, items=items):
            return ["project", describe_relation(source), [[i.name, write(i.expression)] for i in items]]
        case UnitGroup(source=Relation() as source, keys=keys, aggregates=aggregates):
            listed = [write_aggregate(a) for _, a in aggregates]
            return ["unit", describe_relation(source), [write(k.expression) for k in keys], listed]
        case Scan(table=table) | PublicScan(table=table):
            return ["scan", table]
        case ReleasedScan(digest=str() as digest):
            return ["released", digest, [f.name for f in relation.fields]]
        case Inner(parts=parts, conditions=conditions):
            return ["inner", [_describe_part(p) for p in parts], [write(c) for c in conditions]]
        case Outer(left=JoinSide() as left, right=JoinSide() as right, condition=Expression() as condition):
            kind = ["full" if relation.full else "left", [list(each) for each in relation.merged]]
            return [kind, _describe_part(left), _describe_part(right), write(condition)]
        case Exists(source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition):
            return ["exists", relation.negated, describe_relation(source), _describe_part(inner), write(condition)]
        case ExistsColumn(source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition):
            return ["mark", relation.mark, describe_relation(source), _describe_part(inner), write(condition)]
        case UnionAll(parts=sides):
            return ["union all", [describe_relation(p) for p in sides], _names(relation)]
        case Windowed(source=Relation() as source, calls=calls):
            return ["window", describe_relation(source), _names(source), [[n, write_over(c)] for n, c in calls]]
    raise TypeError(f"no description of {type(relation).__name__}")


def _describe_part(part: JoinSide) -> list[Any]:
    """A side of a join: its rows, and what its fields are called there."""
    return [
        describe_relation(part.relation),
        [[f.name, n] for f, n in zip(part.relation.fields, part.names, strict=True)],
    ]


def _names(relation: Relation) -> list[str]:
    return [f.name for f in relation.fields]


def write_over(over: WindowCall) -> list[Any]:
    """A window function as a JSON value."""
    aggregate = None if over.aggregate is None else write_aggregate(over.aggregate)
    order_by = [[write(o.expression), o.descending, o.nulls_first] for o in over.order]
    frame = [over.frame.kind, over.frame.start, over.frame.end]
    called = [over.function, aggregate, [write(a) for a in over.args], over.number, over.ignore_nulls]
    return [*called, [write(e) for e in over.partition], order_by, frame]


def write_aggregate(aggregate: Aggregate) -> list[Any]:
    """An aggregate as a JSON value."""
    argument = None if aggregate.argument is None else write(aggregate.argument)
    written = [aggregate.function, argument, aggregate.distinct]
    return written if aggregate.at is None else [*written, str(aggregate.at)]


def _relation(relation: Relation, read: Sequence[Expression]) -> tuple[Relation, Names]:
    """The canonical relation, and its expression for each old column. `read` are the expressions over it."""
    match relation:
        case Filter(source=Relation() as source, condition=Expression() as condition):
            below, names = _relation(source, [*read, condition])
            same = below is source and isinstance(source, Scan) and condition != TRUE
            return relation if same else _and(below, _put(condition, names)), names
        case Project(source=Relation() as source, items=items):
            used = frozenset().union(*map(columns_of, read)) if read else frozenset()
            return _inlined(source, [i for i in items if i.name in used], read)
        case UnitGroup(source=Relation() as source):
            return _grouped(relation, source, read)
        case Inner():
            return renamed_inner(relation, _place)
        case Outer():
            return renamed_outer(relation)
    return relation, _columns([f.name for f in relation.fields], relation)


def _place(part: Relation) -> str:
    """A text by which the parts of a join are put in order; a nested result, without content yet, has its name."""
    known = with_digests(part, {scan.table: scan.digest or scan.table for scan in released_in(part)})
    return json.dumps(describe_relation(known))


def _and(source: Relation, condition: Expression) -> Relation:
    base, before = split(source)
    return _kept(base, conjunction([*before, condition]))


def _kept(base: Relation, condition: Expression) -> Relation:
    return base if condition == TRUE else filtered(base, condition)


def _inlined(source: Relation, items: Sequence[Item], read: Sequence[Expression]) -> tuple[Relation, Names]:
    below, names = _relation(source, [i.expression for i in items])
    made = {i.name: _put(i.expression, names) for i in items}
    sizes = {name: sum(1 for _ in definition.walk()) for name, definition in made.items()}
    copied = sum(sizes.get(n.name, 1) for e in read for n in e.walk() if isinstance(n, Column))
    if copied <= MOST_NODES:
        return below, made
    listed = sorted(made, key=lambda name: order(made[name]))
    kept = projected(below, [Item(f"_c{i}", made[name]) for i, name in enumerate(listed)])
    return kept, _columns(listed, kept)


def _grouped(group: UnitGroup, source: Relation, read: Sequence[Expression]) -> tuple[Relation, Names]:
    used = frozenset().union(*map(columns_of, read)) if read else frozenset()
    wanted = [(n, a) for n, a in group.aggregates if n in used]
    inside = [k.expression for k in group.keys] + [a.argument for _, a in wanted if a.argument is not None]
    below, names = _relation(source, inside)
    keys = sorted(((k.name, _put(k.expression, names)) for k in group.keys), key=lambda k: order(k[1]))
    aggregates = sorted(((n, _aggregate(a, names)) for n, a in wanted), key=lambda a: repr(write_aggregate(a[1])))
    listed = [*keys, *aggregates]
    titles = _titles([str(part) for _, part in listed])
    made = unit_grouped(
        below,
        [Item(title, key) for title, (_, key) in zip(titles, keys, strict=False)],
        [(title, aggregate) for title, (_, aggregate) in zip(titles[len(keys) :], aggregates, strict=True)],
    )
    return made, _columns([name for name, _ in listed], made)


def _titles(texts: Sequence[str]) -> list[str]:
    """Names that people can read, each different from the others in any case, and from the hidden owner."""
    taken = {"_unit": ""}
    for number, text in enumerate(texts):
        title = f"{text}:{number}" if fold(text) in taken else text
        taken[fold(title)] = title
    return list(taken.values())[1:]


def _columns(names: Sequence[str], relation: Relation) -> Names:
    """What the old names are called in a relation whose fields are in the same order."""
    return {name: Column(f.type, name=f.name) for name, f in zip(names, relation.fields, strict=True)}


def _aggregate(aggregate: Aggregate, names: Names) -> Aggregate:
    return replace(aggregate, argument=None if aggregate.argument is None else _put(aggregate.argument, names))


def _put(expression: Expression, names: Names) -> Expression:
    """The normal form, with each column's definition in its place; a refusal still points at where it was read."""
    return normal(_replaced(expression, names))


def _replaced(expression: Expression, names: Names) -> Expression:
    if isinstance(expression, Column):
        return replace(names[expression.name], span=expression.span)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_replaced(a, names) for a in expression.args))
    return expression


# Joins ---------------------------------------------------------------------------------------------------------------

Renamed = tuple[Relation, Mapping[str, Expression]]


def renamed_inner(join: Inner, described: Callable[[Relation], str]) -> Renamed:
    """The join with its parts in order, and what each old field is called there."""
    places = sorted(range(len(join.parts)), key=lambda i: described(join.parts[i].relation))
    parts = [join.parts[i] for i in places]
    names = _stored_names(parts)
    shown = {f.name: f for f in join.fields}
    made = [JoinSide(part.relation, tuple(names[n] for n in part.names)) for part in parts]
    columns = _columns_of(join, names)
    conditions = sorted((_in_terms(c, columns) for c in join.conditions), key=order)
    listed = tuple(replace(shown[n], name=names[n]) for part in parts for n in part.names)
    lookups = frozenset(places.index(i) for i in join.lookups)
    return replace(join, fields=listed, parts=tuple(made), conditions=tuple(conditions), lookups=lookups), columns


def renamed_outer(join: Outer) -> Renamed:
    """The outer join under names of its own, and what each old field is called there."""
    left, right, condition = join.left, join.right, join.condition
    assert left is not None and right is not None and condition is not None
    names = _stored_names((left, right))
    taken = set(map(fold, names.values()))
    names |= {name: unused_name(names[one].rpartition(".")[2], taken) for name, one, _ in join.merged}
    columns = _columns_of(join, names)
    sides = [JoinSide(part.relation, tuple(names[n] for n in part.names)) for part in (left, right)]
    asked = conjunction(_in_terms(part, columns) for part in conjuncts(condition))
    listed = tuple(replace(f, name=names[f.name]) for f in join.fields)
    merged = tuple((names[a], names[b], names[c]) for a, b, c in join.merged)
    return replace(join, fields=listed, left=sides[0], right=sides[1], condition=asked, merged=merged), columns


def _in_terms(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    return normal(substitute(expression, columns))


def _columns_of(join: Relation, names: Mapping[str, str]) -> Mapping[str, Expression]:
    return {f.name: Column(f.type, name=names[f.name]) for f in join.fields}


def _stored_names(parts: Sequence[JoinSide]) -> dict[str, str]:
    """New names: that of the relation's own field if it is the only one, else with the table before it.

    A name that is neither the field's own nor one with an alias was given by the planner, to be read, and stays.
    """
    named = [(part, f.name, name) for part in parts for f, name in zip(part.relation.fields, part.names, strict=True)]
    wanted = [own if _is_own(own, name) else name for _, own, name in named]
    alone = {each for each in wanted if sum(fold(each) == fold(other) for other in wanted) == 1}
    taken, names = set(map(fold, alone)), {}
    for (part, _, name), new in zip(named, wanted, strict=True):
        names[name] = new if new in alone else unused_name(f"{_table(part.relation)}.{new}", taken)
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
            below = part.relation if isinstance(part, JoinSide) else part
            if isinstance(below, Relation):
                return _table(below)
    return "rows"
