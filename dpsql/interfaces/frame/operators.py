"""The operators of private columns: each makes another expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame import expressions as sql
from dpsql.interfaces.frame.expressions import Kind
from dpsql.interfaces.frame.view import Field

Make = Callable[[exp.Expr, exp.Expr], exp.Expr]
CONDITIONS = (Kind.MASK, Kind.BOOLEAN)


def of(kind: type[exp.Expr]) -> Make:
    """An SQL operator between two operands."""
    return lambda one, two: sql.binary(kind, one, two)


def power(one: exp.Expr, two: exp.Expr) -> exp.Expr:
    """`**`."""
    return sql.call("power", one, two)


def arithmetic(make: Make, *, swapped: bool = False) -> Any:
    """An operator between numbers; true counts as one."""

    def method(self: Any, other: Any) -> Any:
        view, two, kind = self._operand(other)
        one, two = sql.as_number(self._field.expression, self._field.kind), sql.as_number(two, kind)
        return type(self)(view, Field(make(two, one) if swapped else make(one, two), Kind.NUMBER), self._name)

    return method


def addition(*, swapped: bool = False) -> Any:
    """`+` of numbers; of text, it joins."""
    numbers = arithmetic(of(exp.Add), swapped=swapped)

    def method(self: Any, other: Any) -> Any:
        if self._field.kind is not Kind.TEXT:
            return numbers(self, other)
        view, two, _ = self._operand(other)
        sides = (two, self._field.expression) if swapped else (self._field.expression, two)
        return type(self)(view, Field(sql.binary(exp.DPipe, *sides), Kind.TEXT), self._name)

    return method


def comparison(kind: type[exp.Expr]) -> Any:
    """A mask; where a side is missing it does not hold (but `!=` does, as in pandas)."""

    def method(self: Any, other: Any) -> Any:
        view, two, _ = self._operand(other)
        return type(self)(view, Field(sql.binary(kind, self._field.expression, two), Kind.MASK), self._name)

    return method


def logic(kind: type[exp.Expr]) -> Any:
    """`&` and `|` of masks."""

    def method(self: Any, other: Any) -> Any:
        view, two, other_kind = self._operand(other)
        if not {self._field.kind, other_kind} <= set(CONDITIONS):
            raise InterfaceError(
                "& and | join conditions", hint="put each condition in brackets: (frame.age > 30) & (frame.age < 60)"
            )
        return type(self)(view, Field(sql.binary(kind, self._field.expression, two), Kind.MASK), self._name)

    return method


def inverted(self: Any) -> Any:
    """`~` of a mask."""
    if self._field.kind not in CONDITIONS:
        raise InterfaceError("~ turns a condition around", hint="compare first: ~(frame.age > 30)")
    return self._made(sql.negated(self._field.expression), Kind.MASK)


def negative(self: Any) -> Any:
    """`-x`."""
    return self._made(exp.Neg(this=sql.inside(sql.as_number(self._field.expression, self._field.kind))))
