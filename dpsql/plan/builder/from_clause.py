"""FROM: tables, subqueries and names of WITH, and their joins below an aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.errors import ParseError, Span
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import Mismatch, call, common
from dpsql.plan.builder.clauses import bracketed, from_items, joins_of, only
from dpsql.plan.builder.join_refusals import check_exists, check_inner, check_outer
from dpsql.plan.builder.name_scope import FromColumn, FromTable, Scope
from dpsql.plan.builder.nested_queries import closed
from dpsql.plan.builder.subplan import FromItem, OpenQuery, Planner, PrivateRows, Subplan
from dpsql.plan.catalog import PrivateTable, PublicTable, UnavailableTable
from dpsql.plan.nodes.joins import Unique, inner_join, outer_join, renamed_side
from dpsql.plan.nodes.relation import Field, Item, JoinSide, Relation, side_of, unused_name
from dpsql.plan.nodes.semi_joins import exists_filter
from dpsql.plan.nodes.unary import filtered, projected
from dpsql.plan.normal_form import conjunction, conjuncts, normal
from dpsql.plan.plan import Output
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse, span_of

# Joins ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FromSource:
    """An item of FROM: its span, its name and its rows."""

    span: Span | None
    name: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class JoinedFrom:
    """FROM as it was read: the parts of an inner join, the conditions between them, and the tables' names."""

    span: Span | None
    parts: tuple[JoinSide, ...]
    conditions: tuple[Expression, ...]
    tables: tuple[FromTable, ...]

    def scope(self, aliases: Mapping[str, exp.Expr] | None = None) -> Scope:
        """The names that conditions on a row may use."""
        return Scope(Relation(self._fields, False, 1, False), self.tables, aliases or {})

    @property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(f for part in self.parts for f in part.fields)

    def relation(self, conditions: Sequence[Expression], unique: Unique) -> Relation:
        """The rows on which the further conditions hold as well."""
        every = conjuncts(conjunction(map(normal, (*self.conditions, *conditions))))
        if len(self.parts) == 1 and not self.conditions:
            relation = renamed_side(self.parts[0], unique)
            return filtered(relation, conjunction(conditions)) if conditions else relation
        check_inner(self.parts, every, self.tables, self.span, unique)
        return inner_join(self.parts, every, unique)

    def part(self, unique: Unique) -> JoinSide:
        """All of it as one side of a join."""
        alone = len(self.parts) == 1 and not self.conditions
        return self.parts[0] if alone else side_of(self.relation((), unique))

    def beside(self, other: JoinedFrom, conditions: Sequence[Expression] = ()) -> JoinedFrom:
        """Both, joined inner."""
        every = (*self.conditions, *other.conditions, *conditions)
        return JoinedFrom(other.span, (*self.parts, *other.parts), every, (*self.tables, *other.tables))


def read_from(node: exp.Select, sources: Sequence[FromSource], unique: Unique) -> JoinedFrom:
    """The items of FROM, joined; `sources` are in the order of `from_items`."""
    leaves = iter(_leaves(_named(sources) if len(sources) > 1 else sources))
    return _sequence(_item(node.args["from_"].this, leaves, unique), joins_of(node), leaves, unique)


def _item(item: exp.Expr, leaves: Iterator[JoinedFrom], unique: Unique) -> JoinedFrom:
    """An item, with what is joined to it inside its brackets or before the ON of a join around it."""
    inner = bracketed(item)
    first = next(leaves) if inner is None else _item(inner, leaves, unique)
    return _sequence(first, joins_of(item), leaves, unique)


def _sequence(first: JoinedFrom, joins: Sequence[exp.Expr], leaves: Iterator[JoinedFrom], unique: Unique) -> JoinedFrom:
    """Joins from left to right; a comma binds less than they do."""
    trees = [first]
    for join in joins:
        _known(join)
        item = _item(join.this, leaves, unique)
        if _is_comma(join):
            trees.append(item)
        else:
            trees[-1] = _join(trees[-1], item, join, unique)
    made = trees[0]
    for tree in trees[1:]:
        made = made.beside(tree)
    return made


def _named(sources: Sequence[FromSource]) -> list[FromSource]:
    """Give unnamed subqueries a name, as DuckDB does, so that their columns can be qualified."""
    made: list[FromSource] = []
    for source in sources:
        number = 1 + sum(other.name.startswith("unnamed_subquery") for other in made)
        made.append(source if source.name else replace(source, name=f"unnamed_subquery{number if number > 1 else ''}"))
    return made


