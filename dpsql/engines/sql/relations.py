"""Relations as SQL: every row carries its owner in `_unit`, and rows without owner are dropped.

Inside a join each table has a name of its own, made from its place in the plan. A relation that is joined to one whose
owner is known, by a column that determines the owner, need not find its own (`owned` is false): a row of it that
meets another has the same owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.sql_types import physical, whole
from dpsql.engines.sql.unit_windows import unit_aggregate, window_sql
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Expression, columns_of
from dpsql.expressions.types import DOUBLE, TEXT, Kind, Type, from_engine
from dpsql.plan.nodes.joins import Inner, Outer, first_of
from dpsql.plan.nodes.relation import Field, Item, JoinSide, PublicScan, Relation, Scan
from dpsql.plan.nodes.released_scan import ReleasedScan
from dpsql.plan.nodes.semi_joins import Exists, ExistsColumn
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup
from dpsql.plan.nodes.union import UnionAll, owner_types
from dpsql.plan.nodes.windows import Windowed
from dpsql.plan.normal_form import conjuncts
from dpsql.policy.identifiers import fold

UNIT = "_unit"
JOIN = "j"
"""How the tables of the outermost join are called: j0, j1, …"""


def relation_sql(relation: Relation, needed: frozenset[str], site: Site, name: str = "", *, owned: bool = True) -> From:
    """The relation under a name, with the columns that are needed of it, and with its owner where that is asked for."""
    match relation:
        case Scan():
            return _scan(relation, needed, site, name, owned)
        case PublicScan(table=table):
            columns = {f.name: _read(site, table, f.name, name) for f in relation.fields if f.name in needed}
            return From(_called(site.dialect, table, name), (), columns, None, site.dialect)
        case ReleasedScan():
            return _released(relation, needed, site, name)
        case Filter(source=Relation() as source, condition=Expression() as condition):
            below = relation_sql(source, needed | columns_of(condition), site, name, owned=owned)
            return replace(below, where=(*below.where, below.render(condition)))
        case Project(source=Relation() as source):
            return _project(source, [i for i in relation.items if i.name in needed], site, name, owned)
        case UnitGroup(source=Relation() as source):
            return _unit_group(relation, source, needed, site, name, owned)
        case Inner():
            return _inner(relation, needed, site, name or JOIN, owned)
        case Outer(left=JoinSide() as left, right=JoinSide() as right, condition=Expression() as condition):
            return _outer(relation, (left, right), condition, needed, site, name or JOIN, owned)
        case Exists(source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition):
            below = relation_sql(source, needed | columns_of(condition), site, name or JOIN, owned=owned)
            test = _exists(inner, condition, below, site, f"{name or JOIN}e", negated=relation.negated)
            return replace(below, where=(*below.where, test))
        case ExistsColumn(source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition):
            return _marked(relation, source, (inner, condition), needed, site, name, owned)
        case UnionAll():
            return _union(relation, needed, site, name, owned)
        case Windowed(source=Relation() as source):
            return _windowed(relation, source, needed, site, name, owned)
    raise InternalError(f"no SQL for {type(relation).__name__}")


# tables ---------------------------------------------------------------------------------------------------------------


def _scan(scan: Scan, needed: frozenset[str], site: Site, name: str, owned: bool) -> From:
    """A private table; along a path to its owner, each step's row is looked up by its unique key."""
    path = scan.path if owned else ()
    name = name or (JOIN if path else "")
    columns = {f.name: _stored(site, scan, f, name) for f in scan.fields if f.name in needed}
    stored = _called(site.dialect, scan.table, name)
    if scan.part is not None:
        stored = site.dialect.copied(scan.table, scan.part) + (f" AS {name}" if name else "")
    if scan.unit is None or not owned:
        return From(stored, (), columns, None, site.dialect)
    tables, where, table, here = [stored], [], scan.table, name
    for number, step in enumerate(path):
        above = f"{name}p{number}"
        where.append(f"{_read(site, table, step.column, here)} = {_read(site, step.table, step.key, above)}")
        tables.append(_called(site.dialect, step.table, above))
        table, here = step.table, above
    unit = _read(site, table, scan.unit, here, unit=True)
    return From(", ".join(tables), (*where, f"{unit} IS NOT NULL"), columns, unit, site.dialect)


