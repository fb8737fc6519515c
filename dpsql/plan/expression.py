"""Expressions below an aggregate: three frozen node kinds, typed, and equal when they mean the same.

Only `dpsql.plan.convert` makes them, from an allow-list, so whatever has one of these trees is deterministic and
has a total form on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from dpsql.errors import Span
from dpsql.plan.types import Type

Value = None | bool | int | float | Decimal | str | date | datetime


@dataclass(frozen=True, slots=True)
class Expression:
    """A typed expression. `span` is where it stands in the SQL; it takes no part in equality."""

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
        return "NULL" if self.value is None else repr(self.value) if isinstance(self.value, str) else str(self.value)


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
        inner = [*([str(self.option)] if self.option is not None else []), *map(str, self.args)]
        return f"{self.op}({', '.join(inner)})"


def columns_of(expression: Expression) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    return frozenset(node.name for node in expression.walk() if isinstance(node, Column))
