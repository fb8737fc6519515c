"""A SELECT over private rows: a release, rows that keep their owner, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import Error
from dpsql.expressions.from_syntax import convert, written_too_large
from dpsql.plan.builder.clauses import (
    entitled,
    expanded,
    group_keys,
    is_grouped,
    items_of,
    no_histogram,
    no_limit,
    title_of,
    unaliased,
)
from dpsql.plan.builder.exists import computed_by_row, condition_of, scope_with_exists
from dpsql.plan.builder.from_clause import join_of
from dpsql.plan.builder.group_by import Grouping
from dpsql.plan.builder.grouping_sets import GroupKeys, union_of, union_of_sets
from dpsql.plan.builder.linear_aggregates import several_forms
from dpsql.plan.builder.name_scope import Scope, scope_of
from dpsql.plan.builder.open_select import key_places, release_output, subquery_above
from dpsql.plan.builder.public_keys import is_listed, public_values, released_lists
from dpsql.plan.builder.scalar_lookups import find_values
from dpsql.plan.builder.set_operations import distinct_rows, without_owner
from dpsql.plan.builder.subplan import MOST_WRITTEN, FromItem, OpenQuery, Planner, PrivateRows, Subplan, widest
from dpsql.plan.builder.unit_aggregates import with_unit_aggregates
from dpsql.plan.builder.where_clause import chosen_rows
from dpsql.plan.builder.window_clause import with_windows, within_group
from dpsql.plan.canonical import canonical
from dpsql.plan.catalog import PrivateTable
from dpsql.plan.nodes.relation import Aggregate, Item, Relation
from dpsql.plan.nodes.unary import filtered, projected, unit_grouped
from dpsql.plan.ownership import one_to_one
from dpsql.plan.plan import Bar, Release
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def private_select(
    planner: Planner,
    node: exp.Select,
    sources: Sequence[FromItem],
    tables: tuple[PrivateTable, ...],
    ctes: Mapping[str, Subplan],
    *,
    top: bool,
) -> Subplan:
    """A SELECT that is not grouped, or is grouped by the unit, stays private; any other is released."""
    no_histogram(node)
    entitled(node)
    inner_join, values = join_of(planner, node, sources), find_values(planner, node, sources, ctes)
    _, scope = chosen_rows(planner, node, inner_join, aliases_of(node), ctes, values)
    node.set("expressions", expanded(node, scope))
    scope = replace(scope_with_exists(planner, computed_by_row(node), scope, ctes), aliases=aliases_of(node))
    source = PrivateRows(scope.relation, tables)
    if not is_grouped(node):
        if top and node.args.get("distinct") is None and any(e.find(exp.Window) for e in node.expressions):
            raise lists_rows(source, node)
        scope = after_windows(node, scope)
        source = PrivateRows(scope.relation, tables)
    keys = group_keys(node, scope)
    if keys is None:
        if top:
            items_of(node.expressions, scope)
            raise lists_rows(source, node)
        return PrivateRows(plain_rows(node, scope), tables)
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
        return PrivateRows(rows_per_unit(planner, node, scope, keys), tables)
    return release_of(planner, node, source, scope, keys, ctes, top=top)


def _lists_units(made: PrivateRows, node: exp.Expr, unit: str) -> Error:
    return refuse(
        f"this query would show each {unit} of {made.name}, which is private",
        node,
        hint=f"aggregate once more: SELECT avg(n) FROM (SELECT {unit}, count(*) AS n FROM … GROUP BY {unit})",
        reason="unit-key",
    )


def lists_rows(made: PrivateRows, node: exp.Expr) -> Error:
    """The refusal of a query that ends below an aggregate."""
    table = made.name if len(made.tables) == 1 else "…"
    return refuse(
        f"this query would list rows of {made.name}, which are private",
        node,
        hint=f"ask for an aggregate, for example SELECT count(*) FROM {table}, or add GROUP BY",
        reason="rows",
    )


# Rows that keep their owner ------------------------------------------------------------------------------------------


def plain_rows(node: exp.Select, scope: Scope) -> Relation:
    """A SELECT without aggregate: a projection."""
    no_limit(node)
    return projected(scope.relation, items_of(node.expressions, scope))


def rows_per_unit(planner: Planner, node: exp.Select, scope: Scope, keys: GroupKeys) -> Relation:
    """GROUP BY with the unit among the keys: one row (or a few) per unit, still unit-local."""
    no_limit(node, "limit", "offset")
    scope = with_unit_aggregates(node, scope, within_group(keys.expressions))
    scope = replace(scope, aliases=aliases_of(node))
    group = Grouping(
        scope, keys, lambda c: exp.column(c, quoted=True), lambda q: subquery_above(planner, q, {}), per_unit=True
    )
    above = exp.Select(
        expressions=[exp.alias_(group.rewrite(unaliased(e).copy()), title_of(e), quoted=True) for e in node.expressions]
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
    shown = after_windows(above, scope_of(grouped, ""))
    made = projected(shown.relation, items_of(above.expressions, shown))
    if node.args.get("distinct") is None or node.args.get("group") is None:
        return made
    if not any(f.owner is not None and not f.padded for f in made.fields):
        owner = next(str(key) for key in keys.expressions if scope.relation.owner_of(key) is not None)
        raise without_owner(node.args["distinct"], "DISTINCT over groups", owner)
    return distinct_rows(made)


def after_windows(node: exp.Select, scope: Scope) -> Scope:
    """The scope after window functions and QUALIFY, which are taken out of the tree."""
    relation = with_windows(node, scope)
    scope = replace(scope, relation=relation, aliases=aliases_of(node))
    qualify = node.args.get("qualify")
    if qualify is not None:
        scope = replace(scope, relation=filtered(relation, condition_of(qualify.this, scope)))
    node.set("qualify", None)
    node.set("windows", None)
    return scope


def aliases_of(node: exp.Select) -> dict[str, exp.Expr]:
    """The aliases of the SELECT list and their expressions."""
    return {fold(e.alias): e.this for e in node.expressions if isinstance(e, exp.Alias)}


# Releases ------------------------------------------------------------------------------------------------------------

ROW = "_row"


def release_of(
    planner: Planner,
    node: exp.Select,
    source: PrivateRows,
    scope: Scope,
    keys: GroupKeys,
    ctes: Mapping[str, Subplan],
    *,
    top: bool,
) -> OpenQuery:
    """One release for each grouping set, and the SELECT that finishes them."""
    slot, sets = len(planner.releases), list(dict.fromkeys(keys.sets))
    releases = [f"_r{slot + i}" for i in range(len(sets))]
    name = releases[0] if keys.plain else f"_s{slot}"
    group = Grouping(scope, keys, lambda c: exp.column(c, table=name), lambda q: subquery_above(planner, q, ctes))
    group.bases = several_forms(node, scope)
    planner.releases += [None] * len(sets)  # type: ignore[list-item]
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
    for condition in _in_released_lists(planner, name, scope.relation, keys):
        finishing.where(condition, copy=False)
    row = name if top and node.args.get("distinct") is None else None
    if row is not None:
        finishing.append("expressions", exp.alias_(exp.column(ROW, table=name), "_row", quoted=True))
    planner.notes += group.notes
    family = union_of_sets(name, releases, keys)
    for number, (release, chosen) in enumerate(zip(releases, sets, strict=True)):
        place = keys.sets.index(chosen)
        bars = [replace(bar, expression=family.over(place, bar.expression)) for bar in group.bars]
        items_ = [Item(f"_k{i}", keys.expressions[i]) for i in chosen]
        planner.releases[slot + number] = _asked(planner, release, source, items_, group.aggregates, bars)
    parts = (("_k", len(keys.expressions)), ("_a", len(group.aggregates)), ("_b", len(group.bars)))
    columns = [f"{kind}{i}" for kind, many in parts for i in range(many)]
    finishing.set("from_", exp.From(this=exp.to_table(name) if keys.plain else union_of(family, columns)))
    if not keys.plain:
        planner.families.append(family)
        outputs = [replace(output, direct=None) for output in outputs]
    places = key_places(items, len(keys.expressions)) if keys.plain else None
    return OpenQuery(finishing, tuple(outputs), row, key=places)


def _in_released_lists(planner: Planner, table: str, relation: Relation, keys: GroupKeys) -> Iterator[exp.Expr]:
    """Conditions that each key whose values come from a released list is one of them.

    The list is not known while keys are; here it is, and no row has another key.
    """
    known = {nested.name: nested for nested in planner.nesting.made}
    for place, key in enumerate(keys.expressions):
        for name, column in dict.fromkeys(released_lists(relation, key)):
            outputs = [output.name for output in known[name].plan.outputs]
            if one_to_one(planner.nesting.types[name][outputs.index(column)]):
                listed = is_listed(exp.column(f"_k{place}", table=table), known[name], column)
                lacking = [exp.Literal.number(i) for i, each in enumerate(keys.sets) if place not in each]
                yield exp.or_(exp.column("_set", table=table).isin(*lacking), listed) if lacking else listed


def _asked(
    planner: Planner,
    name: str,
    source: PrivateRows,
    keys: Sequence[Item],
    aggregates: Sequence[Aggregate],
    bars: Sequence[Bar],
) -> Release:
    """A release in its canonical form, with the values of keys that read public tables only."""
    most, public = planner.catalog.max_public_keys, planner.catalog.public
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
        groups_capped=all(table.groups_capped for table in source.tables),
    )
    return canonical(asked)
