"""Relations as DuckDB SQL: every row carries its owner in `_unit`, and rows without owner are dropped.

Inside a join each table has a name of its own, made from its place in the plan. A relation that is joined to one whose
owner is known, by a column that determines the owner, need not find its own (`owned` is false): a row of it that
meets another has the same owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsql.engines.duckdb.expressions import converted
from dpsql.engines.duckdb.literals import quote
from dpsql.engines.duckdb.physical import physical, whole
from dpsql.engines.duckdb.source import From, one_zero
from dpsql.engines.duckdb.unit_aggregates import unit_aggregate
from dpsql.engines.duckdb.windows import settled, window_sql
from dpsql.errors import InternalError
from dpsql.expressions.expression import Expression, columns_of
from dpsql.expressions.types import DOUBLE, Kind, Type, from_engine
from dpsql.plan.join import Exists, Inner, Outer, Part, first_of
from dpsql.plan.mark import Marked
from dpsql.plan.relation import Filter, Item, Project, PublicScan, Relation, Scan, UnitGroup
from dpsql.plan.released import ReleasedScan
from dpsql.plan.set_operations import UnionAll, owner_types
from dpsql.plan.window import Windowed
from dpsql.policy.names import fold

UNIT = "_unit"
JOIN = "j"
"""How the tables of the outermost join are called: j0, j1, …"""

Schema = Mapping[str, Mapping[str, str]]


def relation_sql(
    relation: Relation, needed: frozenset[str], schema: Schema, name: str = "", *, owned: bool = True
) -> From:
    """The relation under a name, with the columns that are needed of it, and with its owner where that is asked for."""
    match relation:
        case Scan():
            return _scan(relation, needed, schema, name, owned)
        case PublicScan(table=table):
            columns = {f.name: _read(schema, table, f.name, name) for f in relation.fields if f.name in needed}
            return From(_called(table, name), (), columns, None)
        case ReleasedScan():
            return _released(relation, needed, name)
        case Filter(source=Relation() as source, condition=Expression() as condition):
            below = relation_sql(source, needed | columns_of(condition), schema, name, owned=owned)
            return From(below.source, (*below.where, below.render(condition)), below.columns, below.unit)
        case Project(source=Relation() as source):
            return _project(source, [i for i in relation.items if i.name in needed], schema, name, owned)
        case UnitGroup(source=Relation() as source):
            return _unit_group(relation, source, needed, schema, name, owned)
        case Inner():
            return _inner(relation, needed, schema, name or JOIN, owned)
        case Outer(left=Part() as left, right=Part() as right, condition=Expression() as condition):
            return _outer(relation, (left, right), condition, needed, schema, name or JOIN, owned)
        case Exists(source=Relation() as source, inner=Part() as inner, condition=Expression() as condition):
            below = relation_sql(source, needed | columns_of(condition), schema, name or JOIN, owned=owned)
            test = _exists(inner, condition, below, schema, f"{name or JOIN}e", negated=relation.negated)
            return From(below.source, (*below.where, test), below.columns, below.unit)
        case Marked(source=Relation() as source, inner=Part() as inner, condition=Expression() as condition):
            return _marked(relation, source, (inner, condition), needed, schema, name, owned)
        case UnionAll():
            return _union(relation, needed, schema, name, owned)
        case Windowed(source=Relation() as source):
            return _windowed(relation, source, needed, schema, name, owned)
    raise InternalError(f"no SQL for {type(relation).__name__}")


# tables ---------------------------------------------------------------------------------------------------------------


def _scan(scan: Scan, needed: frozenset[str], schema: Schema, name: str, owned: bool) -> From:
    """A private table; along a path to its owner, each step's row is looked up by its unique key."""
    path = scan.path if owned else ()
    name = name or (JOIN if path else "")
    columns = {f.name: _read(schema, scan.table, f.name, name, unit=f.unit) for f in scan.fields if f.name in needed}
    if scan.unit is None or not owned:
        return From(_called(scan.table, name), (), columns, None)
    tables, where, table, here = [_called(scan.table, name)], [], scan.table, name
    for number, step in enumerate(path):
        above = f"{name}p{number}"
        where.append(f"{_read(schema, table, step.column, here)} = {_read(schema, step.table, step.key, above)}")
        tables.append(_called(step.table, above))
        table, here = step.table, above
    unit = _read(schema, table, scan.unit, here, unit=True)
    return From(", ".join(tables), (*where, f"{unit} IS NOT NULL"), columns, unit)


