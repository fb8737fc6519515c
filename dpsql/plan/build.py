"""Syntax tree to plan: which SELECTs are private relations, which are releases, and what is left to finish."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from sqlglot import exp

from dpsql.errors import Error, ParseError, Span, UnsupportedQuery
from dpsql.expressions.convert import Resolver, convert, one_query, written_too_large
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import Mismatch, common
from dpsql.parse.span import refuse, span_of
from dpsql.plan.canonical import canonical
from dpsql.plan.catalog import Catalog, PrivateTable, PublicTable, UnavailableTable
from dpsql.plan.clauses import (
    entitled,
    expanded,
    from_items,
    group_keys,
    is_grouped,
    items_of,
    no_histogram,
    no_limit,
    no_more,
    only,
    subqueries,
    title_of,
    unaliased,
)
from dpsql.plan.extremes import answered_by_policy, constants
from dpsql.plan.finishing import check_finishing
from dpsql.plan.from_clause import Joined, Source, apart, distinct, read_from
from dpsql.plan.group import Grouping, has_aggregate
from dpsql.plan.join import Part
from dpsql.plan.join_refusals import SUBQUERY, check_exists
from dpsql.plan.made import FromItem, Made, Open, Private
from dpsql.plan.marks import computed_by_row, instead, marked, memberships, with_memberships
from dpsql.plan.membership import Membership, conjuncts_of, in_conditions, split_where
from dpsql.plan.nested import Describe, Nesting, closed, not_described
from dpsql.plan.normal import conjunction, normal
from dpsql.plan.outputs import grouped_places, key_places, open_output, release_output, united
from dpsql.plan.plan import Bar, Family, Output, Plan, Release
from dpsql.plan.probe import columns_of, is_probe, no_rows, with_rows
from dpsql.plan.public_keys import public_values
from dpsql.plan.read_windows import with_windows
from dpsql.plan.relate import filtered, projected, unit_grouped
from dpsql.plan.relate_joins import existing
from dpsql.plan.relate_sets import distinct_rows, set_operation, without_owner, without_people
from dpsql.plan.relation import Aggregate, Item, Relation
from dpsql.plan.scalars import repeats_rows, takes_one_row
from dpsql.plan.scope import Correlated, Named, Scope, named, scope_of
from dpsql.plan.sets import Keys, made_family, union_of
from dpsql.plan.size import MOST_RELATIONS, MOST_WRITTEN, Used, size_of, too_large, widest
from dpsql.plan.values import Value, find_values, join_above, looked_up, reads_values
from dpsql.policy.names import fold

ROW = "_row"


def build(query: exp.Query, catalog: Catalog, describe: Describe = not_described) -> Plan:
    """The plan of a parsed query; refuses whatever is not known to be private.

    `describe` tells the types of a nested query's columns; it knows its text only, and no row.
    """
    if is_probe(query):
        return _probed(with_rows(query), catalog, describe)
    builder, made = _walked(query, catalog, describe, top=True)
    if isinstance(made, Private):
        raise _lists_rows(made, query)
    return builder.plan(made)


def _probed(query: exp.Query, catalog: Catalog, describe: Describe) -> Plan:
    """The columns of a query and no rows: of those that could not be listed, too."""
    builder, made = _walked(query, catalog, describe, top=False)
    if isinstance(made, Private):
        return no_rows(*columns_of(made))
    return no_rows(made.columns, describe(builder.plan(made)))


def _walked(query: exp.Query, catalog: Catalog, describe: Describe, *, top: bool) -> tuple[_Builder, Made]:
    builder = _Builder(catalog, _names(query), nesting=Nesting(describe))
    _reserved(query)
    with one_query():
        return builder, builder.query(query.copy(), {}, top=top)


def columns_of_query(query: exp.Query, catalog: Catalog) -> list[tuple[str, str | None]]:
    """The columns of a query that may list rows, as a subquery may; types where its rows are private."""
    made = _Builder(catalog, _names(query)).query(query, {})
    if isinstance(made, Private):
        return [(field.name, str(field.type)) for field in made.relation.fields]
    check_finishing(made.node, {table.name for table in made.node.find_all(exp.Table)})
    return [(output.name, None) for output in made.outputs]


def _names(query: exp.Expr) -> frozenset[str] | None:
    """All names that the query uses, folded; None if a star stands for more."""
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return None
    return frozenset(fold(name.name) for name in query.find_all(exp.Identifier))


def _reserved(query: exp.Query) -> None:
    """A name like `_r0` is a released table's, `_v0` that of a value; the analyst's own would stand before it."""
    for node in query.find_all(exp.CTE, exp.TableAlias):
        if fold(node.alias_or_name).startswith(("_r", "_s", "_v", "_d")) and node.alias_or_name[2:].isdigit():
            raise refuse(
                f"the name {node.alias_or_name} is reserved",
                node,
                kind=ParseError,
                hint="take another name",
                reason="name",
            )


def _lists_units(made: Private, node: exp.Expr, unit: str) -> Error:
    return refuse(
        f"this query would show each {unit} of {made.name}, which is private",
        node,
        hint=f"aggregate once more: SELECT avg(n) FROM (SELECT {unit}, count(*) AS n FROM … GROUP BY {unit})",
        reason="unit-key",
    )


def _lists_rows(made: Private, node: exp.Expr) -> Error:
    table = made.name if len(made.tables) == 1 else "…"
    return refuse(
        f"this query would list rows of {made.name}, which are private",
        node,
        hint=f"ask for an aggregate, for example SELECT count(*) FROM {table}, or add GROUP BY",
        reason="rows",
    )


_SELECT_PARTS = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify",
                 "with_", "windows", "kind", "joins", "laterals"}  # fmt: skip


@dataclass(slots=True)
class _Builder:
    """One walk over the query; collects releases and the public tables it needs."""

    catalog: Catalog
    names: Collection[str] | None = None
    releases: list[Release] = field(default_factory=list)
    public: set[str] = field(default_factory=set)
    families: list[Family] = field(default_factory=list)
    nesting: Nesting = field(default_factory=Nesting)
    shadowed: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    used: Used = field(default_factory=Used)

    def plan(self, made: Open) -> Plan:
        """The plan of what the walk made."""
        assert isinstance(made.node, exp.Query)
        tables = {*self.public, *(release.name for release in self.releases)}
        trees = [made.node, *(bar.expression for release in self.releases for bar in release.bars)]
        for tree in trees:
            check_finishing(tree, tables)
        public = sorted(self.public & {table.name for tree in trees for table in tree.find_all(exp.Table)})
        families, nested, notes = tuple(self.families), tuple(self.nesting.made), tuple(dict.fromkeys(self.notes))
        return Plan(tuple(self.releases), made.node, tuple(public), made.outputs, made.row, families, nested, notes)

    # queries ------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, ctes: Mapping[str, Made], *, top: bool = False) -> Made:
        """Any query: WITH, set operations, SELECT, brackets."""
        if isinstance(node, exp.Subquery):
            no_more(node)
            return self.query(node.this, self._with(node, ctes), top=top)
        inside = self._with(node, ctes)
        if isinstance(node, exp.SetOperation):
            made = self._set_operation(node, inside)
        elif isinstance(node, exp.Select):
            made = self._select(node, inside, top=top)
        else:
            raise refuse(f"{node.key.upper()} is not supported", node, hint="write a SELECT", reason="clause")
        if isinstance(made, Private):
            if size_of(made.relation) > MOST_RELATIONS:
                raise too_large(node)
            return made
        return replace(made, around=ctes, key=() if takes_one_row(node) else None if repeats_rows(node) else made.key)

    def _with(self, node: exp.Expr, ctes: Mapping[str, Made]) -> Mapping[str, Made]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise refuse("WITH RECURSIVE is not supported", with_, hint="leave out RECURSIVE", reason="clause")
        seen, kept = dict(ctes), []
        for cte in with_.expressions:
            made = _renamed(self.query(cte.this, seen), cte.args.get("alias"))
            if fold(cte.alias) in seen:
                self.shadowed.add(fold(cte.alias))
            if isinstance(made, Open):
                cte.set("this", made.node)
                kept.append(cte)
                made = replace(made, cte=cte)
            seen[fold(cte.alias)] = made
        if kept:
            with_.set("expressions", kept)
        else:
            node.set("with_", None)
        return seen

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Made]) -> Made:
        trees = (node.left, node.right)
        left, right = (self.query(tree, ctes) for tree in trees)
        if isinstance(left, Private) and isinstance(right, Private):
            return Private(set_operation(node, left.relation, right.relation), (*left.tables, *right.tables))
        for side, tree in zip((left, right), trees, strict=True):
            if isinstance(side, Open) and (isinstance(left, Private) or isinstance(right, Private)):
                raise without_people(node, tree, public=side.below is not None)
        assert isinstance(left, Open) and isinstance(right, Open)
        for name, side, tree in (("this", left, trees[0]), ("expression", right, trees[1])):
            node.set(name, exp.Subquery(this=side.node) if isinstance(tree, exp.Subquery) else side.node)
        return Open(node, united(left.outputs, right.outputs))

    # SELECT -------------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, ctes: Mapping[str, Made], *, top: bool) -> Made:
        for name, part in node.args.items():
            if part and name not in _SELECT_PARTS:
                raise refuse(f"{name.strip('_').upper()} is not supported", node, hint="leave it out", reason="clause")
        sources = [(span_of(s), *self._source(s, ctes)) for s in from_items(node)]
        tables = tuple(t for _, _, made in sources if isinstance(made, Private) for t in made.tables)
        if tables:
            self.notes += (notes := answered_by_policy(node, sources))
            if notes and (known := constants(node)) is not None:
                return known
            return self._private_select(node, sources, tables, ctes, top=top)
        return self._open_select(node, sources, ctes)

    def _from(self, node: exp.Select, sources: Sequence[FromItem]) -> Joined:
        """FROM as a join of relations below the aggregate."""
        return read_from(
            node, [Source(item, name, self.rows(made, item)) for item, name, made in sources], self._unique
        )

    @property
    def _unique(self) -> Callable[[str, frozenset[str]], bool]:
        return self.catalog.public.unique

    def _source(self, node: exp.Expr, ctes: Mapping[str, Made]) -> tuple[str, Made]:
        """The name and meaning of one item of FROM; open ones are rewritten in place."""
        only(node, {"this", "alias", "db", "catalog", "pivots", "joins"})
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            hint = "leave out the name, or write (SELECT …)"
            raise refuse("a join in brackets with a name is not supported", node, hint=hint, reason="clause")
        if isinstance(node, exp.Subquery):
            made = _renamed(self.query(node.this, ctes), node.args.get("alias"))
            if isinstance(made, Open):
                node.set("this", made.node)
            return node.alias or "", made
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise refuse(
                "table functions, files and lists cannot stand in FROM",
                node,
                hint=self.catalog.nearest(node.name),
                reason="table-function",
            )
        return node.alias or node.name, _renamed(self._table(node, ctes), node.args.get("alias"))

    def _table(self, node: exp.Table, ctes: Mapping[str, Made]) -> Made:
        db = fold(node.db)
        if not db and fold(node.name) in ctes:
            made = ctes[fold(node.name)]
            if isinstance(made, Private):
                self.used.count(made.relation, node)
            return made
        found = self.catalog.find(node.name) if db in ("", "main", "public") and not node.catalog else None
        if found is None:
            raise refuse(
                f"there is no table {node.name}",
                node,
                kind=ParseError,
                hint=self.catalog.nearest(node.name),
                reason="name",
            )
        if isinstance(found, PrivateTable):
            return Private(found.scan, (found,))
        if isinstance(found, UnavailableTable):
            raise refuse(
                f"the table {found.name} cannot be queried yet: {found.reason}", node, hint=found.hint, reason="name"
            )
        public = found
        self.public.add(found.name)
        node.this.set("this", found.name)
        node.this.set("quoted", True)
        node.set("db", None)
        outputs = tuple(Output(column, noisy=False) for column in found.columns)
        return Open(node, outputs, below=lambda: self._public_scan(public))

    def _public_scan(self, table: PublicTable) -> Relation:
        """A public table below the aggregate, with the domains of the columns that the query names."""
        wanted = [c for c in table.columns if self.names is None or fold(c) in self.names]
        return table.scan(self.catalog.public.domains(table.name, wanted))

    def _subquery(self, node: exp.Expr, ctes: Mapping[str, Made]) -> exp.Expr:
        """A subquery inside an expression above the aggregate."""
        made = self.query(node, ctes)
        if isinstance(made, Private):
            raise refuse(
                f"this subquery would list rows of {made.name}, which are private",
                node,
                hint="aggregate inside the subquery",
                reason="rows",
            )
        if isinstance(node, exp.Subquery):
            node.set("this", made.node)
            return node
        return made.node

    # above the aggregate --------------------------------------------------------------------------------------------

    def _open_select(self, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Made]) -> Open:
        releases = len(self.releases)
        for inner in subqueries(node):
            if join_above(self, node, inner, f"_d{len(self.releases)}", sources, ctes):
                continue
            replaced = self._subquery(inner, ctes)
            if replaced is not inner:
                inner.replace(replaced)
        nested = len(self.releases) > releases
        columns = [(fold(name), o) for _, name, made in sources if isinstance(made, Open) for o in made.outputs]
        outputs: list[Output] = []
        for item in node.expressions:
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star):
                table = fold(item.table) if isinstance(item, exp.Column) else ""
                outputs += [o for name, o in columns if not table or name == table]
            else:
                outputs.append(open_output(item, columns, nested))
        below = None if nested else cache(lambda: self._public_rows(node.copy(), sources, ctes))
        grouped = node.args.get("group") is not None
        singles = all(isinstance(made, Open) and made.key == () for _, _, made in sources)
        alone = not grouped and (singles or any(map(has_aggregate, node.expressions)))
        known = {fold(output.name) for _, output in columns}
        return Open(node, tuple(outputs), below=below, key=() if alone else grouped_places(node, known))

    def _public_rows(self, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Made]) -> Relation | None:
        """A SELECT over public tables as a relation below an aggregate; None if it does more than filter and compute.

        Nothing is lost then but what is known of its rows: it runs in the sealed database.
        """
        parts = ("limit", "offset", "qualify", "windows", "distinct", "group")
        if not sources or any(node.args.get(p) for p in parts) or any(map(has_aggregate, node.expressions)):
            return None
        try:
            relation, scope = self._chosen(node, self._from(node, sources), {}, ctes)
            return projected(relation, items_of(expanded(node, scope), scope))
        except UnsupportedQuery:
            return None

    # nested results -------------------------------------------------------------------------------------------------

    def rows(self, made: Made, node: exp.Expr | Span | None) -> Relation:
        """The rows of a query below an aggregate: private, public, or those that it will have released."""
        if isinstance(made, Private):
            return made.relation
        known = None if made.below is None else made.below()
        if known is not None:
            self.used.count(known, node)
        return _titled(self._nested(made, node) if known is None else known, made.columns)

    def _nested(self, made: Open, node: exp.Expr | Span | None) -> Relation:
        """The query as one that is answered first."""
        around = {
            name: each.cte for name, each in made.around.items() if isinstance(each, Open) and each.cte is not None
        }
        query = closed(made.node, around)
        for name in self.shadowed & {fold(table.name) for table in query.find_all(exp.Table)}:
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
        return self.nesting.scan(query, made.outputs, (self.releases, self.families), self.public, made.key, node)

    def columns(self, query: exp.Select, ctes: Mapping[str, Made]) -> list[tuple[str, frozenset[str]]]:
        """The items of a query's FROM: their names, and those of their columns, folded."""
        aside = replace(
            self, releases=[*self.releases], families=[], nesting=replace(self.nesting, made=[*self.nesting.made])
        )
        found = [aside._source(item, ctes) for item in from_items(query.copy())]
        return [(name, frozenset(fold(column) for column in made.columns)) for name, made in found]

    def _release(
        self,
        node: exp.Select,
        source: Private,
        scope: Scope,
        keys: Keys,
        ctes: Mapping[str, Made],
        *,
        top: bool,
    ) -> Open:
        slot, sets = len(self.releases), list(dict.fromkeys(keys.sets))
        releases = [f"_r{slot + i}" for i in range(len(sets))]
        name = releases[0] if keys.plain else f"_s{slot}"
        group = Grouping(scope, keys, lambda c: exp.column(c, table=name), lambda q: self._subquery(q, ctes))
        self.releases += [None] * len(sets)  # type: ignore[list-item]
        outputs, items = [], []
        for item in node.expressions:
            title = title_of(item)
            inner = item.this if isinstance(item, exp.Alias) else item
            made = group.rewrite(inner.copy())
            outputs.append(release_output(title, made, name, group.aggregates))
            items.append(exp.alias_(made, title, quoted=True))
        finishing = exp.Select(expressions=items)
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
        self.notes += group.notes
        family = made_family(name, releases, keys)
        for number, (release, chosen) in enumerate(zip(releases, sets, strict=True)):
            place = keys.sets.index(chosen)
            bars = [replace(bar, expression=family.over(place, bar.expression)) for bar in group.bars]
            items_ = [Item(f"_k{i}", keys.expressions[i]) for i in chosen]
            self.releases[slot + number] = self._asked(release, source, items_, group.aggregates, bars)
        parts = (("_k", len(keys.expressions)), ("_a", len(group.aggregates)), ("_b", len(group.bars)))
        columns = [f"{kind}{i}" for kind, many in parts for i in range(many)]
        finishing.set("from_", exp.From(this=exp.to_table(name) if keys.plain else union_of(family, columns)))
        if not keys.plain:
            self.families.append(family)
            outputs = [replace(output, direct=None) for output in outputs]
        places = key_places(items, len(keys.expressions)) if keys.plain else None
        return Open(finishing, tuple(outputs), row, key=places)

    def _asked(
        self, name: str, source: Private, keys: Sequence[Item], aggregates: Sequence[Aggregate], bars: Sequence[Bar]
    ) -> Release:
        """A release in its canonical form, with the values of keys that read public tables only."""
        most, public = self.catalog.max_public_keys, self.catalog.public
        read = [*(key.expression for key in keys), *(a.argument for a in aggregates if a.argument is not None)]
        if widest(source.relation, read) > MOST_WRITTEN:
            raise written_too_large(None)
        listed = {item.name: public_values(source.relation, item.expression, public, most) for item in keys}
        asked = Release(
            name,
            source.name,
            source.relation,
            tuple(keys),
            tuple(aggregates),
            max(table.groups_per_unit for table in source.tables),
            tuple(bars),
            tuple((key, domain) for key, domain in listed.items() if domain is not None),
        )
        return canonical(asked)

    # below the aggregate --------------------------------------------------------------------------------------------

    def _private_select(
        self,
        node: exp.Select,
        sources: Sequence[FromItem],
        tables: tuple[PrivateTable, ...],
        ctes: Mapping[str, Made],
        *,
        top: bool,
    ) -> Made:
        no_histogram(node)
        entitled(node)
        joined, values = self._from(node, sources), find_values(self, node, sources, ctes)
        _, scope = self._chosen(node, joined, _aliases(node), ctes, values)
        node.set("expressions", expanded(node, scope))
        scope = replace(self._marked(computed_by_row(node), scope, ctes), aliases=_aliases(node))
        source = Private(scope.relation, tables)
        if not is_grouped(node):
            if top and node.args.get("distinct") is None and any(e.find(exp.Window) for e in node.expressions):
                raise _lists_rows(source, node)
            scope = _with_windows(node, scope)
            source = Private(scope.relation, tables)
        keys = group_keys(node, scope)
        if keys is None:
            if top:
                items_of(node.expressions, scope)
                raise _lists_rows(source, node)
            return Private(self._rows(node, scope), tables)
        owner = next((key for key in keys.expressions if scope.relation.owner_of(key) is not None), None)
        if owner is not None and not keys.plain:
            raise refuse(
                f"some of these grouping sets show each {owner}, which is private, and others mix the rows of all",
                node.args["group"],
                hint=f"GROUP BY {owner} alone in a subquery, and use ROLLUP above it",
                reason="unit-key",
            )
        if owner is not None:
            if top:
                raise _lists_units(source, node, str(owner))
            return Private(self._per_unit(node, scope, keys), tables)
        return self._release(node, source, scope, keys, ctes, top=top)

    def _chosen(
        self,
        node: exp.Select,
        joined: Joined,
        aliases: Mapping[str, exp.Expr],
        ctes: Mapping[str, Made],
        values: Sequence[Value] = (),
    ) -> tuple[Relation, Scope]:
        """The rows that WHERE leaves, and what names mean there; conditions on looked-up values come last."""
        where = node.args.get("where")
        plain, members = ([], []) if where is None else split_where(where.this)
        plain = [part for c in plain for part in conjuncts_of(c)] if values else plain
        plain, with_marks = with_memberships(plain)
        later = [c for c in plain if reads_values(c, values)]
        own = [_condition(c, joined.scope(aliases)) for c in plain if c not in later]
        scope = Scope(joined.relation(own, self._unique), joined.tables, aliases)
        for value in values:
            scope = looked_up(scope, value, self._unique)
        if later:
            condition = conjunction(normal(_condition(c, scope)) for c in later)
            scope = replace(scope, relation=filtered(scope.relation, condition))
        for member in members:
            scope = replace(scope, relation=self._member(member, scope, ctes))
        if with_marks:
            whole = exp.Where(this=exp.and_(*with_marks))
            scope = self._marked([whole], scope, ctes)
            scope = replace(scope, relation=filtered(scope.relation, _condition(whole.this, scope)))
        return scope.relation, scope

    def _marked(self, roots: Sequence[exp.Expr], scope: Scope, ctes: Mapping[str, Made]) -> Scope:
        """EXISTS and IN inside expressions become columns, which take their places in the tree."""
        made: dict[str, exp.Expr] = {}
        for member in (member for root in roots for member in memberships(root)):
            text = member.node.sql("duckdb")
            if text not in made:
                scope, made[text] = self._mark(member, text, scope, ctes)
            member.node.replace(made[text].copy())
        return scope

    def _mark(self, member: Membership, text: str, scope: Scope, ctes: Mapping[str, Made]) -> tuple[Scope, exp.Expr]:
        inner, conditions, element, tables = self._inner(member, scope, ctes)
        relation, names = scope.relation, []
        for test in self._tests(replace(member, negated=True), scope, inner, element):
            every = list(map(normal, [*conditions, *test]))
            check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
            taken = {*(fold(f.name) for f in relation.fields), *map(fold, inner.names)}
            names.append(distinct(text, taken))
            relation = marked(relation, inner, conjunction(every), names[-1])
        return replace(scope, relation=relation), instead(names, member)

    def _member(self, member: Membership, scope: Scope, ctes: Mapping[str, Made]) -> Relation:
        """[NOT] EXISTS and [NOT] IN as a filter of the rows."""
        inner, conditions, element, tables = self._inner(member, scope, ctes)
        relation = scope.relation
        for test in self._tests(member, scope, inner, element):
            every = list(map(normal, [*conditions, *test]))
            check_exists(relation, inner, every, (*scope.tables, *tables), member.node)
            relation = existing(relation, inner, conjunction(every), negated=member.negated)
        return relation

    def _tests(self, member: Membership, scope: Scope, inner: Part, element: Expression) -> list[list[Expression]]:
        """What EXISTS has to find besides; NOT IN is a NOT EXISTS for each thing that speaks against it."""
        if member.operand is None:
            return [[]]
        try:
            _, (one, two) = common((convert(member.operand, scope), element))
        except Mismatch as problem:
            raise refuse(
                str(problem), member.node, kind=ParseError, hint="compare values of one kind", reason="types"
            ) from None
        fields = {f.name: f for f in (*scope.relation.fields, *inner.fields)}
        return [[test] for test in in_conditions(one, two, fields, negated=member.negated)]

    def _inner(
        self, member: Membership, outer: Scope, ctes: Mapping[str, Made]
    ) -> tuple[Part, list[Expression], Expression, tuple[Named, ...]]:
        """The subquery's rows under names that differ from those around it, what correlates them, and its column."""
        query = member.query
        while isinstance(query, exp.Subquery) and not query.args.get("with_"):
            query = query.this
        ctes = self._with(query, ctes)
        if isinstance(query, exp.Select) and _is_plain(query):
            return self._correlated(query, member, outer, ctes)
        made = self.query(query, ctes)
        relation = self.rows(made, member.node)
        part = apart(relation, outer)
        if member.operand is not None and len(relation.fields) != 1:
            raise refuse(
                "a subquery of IN has one column",
                member.node,
                kind=ParseError,
                hint="select one column",
                reason="subquery",
            )
        column = Column(relation.fields[0].type, name=part.names[0])
        return part, [], column, (named(SUBQUERY, relation),)

    def _correlated(
        self, query: exp.Select, member: Membership, outer: Scope, ctes: Mapping[str, Made]
    ) -> tuple[Part, list[Expression], Expression, tuple[Named, ...]]:
        sources = [(span_of(s), *self._source(s, ctes)) for s in from_items(query)]
        if not sources:
            raise refuse(
                "this subquery has no FROM", member.node, hint="list the constants: x IN (1, 2)", reason="subquery"
            )
        joined, values = self._from(query, sources), find_values(self, query, sources, ctes)
        where = query.args.get("where")
        plain, members = ([], []) if where is None else split_where(where.this)
        plain = [part for c in plain for part in conjuncts_of(c)]
        inside = joined.scope()
        own = [c for c in plain if all(inside.find(n) is not None for n in c.find_all(exp.Column))]
        scope = Scope(joined.relation([_condition(c, inside) for c in own], self._unique), joined.tables)
        for value in values:
            scope = looked_up(scope, value, self._unique)
        for each in members:
            scope = replace(scope, relation=self._member(each, scope, ctes))
        relation = scope.relation
        part = apart(relation, outer)
        names = {f.name: n for f, n in zip(relation.fields, part.names, strict=True)}
        both = Correlated(scope, outer, names)
        conditions = [_condition(c, both) for c in plain if c not in own]
        element: Expression = Column(relation.fields[0].type, name=part.names[0])
        if member.operand is not None:
            items = expanded(query, both.inner)
            if len(items) != 1:
                raise refuse(
                    "a subquery of IN has one column",
                    member.node,
                    kind=ParseError,
                    hint="select one column",
                    reason="subquery",
                )
            element = convert(unaliased(items[0]), both)
        shown = tuple(
            replace(t, columns=tuple(replace(e, field=names[e.field]) for e in t.columns)) for t in scope.tables
        )
        return part, conditions, element, shown

    def _rows(self, node: exp.Select, scope: Scope) -> Relation:
        """A SELECT without aggregate: a projection."""
        no_limit(node)
        return projected(scope.relation, items_of(node.expressions, scope))

    def _per_unit(self, node: exp.Select, scope: Scope, keys: Keys) -> Relation:
        """GROUP BY with the unit among the keys: one row (or a few) per unit, still unit-local."""
        no_limit(node, "limit", "offset")
        group = Grouping(
            scope, keys, lambda c: exp.column(c, quoted=True), lambda q: self._subquery(q, {}), per_unit=True
        )
        above = exp.Select(
            expressions=[
                exp.alias_(group.rewrite(unaliased(e).copy()), title_of(e), quoted=True) for e in node.expressions
            ]
        )
        for part in ("qualify", "windows"):
            clause = node.args.get(part)
            rewritten = [group.rewrite(c) for c in clause] if isinstance(clause, list) else clause
            above.set(part, group.rewrite(clause, aliases=True) if isinstance(clause, exp.Expr) else rewritten)
        having = node.args.get("having")
        condition = None if having is None else group.rewrite(having.this)
        grouped = unit_grouped(
            scope.relation,
            [Item(f"_k{i}", k) for i, k in enumerate(keys.expressions)],
            [(f"_a{i}", a) for i, a in enumerate(group.aggregates)],
        )
        if condition is not None:
            grouped = filtered(grouped, convert(condition, scope_of(grouped, "")))
        shown = _with_windows(above, scope_of(grouped, ""))
        made = projected(shown.relation, items_of(above.expressions, shown))
        if node.args.get("distinct") is None or node.args.get("group") is None:
            return made
        if not any(f.owner is not None and not f.padded for f in made.fields):
            owner = next(str(key) for key in keys.expressions if scope.relation.owner_of(key) is not None)
            raise without_owner(node.args["distinct"], "DISTINCT over groups", owner)
        return distinct_rows(made)


