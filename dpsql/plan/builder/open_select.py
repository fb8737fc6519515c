"""A SELECT over released and public tables: what is above every aggregate over private rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest

from sqlglot import exp

from dpsql.errors import UnsupportedQuery
from dpsql.plan.builder.clauses import expanded, items_of, subqueries, title_of, unaliased
from dpsql.plan.builder.from_clause import join_of
from dpsql.plan.builder.group_by import has_aggregate
from dpsql.plan.builder.scalar_lookups import join_above
from dpsql.plan.builder.selection_aggregates import chooses
from dpsql.plan.builder.subplan import FromItem, OpenQuery, Planner, PrivateRows, Subplan
from dpsql.plan.builder.where_clause import chosen_rows
from dpsql.plan.nodes.relation import Aggregate, Relation
from dpsql.plan.nodes.unary import projected
from dpsql.plan.plan import Output, Release
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


def open_select(
    planner: Planner, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Subplan]
) -> OpenQuery:
    """The SELECT with its subqueries planned, and what is known of its columns and rows."""
    releases = len(planner.releases)
    for inner in subqueries(node):
        if join_above(planner, node, inner, f"_d{len(planner.releases)}", sources, ctes):
            continue
        replaced = subquery_above(planner, inner, ctes)
        if replaced is not inner:
            inner.replace(replaced)
    nested = len(planner.releases) > releases
    columns = [(fold(name), o) for _, name, made in sources if isinstance(made, OpenQuery) for o in made.outputs]
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
    singles = all(isinstance(made, OpenQuery) and made.key == () for _, _, made in sources)
    alone = not grouped and (singles or any(map(has_aggregate, node.expressions)))
    known = {fold(output.name) for _, output in columns}
    return OpenQuery(node, tuple(outputs), below=below, key=() if alone else grouped_places(node, known))


def _joined_columns(node: exp.Select, sources: Sequence[FromItem]) -> list[Output]:
    """The columns of `*`: a column of USING once, and none of the right side of a semi or anti join."""
    shown: list[Output] = []
    for (_, _, made), join in zip(sources, [None, *(node.args.get("joins") or ())], strict=False):
        if not isinstance(made, OpenQuery) or (join is not None and join.kind in ("SEMI", "ANTI")):
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
    planner: Planner, node: exp.Select, sources: Sequence[FromItem], ctes: Mapping[str, Subplan]
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


def subquery_above(planner: Planner, node: exp.Expr, ctes: Mapping[str, Subplan]) -> exp.Expr:
    """A subquery inside an expression above the aggregate."""
    made = planner.query(node, ctes)
    if isinstance(made, PrivateRows):
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


# Output columns ------------------------------------------------------------------------------------------------------


def release_output(title: str, made: exp.Expr, release: str, aggregates: Sequence[Aggregate]) -> Output:
    """A column of the SELECT list of a release with these aggregates."""
    columns = {c.name for c in made.find_all(exp.Column) if c.table == release}
    chosen = any(chooses(a) for i, a in enumerate(aggregates) if f"_a{i}" in columns)
    noisy = any(c.name.startswith("_a") and c.table == release for c in made.find_all(exp.Column))
    mixed = any(isinstance(n, exp.Window | exp.Subquery | exp.Query | exp.AggFunc) for n in made.walk())
    direct = (release, int(made.name[2:])) if noisy and isinstance(made, exp.Column) else None
    return Output(title, noisy or mixed, direct, (release, made) if noisy and not mixed else None, chosen)


def open_output(item: exp.Expr, columns: Sequence[tuple[str, Output]], nested: bool) -> Output:
    """A column of a SELECT over released and public tables: noisy if anything it reads is."""
    inner = unaliased(item)
    used = [
        o
        for c in inner.find_all(exp.Column)
        for name, o in columns
        if fold(o.name) == fold(c.name) and fold(c.table) in ("", name)
    ]
    counted = any(isinstance(n, exp.AggFunc | exp.Window) for n in inner.walk()) and any(o.noisy for _, o in columns)
    subquery = nested and any(isinstance(n, exp.Query | exp.Subquery) for n in inner.walk())
    looked_up = any(c.name.startswith(f"{c.table}.") for c in inner.find_all(exp.Column) if c.table)
    noisy = any(o.noisy for o in used) or counted or subquery or (nested and looked_up)
    direct = used[0].direct if isinstance(inner, exp.Column) and len(used) == 1 else None
    return Output(title_of(item), noisy, direct, chosen=any(o.chosen for o in used))


def only_rates(finishing: exp.Expr, release: Release) -> bool:
    """Are the aggregates of a release read only to divide them by one another, or are they averages?"""
    read = [c for c in finishing.find_all(exp.Column) if c.table == release.name and c.name.startswith("_a")]
    return bool(read) and all(release.aggregates[int(c.name[2:])].function == "avg" or _divided(c) for c in read)


_PROPORTIONAL = (exp.Paren, exp.Cast, exp.Nullif, exp.Greatest, exp.Mul, exp.Add, exp.Sub, exp.Neg)


def _divided(column: exp.Column) -> bool:
    """Is it on one side of a division with an aggregate of the same release on the other?"""
    node: exp.Expr = column
    while isinstance(node.parent, _PROPORTIONAL):
        node = node.parent
    if not isinstance(node.parent, exp.Div):
        return False
    other = node.parent.expression if node.parent.this is node else node.parent.this
    return any(c.table == column.table and c.name.startswith("_a") for c in other.find_all(exp.Column))


def key_places(items: Sequence[exp.Expr], keys: int) -> tuple[int, ...] | None:
    """The positions of all keys of a release in its SELECT list: together they identify a row."""
    shown = [unaliased(item) for item in items]
    places = {item.name: place for place, item in enumerate(shown) if isinstance(item, exp.Column)}
    names = [f"_k{i}" for i in range(keys)]
    return tuple(places[name] for name in names) if all(name in places for name in names) else None


def grouped_places(node: exp.Select, columns: Collection[str]) -> tuple[int, ...] | None:
    """The positions of the keys of a GROUP BY over public and released rows in the SELECT list, if all are there.

    `columns` are those of FROM, folded: a name among them means that column, whatever the list calls by it.
    """
    group = node.args.get("group")
    parts = ("all", "rollup", "cube", "grouping_sets")
    if group is None or any(group.args.get(part) for part in parts) or any(map(_is_star, node.expressions)):
        return None
    found = [_place(key, node.expressions, columns) for key in group.expressions]
    places = [place for place in found if place is not None]
    return tuple(places) if len(places) == len(found) else None


def _place(key: exp.Expr, items: Sequence[exp.Expr], columns: Collection[str]) -> int | None:
    """The position of one key of a GROUP BY in the list, resolved as in DuckDB."""
    if isinstance(key, exp.Literal):
        return int(key.name) - 1 if key.name.isdigit() else None
    inner, text = [unaliased(item) for item in items], key.sql("duckdb")
    same = (i for i, item in enumerate(inner) if item.sql("duckdb") == text)
    alike = iter(()) if not isinstance(key, exp.Column) else (
        i for i, (item, listed) in enumerate(zip(inner, items, strict=True))
        if _means(key, item) or _names(key, listed, columns)
    )  # fmt: skip
    return next(same, next(alike, None))


def _means(key: exp.Column, item: exp.Expr) -> bool:
    """The same column, where one of the two leaves out the table; were there two such columns, it would be refused."""
    tables = {fold(key.table), fold(item.table) if isinstance(item, exp.Column) else ""} - {""}
    return isinstance(item, exp.Column) and fold(item.name) == fold(key.name) and len(tables) < 2


def _names(key: exp.Column, listed: exp.Expr, columns: Collection[str]) -> bool:
    """An item by the name that the list gives it."""
    return not key.table and fold(key.name) not in columns and fold(listed.alias) == fold(key.name)


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def combined_outputs(left: Sequence[Output], right: Sequence[Output]) -> tuple[Output, ...]:
    """The columns of a set operation: noisy, or chosen, if one of its sides is."""
    pairs = zip_longest(left, right[: len(left)])
    return tuple(
        Output(one.name, two is None or one.noisy or two.noisy, chosen=two is not None and (one.chosen or two.chosen))
        for one, two in pairs
    )