def _leaves(sources: Sequence[FromSource]) -> list[JoinedFrom]:
    """Each item on its own, with field names that are unique in the whole clause."""
    seen: dict[str, int] = {}
    for source in sources:
        for field in source.relation.fields:
            seen[fold(field.name)] = seen.get(fold(field.name), 0) + 1
        if sum(fold(source.name) == fold(other.name) for other in sources if source.name) > 1:
            hint = "give one of them another name: FROM orders AS a, orders AS b"
            raise refuse(
                f"the name {source.name} appears twice in FROM", source.span, kind=ParseError, hint=hint, reason="name"
            )
    taken = {name for name, times in seen.items() if times == 1}
    leaves = []
    for source in sources:
        fields = [f.name for f in source.relation.fields]
        names = [n if seen[fold(n)] == 1 else unused_name(f"{source.name}.{n}", taken) for n in fields]
        entries = tuple(FromColumn(f, n, n) for f, n in zip(fields, names, strict=True))
        leaves.append(
            JoinedFrom(source.span, (JoinSide(source.relation, tuple(names)),), (), (FromTable(source.name, entries),))
        )
    return leaves


def with_unique_names(relation: Relation, outer: Scope, names: Sequence[str] | None = None) -> JoinSide:
    """A subquery's rows, under names (these, or their own) that none of the fields around it has."""
    taken = {fold(f.name) for f in outer.relation.fields}
    return JoinSide(relation, tuple(unused_name(name, taken) for name in names or [f.name for f in relation.fields]))


_PARTS = {"this", "on", "using", "kind", "side", "method"}

_METHODS = {
    "ASOF": "compare with >= and <=, or group by a date part on both sides",
    "POSITIONAL": "join on a key: JOIN … ON a.key = b.key",
}


def _known(join: exp.Expr) -> None:
    """Refuse what is not read here."""
    kind, side, method = (str(join.args.get(part) or "").upper() for part in ("kind", "side", "method"))
    if method and method != "NATURAL":
        hint = _METHODS.get(method, "write JOIN … ON")
        raise refuse(f"{method} JOIN is not supported with private rows", join, hint=hint, reason="clause")
    extra = [name for name, part in join.args.items() if part and name not in _PARTS]
    if extra or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or (side and kind in ("SEMI", "ANTI")):
        word = extra[0] if extra else f"{side} {kind}".strip()
        raise refuse(
            f"{word.upper()} in a join is not supported",
            join,
            hint="write [LEFT | RIGHT | FULL] JOIN … ON",
            reason="clause",
        )


def _is_comma(join: exp.Expr) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "kind", "side", "method"))


def _join(left: JoinedFrom, right: JoinedFrom, join: exp.Expr, unique: Unique) -> JoinedFrom:
    both = left.beside(right)
    conditions = _on(join, both.scope()) if join.args.get("on") is not None else []
    equal = _using(join, left, right)
    conditions += [condition for _, _, condition in equal]
    kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
    if kind in ("SEMI", "ANTI"):
        source, inner = left.relation((), unique), right.part(unique)
        condition = conjunction(map(normal, conditions))
        check_exists(source, inner, [condition], both.tables, join)
        made = exists_filter(source, inner, condition, negated=kind == "ANTI")
        return replace(left, parts=(side_of(made),), conditions=())
    if not side:
        tables = _merged_tables(both.tables, {two: None for _, two, _ in equal})
        return replace(left.beside(right, conditions), tables=tables)
    return _outer(left, right, side, conditions, [(one, two) for one, two, _ in equal], join, unique)


def _on(join: exp.Expr, scope: Scope) -> list[Expression]:
    made = convert(join.args["on"], scope)
    if made.type != BOOLEAN:
        raise refuse(
            "ON must be a condition", join.args["on"], kind=ParseError, hint="compare: ON a.key = b.key", reason="types"
        )
    return [_equal_units(made, scope.relation)]


def _equal_units(made: Expression, relation: Relation) -> Expression:
    """`a.unit IS NOT DISTINCT FROM b.unit`, as Tableau joins: a row without a unit is never counted."""
    match made:
        case Call(op="and", args=args):
            return replace(made, args=tuple(_equal_units(arg, relation) for arg in args))
        case Call(op="is_not_distinct", args=args) if all(map(relation.is_unit, args)):
            return replace(made, op="eq")
    return made


