"""Syntax tree to plan: which SELECTs are private relations, which are releases, and what is left to finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.convert import convert, one_query
from dpsql.expressions.expression import Expression
from dpsql.expressions.types import BOOLEAN
from dpsql.parse.span import refuse
from dpsql.plan.canonical import canonical
from dpsql.plan.catalog import Catalog, PrivateTable, UnavailableTable
from dpsql.plan.clauses import (
    expanded,
    from_items,
    group_keys,
    items_of,
    no_limit,
    only,
    subqueries,
    title_of,
)
from dpsql.plan.finishing import check_finishing
from dpsql.plan.group import Grouping
from dpsql.plan.outputs import open_output, release_output
from dpsql.plan.plan import Output, Plan, Release
from dpsql.plan.relate import filtered, projected, unit_grouped
from dpsql.plan.relation import Item, Relation
from dpsql.plan.scope import Scope

ROW = "_row"


@dataclass(frozen=True, slots=True)
class Private:
    """A unit-local query and the policy's table it reads."""

    relation: Relation
    table: PrivateTable


@dataclass(frozen=True, slots=True)
class Open:
    """A query over released and public tables only: its rewritten tree and its columns."""

    node: exp.Expr
    outputs: tuple[Output, ...]
    row: str | None = None


Made = Private | Open


def build(query: exp.Query, catalog: Catalog) -> Plan:
    """The plan of a parsed query; refuses whatever is not known to be private."""
    builder = _Builder(catalog)
    _reserved(query)
    with one_query():
        made = builder.query(query.copy(), {}, top=True)
    if isinstance(made, Private):
        raise _lists_rows(made, query)
    assert isinstance(made.node, exp.Query)
    tables = {*builder.public, *(release.name for release in builder.releases)}
    for tree in (made.node, *(bar.expression for release in builder.releases for bar in release.bars)):
        check_finishing(tree, tables)
    return Plan(tuple(builder.releases), made.node, tuple(sorted(builder.public)), made.outputs, made.row)


def _reserved(query: exp.Query) -> None:
    """A name like `_r0` is a released table's; the analyst's own would stand before it."""
    for node in query.find_all(exp.CTE, exp.TableAlias):
        if node.alias_or_name.lower().startswith("_r") and node.alias_or_name[2:].isdigit():
            raise refuse(f"the name {node.alias_or_name} is reserved", node, kind=ParseError, hint="take another name")


def _join(sources: Sequence[tuple[exp.Expr, str, Made]], private: Sequence[tuple[exp.Expr, str, Private]]) -> Error:
    """The refusal of a join; the second item of FROM is marked."""
    if len(private) == len(sources):
        hint = "ask the steward for one table that has both"
    else:
        hint = "group by the join column and join above: SELECT … FROM (SELECT key, count(*) … GROUP BY key) JOIN …"
    return refuse("a join with a private table is not supported yet", sources[1][0], hint=hint)


def _lists_units(made: Private, node: exp.Expr) -> Error:
    unit = next((f.name for f in made.relation.fields if f.unit), "the unit")
    return refuse(
        f"this query would show each {unit} of {made.table.name}, which is private",
        node,
        hint=f"aggregate once more: SELECT avg(n) FROM (SELECT {unit}, count(*) AS n FROM … GROUP BY {unit})",
    )


def _lists_rows(made: Private, node: exp.Expr) -> Error:
    return refuse(
        f"this query would list rows of {made.table.name}, which are private",
        node,
        hint=f"ask for an aggregate, for example SELECT count(*) FROM {made.table.name}, or add GROUP BY",
    )


_SELECT_PARTS = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify",
                 "with_", "windows", "kind", "joins", "laterals"}  # fmt: skip


