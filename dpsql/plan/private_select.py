"""A SELECT over private rows: a release, or rows that keep their owners, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import Error
from dpsql.parse.span import refuse
from dpsql.plan.catalog import PrivateTable
from dpsql.plan.clauses import entitled, expanded, group_keys, is_grouped, items_of, no_histogram
from dpsql.plan.exists import marked_scope
from dpsql.plan.made import FromItem, Made, Private
from dpsql.plan.make_release import release_of
from dpsql.plan.marks import computed_by_row
from dpsql.plan.per_unit import after_windows, aliases_of, plain_rows, rows_per_unit
from dpsql.plan.planner import Planner
from dpsql.plan.sources import join_of
from dpsql.plan.values import find_values
from dpsql.plan.where import chosen_rows


def private_select(
    planner: Planner,
    node: exp.Select,
    sources: Sequence[FromItem],
    tables: tuple[PrivateTable, ...],
    ctes: Mapping[str, Made],
    *,
    top: bool,
) -> Made:
    """What becomes of it: grouped by the unit or not at all it is private, else released."""
    no_histogram(node)
    entitled(node)
    joined, values = join_of(planner, node, sources), find_values(planner, node, sources, ctes)
    _, scope = chosen_rows(planner, node, joined, aliases_of(node), ctes, values)
    node.set("expressions", expanded(node, scope))
    scope = replace(marked_scope(planner, computed_by_row(node), scope, ctes), aliases=aliases_of(node))
    source = Private(scope.relation, tables)
    if not is_grouped(node):
        if top and node.args.get("distinct") is None and any(e.find(exp.Window) for e in node.expressions):
            raise lists_rows(source, node)
        scope = after_windows(node, scope)
        source = Private(scope.relation, tables)
    keys = group_keys(node, scope)
    if keys is None:
        if top:
            items_of(node.expressions, scope)
            raise lists_rows(source, node)
        return Private(plain_rows(node, scope), tables)
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
        return Private(rows_per_unit(planner, node, scope, keys), tables)
    return release_of(planner, node, source, scope, keys, ctes, top=top)


def _lists_units(made: Private, node: exp.Expr, unit: str) -> Error:
    return refuse(
        f"this query would show each {unit} of {made.name}, which is private",
        node,
        hint=f"aggregate once more: SELECT avg(n) FROM (SELECT {unit}, count(*) AS n FROM … GROUP BY {unit})",
        reason="unit-key",
    )


def lists_rows(made: Private, node: exp.Expr) -> Error:
    """The refusal of a query that ends below an aggregate."""
    table = made.name if len(made.tables) == 1 else "…"
    return refuse(
        f"this query would list rows of {made.name}, which are private",
        node,
        hint=f"ask for an aggregate, for example SELECT count(*) FROM {table}, or add GROUP BY",
        reason="rows",
    )