def _released(scan: ReleasedScan, needed: frozenset[str], name: str) -> From:
    """What a nested query released, by the name of its content; the engine puts it there, in the planner's types."""
    prefix = f"{name}." if name else ""
    columns = {f.name: f"{prefix}c{i}" for i, f in enumerate(scan.fields) if f.name in needed}
    texts = {f.name for f in scan.fields if f.type.kind is Kind.TEXT}
    read = {n: f'({column} COLLATE "C")' if n in texts else column for n, column in columns.items()}
    return From(_called(released_name(scan), name), (), read, None)


def released_name(scan: ReleasedScan) -> str:
    """The table that holds a content; before there is one, the nested query's name, for people to read."""
    return scan.table if scan.digest is None else f"_released_{scan.digest}"


def _called(table: str, name: str) -> str:
    return f"{quote(table)} AS {name}" if name else quote(table)


def _read(schema: Schema, table: str, column: str, name: str, *, unit: bool = False) -> str:
    """A stored column in the type that the planner computes with; none of these casts can fail.

    Text is compared byte by byte: under another collation two units could be grouped as one, and the spelling that
    a group shows would be that of some person. A unit has one zero, for the same reason.
    """
    stored = schema[fold(table)][column]
    type_ = from_engine(stored)
    kind = None if type_ is None else type_.kind
    plain = {Kind.DOUBLE: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.TIMESTAMP: "TIMESTAMP"}.get(kind) if kind else None
    written = f"{name}.{quote(column)}" if name else quote(column)
    read = written if plain is None or stored.upper() == plain else f"TRY_CAST({written} AS {plain})"
    if unit and type_ == DOUBLE:
        return one_zero(read)
    return f'({read} COLLATE "C")' if kind is Kind.TEXT else read


# one relation over another --------------------------------------------------------------------------------------------


def _project(source: Relation, items: list[Item], schema: Schema, name: str, owned: bool) -> From:
    used = frozenset().union(*(columns_of(i.expression) for i in items)) if items else frozenset()
    below = relation_sql(source, used, schema, _inside(name), owned=owned)
    return _nested(below, {i.name: below.render(i.expression) for i in items}, name)


def _inside(name: str) -> str:
    """The name of what stands inside the brackets of a named relation."""
    return f"{name}s" if name else ""


def _nested(below: From, made: Mapping[str, str], name: str, group: str = "") -> From:
    """A subquery. Its columns are numbered: a name that an analyst chose could be taken for the owner's.

    **Theorem.** The owner that is read is the owner that was written. **Proof.** Inside the emitted SQL only `UNIT` and
    `c0, c1, …` occur above a stored table, each once in a SELECT list; in a join each stands behind the name of its
    table. **Checked by** `tests/privacy/test_found_by_review.py`, which gives columns the names that this SQL uses.
    """
    prefix = f"{name}." if name else ""
    unit = None if below.unit is None else prefix + UNIT
    columns = {column: f"{prefix}c{number}" for number, column in enumerate(made)}
    return From(_bracketed(_query(below, made, group), name), (), columns, unit)


def _query(below: From, made: Mapping[str, str], group: str = "") -> str:
    listed = [f"{value} AS c{number}" for number, value in enumerate(made.values())]
    owner = [] if below.unit is None else [f"{below.unit} AS {UNIT}"]
    return f"SELECT {', '.join([*owner, *listed]) or '1'} FROM {below.source}{below.conditions}{group}"


def _bracketed(query: str, name: str) -> str:
    return f"({query}) AS {name}" if name else f"({query})"


