"""Syntax tree to plan: which SELECTs are private relations, which are releases, and what is left to finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.bounds import infer, narrow
from dpsql.bounds.aggregates import aggregate_domain
from dpsql.bounds.known import Known
from dpsql.errors import ParseError, UnboundedColumn
from dpsql.parse.span import refuse
from dpsql.plan.catalog import Catalog, PrivateTable, UnavailableTable
from dpsql.plan.convert import convert
from dpsql.plan.expression import Column, Expression
from dpsql.plan.finishing import check_finishing
from dpsql.plan.group import Grouping, has_aggregate
from dpsql.plan.plan import Output, Plan, Release
from dpsql.plan.relation import Aggregate, Field, Filter, Item, Project, Relation, UnitGroup
from dpsql.plan.scope import Scope
from dpsql.plan.types import BOOLEAN, DOUBLE, INT128, Kind, Type, decimal, integer

ROW = "_row"


@dataclass(frozen=True, slots=True)
class Private:
    """A unit-local query and the policy's table it reads."""

    relation: Relation
    table: PrivateTable


@dataclass(frozen=True, slots=True)
class Open:
    """A query over released and public tables only: its rewritten tree and its columns."""

    node: exp.Expression
    outputs: tuple[Output, ...]
    row: str | None = None


Made = Private | Open


def build(query: exp.Query, catalog: Catalog) -> Plan:
    """The plan of a parsed query; refuses whatever is not known to be private."""
    builder = _Builder(catalog)
    made = builder.query(query.copy(), {}, top=True)
    if isinstance(made, Private):
        raise refuse(
            f"this query would list rows of {made.table.name}, which are private", query,
            hint=f"ask for an aggregate, for example SELECT count(*) FROM {made.table.name}, or add GROUP BY",
        )  # fmt: skip
    assert isinstance(made.node, exp.Query)
    check_finishing(made.node)
    return Plan(tuple(builder.releases), made.node, tuple(sorted(builder.public)), made.outputs, made.row)


def known_of(relation: Relation) -> Known:
    """What is known of a relation's rows: the domains of its fields, narrowed by the filters on top of it."""
    if isinstance(relation, Filter):
        assert relation.source is not None and relation.condition is not None
        return narrow(known_of(relation.source), relation.condition)
    return Known({f.name: f.domain for f in relation.fields})


def filtered(source: Relation, condition: Expression) -> Relation:
    """A filter, with the fields' domains narrowed by it."""
    known = narrow(known_of(source), condition)
    fields = tuple(replace(f, domain=infer(Column(f.type, name=f.name), known)) for f in source.fields)
    return Filter(fields, source.by_row, source.rows_per_unit, source.single, source, condition)


def projected(source: Relation, items: Sequence[Item]) -> Relation:
    """A projection, with the domain of each item inferred."""
    known = known_of(source)
    fields = tuple(
        Field(i.name, i.expression.type, infer(i.expression, known), source.is_attribute(i.expression),
              source.is_unit(i.expression)) for i in items
    )  # fmt: skip
    return Project(fields, source.by_row, source.rows_per_unit, source.single, source, tuple(items))


def unit_grouped(source: Relation, keys: Sequence[Item], aggregates: Sequence[tuple[str, Aggregate]]) -> Relation:
    """GROUP BY the owner and `keys`; at most one row per unit if all keys are attributes of the unit."""
    known = known_of(source)
    single = all(source.is_attribute(k.expression) for k in keys)
    rows = 1 if single else source.rows_per_unit
    fields = [
        Field(k.name, k.expression.type, infer(k.expression, known), source.is_attribute(k.expression),
              source.is_unit(k.expression)) for k in keys
    ]  # fmt: skip
    for name, aggregate in aggregates:
        argument = None if aggregate.argument is None else infer(aggregate.argument, known)
        domain = aggregate_domain(aggregate.function, argument, source.rows_per_unit)
        fields.append(Field(name, _aggregate_type(aggregate, domain), domain, attribute=single))
    return UnitGroup(tuple(fields), False, rows, single, source, tuple(keys), tuple(aggregates))