def _aliases(node: exp.Select) -> dict[str, exp.Expr]:
    return {fold(e.alias): e.this for e in node.expressions if isinstance(e, exp.Alias)}


def _with_windows(node: exp.Select, scope: Scope) -> Scope:
    """The scope after window functions and QUALIFY, which are taken out of the tree."""
    relation = with_windows(node, scope)
    scope = replace(scope, relation=relation, aliases=_aliases(node))
    qualify = node.args.get("qualify")
    if qualify is not None:
        scope = replace(scope, relation=filtered(relation, _condition(qualify.this, scope)))
    node.set("qualify", None)
    node.set("windows", None)
    return scope


def _titled(relation: Relation, names: Sequence[str]) -> Relation:
    """The relation with its columns called so."""
    if [f.name for f in relation.fields] == list(names):
        return relation
    columns = [Column(f.type, name=f.name) for f in relation.fields]
    return projected(relation, [Item(n, c) for n, c in zip(names, columns, strict=True)])


def _condition(node: exp.Expr, scope: Resolver) -> Expression:
    made = convert(node, scope)
    if made.type != BOOLEAN:
        raise refuse("WHERE takes a condition", node, kind=ParseError, hint="compare: WHERE x > 0", reason="types")
    return made


def _is_plain(query: exp.Select) -> bool:
    """Rows as they are found: neither grouped nor cut off. (DISTINCT changes nothing for EXISTS and IN.)"""
    distinct_on = query.args.get("distinct") is not None and query.args["distinct"].args.get("on") is not None
    parts = ("group", "having", "limit", "offset", "qualify", "windows")
    computed = any(has_aggregate(e) or e.find(exp.Window) is not None for e in query.expressions)
    return not (distinct_on or computed or any(query.args.get(p) for p in parts))


def _renamed(made: Made, alias: exp.Expr | None) -> Made:
    """`AS t(a, b)`: new names for the columns."""
    names = [c.name for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return made
    if isinstance(made, Open):
        outputs = [replace(o, name=n) for o, n in zip(made.outputs, names, strict=False)]
        return replace(made, outputs=(*outputs, *made.outputs[len(names) :]))
    if len(names) > len(made.relation.fields):
        raise refuse("there are more names than columns", alias, kind=ParseError, reason="name")
    kept = [f.name for f in made.relation.fields][len(names) :]
    return Private(_titled(made.relation, [*names, *kept]), made.tables)