def _unit_group(
    relation: UnitGroup, source: Relation, needed: frozenset[str], schema: Schema, name: str, owned: bool
) -> From:
    """GROUP BY the owner and the keys; by the keys alone where one of them determines it and it is not asked for."""
    owned = owned or all(source.owner_of(k.expression) is None for k in relation.keys)
    aggregates = [(n, a) for n, a in relation.aggregates if n in needed]
    expressions = [k.expression for k in relation.keys] + [a.argument for _, a in aggregates if a.argument is not None]
    used = frozenset().union(*map(columns_of, expressions))
    below = relation_sql(source, used, schema, _inside(name), owned=owned)
    keys = [_key(k.expression, below) for k in relation.keys]
    made = {k.name: key for key, k in zip(keys, relation.keys, strict=True)}
    made |= {n: unit_aggregate(a, relation.field(n).type, source, below) for n, a in aggregates}
    varying = [key for key, k in zip(keys, relation.keys, strict=True) if columns_of(k.expression)]
    group = f" GROUP BY {', '.join(dict.fromkeys([*([below.unit] if below.unit else []), *varying]))}"
    return _nested(below, made, name, group)


def _key(expression: Expression, below: From) -> str:
    value = below.render(expression)
    return one_zero(value) if expression.type == DOUBLE else value


def _windowed(
    relation: Windowed, source: Relation, needed: frozenset[str], schema: Schema, name: str, owned: bool
) -> From:
    """The rows, their columns settled, in brackets; around them the window functions that are needed."""
    used = relation.used(needed)
    below = relation_sql(source, used, schema, f"{name or JOIN}w")
    rows = {f.name: settled(below.columns[f.name], f.type) for f in source.fields if f.name in used}
    inner = _nested(below, rows, _inside(name))
    made = {f.name: inner.columns[f.name] for f in source.fields if f.name in needed}
    made |= {n: window_sql(c, relation.field(n).type, relation, inner) for n, c in relation.calls if n in needed}
    return _nested(inner if owned else replace(inner, unit=None), made, name)


def _union(relation: UnionAll, needed: frozenset[str], schema: Schema, name: str, owned: bool) -> From:
    """All rows of the parts; columns, and owners of different width, are read in the type of the union."""
    shown = [f for f in relation.fields if f.name in needed]
    widths = sorted({end for t in owner_types(relation) for end in (t.lower, t.upper)})
    wide = len(owner_types(relation)) > 1
    queries, one = [], From("", (), {}, None)
    for number, part in enumerate(relation.parts):
        fields = {f.name: own for f, own in zip(relation.fields, part.fields, strict=True) if f.name in needed}
        used = frozenset(f.name for f in fields.values())
        below = relation_sql(part, used, schema, f"{name or JOIN}u{number}", owned=owned)
        unit = f"CAST({below.unit} AS {whole(*widths)})" if wide and below.unit else below.unit
        below = replace(below, unit=unit if owned else None)
        made = {f.name: _as(below.columns[fields[f.name].name], fields[f.name].type, f.type) for f in shown}
        one = _nested(below, made, name)
        queries.append(_query(below, made))
    return From(_bracketed(" UNION ALL ".join(queries), name), (), one.columns, one.unit)


def _as(value: str, given: Type, wanted: Type) -> str:
    """A column of one part in the type of the union: a widening cast, which cannot fail."""
    if given.kind is Kind.NULL:
        return f"CAST(NULL AS {physical(wanted)})"
    if given.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP):
        return converted(value, physical(given), physical(wanted))
    return f"CAST({value} AS {physical(wanted)})"


# joins ----------------------------------------------------------------------------------------------------------------


def _inner(join: Inner, needed: frozenset[str], schema: Schema, name: str, owned: bool) -> From:
    """One flat FROM: the engine chooses the order. The owner is taken where it is nearest."""
    used = needed.union(*map(columns_of, join.conditions))
    private = [i for i, part in enumerate(join.parts) if part.private]
    chosen = min(private, key=lambda i: _distance(join.parts[i].relation), default=None) if owned else None
    sides = [_side(part, used, schema, f"{name}{i}", i == chosen) for i, part in enumerate(join.parts)]
    columns = {shown: text for side in sides for shown, text in side.columns.items()}
    unit = None if chosen is None else sides[chosen].unit
    made = From(", ".join(side.source for side in sides), (), columns, unit)
    where = (*(w for side in sides for w in side.where), *(made.render(c) for c in join.conditions))
    return From(made.source, where, columns, unit)


