"""Operators of private columns, and their accessors `.str` and `.dt`. Each gives another private column."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame import sql_expressions as sql
from dpsql.interfaces.frame.frame_view import ColumnExpression
from dpsql.interfaces.frame.row_guard import PrivateRowsError
from dpsql.interfaces.frame.sql_expressions import ColumnKind, call, constant

Combine = Callable[[exp.Expr, exp.Expr], exp.Expr]
Make = Callable[[exp.Expr, ColumnKind], Any]
CONDITIONS = (ColumnKind.MASK, ColumnKind.BOOLEAN)


def of(kind: type[exp.Expr]) -> Combine:
    """An SQL operator between two operands."""
    return lambda one, two: sql.binary(kind, one, two)


def power(one: exp.Expr, two: exp.Expr) -> exp.Expr:
    """`**`."""
    return sql.call("power", one, two)


def arithmetic(make: Combine, *, swapped: bool = False) -> Any:
    """An operator between numbers; true counts as one."""

    def method(self: Any, other: Any) -> Any:
        view, two, kind = self._operand(other)
        one, two = sql.as_number(self._field.expression, self._field.kind), sql.as_number(two, kind)
        return type(self)(
            view, ColumnExpression(make(two, one) if swapped else make(one, two), ColumnKind.NUMBER), self._name
        )

    return method


def addition(*, swapped: bool = False) -> Any:
    """`+` of numbers; of text, it joins."""
    numbers = arithmetic(of(exp.Add), swapped=swapped)

    def method(self: Any, other: Any) -> Any:
        if self._field.kind is not ColumnKind.TEXT:
            return numbers(self, other)
        view, two, _ = self._operand(other)
        sides = (two, self._field.expression) if swapped else (self._field.expression, two)
        return type(self)(view, ColumnExpression(sql.binary(exp.DPipe, *sides), ColumnKind.TEXT), self._name)

    return method


def comparison(kind: type[exp.Expr]) -> Any:
    """A mask; where a side is missing it does not hold (but `!=` does, as in pandas)."""

    def method(self: Any, other: Any) -> Any:
        view, two, _ = self._operand(other)
        return type(self)(
            view, ColumnExpression(sql.binary(kind, self._field.expression, two), ColumnKind.MASK), self._name
        )

    return method


def logic(kind: type[exp.Expr]) -> Any:
    """`&` and `|` of masks."""

    def method(self: Any, other: Any) -> Any:
        view, two, other_kind = self._operand(other)
        if not {self._field.kind, other_kind} <= set(CONDITIONS):
            raise InterfaceError(
                "& and | join conditions", hint="put each condition in brackets: (frame.age > 30) & (frame.age < 60)"
            )
        return type(self)(
            view, ColumnExpression(sql.binary(kind, self._field.expression, two), ColumnKind.MASK), self._name
        )

    return method


def inverted(self: Any) -> Any:
    """`~` of a mask."""
    if self._field.kind not in CONDITIONS:
        raise InterfaceError("~ turns a condition around", hint="compare first: ~(frame.age > 30)")
    return self._made(sql.negated(self._field.expression), ColumnKind.MASK)


def negative(self: Any) -> Any:
    """`-x`."""
    return self._made(exp.Neg(this=sql.inside(sql.as_number(self._field.expression, self._field.kind))))


# text ----------------------------------------------------------------------------------------------------------------


class TextAccessor:
    """Functions of text; each gives another private column."""

    __slots__ = ("__make", "__of")

    def __init__(self, make: Make, of: exp.Expr, kind: ColumnKind, name: str) -> None:
        if kind is not ColumnKind.TEXT:
            raise InterfaceError(f".str needs text, and {name} has none", hint="cast it first: .astype(str)")
        self.__make, self.__of = make, of

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(each for each in dir(TextAccessor) if not each.startswith("_"))
        raise PrivateRowsError(f".str.{name} is not among the functions of private text", hint=f"there are {known}")

    def lower(self) -> Any:
        """In lower case."""
        return self.__text("lower")

    def upper(self) -> Any:
        """In upper case."""
        return self.__text("upper")

    def strip(self) -> Any:
        """Without blanks at both ends."""
        return self.__text("trim")

    def lstrip(self) -> Any:
        """Without blanks at the beginning."""
        return self.__text("ltrim")

    def rstrip(self) -> Any:
        """Without blanks at the end."""
        return self.__text("rtrim")

    def len(self) -> Any:
        """The number of characters."""
        return self.__make(call("length", self.__of), ColumnKind.NUMBER)

    def contains(self, pat: str, case: bool = True, regex: bool = True, na: Any = None) -> Any:
        """Whether the text holds another one; patterns with special signs are refused, for they read differently."""
        _literal(pat, "contains", regex)
        of, part = (self.__of, pat) if case else (call("lower", self.__of), pat.lower())
        return self.__make(call("contains", of, constant(part)), ColumnKind.MASK)

    def startswith(self, pat: str, na: Any = None) -> Any:
        """Whether the text begins so."""
        return self.__make(call("starts_with", self.__of, constant(pat)), ColumnKind.MASK)

    def endswith(self, pat: str, na: Any = None) -> Any:
        """Whether the text ends so."""
        return self.__make(call("ends_with", self.__of, constant(pat)), ColumnKind.MASK)

    def replace(self, pat: str, repl: str, regex: bool = False) -> Any:
        """With one text in the place of another."""
        _literal(pat, "replace", regex)
        return self.__make(call("replace", self.__of, constant(pat), constant(repl)), ColumnKind.TEXT)

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Any:
        """A part of the text, counted from its beginning."""
        first, last = start or 0, stop
        if step not in (None, 1) or first < 0 or (last is not None and last < first):
            raise InterfaceError("a part of a text is counted from its beginning", hint="write .str[0:3]")
        ends = [constant(first + 1)] + ([] if last is None else [constant(last - first)])
        return self.__make(call("substring", self.__of, *ends), ColumnKind.TEXT)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        return self.slice(key, key + 1)

    def __text(self, function: str) -> Any:
        return self.__make(call(function, self.__of), ColumnKind.TEXT)


def _literal(pattern: str, name: str, regex: bool) -> None:
    if regex and re.escape(pattern).replace("\\ ", " ").replace("\\-", "-") != pattern:
        raise InterfaceError(
            "regular expressions are not supported on private text", hint=f"write .str.{name}(…, regex=False)"
        )


# dates ---------------------------------------------------------------------------------------------------------------

PARTS = ("year", "quarter", "month", "day", "hour", "minute", "second", "dayofyear")
_UNITS = {"Y": "year", "YE": "year", "YS": "year", "Q": "quarter", "QE": "quarter", "QS": "quarter", "M": "month",
          "ME": "month", "MS": "month", "W": "week", "D": "day", "H": "hour", "MIN": "minute", "T": "minute",
          "S": "second"}  # fmt: skip


class DateAccessor:
    """Parts of dates; each gives another private column."""

    __slots__ = ("__make", "__of")

    def __init__(self, make: Make, of: exp.Expr, kind: ColumnKind, name: str) -> None:
        if kind is not ColumnKind.TIME:
            raise InterfaceError(f".dt needs dates, and {name} has none", hint="use pd.to_datetime before protect")
        self.__make, self.__of = make, of

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return self.__make(call(name, self.__of), ColumnKind.NUMBER)
        listed = ", ".join((*PARTS, "dayofweek", "to_period", "floor", "normalize"))
        raise PrivateRowsError(f".dt.{name} is not among the parts of private dates", hint=f"there are {listed}")

    def __dir__(self) -> list[str]:
        return [*PARTS, *(name for name in dir(type(self)) if not name.startswith("_"))]

    @property
    def dayofweek(self) -> Any:
        """Monday is 0, as in pandas."""
        return self.__make(exp.Sub(this=call("isodow", self.__of), expression=exp.Literal.number(1)), ColumnKind.NUMBER)

    weekday = day_of_week = dayofweek

    def to_period(self, freq: str) -> Any:
        """The beginning of the year, quarter, month, week or day: `.dt.to_period("M")`."""
        unit = _UNITS.get(freq.upper() if isinstance(freq, str) else "")
        if unit is None:
            raise InterfaceError(f"there is no period {freq!r}", hint='write "Y", "Q", "M", "W", "D" or "h"')
        return self.__make(call("date_trunc", exp.Literal.string(unit), self.__of), ColumnKind.TIME)

    def floor(self, freq: str) -> Any:
        """The beginning of the day, hour, minute or second."""
        return self.to_period(freq)

    def normalize(self) -> Any:
        """Midnight of the day."""
        return self.to_period("D")