def _using(join: exp.Expr, left: JoinedFrom, right: JoinedFrom) -> list[tuple[str, str, Expression]]:
    """The columns of USING: the field on either side, and that they are equal."""
    made: list[tuple[str, str, Expression]] = []
    for name in join.args.get("using") or _natural(join, left, right):
        column = exp.column(name.name, quoted=True)
        column.meta.update(name.meta)
        one, two = left.scope().column(column), right.scope().column(column)
        assert isinstance(one, Column) and isinstance(two, Column)
        try:
            _, sides = common((one, two))
        except Mismatch as problem:
            raise refuse(str(problem), name, kind=ParseError, hint="join columns of one kind", reason="types") from None
        made.append((one.name, two.name, call("eq", BOOLEAN, *sides)))
    return made


def _natural(join: exp.Expr, left: JoinedFrom, right: JoinedFrom) -> list[exp.Expr]:
    """The columns that both sides of a NATURAL JOIN have."""
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return []
    ones, twos = ([e.column for t in side.tables for e in t.columns if e.bare is not None] for side in (left, right))
    names = [name for name in dict.fromkeys(ones) if fold(name) in map(fold, twos)]
    if not names:
        raise refuse(
            "a NATURAL JOIN needs columns of the same name", join, kind=ParseError, hint="say what is equal: JOIN … ON"
        )
    return [exp.to_identifier(name, quoted=True) for name in names]


def _merged_tables(tables: Sequence[FromTable], bare: Mapping[str, str | None]) -> tuple[FromTable, ...]:
    """The same tables, where the bare names of some columns mean another field (None: are left to another table)."""
    return tuple(
        replace(t, columns=tuple(replace(e, bare=bare.get(e.bare, e.bare)) if e.bare else e for e in t.columns))
        for t in tables
    )


def _outer(
    left: JoinedFrom,
    right: JoinedFrom,
    side: str,
    conditions: Sequence[Expression],
    equal: Sequence[tuple[str, str]],
    join: exp.Expr,
    unique: Unique,
) -> JoinedFrom:
    one, two = left.part(unique), right.part(unique)
    tables, condition = (*left.tables, *right.tables), conjunction(map(normal, conditions))
    first, second = (two, one) if side == "RIGHT" else (one, two)
    check_outer(first, second, side, [condition], tables, join, unique)
    merged: list[tuple[str, str, str]] = []
    bare: dict[str, str | None] = {two: None for _, two in equal}
    if side == "RIGHT":
        bare |= dict(equal)
    elif side == "FULL":
        taken = {fold(name) for part in (first, second) for name in part.names}
        merged = [(unused_name(a.rpartition(".")[2], taken), a, b) for a, b in equal]
        bare |= {a: name for name, a, _ in merged}
    made = outer_join(first, second, side == "FULL", condition, merged, unique)
    return JoinedFrom(left.span, (side_of(made),), (), _merged_tables(tables, bare))


# Items ---------------------------------------------------------------------------------------------------------------


def read_sources(planner: Planner, node: exp.Select, ctes: Mapping[str, Subplan]) -> list[FromItem]:
    """The items of FROM, in order."""
    return [(span_of(s), *_source(planner, s, ctes)) for s in from_items(node)]


def join_of(planner: Planner, node: exp.Select, sources: Sequence[FromItem]) -> JoinedFrom:
    """FROM as a join of relations below the aggregate."""
    return read_from(
        node,
        [FromSource(item, name, rows_of(planner, made, item)) for item, name, made in sources],
        planner.catalog.public.unique,
    )


def columns_in(planner: Planner, query: exp.Select, ctes: Mapping[str, Subplan]) -> list[tuple[str, frozenset[str]]]:
    """The items of a query's FROM: their names, and those of their columns, folded."""
    aside = planner.aside()
    found = [_source(aside, item, ctes) for item in from_items(query.copy())]
    return [(name, frozenset(fold(column) for column in made.columns)) for name, made in found]


