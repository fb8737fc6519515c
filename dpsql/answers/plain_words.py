"""Columns and people in plain words, for notes: no expression is written out that a reader would have to parse."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.expressions.expression import Call, Column, Expression, Literal, columns_of
from dpsql.plan.nodes.relation import Relation, scans_in

LONGEST = 40
_ENDINGS = ("_id", "_key", "_no", "_number", "id")


@dataclass(frozen=True, slots=True)
class Noun:
    """What a unit is called."""

    one: str
    many: str


ROW, PERSON = Noun("row", "rows"), Noun("person", "people")


def unit_noun(relation: Relation) -> Noun:
    """Rows, or what the unit's column is called after (`customer_id`: customers), where an analyst may see its name."""
    if relation.by_row:
        return ROW
    columns = [scan.unit for scan in scans_in(relation) if scan.unit in {field.name for field in scan.fields}]
    names = (_without_ending(column.lower()) for column in columns if column is not None)
    return next((Noun(name, _plural(name)) for name in names if len(name) >= 4 and name.isalpha()), PERSON)


def _without_ending(column: str) -> str:
    ending = next((each for each in _ENDINGS if column.endswith(each)), None)
    return "" if ending is None else column.removesuffix(ending).removesuffix("_")


def _plural(name: str) -> str:
    if name == "person":
        return "people"
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch", "sh")) else f"{name}s"


def in_words(expression: Expression) -> str:
    """An expression as it is, if it is short; else what it is computed from."""
    if isinstance(expression, Column):
        return expression.name if is_plain(expression.name) else "a computed value"
    if isinstance(expression, Call) and expression.op == "case" and _one_value(expression):
        return f"{in_words(expression.args[1])} under a condition"
    text = str(expression)
    if is_plain(text):
        return text
    columns = sorted(filter(is_plain, columns_of(expression)))
    if not columns:
        return "a computed value"
    listed = columns[0] if len(columns) == 1 else f"{', '.join(columns[:3][:-1])} and {columns[:3][-1]}"
    return f"a value computed from {listed}{' and others' if len(columns) > 3 else ''}"


def is_plain(text: str) -> bool:
    """Is it short, and nothing that a reader would have to parse?"""
    return len(text) <= LONGEST and "CASE " not in text


def _one_value(case: Call) -> bool:
    """Is it one value where a condition holds, and NULL or a constant elsewhere?"""
    return len(case.args) == 3 and isinstance(case.args[2], Literal) and not isinstance(case.args[1], Literal)


def grouped_by(expression: Expression) -> str:
    """A group key in words."""
    return in_words(expression) if columns_of(expression) else "the group key"