def _aggregate_type(aggregate: Aggregate, domain: object) -> Type:
    """The type of a per-unit aggregate. Sums are exact: integers by type, doubles on a grid that needs bounds."""
    from dpsql.bounds.domain import Domain

    assert isinstance(domain, Domain)
    argument = aggregate.argument
    if aggregate.function == "count":
        return integer(0, 2**62)
    assert argument is not None
    if argument.type == DOUBLE and aggregate.function in ("sum", "avg") and not domain.bounded:
        raise unbounded(aggregate.function, argument)
    if aggregate.function == "avg":
        return DOUBLE
    if aggregate.function == "sum" and argument.type != DOUBLE:
        if not domain.bounded or domain.lower is None or domain.upper is None:
            return integer(*INT128) if argument.type.kind is Kind.INTEGER else DOUBLE
        scale = 10**argument.type.scale
        return decimal(int(domain.lower * scale), int(domain.upper * scale), argument.type.scale)
    return argument.type


def unbounded(function: str, argument: Expression) -> UnboundedColumn:
    """The refusal of a sum without bounds, with both ways out."""
    error = refuse(
        f"{function.upper()}({argument}) needs bounds: how much could one row add? None can be inferred for {argument}",
        argument.span, kind=UnboundedColumn,
        hint=f"clamp it in the query, {function}(least(greatest({argument}, 0), 1000)), or ask the steward to declare "
             f"min and max for the column in the policy",
    )  # fmt: skip
    assert isinstance(error, UnboundedColumn)
    return error


_SELECT_PARTS = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify",
                 "with_", "windows", "kind", "joins", "laterals"}  # fmt: skip


