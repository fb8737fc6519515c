"""Expressions below an aggregate: three frozen node kinds, typed, and equal when they mean the same.

Only `dpsql.expressions.from_syntax` makes them, from an allow-list, so whatever has one of these trees is deterministic
and has a total form on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal

from dpsql.errors import Span
from dpsql.expressions.types import Type

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
