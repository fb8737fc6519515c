"""Where it matters which groups exist: nothing must be computed from groups that are not there.

A query that only lists its groups may show every public key, with zero where no row is. As soon as groups are counted,
ranked, joined, compared with others or cut off, a group without rows would be one too many: then the release also
counts the units of each group, at a share of the price of the query, and leaves out the groups in which none are found.

Which of the two holds follows from the text. It is a matter of meaning only: either way the release is private
(`dpsql.sensitivity.selection`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeGuard

from sqlglot import exp

from dpsql.plan.builder.clauses import unaliased
from dpsql.plan.plan import Plan, Release
from dpsql.policy.identifiers import fold

ALWAYS = 0
"""Above so many possible groups existence matters."""
Columns = Mapping[str, Literal["key", "grows", "other"]]
"""What the columns of a query over groups are, by their folded names: keys, or numbers that grow with the rows."""


def with_existing(releases: Sequence[Release], finishing: exp.Query, nested: Sequence[Plan]) -> Iterator[Release]:
    """The releases, each with whether its groups count only if they exist; equal releases alike.

    What is read below an aggregate is never merely listed.
    """
    below = {release.name for plan in nested for release in plan.releases}
    beyond = {
        release.name: ALWAYS if release.name in below else _beyond_of(release, finishing)
        for release in releases
        if release.keys
    }
    for release in releases:
        alike = [beyond[each.name] for each in releases if each.name in beyond and _equal(each, release)]
        known = [each for each in alike if each is not None]
        yield replace(release, existing_beyond=min(known, default=None))


def _equal(one: Release, other: Release) -> bool:
    return replace(one, name=other.name) == other


def _beyond_of(release: Release, finishing: exp.Query) -> int | None:
    """Above how many possible groups it matters which of them exist; None where all may be shown."""
    columns: Columns = {
        **{key.name: "key" for key in release.keys},
        **{f"_a{i}": "grows" if a.function in ("count", "sum") else "other" for i, a in enumerate(release.aggregates)},
    }
    uses = [table for table in finishing.find_all(exp.Table) if table.name == release.name]
    return _least(_above(table, columns) for table in uses)


def _least(found: Iterator[int | None]) -> int | None:
    return min((each for each in found if each is not None), default=None)


def _above(node: exp.Expr, columns: Columns) -> int | None:
    """The same for one use of the groups, from the item of a FROM outwards."""
    if not isinstance(node.parent, exp.From) or not isinstance(node.parent.parent, exp.Select):
        return ALWAYS
    select = node.parent.parent
    shown, beyond = _shown(select, columns), _cut(select, columns)
    query: exp.Expr = select
    while _is_bracket(query.parent) or (isinstance(query.parent, exp.Union) and not query.parent.args.get("distinct")):
        query = query.parent
        beyond = _least(iter([beyond, _cut(query, shown)]))
    if not _lists(select, columns) or beyond == ALWAYS:
        return ALWAYS
    if query.parent is None:
        return beyond
    if isinstance(query.parent, exp.CTE):
        name = fold(query.parent.alias)
        uses = [table for table in query.root().find_all(exp.Table) if fold(table.name) == name]
        return _least(iter([beyond, *(_above(table, shown) for table in uses)]))
    if isinstance(query.parent, exp.Subquery):
        return _least(iter([beyond, _above(query.parent, shown)]))
    return ALWAYS


def _is_bracket(node: exp.Expr | None) -> TypeGuard[exp.Subquery]:
    """Brackets around a whole query, or around one side of a set operation?"""
    return isinstance(node, exp.Subquery) and (node.parent is None or isinstance(node.parent, exp.Union))


def _shown(select: exp.Select, columns: Columns) -> Columns:
    """What the columns of a SELECT are."""
    made: dict[str, Literal["key", "grows", "other"]] = {}
    for item in select.expressions:
        if isinstance(unaliased(item), exp.Star):
            made |= columns
        else:
            inner = unaliased(item)
            kind = columns.get(fold(inner.name), "other") if isinstance(inner, exp.Column) else "other"
            made[fold(item.alias_or_name)] = kind
    return made


def _lists(select: exp.Select, columns: Columns) -> bool:
    """Does the SELECT list rows, all or some, or keys each once? Empty groups do not change sums over groups."""
    if any(select.args.get(part) for part in ("joins", "laterals", "group", "qualify", "having")):
        return False
    if select.args.get("distinct") and set(_shown(select, columns).values()) != {"key"}:
        return False
    if select.args.get("where") and select.args["where"].find(exp.Query) is not None:
        return False
    read = [each for item in select.expressions for each in item.find_all(exp.Window, exp.AggFunc, exp.Query)]
    if not all(isinstance(each.this if isinstance(each, exp.Window) else each, exp.Sum) for each in read):
        return False
    return not any(isinstance(each, exp.AggFunc) and not isinstance(each.parent, exp.Window) for each in read)


def _cut(query: exp.Expr, columns: Columns) -> int | None:
    """The number of groups above which a LIMIT may cut some off; None without one.

    The largest counts or sums come first whether or not empty groups follow.
    """
    limit, order = query.args.get("limit"), query.args.get("order")
    if query.args.get("offset") is not None:
        return ALWAYS
    if limit is None or _largest_first(query, order, columns):
        return None
    number = limit.expression
    return int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else ALWAYS


def _largest_first(query: exp.Expr, order: exp.Expr | None, columns: Columns) -> bool:
    """Is the first thing that rows are ordered by a count or sum, falling?"""
    if order is None or not order.expressions or not order.expressions[0].args.get("desc"):
        return False
    by, items = order.expressions[0].this, query.selects if isinstance(query, exp.Query) else []
    if isinstance(by, exp.Literal) and by.name.isdigit() and 0 < int(by.name) <= len(items):
        by = unaliased(items[int(by.name) - 1])
    if not isinstance(by, exp.Column):
        return False
    named = {fold(item.alias): unaliased(item) for item in items if isinstance(item, exp.Alias)}
    by = named.get(fold(by.name), by) if fold(by.name) not in columns else by
    return isinstance(by, exp.Column) and columns.get(fold(by.name)) == "grows"