@dataclass(slots=True)
class _Builder:
    """One walk over the query; collects releases and the public tables it needs."""

    catalog: Catalog
    releases: list[Release] = field(default_factory=list)
    public: set[str] = field(default_factory=set)

    # queries ------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression, ctes: Mapping[str, Made], *, top: bool = False) -> Made:
        """Any query: WITH, set operations, SELECT, brackets."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, ctes, top=top)
        ctes = self._with(node, ctes)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, ctes, top=top)
        raise refuse(f"{node.key.upper()} is not supported", node, hint="write a SELECT")

    def _with(self, node: exp.Expression, ctes: Mapping[str, Made]) -> Mapping[str, Made]:
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
                raise refuse(f"{node.key.upper()} over private rows is not supported", tree,
                             hint="aggregate each side first: SELECT … count(*) … UNION ALL SELECT … count(*) …")  # fmt: skip
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
        sources = [(s, *self._source(s, ctes)) for s in _from_items(node)]
        private = [(item, name, made) for item, name, made in sources if isinstance(made, Private)]
        if not private:
            return self._open_select(node, [(name, made) for _, name, made in sources if isinstance(made, Open)], ctes)
        if len(sources) > 1:
            raise refuse("a join with a private table is not supported yet", sources[1][0],
                         hint="aggregate each table in a CTE of its own, then join the results")  # fmt: skip
        _, name, made = private[0]
        return self._private_select(node, made, name, ctes, top=top)

    def _source(self, node: exp.Expression, ctes: Mapping[str, Made]) -> tuple[str, Made]:
        """The name and meaning of one item of FROM; open ones are rewritten in place."""
        _only(node, {"this", "alias", "db", "catalog", "pivots", "joins"})
        if isinstance(node, exp.Subquery):
            made = _renamed(self.query(node.this, ctes), node.args.get("alias"))
            if isinstance(made, Open):
                node.set("this", made.node)
            return node.alias or "", made
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise refuse("table functions, files and lists cannot stand in FROM", node,
                         hint=self.catalog.nearest(node.name))  # fmt: skip
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
            raise refuse(f"the table {found.name} cannot be queried yet: {found.reason}", node,
                         hint="ask the steward for a copy with the unit column in it")  # fmt: skip
        self.public.add(found.name)
        node.set("this", exp.to_identifier(found.name, quoted=True))
        node.set("db", None)
        return Open(node, tuple(Output(column, noisy=False) for column in found.columns))

    def _subquery(self, node: exp.Expression, ctes: Mapping[str, Made]) -> exp.Expression:
        """A subquery inside an expression above the aggregate."""
        made = self.query(node, ctes)
        if isinstance(made, Private):
            raise refuse(f"this subquery would list rows of {made.table.name}, which are private", node,
                         hint="aggregate inside the subquery")  # fmt: skip
        if isinstance(node, exp.Subquery):
            node.set("this", made.node)
            return node
        return made.node

    # above the aggregate --------------------------------------------------------------------------------------------

    def _open_select(self, node: exp.Select, sources: list[tuple[str, Open]], ctes: Mapping[str, Made]) -> Open:
        releases = len(self.releases)
        for inner in _subqueries(node):
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
                outputs.append(_open_output(item, columns, nested))
        return Open(node, tuple(outputs))

    def _release(self, node: exp.Select, source: Private, scope: Scope, keys: Sequence[Expression],
                 ctes: Mapping[str, Made], *, top: bool) -> Open:  # fmt: skip
        name = f"_r{len(self.releases)}"
        group = Grouping(scope, tuple(keys), lambda c: exp.column(c, table=name), lambda q: self._subquery(q, ctes))
        slot = len(self.releases)
        self.releases.append(None)  # type: ignore[arg-type]
        outputs, items = [], []
        for item in node.expressions:
            title = _title(item)
            inner = item.this if isinstance(item, exp.Alias) else item
            made = group.rewrite(inner.copy())
            outputs.append(_release_output(title, made, name))
            items.append(exp.alias_(made, title, quoted=True))
        finishing = exp.Select(expressions=items, from_=exp.From(this=exp.to_table(name)))
        if node.args.get("having") is not None:
            finishing.set("where", exp.Where(this=group.rewrite(node.args["having"].this)))
        for part in ("qualify", "windows", "order", "limit", "offset", "distinct", "with_"):
            clause = node.args.get(part)
            if isinstance(clause, exp.Expression) and part not in ("with_", "limit", "offset"):
                clause = group.rewrite(clause, aliases=True)
            finishing.set(part, clause)
        row = name if top and node.args.get("distinct") is None else None
        if row is not None:
            finishing.append("expressions", exp.alias_(exp.column(ROW, table=name), "_row", quoted=True))
        items_ = tuple(Item(f"_k{i}", key) for i, key in enumerate(keys))
        self.releases[slot] = Release(name, source.table.name, source.relation, items_, tuple(group.aggregates),
                                      source.table.groups_per_unit)  # fmt: skip
        _known_aggregates(self.releases[slot], node)
        return Open(finishing, tuple(outputs), row)

    # below the aggregate --------------------------------------------------------------------------------------------

    def _private_select(self, node: exp.Select, source: Private, name: str, ctes: Mapping[str, Made], *,
                        top: bool) -> Made:  # fmt: skip
        aliases = {e.alias.lower(): e.this for e in node.expressions if isinstance(e, exp.Alias)}
        relation = source.relation
        if (where := node.args.get("where")) is not None:
            condition = convert(where.this, Scope(relation, name, aliases))
            if condition.type != BOOLEAN:
                raise refuse("WHERE takes a condition", where, kind=ParseError, hint="compare: WHERE x > 0")
            relation = filtered(relation, condition)
        source, scope = Private(relation, source.table), Scope(relation, name, aliases)
        items = _expanded(node, scope)
        node.set("expressions", items)
        keys = _group_keys(node, scope)
        if keys is None:
            return Private(self._rows(node, scope), source.table)
        if any(relation.is_unit(key) for key in keys):
            return Private(self._per_unit(node, scope, keys), source.table)
        return self._release(node, source, scope, keys, ctes, top=top)

    def _rows(self, node: exp.Select, scope: Scope) -> Relation:
        """A SELECT without aggregate: a projection."""
        _no_limit(node)
        return projected(scope.relation, _items(node.expressions, scope))

    def _per_unit(self, node: exp.Select, scope: Scope, keys: Sequence[Expression]) -> Relation:
        """GROUP BY with the unit among the keys: one row (or a few) per unit, still unit-local."""
        _no_limit(node)
        group = Grouping(scope, tuple(keys), lambda c: exp.column(c, quoted=True), lambda q: self._subquery(q, {}))
        items = [exp.alias_(group.rewrite((e.this if isinstance(e, exp.Alias) else e).copy()), _title(e), quoted=True)
                 for e in node.expressions]  # fmt: skip
        having = node.args.get("having")
        condition = None if having is None else group.rewrite(having.this)
        grouped = unit_grouped(scope.relation, [Item(f"_k{i}", k) for i, k in enumerate(keys)],
                               [(f"_a{i}", a) for i, a in enumerate(group.aggregates)])  # fmt: skip
        inner = Scope(grouped, scope.name)
        if condition is not None:
            grouped = filtered(grouped, convert(condition, inner))
        return projected(grouped, _items(items, Scope(grouped, scope.name)))


# parts of a SELECT ------------------------------------------------------------------------------------------------------


def _from_items(node: exp.Select) -> list[exp.Expression]:
    from_ = node.args.get("from_")
    items = [from_.this] if from_ is not None else []
    if node.args.get("laterals"):
        raise refuse("LATERAL is not supported", node.args["laterals"][0], hint="use a subquery in FROM")
    holders = [node, *items]
    return items + [join.this for holder in holders for join in holder.args.get("joins") or ()]


def _only(node: exp.Expression, known: set[str]) -> None:
    for name, part in node.args.items():
        if part and (name not in known or name == "pivots"):
            raise refuse(f"{name.strip('_').upper()} in FROM is not supported", node, hint="leave it out")


def _subqueries(node: exp.Select) -> list[exp.Expression]:
    """The outermost subqueries in expressions (not in FROM, not in WITH)."""
    found = []
    for name in ("expressions", "where", "group", "having", "order", "qualify", "joins"):
        parts = node.args.get(name)
        for part in parts if isinstance(parts, list) else [parts]:
            root = part.args.get("on") if isinstance(part, exp.Join) else part
            if isinstance(root, exp.Expression):
                found += _outermost(root)
    return found


def _outermost(root: exp.Expression) -> list[exp.Expression]:
    return [n for n in root.walk(prune=lambda n: isinstance(n, exp.Query | exp.Subquery))
            if isinstance(n, exp.Query | exp.Subquery)]  # fmt: skip


def _no_limit(node: exp.Select) -> None:
    for part in ("limit", "offset", "qualify", "windows"):
        if node.args.get(part) is not None:
            clause = node.args[part]
            raise refuse(
                f"{part.upper()} on private rows would choose rows of some people by those of others",
                clause if isinstance(clause, exp.Expression) else node,
                hint=f"put {part.upper()} on the outermost query, above the aggregate",
            )  # fmt: skip
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise refuse("DISTINCT ON private rows is not supported", distinct, hint="use GROUP BY with the unit")


def _title(item: exp.Expression) -> str:
    """The name of an output column: its alias, the column's own name, or the text of the expression."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    return item.sql("duckdb", normalize_functions="lower")