def _stored(site: Site, scan: Scan, field: Field, name: str) -> str:
    """A column of a private table; the database knows nothing of those that only a copy has."""
    if scan.part is not None and field.name not in site.columns[fold(scan.table)]:
        return f"{name}.{site.dialect.quote(field.name)}" if name else site.dialect.quote(field.name)
    return _read(site, scan.table, field.name, name, unit=field.unit)


def _released(scan: ReleasedScan, needed: frozenset[str], site: Site, name: str) -> From:
    """What a nested query released, by the name of its content; the engine puts it there, in the planner's types."""
    prefix = f"{name}." if name else ""
    columns = {f.name: f"{prefix}c{i}" for i, f in enumerate(scan.fields) if f.name in needed}
    texts = {f.name for f in scan.fields if f.type.kind is Kind.TEXT}
    read = {n: site.dialect.compared(column) if n in texts else column for n, column in columns.items()}
    return From(_called(site.dialect, released_name(scan), name), (), read, None, site.dialect)


def released_name(scan: ReleasedScan) -> str:
    """The table that holds a content; before there is one, the nested query's name, for people to read."""
    return scan.table if scan.digest is None else f"_released_{scan.digest}"


def _called(dialect: Dialect, table: str, name: str) -> str:
    return f"{dialect.table(table)} AS {name}" if name else dialect.table(table)


def _read(site: Site, table: str, column: str, name: str, *, unit: bool = False) -> str:
    """A stored column in the type that the planner computes with; none of these casts can fail.

    A unit has one zero and one NaN: grouping takes all spellings for one value, but a sign or a text that is computed
    from them would differ between rows of one unit.
    """
    stored, dialect = site.columns[fold(table)][column], site.dialect
    read = dialect.read(f"{name}.{dialect.quote(column)}" if name else dialect.quote(column), stored)
    if from_engine(stored) == TEXT:
        return dialect.carry(read)
    return dialect.settled(read, DOUBLE) if unit and from_engine(stored) == DOUBLE else read


# one relation over another --------------------------------------------------------------------------------------------


def _project(source: Relation, items: list[Item], site: Site, name: str, owned: bool) -> From:
    used = frozenset().union(*(columns_of(i.expression) for i in items)) if items else frozenset()
    below = relation_sql(source, used, site, _inside(name), owned=owned)
    return _nested(below, {i.name: below.render(i.expression) for i in items}, name)


def _inside(name: str) -> str:
    """The name of the table inside the brackets of a named relation."""
    return f"{name}s" if name else ""


def _nested(below: From, made: Mapping[str, str], name: str, group: str = "") -> From:
    """A subquery. Its columns are numbered: a name that an analyst chose could be taken for the owner's.

    **Theorem.** The owner that is read is the owner that was written. **Proof.** Inside the emitted SQL only `UNIT` and
    `c0, c1, …` occur above a stored table, each once in a SELECT list; in a join each stands behind the name of its
    table.
    **Requires** that stored columns are read under numbered names before they meet others, and that each subquery is
    aliased by a name of the emitter's own.
    **Checked by** `tests/privacy/test_found_by_review.py`, which gives columns the names that this SQL uses.
    """
    prefix = f"{name}." if name else ""
    unit = None if below.unit is None else prefix + UNIT
    columns = {column: f"{prefix}c{number}" for number, column in enumerate(made)}
    return From(_bracketed(_query(below, made, group), name), (), columns, unit, below.dialect)


def _query(below: From, made: Mapping[str, str], group: str = "") -> str:
    listed = [f"{value} AS c{number}" for number, value in enumerate(made.values())]
    owner = [] if below.unit is None else [f"{below.unit} AS {UNIT}"]
    return f"SELECT {', '.join([*owner, *listed]) or '1'} FROM {below.source}{below.conditions}{group}"


def _bracketed(query: str, name: str) -> str:
    return f"({query}) AS {name or 'q'}"


