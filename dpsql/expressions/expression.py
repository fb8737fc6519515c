"""Expressions below an aggregate: three frozen node kinds, typed, and equal when they mean the same.

Only `dpsql.expressions.from_syntax` makes them, from an allow-list, so whatever has one of these trees is deterministic
and has a total form on every engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dpsql.errors import Span
from dpsql.expressions.types import Kind, Type

_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR", "add": "+",
    "sub": "-", "mul": "*", "div": "/", "idiv": "//", "mod": "%", "like": "LIKE", "ilike": "ILIKE", "join": "||",
    "is_not_distinct": "IS NOT DISTINCT FROM", "is_distinct": "IS DISTINCT FROM", "add_days": "+", "sub_days": "-",
    "days": "-",
}  # fmt: skip

Value = None | bool | int | float | Decimal | str | date | datetime


@dataclass(frozen=True, slots=True)
class Expression:
    """A typed expression. `span` is its position in the SQL; it is ignored by equality."""

    type: Type
    span: Span | None = field(default=None, compare=False, kw_only=True)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The direct operands."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of the relation directly below."""

    name: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant of the query; dates are Python dates, timestamps naive datetimes in UTC."""

    value: Value = None

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        if isinstance(self.value, date):
            return f"{'TIMESTAMP' if isinstance(self.value, datetime) else 'DATE'} '{self.value}'"
        return "NULL" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """An allow-listed operation. `option` holds what is not an operand: a date part, an interval, a pattern."""

    op: str = ""
    args: tuple[Expression, ...] = ()
    option: Value | tuple[Value, ...] = None

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.args

    def __str__(self) -> str:
        """The expression in SQL's own signs, for messages and plans."""
        if self.op in _INFIX:
            sides = [f"({a})" if isinstance(a, Call) and a.op in _INFIX else str(a) for a in self.args]
            return f" {_INFIX[self.op]} ".join(sides)
        parts = [str(a) for a in self.args]
        if self.op == "case":
            branches = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(parts[::2], parts[1::2], strict=False))
            return f"CASE {branches} ELSE {parts[-1]} END"
        if self.op == "cast":
            return f"CAST({parts[0]} AS {self.type})"
        if self.op == "in":
            return f"{parts[0]} IN ({', '.join(parts[1:])})"
        if self.op in ("not", "neg"):
            return f"{'NOT ' if self.op == 'not' else '-'}({parts[0]})"
        if self.op == "is_null":
            return f"{parts[0]} IS NULL"
        if self.op == "part":
            return f"{self.option}({parts[0]})"
        options = self.option if isinstance(self.option, tuple) else () if self.option is None else (self.option,)
        words = [repr(o) if isinstance(o, str) else str(o) for o in options]
        if self.op == "date_diff":
            parts.reverse()
        first = self.op in ("date_trunc", "date_diff")
        return f"{self.op}({', '.join(words + parts if first else parts + words)})"


def columns_of(expression: Expression) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    return frozenset(node.name for node in expression.walk() if isinstance(node, Column))


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced by their definitions."""
    match expression:
        case Column():
            return columns.get(expression.name, expression)
        case Call():
            return replace(expression, args=tuple(substitute(a, columns) for a in expression.args))
    return expression


# expressions as JSON --------------------------------------------------------------------------------------------------
# Expressions as JSON values and back: what the ledger needs to know a release again, and an order for operands.


_KINDS: dict[str, type] = {"d": date, "t": datetime, "n": Decimal}


def write(expression: Expression) -> list[Any]:
    """Two expressions with equal JSON are equal, regardless of their positions in the SQL."""
    type_ = [expression.type.kind.value, expression.type.lower, expression.type.upper, expression.type.scale]
    match expression:
        case Column():
            return [type_, "column", expression.name]
        case Literal():
            return [type_, "literal", write_value(expression.value)]
        case Call():
            option = expression.option
            written = [write_value(o) for o in option] if isinstance(option, tuple) else write_value(option)
            return [type_, "call", expression.op, [write(a) for a in expression.args], written]
    raise TypeError(f"no text for {type(expression).__name__}")


def read(written: Sequence[Any]) -> Expression:
    """The expression that was written."""
    (kind, *sizes), node, *rest = written
    type_ = Type(Kind(kind), *sizes)
    if node == "column":
        return Column(type_, name=rest[0])
    if node == "literal":
        return Literal(type_, value=read_value(rest[0]))
    op, args, option = rest
    options = tuple(map(read_value, option)) if isinstance(option, list) else read_value(option)
    return Call(type_, op=op, args=tuple(map(read, args)), option=options)


def order(expression: Expression) -> str:
    """A text by which expressions are put in order, the same in every process."""
    return json.dumps(write(expression))


def write_value(value: Value) -> object:
    """A constant; dates, timestamps and decimals, which JSON lacks, get a tag."""
    for tag, kind in _KINDS.items():
        if type(value) is kind:
            return {tag: str(value)}
    return value


def read_value(value: object) -> Value:
    """The constant that was written."""
    if not isinstance(value, dict):
        return value  # type: ignore[return-value]
    [(tag, text)] = value.items()
    return Decimal(text) if tag == "n" else datetime.fromisoformat(text) if tag == "t" else date.fromisoformat(text)