def _expanded(node: exp.Select, scope: Scope) -> list[exp.Expression]:
    """The SELECT list with `*` and `t.*` replaced by the fields."""
    items: list[exp.Expression] = []
    for item in node.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            items.append(item)
        elif any(star.args.get(part) for part in ("except_", "replace", "rename", "except")):
            raise refuse("* with EXCLUDE, REPLACE or RENAME is not supported", item, hint="list the columns")
        else:
            items += [exp.column(f.name, quoted=True) for f in scope.relation.fields]
    return items


def _items(expressions: Sequence[exp.Expression], scope: Scope) -> list[Item]:
    items: list[Item] = []
    for node in expressions:
        name, number = _title(node), 1
        while any(i.name.lower() == name.lower() for i in items):
            name, number = f"{_title(node)}:{number}", number + 1
        items.append(Item(name, convert(node.this if isinstance(node, exp.Alias) else node, scope)))
    return items


def _group_keys(node: exp.Select, scope: Scope) -> list[Expression] | None:
    """The keys of a grouped SELECT (SELECT DISTINCT groups by everything); None if it is not grouped."""
    group, distinct = node.args.get("group"), node.args.get("distinct")
    clauses = [*node.expressions, *(node.args[p] for p in ("having", "order", "qualify") if node.args.get(p) is not None)]
    aggregated = any(has_aggregate(clause) for clause in clauses)
    if group is None and not aggregated:
        if distinct is None or distinct.args.get("on") is not None:
            return None
        return _distinct([convert(_unaliased(e), scope) for e in node.expressions])
    if group is None:
        return []
    for name in ("rollup", "cube", "grouping_sets", "totals"):
        if group.args.get(name):
            raise refuse(f"GROUP BY {name.upper().replace('_', ' ')} is not supported yet", group,
                         hint="ask for each grouping in a query of its own")  # fmt: skip
    if group.args.get("all"):
        return _distinct([convert(_unaliased(e), scope) for e in node.expressions if not has_aggregate(e)])
    return _distinct([_group_key(key, node, scope) for key in group.expressions])