def _side(part: Part, used: frozenset[str], schema: Schema, name: str, owned: bool) -> From:
    """A part of a join, its columns by the names that they have there."""
    below = relation_sql(part.relation, part.own(used), schema, name, owned=owned)
    shown = dict(zip((f.name for f in part.relation.fields), part.names, strict=True))
    return From(
        below.source, below.where, {shown[n]: text for n, text in below.columns.items() if n in shown}, below.unit
    )


def _distance(relation: Relation) -> int:
    """How many tables must be joined to find the owner of a row."""
    match relation:
        case Scan(path=path):
            return len(path)
        case Inner(parts=parts):
            return min((_distance(p.relation) for p in parts if p.private), default=0)
        case Outer(left=Part(relation=one), right=Part(relation=two), full=full):
            return _distance(one) + (_distance(two) if full else 0)
        case Filter(source=Relation() as source) | Project(source=Relation() as source):
            return _distance(source)
        case UnitGroup(source=Relation() as source) | Exists(source=Relation() as source):
            return _distance(source)
        case Windowed(source=Relation() as source) | Marked(source=Relation() as source):
            return _distance(source)
        case UnionAll(parts=parts):
            return max(map(_distance, parts))
    return 0


def _outer(
    join: Outer,
    sides: tuple[Part, Part],
    condition: Expression,
    needed: frozenset[str],
    schema: Schema,
    name: str,
    owned: bool,
) -> From:
    """LEFT or FULL JOIN of two bracketed sides; a FULL join's owner is that of the side that is there."""
    merged = [(n, one, two) for n, one, two in join.merged if n in needed]
    used = needed | columns_of(condition) | {column for _, *pair in merged for column in pair}
    made = []
    for number, part in enumerate(sides):
        side = _side(part, used, schema, f"{name}{number}s", owned and part.private and (join.full or number == 0))
        made.append(_nested(side, side.columns, f"{name}{number}"))
    columns = {**made[0].columns, **made[1].columns}
    both = From("", (), columns, None)
    columns |= {n: both.render(first_of(join.field(one), join.field(two))) for n, one, two in merged}
    units = [side.unit for side in made if side.unit is not None]
    unit = f"coalesce({', '.join(units)})" if len(units) > 1 else next(iter(units), None)
    on = From("", (), columns, None).render(condition)
    kind = "FULL" if join.full else "LEFT"
    return From(f"{made[0].source} {kind} JOIN {made[1].source} ON {on}", (), columns, unit)


def _exists(part: Part, condition: Expression, below: From, schema: Schema, name: str, *, negated: bool) -> str:
    """Whether the other relation has a row on which the condition is true.

    The other relation is bracketed, so that its stored columns are out of sight where the condition is read: a column
    `j` that holds a struct would otherwise be found before the table `j` around the subquery, and `j.owner` would be
    compared with itself.
    """
    plain = _side(part, columns_of(condition), schema, f"{name}s", owned=False)
    side = _nested(plain, plain.columns, name)
    test = From("", (), {**below.columns, **side.columns}, None).render(condition)
    return f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {side.source} WHERE {test})"


def _marked(
    relation: Marked,
    source: Relation,
    test: tuple[Part, Expression],
    needed: frozenset[str],
    schema: Schema,
    name: str,
    owned: bool,
) -> From:
    """The rows, in brackets, with their mark."""
    inner, condition = test
    inside = _inside(name) or JOIN
    read = columns_of(condition) if relation.mark in needed else frozenset()
    below = relation_sql(source, (needed | read) - {relation.mark}, schema, inside, owned=owned)
    made = {f.name: below.columns[f.name] for f in source.fields if f.name in needed}
    if relation.mark in needed:
        made[relation.mark] = _exists(inner, condition, below, schema, f"{inside}m", negated=False)
    return _nested(below, made, name)
