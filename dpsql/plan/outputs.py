"""Which columns of the answer carry noise, and which are one aggregate of one release, unchanged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from sqlglot import exp

from dpsql.plan.choosing import chooses
from dpsql.plan.clauses import title_of, unaliased
from dpsql.plan.plan import Output, Release
from dpsql.plan.relation import Aggregate
from dpsql.policy.identifiers import fold


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


def _divided(column: exp.Column) -> bool:
    """Does it stand on one side of a division that has an aggregate of the same release on the other?"""
    node: exp.Expr = column
    while isinstance(node.parent, exp.Paren | exp.Cast | exp.Nullif | exp.Mul | exp.Add | exp.Sub | exp.Neg):
        node = node.parent
    if not isinstance(node.parent, exp.Div):
        return False
    other = node.parent.expression if node.parent.this is node else node.parent.this
    return any(c.table == column.table and c.name.startswith("_a") for c in other.find_all(exp.Column))


def key_places(items: Sequence[exp.Expr], keys: int) -> tuple[int, ...] | None:
    """Where the keys of a release stand in its SELECT list, all of them: together they name one of its rows."""
    shown = [unaliased(item) for item in items]
    places = {item.name: place for place, item in enumerate(shown) if isinstance(item, exp.Column)}
    names = [f"_k{i}" for i in range(keys)]
    return tuple(places[name] for name in names) if all(name in places for name in names) else None


def grouped_places(node: exp.Select, columns: Collection[str]) -> tuple[int, ...] | None:
    """Where the keys of a GROUP BY over public and released rows stand in the SELECT list, if all of them do.

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
    """Where one key of a GROUP BY stands in the list, as DuckDB reads it."""
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


def united(left: Sequence[Output], right: Sequence[Output]) -> tuple[Output, ...]:
    """The columns of a set operation: noisy, or chosen, if one of its sides is."""
    pairs = zip_longest(left, right[: len(left)])
    return tuple(
        Output(one.name, two is None or one.noisy or two.noisy, chosen=two is not None and (one.chosen or two.chosen))
        for one, two in pairs
    )
