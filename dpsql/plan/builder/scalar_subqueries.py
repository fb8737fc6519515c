"""Scalar subqueries in expressions over private rows: where they occur, and how they are correlated.

Such a subquery is looked up: without correlation it is a table of one row; correlated by equalities it is grouped by
the inner sides of these, and each row finds its group by the outer sides (decorrelation). What is looked up may belong
to the same unit (the unit is among the keys), be public, or be a release of its own: that is the planner's to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.plan.builder.clauses import conjuncts_of, unaliased
from dpsql.plan.builder.group_by import has_aggregate, is_aggregate
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse

VALUE = "value"
Owns = Callable[[exp.Column], bool]
"""Does the subquery's own FROM have this column?"""


def scalars_below(node: exp.Select) -> list[exp.Expr]:
    """The subqueries of a SELECT over private rows that are computed for each row, outermost ones only.

    In WHERE and GROUP BY, in the arguments of aggregates, in the group keys of the SELECT list; in a SELECT without
    aggregate everywhere. What stands in other places is above the aggregate.
    """
    roots = [part for name in ("where", "group") if (part := node.args.get(name)) is not None]
    above = [*node.expressions, *(node.args[p] for p in ("having", "qualify", "order") if node.args.get(p) is not None)]
    if node.args.get("group") is None and not any(map(has_aggregate, above)):
        roots += node.expressions
    else:
        keys = _key_items(node)
        roots += keys
        roots += [
            part for each in above if each not in keys for part in each.walk(prune=_is_query) if is_aggregate(part)
        ]
    return [found for root in roots for found in _scalars(root)]


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _scalars(root: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in root.walk(prune=_is_query) if is_scalar(node))


def is_scalar(node: exp.Expr) -> bool:
    """Is it a scalar subquery, rather than one of EXISTS, IN or ANY?"""
    parent = node.parent
    if not isinstance(node, exp.Query) or isinstance(parent, exp.Exists | exp.Any | exp.All):
        return False
    return not isinstance(parent, exp.In) or parent.this is node


def _key_items(node: exp.Select) -> list[exp.Expr]:
    """The items of the SELECT list that GROUP BY means, by name, place or text."""
    group = node.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [item for item in node.expressions if not has_aggregate(item)]
    named = {fold(e.name) for e in group.expressions if isinstance(e, exp.Column) and not e.table}
    places = {int(e.name) for e in group.expressions if isinstance(e, exp.Literal) and e.name.isdigit()}
    texts = {e.sql("duckdb") for e in group.expressions}
    return [
        item
        for place, item in enumerate(node.expressions, 1)
        if place in places or fold(item.alias) in named or unaliased(item).sql("duckdb") in texts
    ]


def select_of(node: exp.Expr) -> exp.Expr:
    """The query inside brackets."""
    while isinstance(node, exp.Subquery) and not node.args.get("with_"):
        node = node.this
    return node


def takes_one_row(query: exp.Expr) -> bool:
    """LIMIT 1?"""
    limit = query.args.get("limit")
    return isinstance(limit, exp.Limit) and limit.expression is not None and limit.expression.name == "1"


def repeats_rows(query: exp.Query) -> bool:
    """Does its SELECT list contain UNNEST? Then a row and its key may be repeated."""
    return any(
        isinstance(node, exp.Explode | exp.UDTF) for item in query.selects for node in item.walk(prune=_is_query)
    )


@dataclass(frozen=True, slots=True)
class Correlation:
    """The equalities that correlate a subquery, and its remaining conditions."""

    inner: tuple[exp.Expr, ...]
    outer: tuple[exp.Expr, ...]
    own: tuple[exp.Expr, ...]


def correlation_of(query: exp.Select, owns: Owns) -> Correlation:
    """The correlation of a subquery; refuses anything but equalities of an inner and an outer expression."""
    where = query.args.get("where")
    inner, outer, own = [], [], []
    for condition in [] if where is None else conjuncts_of(where.this):
        if all(owns(column) for column in _columns(condition)):
            own.append(condition)
            continue
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        kinds = [_kind(side, owns) for side in sides]
        if sorted(kinds) != ["inner", "outer"]:
            raise refuse(
                "a subquery may be correlated by equalities only",
                condition,
                hint="correlate it by equalities: WHERE inner_column = outer_column AND …, with the rest over its own "
                "columns",
                reason="subquery",
            )
        inner.append(sides[kinds.index("inner")])
        outer.append(sides[kinds.index("outer")])
    return Correlation(tuple(inner), tuple(outer), tuple(own))


def _columns(node: exp.Expr) -> list[exp.Column]:
    """The columns read here, those inside further subqueries left out."""
    return [n for n in node.walk(prune=_is_query) if isinstance(n, exp.Column)]


def _kind(side: exp.Expr, owns: Owns) -> str:
    columns = _columns(side)
    if not columns or any(_is_query(n) for n in side.walk()):
        return "neither"
    own = [owns(column) for column in columns]
    return "inner" if all(own) else "outer" if not any(own) else "both"


_PLAIN = ("group", "having", "limit", "offset", "order", "qualify", "windows", "distinct")


def grouped(query: exp.Select, found: Correlation, listed: Sequence[exp.Expr]) -> exp.Select:
    """The subquery for all rows around it at once: its value by the inner sides. `listed` are further conditions."""
    extra = next((part for part in _PLAIN if query.args.get(part)), None)
    if extra is not None or len(query.expressions) != 1:
        word = "several columns" if extra is None else extra.replace("_", " ").upper()
        raise refuse(
            f"a correlated subquery must return one value, but this one has {word}",
            query,
            hint="write (SELECT one_aggregate FROM … WHERE inner_column = outer_column)",
            reason="subquery",
        )
    made = query.copy()
    keys = [exp.alias_(key.copy(), f"k{i}", quoted=True) for i, key in enumerate(found.inner)]
    made.set("expressions", [*keys, exp.alias_(unaliased(query.expressions[0]).copy(), VALUE, quoted=True)])
    conditions = [c.copy() for c in (*found.own, *listed)]
    made.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
    if has_aggregate(query.expressions[0]):
        made.set("group", exp.Group(expressions=[key.copy() for key in found.inner]))
    return made


def value_of(table: str, query: exp.Select, prefix: str = "") -> exp.Expr:
    """The replacement of a correlated subquery: NULL where no row matches, but 0 for COUNT."""
    value = exp.column(prefix + VALUE, table=table, quoted=True)
    item = unaliased(query.expressions[0])
    if not any(isinstance(n, exp.Count | exp.CountIf) for n in item.walk(prune=_is_query)):
        return value
    missing = exp.column(f"{prefix}k0", table=table, quoted=True).is_(exp.null())
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=missing, true=_of_nothing(item.copy()))], default=value))


def _of_nothing(node: exp.Expr) -> exp.Expr:
    """An expression over aggregates of no rows."""
    if is_aggregate(node):
        counts = isinstance(node.this if isinstance(node, exp.Filter) else node, exp.Count | exp.CountIf)
        return exp.Literal.number(0) if counts else exp.null()
    for name, child in list(node.args.items()):
        if isinstance(child, exp.Expr):
            node.set(name, _of_nothing(child))
        elif isinstance(child, list):
            node.set(name, [_of_nothing(c) if isinstance(c, exp.Expr) else c for c in child])
    return node
