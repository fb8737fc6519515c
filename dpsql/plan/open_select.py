"""A SELECT over released and public tables: what is above every aggregate over private rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from sqlglot import exp

from dpsql.errors import UnsupportedQuery
from dpsql.parse.span import refuse
from dpsql.plan.clauses import expanded, items_of, subqueries
from dpsql.plan.group import has_aggregate
from dpsql.plan.made import FromItem, Made, Open, Private
from dpsql.plan.outputs import grouped_places, open_output
from dpsql.plan.plan import Output
from dpsql.plan.planner import Planner
from dpsql.plan.relate import projected
from dpsql.plan.relation import Relation
from dpsql.plan.sources import join_of
from dpsql.plan.values import join_above
from dpsql.plan.where import chosen_rows
from dpsql.policy.identifiers import fold


def open_select(planner: Planner, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Made]) -> Open:
    """The SELECT with its subqueries planned, and what is known of its columns and rows."""
    releases = len(planner.releases)
    for inner in subqueries(node):
        if join_above(planner, node, inner, f"_d{len(planner.releases)}", sources, ctes):
            continue
        replaced = subquery_above(planner, inner, ctes)
        if replaced is not inner:
            inner.replace(replaced)
    nested = len(planner.releases) > releases
    columns = [(fold(name), o) for _, name, made in sources if isinstance(made, Open) for o in made.outputs]
    outputs: list[Output] = []
    for item in node.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            table = fold(item.table) if isinstance(item, exp.Column) else ""
            meant = [o for name, o in columns if name == table] if table else _joined_columns(node, sources)
            outputs += _as_changed(star, meant, columns, nested)
        else:
            outputs.append(open_output(item, columns, nested))
    below = None if nested else cache(lambda: _public_rows(planner, node.copy(), sources, ctes))
    grouped = node.args.get("group") is not None
    singles = all(isinstance(made, Open) and made.key == () for _, _, made in sources)
    alone = not grouped and (singles or any(map(has_aggregate, node.expressions)))
    known = {fold(output.name) for _, output in columns}
    return Open(node, tuple(outputs), below=below, key=() if alone else grouped_places(node, known))


def _joined_columns(node: exp.Select, sources: Sequence[FromItem]) -> list[Output]:
    """What `*` stands for: a column of USING once, and none of a side that only chooses rows."""
    shown: list[Output] = []
    for (_, _, made), join in zip(sources, [None, *(node.args.get("joins") or ())], strict=False):
        if not isinstance(made, Open) or (join is not None and join.kind in ("SEMI", "ANTI")):
            continue
        using = {fold(name.name) for name in (join.args.get("using") or () if join is not None else ())}
        merged = {fold(o.name): o for o in made.outputs if fold(o.name) in using}
        shown = [_either(o, merged.get(fold(o.name))) for o in shown]
        shown += [o for o in made.outputs if fold(o.name) not in using]
    return shown


def _either(one: Output, other: Output | None) -> Output:
    """A column that an outer join takes from either side."""
    if other is None:
        return one
    return Output(one.name, one.noisy or other.noisy, chosen=one.chosen or other.chosen)


def _as_changed(
    star: exp.Star, meant: Sequence[Output], columns: Sequence[tuple[str, Output]], nested: bool
) -> list[Output]:
    """The columns of a star after its EXCLUDE, REPLACE and RENAME."""
    gone = {fold(column.name) for column in star.args.get("except_") or ()}
    new = {fold(item.alias): open_output(item, columns, nested) for item in star.args.get("replace") or ()}
    names = {fold(item.this.name): item.alias for item in star.args.get("rename") or ()}
    return [
        replace(new.get(fold(o.name), o), name=names.get(fold(o.name), o.name))
        for o in meant
        if fold(o.name) not in gone
    ]


def _public_rows(
    planner: Planner, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Made]
) -> Relation | None:
    """A SELECT over public tables as a relation below an aggregate; None if it does more than filter and compute.

    Nothing is lost then but what is known of its rows: it runs in the sealed database.
    """
    parts = ("limit", "offset", "qualify", "windows", "distinct", "group")
    if not sources or any(node.args.get(p) for p in parts) or any(map(has_aggregate, node.expressions)):
        return None
    try:
        relation, scope = chosen_rows(planner, node, join_of(planner, node, sources), {}, ctes)
        return projected(relation, items_of(expanded(node, scope), scope))
    except UnsupportedQuery:
        return None


def subquery_above(planner: Planner, node: exp.Expr, ctes: Mapping[str, Made]) -> exp.Expr:
    """A subquery inside an expression above the aggregate."""
    made = planner.query(node, ctes)
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