@dataclass(slots=True)
class _Builder:
    """One walk over the query; collects releases and the public tables it needs."""

    catalog: Catalog
    releases: list[Release] = field(default_factory=list)
    public: set[str] = field(default_factory=set)

    # queries ------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, ctes: Mapping[str, Made], *, top: bool = False) -> Made:
        """Any query: WITH, set operations, SELECT, brackets."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, ctes, top=top)
        ctes = self._with(node, ctes)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, ctes, top=top)
        raise refuse(f"{node.key.upper()} is not supported", node, hint="write a SELECT")

    def _with(self, node: exp.Expr, ctes: Mapping[str, Made]) -> Mapping[str, Made]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise refuse("WITH RECURSIVE is not supported", with_, hint="leave out RECURSIVE")
        seen, kept = dict(ctes), []
        for cte in with_.expressions:
            made = _renamed(self.query(cte.this, seen), cte.args.get("alias"))
            seen[cte.alias.lower()] = made
            if isinstance(made, Open):
                cte.set("this", made.node)
                kept.append(cte)
        if kept:
            with_.set("expressions", kept)
        else:
            node.set("with_", None)
        return seen

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Made]) -> Open:
        sides = [self.query(side, ctes) for side in (node.left, node.right)]
        for side, tree in zip(sides, (node.left, node.right), strict=True):
            if isinstance(side, Private):
                raise refuse(
                    f"{node.key.upper()} over private rows is not supported",
                    tree,
                    hint="aggregate each side first: SELECT … count(*) … UNION ALL SELECT … count(*) …",
                )
        left, right = (side for side in sides if isinstance(side, Open))
        node.set("this", left.node)
        node.set("expression", right.node)
        noisy = [*(o.noisy for o in right.outputs), *(True for _ in left.outputs)]
        return Open(node, tuple(Output(o.name, o.noisy or n) for o, n in zip(left.outputs, noisy, strict=False)))

    # SELECT -------------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, ctes: Mapping[str, Made], *, top: bool) -> Made:
        for name, part in node.args.items():
            if part and name not in _SELECT_PARTS:
                raise refuse(f"{name.strip('_').upper()} is not supported", node, hint="leave it out")
        sources = [(s, *self._source(s, ctes)) for s in from_items(node)]
        private = [(item, name, made) for item, name, made in sources if isinstance(made, Private)]
        if not private:
            return self._open_select(node, [(name, made) for _, name, made in sources if isinstance(made, Open)], ctes)
        if len(sources) > 1:
            raise _join(sources, private)
        _, name, made = private[0]
        return self._private_select(node, made, name, ctes, top=top)

    def _source(self, node: exp.Expr, ctes: Mapping[str, Made]) -> tuple[str, Made]:
        """The name and meaning of one item of FROM; open ones are rewritten in place."""
        only(node, {"this", "alias", "db", "catalog", "pivots", "joins"})
        if isinstance(node, exp.Subquery):
            made = _renamed(self.query(node.this, ctes), node.args.get("alias"))
            if isinstance(made, Open):
                node.set("this", made.node)
            return node.alias or "", made
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise refuse(
                "table functions, files and lists cannot stand in FROM", node, hint=self.catalog.nearest(node.name)
            )
        return node.alias or node.name, _renamed(self._table(node, ctes), node.args.get("alias"))

    def _table(self, node: exp.Table, ctes: Mapping[str, Made]) -> Made:
        db = node.db.lower()
        if not db and node.name.lower() in ctes:
            return ctes[node.name.lower()]
        found = self.catalog.find(node.name) if db in ("", "main", "public") and not node.catalog else None
        if found is None:
            raise refuse(f"there is no table {node.name}", node, kind=ParseError, hint=self.catalog.nearest(node.name))
        if isinstance(found, PrivateTable):
            return Private(found.scan, found)
        if isinstance(found, UnavailableTable):
            raise refuse(
                f"the table {found.name} cannot be queried yet: {found.reason}",
                node,
                hint="ask the steward for a copy with the unit column in it",
            )
        self.public.add(found.name)
        node.this.set("this", found.name)
        node.this.set("quoted", True)
        node.set("db", None)
        return Open(node, tuple(Output(column, noisy=False) for column in found.columns))

    def _subquery(self, node: exp.Expr, ctes: Mapping[str, Made]) -> exp.Expr:
        """A subquery inside an expression above the aggregate."""
        made = self.query(node, ctes)
        if isinstance(made, Private):
            raise refuse(
                f"this subquery would list rows of {made.table.name}, which are private",
                node,
                hint="aggregate inside the subquery",
            )
        if isinstance(node, exp.Subquery):
            node.set("this", made.node)
            return node
        return made.node

    # above the aggregate --------------------------------------------------------------------------------------------

    def _open_select(self, node: exp.Select, sources: list[tuple[str, Open]], ctes: Mapping[str, Made]) -> Open:
        releases = len(self.releases)
        for inner in subqueries(node):
            replaced = self._subquery(inner, ctes)
            if replaced is not inner:
                inner.replace(replaced)
        nested = len(self.releases) > releases
        columns = [(name.lower(), o) for name, made in sources for o in made.outputs]
        outputs: list[Output] = []
        for item in node.expressions:
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star):
                table = item.table.lower() if isinstance(item, exp.Column) else ""
                outputs += [o for name, o in columns if not table or name == table]
            else:
                outputs.append(open_output(item, columns, nested))
        return Open(node, tuple(outputs))

    def _release(
        self,
        node: exp.Select,
        source: Private,
        scope: Scope,
        keys: Sequence[Expression],
        ctes: Mapping[str, Made],
        *,
        top: bool,
    ) -> Open:
        name = f"_r{len(self.releases)}"
        group = Grouping(scope, tuple(keys), lambda c: exp.column(c, table=name), lambda q: self._subquery(q, ctes))
        slot = len(self.releases)
        self.releases.append(None)  # type: ignore[arg-type]
        outputs, items = [], []
        for item in node.expressions:
            title = title_of(item)
            inner = item.this if isinstance(item, exp.Alias) else item
            made = group.rewrite(inner.copy())
            outputs.append(release_output(title, made, name))
            items.append(exp.alias_(made, title, quoted=True))
        finishing = exp.Select(expressions=items, from_=exp.From(this=exp.to_table(name)))
        if node.args.get("having") is not None:
            finishing.set("where", exp.Where(this=group.rewrite(node.args["having"].this)))
        for part in ("qualify", "windows", "order", "limit", "offset", "distinct", "with_"):
            clause = node.args.get(part)
            if isinstance(clause, exp.Expr) and part not in ("with_", "limit", "offset"):
                clause = group.rewrite(clause, aliases=True)
            finishing.set(part, clause)
        row = name if top and node.args.get("distinct") is None else None
        if row is not None:
            finishing.append("expressions", exp.alias_(exp.column(ROW, table=name), "_row", quoted=True))
        items_ = tuple(Item(f"_k{i}", key) for i, key in enumerate(keys))
        asked = Release(
            name,
            source.table.name,
            source.relation,
            items_,
            tuple(group.aggregates),
            source.table.groups_per_unit,
            tuple(group.bars),
        )
        self.releases[slot] = canonical(asked)
        return Open(finishing, tuple(outputs), row)

    # below the aggregate --------------------------------------------------------------------------------------------

    def _private_select(
        self, node: exp.Select, source: Private, name: str, ctes: Mapping[str, Made], *, top: bool
    ) -> Made:
        aliases = {e.alias.lower(): e.this for e in node.expressions if isinstance(e, exp.Alias)}
        relation = source.relation
        if (where := node.args.get("where")) is not None:
            condition = convert(where.this, Scope(relation, name, aliases))
            if condition.type != BOOLEAN:
                raise refuse("WHERE takes a condition", where, kind=ParseError, hint="compare: WHERE x > 0")
            relation = filtered(relation, condition)
        source, scope = Private(relation, source.table), Scope(relation, name, aliases)
        items = expanded(node, scope)
        node.set("expressions", items)
        keys = group_keys(node, scope)
        if keys is None:
            if top:
                items_of(node.expressions, scope)
                raise _lists_rows(source, node)
            return Private(self._rows(node, scope), source.table)
        if any(relation.is_unit(key) for key in keys):
            if top:
                raise _lists_units(source, node)
            return Private(self._per_unit(node, scope, keys), source.table)
        return self._release(node, source, scope, keys, ctes, top=top)

    def _rows(self, node: exp.Select, scope: Scope) -> Relation:
        """A SELECT without aggregate: a projection."""
        no_limit(node)
        return projected(scope.relation, items_of(node.expressions, scope))

    def _per_unit(self, node: exp.Select, scope: Scope, keys: Sequence[Expression]) -> Relation:
        """GROUP BY with the unit among the keys: one row (or a few) per unit, still unit-local."""
        no_limit(node)
        if node.args.get("distinct") is not None:
            raise refuse(
                "DISTINCT over groups of private rows is not supported",
                node.args["distinct"],
                hint="put the SELECT into a subquery and group once more by the unit and the columns",
            )
        group = Grouping(
            scope, tuple(keys), lambda c: exp.column(c, quoted=True), lambda q: self._subquery(q, {}), per_unit=True
        )
        items = [
            exp.alias_(group.rewrite((e.this if isinstance(e, exp.Alias) else e).copy()), title_of(e), quoted=True)
            for e in node.expressions
        ]
        having = node.args.get("having")
        condition = None if having is None else group.rewrite(having.this)
        grouped = unit_grouped(
            scope.relation,
            [Item(f"_k{i}", k) for i, k in enumerate(keys)],
            [(f"_a{i}", a) for i, a in enumerate(group.aggregates)],
        )
        inner = Scope(grouped, scope.name)
        if condition is not None:
            grouped = filtered(grouped, convert(condition, inner))
        return projected(grouped, items_of(items, Scope(grouped, scope.name)))


def _renamed(made: Made, alias: exp.Expr | None) -> Made:
    """`AS t(a, b)`: new names for the columns."""
    names = [c.name for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return made
    if isinstance(made, Open):
        outputs = [replace(o, name=n) for o, n in zip(made.outputs, names, strict=False)]
        return replace(made, outputs=(*outputs, *made.outputs[len(names) :]))
    if len(names) > len(made.relation.fields):
        raise refuse("there are more names than columns", alias, kind=ParseError)
    scope = Scope(made.relation, "")
    columns = [scope.column(exp.column(f.name)) for f in made.relation.fields]
    kept = [f.name for f in made.relation.fields][len(names) :]
    items = [Item(n, c) for n, c in zip([*names, *kept], columns, strict=True)]
    return Private(projected(made.relation, items), made.table)