def _unit_group(
    relation: UnitGroup, source: Relation, needed: frozenset[str], site: Site, name: str, owned: bool
) -> From:
    """GROUP BY the owner and the keys; by the keys alone where one of them determines it and it is not asked for."""
    owned = owned or all(source.owner_of(k.expression) is None for k in relation.keys)
    aggregates = [(n, a) for n, a in relation.aggregates if n in needed]
    expressions = [k.expression for k in relation.keys] + [a.argument for _, a in aggregates if a.argument is not None]
    used = frozenset().union(*map(columns_of, expressions))
    below = relation_sql(source, used, site, _inside(name), owned=owned)
    keys = [_key(k.expression, below) for k in relation.keys]
    made = {k.name: key for key, k in zip(keys, relation.keys, strict=True)}
    made |= {n: unit_aggregate(a, relation.field(n).type, source, below) for n, a in aggregates}
    varying = [key for key, k in zip(keys, relation.keys, strict=True) if columns_of(k.expression)]
    group = f" GROUP BY {', '.join(dict.fromkeys([*([below.unit] if below.unit else []), *varying]))}"
    return _nested(below, made, name, group)


def _key(expression: Expression, below: From) -> str:
    value = below.render(expression)
    return below.dialect.settled(value, expression.type)


def _windowed(relation: Windowed, source: Relation, needed: frozenset[str], site: Site, name: str, owned: bool) -> From:
    """The rows, their columns settled, in brackets; around them the window functions that are needed."""
    used = relation.used(needed)
    below = relation_sql(source, used, site, f"{name or JOIN}w")
    rows = {f.name: site.dialect.settled(below.columns[f.name], f.type) for f in source.fields if f.name in used}
    inner = _nested(below, rows, _inside(name))
    made = {f.name: inner.columns[f.name] for f in source.fields if f.name in needed}
    made |= {n: window_sql(c, relation.field(n).type, relation, inner) for n, c in relation.calls if n in needed}
    return _nested(inner if owned else replace(inner, unit=None), made, name)


def _union(relation: UnionAll, needed: frozenset[str], site: Site, name: str, owned: bool) -> From:
    """All rows of the parts; columns, and owners of different width, are read in the type of the union."""
    shown = [f for f in relation.fields if f.name in needed]
    widths = sorted({end for t in owner_types(relation) for end in (t.lower, t.upper)})
    wide = len(owner_types(relation)) > 1
    queries, one = [], From("", (), {}, None, site.dialect)
    for number, part in enumerate(relation.parts):
        fields = {f.name: own for f, own in zip(relation.fields, part.fields, strict=True) if f.name in needed}
        used = frozenset(f.name for f in fields.values())
        below = relation_sql(part, used, site, f"{name or JOIN}u{number}", owned=owned)
        unit = site.dialect.cast(below.unit, whole(*widths)) if wide and below.unit else below.unit
        below = replace(below, unit=unit if owned else None)
        made = {
            f.name: _as(site.dialect, below.columns[fields[f.name].name], fields[f.name].type, f.type) for f in shown
        }
        one = _nested(below, made, name)
        queries.append(_query(below, made))
    return From(_bracketed(" UNION ALL ".join(queries), name), (), one.columns, one.unit, site.dialect)


def _as(dialect: Dialect, value: str, given: Type, wanted: Type) -> str:
    """A column of one part in the type of the union: a widening cast, which cannot fail."""
    if given.kind is Kind.NULL:
        return dialect.cast("NULL", physical(wanted))
    if given.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP):
        return dialect.converted(value, physical(given), physical(wanted))
    return dialect.cast(value, physical(wanted))


# joins ----------------------------------------------------------------------------------------------------------------


def _inner(join: Inner, needed: frozenset[str], site: Site, name: str, owned: bool) -> From:
    """One flat FROM: the engine chooses the order. The owner is taken where it is nearest."""
    used = needed.union(*map(columns_of, join.conditions))
    private = [i for i, part in enumerate(join.parts) if part.private]
    chosen = min(private, key=lambda i: _distance(join.parts[i].relation), default=None) if owned else None
    sides = [_side(part, used, site, f"{name}{i}", i == chosen) for i, part in enumerate(join.parts)]
    columns = {shown: text for side in sides for shown, text in side.columns.items()}
    unit = None if chosen is None else sides[chosen].unit
    made = From(", ".join(side.source for side in sides), (), columns, unit, site.dialect)
    where = (*(w for side in sides for w in side.where), *(made.render(c) for c in join.conditions))
    return replace(made, where=where)


def _side(part: JoinSide, used: frozenset[str], site: Site, name: str, owned: bool) -> From:
    """A part of a join, its columns by the names that they have there."""
    below = relation_sql(part.relation, part.own(used), site, name, owned=owned)
    shown = dict(zip((f.name for f in part.relation.fields), part.names, strict=True))
    return replace(below, columns={shown[n]: text for n, text in below.columns.items() if n in shown})


