"""`merge`: a private frame with another of the same protection, on the unit, or with a public table, on any column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.expressions import column, identifier, inside
from dpsql.interfaces.frame.view import Field, View

_SIDES = {"inner": None, "left": "LEFT"}


def merged(
    left: View, other: Any, left_on: str | None, right_on: str | None, how: str, suffixes: tuple[str, str]
) -> View:
    """One view over both; whether the condition is a safe one is the planner's to say."""
    if left_on is None or right_on is None:
        raise InterfaceError("merge on which column?", hint='write on="user_id"')
    if how not in _SIDES:
        raise InterfaceError(f"merge how={how!r} is not supported", hint="use inner or left")
    right = _right(left, other, left_on, right_on)
    if set(left.tables) & set(right.tables):
        raise InterfaceError(
            "a frame cannot be merged with itself",
            hint="compute with its columns, or protect the other table beside it",
        )
    left, right = _qualified(left), _qualified(right)
    keys = left.field(left_on).expression, right.field(right_on).expression
    conditions: list[exp.Expr] = [exp.EQ(this=inside(keys[0]), expression=inside(keys[1]))]
    where = (*left.where, *right.where)
    if how == "left":
        conditions, where = [*conditions, *map(inside, right.where)], left.where
    join = exp.Join(this=exp.Table(this=identifier(right.tables[0])), side=_SIDES[how], on=exp.and_(*conditions))
    fields = _together(left.fields, right.fields, right_on if left_on == right_on else None, suffixes)
    return replace(left, tables=(*left.tables, *right.tables), joins=(*left.joins, join, *right.joins), fields=fields,
                   where=where)  # fmt: skip


def _right(left: View, other: Any, left_on: str, right_on: str) -> View:
    view = getattr(other, "_view", None)
    if not isinstance(view, View):
        key = _qualified(left).field(left_on).expression
        on_the_unit = isinstance(key, exp.Column) and left.protection.unit(key.table) == key.name
        if on_the_unit and not left.protection.protects(other):
            raise InterfaceError(
                f"a plain table that is merged on the unit {left_on} has rows about the same people, and they would "
                "count as public",
                hint=f"protect it beside: other = other.dp.protect(unit='{right_on}', called='other', beside=frame); "
                "then merge that",
            )
        name = left.protection.public(other)
        return View(left.protection, (name,), (), left.protection.fields(name))
    if view.protection is not left.protection:
        raise InterfaceError(
            "these frames have different ledgers, so nobody adds up what they reveal together",
            hint="protect the second one beside the first: other_df.dp.protect(unit=…, called='orders', beside=frame)",
        )
    if view.joins:
        raise InterfaceError("merge one table at a time", hint="frame.merge(first, …).merge(second, …)")
    return view


def _qualified(view: View) -> View:
    """With the table's name before each column, as soon as there are two tables."""
    if view.joins:
        return view
    name = view.tables[0]

    def qualify(expression: exp.Expr) -> exp.Expr:
        return expression.copy().transform(
            lambda node: column(node.name, name) if isinstance(node, exp.Column) and not node.table else node
        )

    fields = {title: replace(field, expression=qualify(field.expression)) for title, field in view.fields.items()}
    return replace(view, fields=fields, where=tuple(map(qualify, view.where)))


def _together(
    left: Mapping[str, Field], right: Mapping[str, Field], shared: str | None, suffixes: tuple[str, str]
) -> dict[str, Field]:
    """Columns of both; the key once, other names that occur twice with a suffix, as in pandas."""
    twice = {name for name in left if name in right and name != shared}
    fields = {name + suffixes[0] if name in twice else name: field for name, field in left.items()}
    return fields | {
        name + suffixes[1] if name in twice else name: field for name, field in right.items() if name != shared
    }
