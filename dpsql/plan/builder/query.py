"""Syntax tree to plan: which SELECTs are private relations, which are releases, and what remains to finish."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.from_syntax import one_query
from dpsql.plan.builder.clauses import no_more
from dpsql.plan.builder.existing_groups import with_existing
from dpsql.plan.builder.from_clause import read_sources
from dpsql.plan.builder.nested_queries import Describe, Nesting, not_described
from dpsql.plan.builder.open_select import combined_outputs, only_rates, open_select
from dpsql.plan.builder.private_select import lists_rows, private_select
from dpsql.plan.builder.queries_without_data import (
    answered_by_policy,
    columns_of,
    constants,
    is_probe,
    no_rows,
    with_rows,
)
from dpsql.plan.builder.scalar_subqueries import repeats_rows, takes_one_row
from dpsql.plan.builder.set_operations import set_operation, without_people
from dpsql.plan.builder.subplan import MOST_RELATIONS, CteSize, OpenQuery, PrivateRows, Subplan, size_of, too_large
from dpsql.plan.builder.with_clause import with_names
from dpsql.plan.catalog import Catalog
from dpsql.plan.finishing import check_finishing
from dpsql.plan.plan import Family, Plan, Release
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def build(query: exp.Query, catalog: Catalog, describe: Describe = not_described) -> Plan:
    """The plan of a parsed query; refuses everything that is not known to be private.

    `describe` gives the column types of a nested query from its text; it reads no rows.
    """
    if is_probe(query):
        return _probed(with_rows(query), catalog, describe)
    builder, made = _walked(query, catalog, describe, top=True)
    if isinstance(made, PrivateRows):
        raise lists_rows(made, query)
    return builder.plan(made)


def _probed(query: exp.Query, catalog: Catalog, describe: Describe) -> Plan:
    """The columns of a query and no rows: of those that could not be listed, too."""
    builder, made = _walked(query, catalog, describe, top=False)
    if isinstance(made, PrivateRows):
        return no_rows(*columns_of(made))
    return no_rows(made.columns, describe(builder.plan(made)))


def _walked(query: exp.Query, catalog: Catalog, describe: Describe, *, top: bool) -> tuple[_Builder, Subplan]:
    builder = _Builder(catalog, _names(query), nesting=Nesting(describe))
    _reserved(query)
    with one_query():
        return builder, builder.query(query.copy(), {}, top=top)


def columns_of_query(query: exp.Query, catalog: Catalog) -> list[tuple[str, str | None]]:
    """The columns of a query that may list rows, as a subquery may; types where its rows are private."""
    made = _Builder(catalog, _names(query)).query(query, {})
    if isinstance(made, PrivateRows):
        return [(field.name, str(field.type)) for field in made.relation.fields]
    check_finishing(made.node, {table.name for table in made.node.find_all(exp.Table)})
    return [(output.name, None) for output in made.outputs]


def _names(query: exp.Expr) -> frozenset[str] | None:
    """All names that the query uses, folded; None if `*` may refer to others."""
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return None
    return frozenset(fold(name.name) for name in query.find_all(exp.Identifier))


def _reserved(query: exp.Query) -> None:
    """Refuse CTEs and aliases named like released tables (`_r0`) or lookups (`_v0`), which they would shadow."""
    for node in query.find_all(exp.CTE, exp.TableAlias):
        if fold(node.alias_or_name).startswith(("_r", "_s", "_v", "_d")) and node.alias_or_name[2:].isdigit():
            raise refuse(
                f"the name {node.alias_or_name} is reserved",
                node,
                kind=ParseError,
                hint="take another name",
                reason="name",
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
    used: CteSize = field(default_factory=CteSize)

    def plan(self, made: OpenQuery) -> Plan:
        """The plan of what the walk made."""
        assert isinstance(made.node, exp.Query)
        tables = {*self.public, *(release.name for release in self.releases)}
        trees = [made.node, *(bar.expression for release in self.releases for bar in release.bars)]
        for tree in trees:
            check_finishing(tree, tables)
        public = sorted(self.public & {table.name for tree in trees for table in tree.find_all(exp.Table)})
        families, nested, notes = tuple(self.families), tuple(self.nesting.made), tuple(dict.fromkeys(self.notes))
        listed = tuple(replace(each, rates=only_rates(made.node, each)) for each in self.releases)
        releases = tuple(with_existing(listed, made.node, [each.plan for each in nested]))
        return Plan(releases, made.node, tuple(public), made.outputs, made.row, families, nested, notes)

    def aside(self) -> _Builder:
        """A planner that knows the releases so far, and does not add its own to them."""
        return replace(
            self, releases=[*self.releases], families=[], nesting=replace(self.nesting, made=[*self.nesting.made])
        )

    # queries ------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, ctes: Mapping[str, Subplan], *, top: bool = False) -> Subplan:
        """Any query: WITH, set operations, SELECT, brackets."""
        if isinstance(node, exp.Subquery):
            no_more(node)
            return self.query(node.this, with_names(self, node, ctes), top=top)
        inside = with_names(self, node, ctes)
        if isinstance(node, exp.SetOperation):
            made = self._set_operation(node, inside)
        elif isinstance(node, exp.Select):
            made = self._select(node, inside, top=top)
        else:
            raise refuse(f"{node.key.upper()} is not supported", node, hint="write a SELECT", reason="clause")
        if isinstance(made, PrivateRows):
            if size_of(made.relation) > MOST_RELATIONS:
                raise too_large(node)
            return made
        return replace(made, around=ctes, key=() if takes_one_row(node) else None if repeats_rows(node) else made.key)

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Subplan]) -> Subplan:
        trees = (node.left, node.right)
        left, right = (self.query(tree, ctes) for tree in trees)
        if isinstance(left, PrivateRows) and isinstance(right, PrivateRows):
            return PrivateRows(set_operation(node, left.relation, right.relation), (*left.tables, *right.tables))
        for side, tree in zip((left, right), trees, strict=True):
            if isinstance(side, OpenQuery) and (isinstance(left, PrivateRows) or isinstance(right, PrivateRows)):
                raise without_people(node, tree, public=side.below is not None)
        assert isinstance(left, OpenQuery) and isinstance(right, OpenQuery)
        for name, side, tree in (("this", left, trees[0]), ("expression", right, trees[1])):
            node.set(name, exp.Subquery(this=side.node) if isinstance(tree, exp.Subquery) else side.node)
        return OpenQuery(node, combined_outputs(left.outputs, right.outputs))

    # SELECT -------------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, ctes: Mapping[str, Subplan], *, top: bool) -> Subplan:
        for name, part in node.args.items():
            if part and name not in _SELECT_PARTS:
                raise refuse(f"{name.strip('_').upper()} is not supported", node, hint="leave it out", reason="clause")
        sources = read_sources(self, node, ctes)
        tables = tuple(t for _, _, made in sources if isinstance(made, PrivateRows) for t in made.tables)
        if tables:
            self.notes += (notes := answered_by_policy(node, sources))
            if notes and (known := constants(node)) is not None:
                return known
            return private_select(self, node, sources, tables, ctes, top=top)
        return open_select(self, node, sources, ctes)
