"""Joins that are refused, and what to write instead: checked before a node is made, in the analyst's terms."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.errors import Error, Span
from dpsql.expressions.expression import Expression
from dpsql.plan.builder.name_scope import FromTable
from dpsql.plan.nodes.joins import Unique, looked_up, matches_once, owner_groups, share_owner
from dpsql.plan.nodes.relation import HIDDEN, UNIT, Field, JoinSide, Relation, same_owner, side_of
from dpsql.sql.span import refuse

SUBQUERY = "the subquery"
"""What a subquery is called whose own tables are out of sight."""

_APART = (
    "aggregate each table in a query of its own, and join the results: SELECT … FROM (SELECT … GROUP BY …) AS a JOIN …"
)


def check_inner(
    parts: Sequence[JoinSide],
    conditions: Sequence[Expression],
    tables: Sequence[FromTable],
    node: exp.Expr | Span | None,
    unique: Unique,
) -> None:
    """Private parts must be linked by their owner; a row that is a unit must stay one row."""
    private = [part for part in parts if part.private]
    if any(part.relation.by_row for part in private):
        if len(private) > 1:
            raise _row_units(private, tables, node)
        lookups = looked_up(parts, conditions, unique)
        if not all(part.private or i in lookups for i, part in enumerate(parts)):
            raise _multiplied(node)
    groups = owner_groups(parts, conditions)
    if len(groups) > 1:
        one, two = groups[0], groups[1]
        raise _apart(
            [f for p in one for f in p.fields], [f for p in two for f in p.fields], tables, node, "ON or WHERE"
        )


def check_outer(
    left: JoinSide,
    right: JoinSide,
    side: str,
    conditions: Sequence[Expression],
    tables: Sequence[FromTable],
    node: exp.Expr | Span | None,
    unique: Unique,
) -> None:
    """What an outer join keeps must have an owner, and two private sides one."""
    if left.private != right.private and (side == "FULL" or right.private):
        raise refuse(
            f"this {side} JOIN would keep rows of a public table, which have no owner",
            node,
            hint="use INNER JOIN: groups of a public key are shown anyway, also when they are empty",
            reason="join",
        )
    if left.private and right.private:
        if left.relation.by_row or right.relation.by_row:
            raise _row_units([left, right], tables, node)
        if not share_owner(left, right, conditions):
            raise _apart(left.fields, right.fields, tables, node, "ON")
    if left.relation.by_row and not matches_once(left, right, conditions[0], unique):
        raise _multiplied(node)


def check_exists(
    source: Relation,
    inner: JoinSide,
    conditions: Sequence[Expression],
    tables: Sequence[FromTable],
    node: exp.Expr | Span | None,
) -> None:
    """A private subquery must be correlated by the owner."""
    if not inner.private:
        return
    if source.by_row or inner.relation.by_row:
        raise _row_units([side_of(source), inner], tables, node)
    if not share_owner(side_of(source), inner, conditions):
        raise _apart(source.fields, inner.fields, tables, node, "the subquery's WHERE")


def _row_units(parts: Sequence[JoinSide], tables: Sequence[FromTable], node: exp.Expr | Span | None) -> Error:
    names = [_names(part.fields, tables) for part in parts if part.relation.by_row]
    return refuse(
        f"each row of {' and '.join(names)} is a unit of its own, so it cannot be joined with other private rows",
        node,
        hint=_APART,
        reason="join",
    )


def _multiplied(node: exp.Expr | Span | None) -> Error:
    return refuse(
        "this join could multiply rows that are units of their own: each must be known to have at most one match",
        node,
        hint="join on a column that is unique in the public table (a PRIMARY KEY or UNIQUE constraint says so, or in a "
        "database file the rows themselves)",
        reason="join",
    )


def _apart(
    ones: Sequence[Field], twos: Sequence[Field], tables: Sequence[FromTable], node: exp.Expr | Span | None, where: str
) -> Error:
    """The refusal of rows that may belong to different people, with the equality that is missing."""
    names = f"{_names(ones, tables)} and {_names(twos, tables)}"
    pairs = [(_written(a, tables), _written(b, tables)) for a in _labelled(ones) for b in twos if same_owner(a, b)]
    return refuse(
        f"rows of {names} are joined, but not by their owner: they could belong to different people",
        node,
        hint=_equal(*pairs[0], where) if pairs else _between(ones, twos, tables),
        reason="join",
    )


def _labelled(fields: Sequence[Field]) -> list[Field]:
    """The unit first."""
    return sorted((f for f in fields if f.owner is not None), key=lambda f: f.owner != UNIT)


def _equal(one: str, two: str, where: str) -> str:
    if two.startswith(SUBQUERY):
        return f"compare the owners: {one} IN (SELECT {two.removeprefix(SUBQUERY + '.')} …)"
    return f"add to {where}: {one} = {two}"


def _between(ones: Sequence[Field], twos: Sequence[Field], tables: Sequence[FromTable]) -> str:
    """The hint where no equality of two columns would prove that the owners are equal."""
    for field in (*ones, *twos):
        if field.owner is not None and field.owner != UNIT and not field.owner.startswith(HIDDEN):
            table = field.owner.rpartition(".")[0]
            return f"join {table} as well, which stands between them: {_written(field, tables)} = {field.owner}"
    if any(f.unit for f in ones) and any(f.unit for f in twos):
        return "their unit columns have different types: ask the steward to give both the same type"
    return _APART


def _written(field: Field, tables: Sequence[FromTable]) -> str:
    """A field as the analyst writes it."""
    return next((f"{t.name}.{e.column}" for t in tables for e in t.columns if e.field == field.name), field.name)


def _names(fields: Sequence[Field], tables: Sequence[FromTable]) -> str:
    """The tables that the fields come from."""
    names = {f.name for f in fields}
    found = [t.name for t in tables if any(e.field in names for e in t.columns)]
    return " and ".join(found) or SUBQUERY