def _distance(relation: Relation) -> int:
    """How many tables must be joined to find the owner of a private row."""
    match relation:
        case Scan(path=path):
            return len(path)
        case Inner(parts=parts):
            return min(_distance(p.relation) for p in parts if p.private)
        case Outer(left=JoinSide(relation=one), right=JoinSide(relation=two), full=full):
            return _distance(one) + (_distance(two) if full else 0)
        case Filter(source=Relation() as source) | Project(source=Relation() as source):
            return _distance(source)
        case UnitGroup(source=Relation() as source) | Exists(source=Relation() as source):
            return _distance(source)
        case Windowed(source=Relation() as source) | ExistsColumn(source=Relation() as source):
            return _distance(source)
        case UnionAll(parts=parts):
            return max(map(_distance, parts))
    return 0


def _outer(
    join: Outer,
    sides: tuple[JoinSide, JoinSide],
    condition: Expression,
    needed: frozenset[str],
    site: Site,
    name: str,
    owned: bool,
) -> From:
    """LEFT or FULL JOIN of two bracketed sides; a FULL join's owner is that of the side that is there."""
    if join.full and not site.dialect.full_joins_by_any and not _only_equalities(condition, sides):
        raise UnsupportedQuery(
            "this database joins fully by equal columns only", span=condition.span,
            hint="put the other conditions into subqueries on either side, or use LEFT JOIN",
        )  # fmt: skip
    merged = [(n, one, two) for n, one, two in join.merged if n in needed]
    used = needed | columns_of(condition) | {column for _, *pair in merged for column in pair}
    made = []
    for number, part in enumerate(sides):
        side = _side(part, used, site, f"{name}{number}s", owned and part.private and (join.full or number == 0))
        made.append(_nested(side, side.columns, f"{name}{number}"))
    columns = {**made[0].columns, **made[1].columns}
    both = From("", (), columns, None, site.dialect)
    columns |= {n: both.render(first_of(join.field(one), join.field(two))) for n, one, two in merged}
    units = [side.unit for side in made if side.unit is not None]
    unit = f"coalesce({', '.join(units)})" if len(units) > 1 else next(iter(units), None)
    on = replace(both, columns=columns).render(condition)
    kind = "FULL" if join.full else "LEFT"
    return From(f"{made[0].source} {kind} JOIN {made[1].source} ON {on}", (), columns, unit, site.dialect)


def _only_equalities(condition: Expression, sides: tuple[JoinSide, JoinSide]) -> bool:
    """Does it compare nothing but values of one side with values of the other?"""
    names = [frozenset(side.names) for side in sides]

    def crosses(each: Expression) -> bool:
        if not isinstance(each, Call) or each.op != "eq":
            return False
        read = [columns_of(arg) for arg in each.args]
        return any(all(one and one <= own for one, own in zip(way, names, strict=True)) for way in (read, read[::-1]))

    return all(crosses(each) for each in conjuncts(condition))


def _exists(part: JoinSide, condition: Expression, below: From, site: Site, name: str, *, negated: bool) -> str:
    """Whether the other relation has a row on which the condition is true.

    The other relation is bracketed, so that its stored columns are out of sight where the condition is read: a column
    `j` that holds a struct would otherwise be found before the table `j` around the subquery, and `j.owner` would be
    compared with itself.
    """
    plain = _side(part, columns_of(condition), site, f"{name}s", owned=False)
    side = _nested(plain, plain.columns, name)
    test = replace(side, columns={**below.columns, **side.columns}).render(condition)
    return f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {side.source} WHERE {test})"


def _marked(
    relation: ExistsColumn,
    source: Relation,
    test: tuple[JoinSide, Expression],
    needed: frozenset[str],
    site: Site,
    name: str,
    owned: bool,
) -> From:
    """The rows, in brackets, with their mark."""
    inner, condition = test
    inside = _inside(name) or JOIN
    read = columns_of(condition) if relation.mark in needed else frozenset()
    below = relation_sql(source, (needed | read) - {relation.mark}, site, inside, owned=owned)
    made = {f.name: below.columns[f.name] for f in source.fields if f.name in needed}
    if relation.mark in needed:
        made[relation.mark] = _exists(inner, condition, below, site, f"{inside}m", negated=False)
    return _nested(below, made, name)
