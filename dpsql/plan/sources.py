"""The items of FROM: tables, subqueries and names that WITH gave, and their join below an aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.parse.span import refuse, span_of
from dpsql.plan.catalog import PrivateTable, PublicTable, UnavailableTable
from dpsql.plan.clauses import from_items, only
from dpsql.plan.from_clause import Joined, Source, read_from
from dpsql.plan.made import FromItem, Made, Open, Private
from dpsql.plan.plan import Output
from dpsql.plan.planner import Planner
from dpsql.plan.relation import Relation
from dpsql.plan.rows import rows_of, titled
from dpsql.policy.identifiers import fold


def read_sources(planner: Planner, node: exp.Select, ctes: Mapping[str, Made]) -> list[FromItem]:
    """The items of FROM in their order."""
    return [(span_of(s), *_source(planner, s, ctes)) for s in from_items(node)]


def join_of(planner: Planner, node: exp.Select, sources: Sequence[FromItem]) -> Joined:
    """FROM as a join of relations below the aggregate."""
    return read_from(
        node,
        [Source(item, name, rows_of(planner, made, item)) for item, name, made in sources],
        planner.catalog.public.unique,
    )


def columns_in(planner: Planner, query: exp.Select, ctes: Mapping[str, Made]) -> list[tuple[str, frozenset[str]]]:
    """The items of a query's FROM: their names, and those of their columns, folded."""
    aside = planner.aside()
    found = [_source(aside, item, ctes) for item in from_items(query.copy())]
    return [(name, frozenset(fold(column) for column in made.columns)) for name, made in found]


def _source(planner: Planner, node: exp.Expr, ctes: Mapping[str, Made]) -> tuple[str, Made]:
    """The name and meaning of one item of FROM; open ones are rewritten in place."""
    only(node, {"this", "alias", "db", "catalog", "pivots", "joins"})
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        hint = "leave out the name, or write (SELECT …)"
        raise refuse("a join in brackets with a name is not supported", node, hint=hint, reason="clause")
    if isinstance(node, exp.Subquery):
        made = renamed(planner.query(node.this, ctes), node.args.get("alias"))
        if isinstance(made, Open):
            node.set("this", made.node)
        return node.alias or "", made
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refuse(
            "table functions, files and lists cannot stand in FROM",
            node,
            hint=planner.catalog.nearest(node.name),
            reason="table-function",
        )
    return node.alias or node.name, renamed(_table(planner, node, ctes), node.args.get("alias"))


def _table(planner: Planner, node: exp.Table, ctes: Mapping[str, Made]) -> Made:
    db = fold(node.db)
    if not db and fold(node.name) in ctes:
        made = ctes[fold(node.name)]
        if isinstance(made, Private):
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
        return Private(found.scan, (found,))
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
    return Open(node, outputs, below=lambda: _public_scan(planner, public))


def _public_scan(planner: Planner, table: PublicTable) -> Relation:
    """A public table below the aggregate, with the domains of the columns that the query names."""
    wanted = [c for c in table.columns if planner.names is None or fold(c) in planner.names]
    return table.scan(planner.catalog.public.domains(table.name, wanted))


def renamed(made: Made, alias: exp.Expr | None) -> Made:
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
    return Private(titled(made.relation, [*names, *kept]), made.tables)