def _group_key(key: exp.Expression, node: exp.Select, scope: Scope) -> Expression:
    if isinstance(key, exp.Literal) and not key.args.get("is_string"):
        position = int(key.name) if key.name.isdigit() else 0
        if not 1 <= position <= len(node.expressions):
            raise refuse(f"GROUP BY {key.name}: there are {len(node.expressions)} columns in SELECT", key, kind=ParseError)
        chosen = _unaliased(node.expressions[position - 1])
        if has_aggregate(chosen):
            raise refuse(f"GROUP BY {key.name}: that column is an aggregate", key, kind=ParseError,
                         hint="group by a column that is not an aggregate")  # fmt: skip
        return convert(chosen, scope)
    return convert(key, scope)


def _unaliased(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias) else node


def _distinct(keys: Sequence[Expression]) -> list[Expression]:
    return list(dict.fromkeys(keys))


def _known_aggregates(release: Release, node: exp.Expression) -> None:
    for aggregate in release.aggregates:
        if aggregate.function in ("min", "max"):
            raise refuse(f"{aggregate.function.upper()} of private rows would be the value of one person", node,
                         hint="use AVG, or count rows by ranges: GROUP BY CASE WHEN … THEN … END")  # fmt: skip
        if aggregate.distinct and not (aggregate.function == "count" and aggregate.argument is not None
                                       and release.source.is_unit(aggregate.argument)):  # fmt: skip
            raise refuse(f"{aggregate} is not supported: DISTINCT works for the privacy unit only", node,
                         hint="count(DISTINCT <unit column>), or GROUP BY the column and count the groups")  # fmt: skip


# output columns -----------------------------------------------------------------------------------------------------------


def _release_output(title: str, made: exp.Expression, release: str) -> Output:
    noisy = any(c.name.startswith("_a") and c.table == release for c in made.find_all(exp.Column))
    noisy = noisy or any(isinstance(n, exp.Window | exp.Subquery) for n in made.walk())
    direct = (release, int(made.name[2:])) if noisy and isinstance(made, exp.Column) else None
    return Output(title, noisy, direct)


def _open_output(item: exp.Expression, columns: Sequence[tuple[str, Output]], nested: bool) -> Output:
    inner = _unaliased(item)
    used = [o for c in inner.find_all(exp.Column) for name, o in columns
            if o.name.lower() == c.name.lower() and c.table.lower() in ("", name)]  # fmt: skip
    counted = any(isinstance(n, exp.AggFunc | exp.Window) for n in inner.walk()) and any(o.noisy for _, o in columns)
    subquery = nested and any(isinstance(n, exp.Query | exp.Subquery) for n in inner.walk())
    noisy = any(o.noisy for o in used) or counted or subquery
    return Output(_title(item), noisy, used[0].direct if isinstance(inner, exp.Column) and len(used) == 1 else None)


def _renamed(made: Made, alias: exp.Expression | None) -> Made:
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