def _source(planner: Planner, node: exp.Expr, ctes: Mapping[str, Subplan]) -> tuple[str, Subplan]:
    """The name and the planned form of one item of FROM; queries without private rows are rewritten in place."""
    only(node, {"this", "alias", "db", "catalog", "pivots", "joins"})
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        hint = "leave out the name, or write (SELECT …)"
        raise refuse("a join in brackets with a name is not supported", node, hint=hint, reason="clause")
    if isinstance(node, exp.Subquery):
        made = with_column_names(planner.query(node.this, ctes), node.args.get("alias"))
        if isinstance(made, OpenQuery):
            node.set("this", made.node)
        return node.alias or "", made
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refuse(
            "table functions, files and lists cannot be used in FROM",
            node,
            hint=planner.catalog.nearest(node.name),
            reason="table-function",
        )
    return node.alias or node.name, with_column_names(_table(planner, node, ctes), node.args.get("alias"))


def _table(planner: Planner, node: exp.Table, ctes: Mapping[str, Subplan]) -> Subplan:
    db = fold(node.db)
    if not db and fold(node.name) in ctes:
        made = ctes[fold(node.name)]
        if isinstance(made, PrivateRows):
            planner.used.count(made.relation, node)
        return made
    found = planner.catalog.find(node.name) if db in ("", "main", "public") and not node.catalog else None
    if found is None:
        raise refuse(
            f"there is no table {node.name}",
            node,
            kind=ParseError,
            hint=planner.catalog.nearest(node.name),
            reason="name",
        )
    if isinstance(found, PrivateTable):
        return PrivateRows(found.scan, (found,))
    if isinstance(found, UnavailableTable):
        raise refuse(
            f"the table {found.name} cannot be queried yet: {found.reason}", node, hint=found.hint, reason="name"
        )
    public = found
    planner.public.add(found.name)
    node.this.set("this", found.name)
    node.this.set("quoted", True)
    node.set("db", None)
    outputs = tuple(Output(column, noisy=False) for column in found.columns)
    return OpenQuery(node, outputs, below=lambda: _public_scan(planner, public))


def _public_scan(planner: Planner, table: PublicTable) -> Relation:
    """A public table below the aggregate, with the domains of the columns that the query names."""
    wanted = [c for c in table.columns if planner.names is None or fold(c) in planner.names]
    return table.scan(planner.catalog.public.domains(table.name, wanted))


def with_column_names(made: Subplan, alias: exp.Expr | None) -> Subplan:
    """`AS t(a, b)`: new names for the columns."""
    names = [c.name for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return made
    if isinstance(made, OpenQuery):
        outputs = [replace(o, name=n) for o, n in zip(made.outputs, names, strict=False)]
        return replace(made, outputs=(*outputs, *made.outputs[len(names) :]))
    if len(names) > len(made.relation.fields):
        raise refuse("there are more names than columns", alias, kind=ParseError, reason="name")
    kept = [f.name for f in made.relation.fields][len(names) :]
    return PrivateRows(titled(made.relation, [*names, *kept]), made.tables)


# Rows of a subquery --------------------------------------------------------------------------------------------------


def rows_of(planner: Planner, made: Subplan, node: exp.Expr | Span | None) -> Relation:
    """The rows of a query below an aggregate: private, public, or those that it will have released."""
    if isinstance(made, PrivateRows):
        return made.relation
    known = None if made.below is None else made.below()
    if known is not None:
        planner.used.count(known, node)
    return titled(_nested(planner, made, node) if known is None else known, made.columns)


def _nested(planner: Planner, made: OpenQuery, node: exp.Expr | Span | None) -> Relation:
    """The query as one that is answered first."""
    around = {
        name: each.cte for name, each in made.around.items() if isinstance(each, OpenQuery) and each.cte is not None
    }
    query = closed(made.node, around)
    for name in planner.shadowed & {fold(table.name) for table in query.find_all(exp.Table)}:
        raise refuse(
            f"two results are called {name}, and one is read below an aggregate",
            node,
            hint="rename one",
            reason="name",
        )
    if len({fold(name) for name in made.columns}) < len(made.columns):
        raise refuse(
            "two columns of this subquery have one name",
            node,
            kind=ParseError,
            hint="name them with AS",
            reason="subquery",
        )
    return planner.nesting.scan(
        query, made.outputs, (planner.releases, planner.families), planner.public, made.key, node
    )


def titled(relation: Relation, names: Sequence[str]) -> Relation:
    """The relation with its columns called so."""
    if [f.name for f in relation.fields] == list(names):
        return relation
    columns = [Column(f.type, name=f.name) for f in relation.fields]
    return projected(relation, [Item(n, c) for n, c in zip(names, columns, strict=True)])
