"""Operations on constants, where Python is certain to agree with DuckDB; anything else is `Unsure`.

Finite domains are mapped value by value, so `lower(region)` or `CASE … END || '!'` have finite domains again.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from dpsql.bounds import calendar
from dpsql.bounds.arithmetic import rounded
from dpsql.bounds.domain import grid, to_float
from dpsql.expressions.expression import Call, Value
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import Kind, Type
from dpsql.expressions.typing import common


class Unsure(Exception):
    """Python might give another answer than the engine."""


def evaluate(call: Call, values: tuple[Value, ...]) -> Value:
    """The result of a strict operation on constants; NULL in, NULL out."""
    rule, function = _RULES.get(call.op), FUNCTIONS.get(call.op)
    if rule is None and (function is None or function.value is None):
        raise Unsure
    if any(v is None for v in values):
        return None
    try:
        made: Value = rule(call, *values) if rule is not None else function.value(*values)  # type: ignore[union-attr, misc]
    except (OverflowError, ValueError, ArithmeticError) as problem:
        raise Unsure from problem
    return made if made is None or isinstance(made, bool | str) else as_type(made, call.type)


def as_type(value: Value | Fraction, type_: Type) -> Value:
    """A value in the Python type of `type_`."""
    match value:
        case bool() | str() | None:
            return value
        case datetime():
            return value
        case date():
            return datetime(value.year, value.month, value.day) if type_.kind is Kind.TIMESTAMP else value
    if type_.kind is Kind.DOUBLE:
        made = to_float(value)
        if not math.isfinite(made):
            raise Unsure
        return made
    if type_.kind is Kind.DECIMAL:
        return grid(Fraction(value), type_.scale, up=False)
    return int(value) if Fraction(value).denominator == 1 else grid(Fraction(value), 18, up=False)


def _number(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(call: Call, a: Any, b: Any) -> Any:
        if call.type.kind is Kind.DOUBLE:
            return function(to_float(a), to_float(b))
        return function(Fraction(a), Fraction(b))

    return rule


def _whole_divide(call: Call, a: Any, b: Any) -> Any:
    if call.type.kind is not Kind.INTEGER:
        raise Unsure
    return math.trunc(Fraction(a) / Fraction(b)) if b else None


def _modulo(call: Call, a: Any, b: Any) -> Any:
    if call.type.kind is Kind.DOUBLE:
        raise Unsure
    return Fraction(a) - Fraction(b) * math.trunc(Fraction(a) / Fraction(b)) if b else None


def _compare(function: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def rule(call: Call, a: Any, b: Any) -> bool:
        type_ = common(call.args)[0]
        return function(as_type(a, type_), as_type(b, type_)) if type_.numeric or type_.temporal else function(a, b)

    return rule


def equal(call: Call, a: Value, b: Value) -> bool:
    """Are two non-NULL values equal in the type that the call compares in?"""
    return _compare(operator.eq)(call, a, b)


def _like(call: Call, text: str, pattern: str) -> bool:
    if call.op == "ilike":
        text, pattern = _plain(text).lower(), _plain(pattern).lower()
    made = "".join({"%": ".*", "_": "."}.get(c) or re.escape(c) for c in pattern)
    return re.fullmatch(made, text, re.DOTALL) is not None


def _plain(text: str) -> str:
    """Case mapping differs beyond ASCII."""
    if not text.isascii():
        raise Unsure
    return text


def _trim(call: Call, text: str, letters: str = " ") -> str:
    if call.op != "rtrim":
        text = text.lstrip(letters) if letters else text
    return text.rstrip(letters) if call.op != "ltrim" and letters else text


def _substring(call: Call, text: str) -> str:
    match call.option:
        case (int(start),) if start >= 1:
            return text[start - 1 :]
        case (int(start), int(length)) if start >= 1 and length >= 0:
            return text[start - 1 : start - 1 + length]
    raise Unsure


def _left(call: Call, text: str) -> str:
    count = call.option
    assert isinstance(count, int)
    return text[:count] if count >= 0 else text[: max(0, len(text) + count)]


def _right(call: Call, text: str) -> str:
    count = call.option
    assert isinstance(count, int)
    return text[max(0, len(text) - count) :] if count >= 0 else text[min(len(text), -count) :]


def _replace(_: Call, text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _part(call: Call, moment: date) -> int:
    if call.option not in calendar.PARTS:
        raise Unsure
    return calendar.PARTS[str(call.option)](calendar.at_midnight(moment))


def _trunc(call: Call, moment: date) -> datetime:
    return calendar.truncated(calendar.at_midnight(moment), str(call.option))


def _shift(call: Call, moment: date) -> datetime:
    match call.option:
        case (int(months), int(days), int(micros)):
            return calendar.shifted(calendar.at_midnight(moment), months, days, micros)
    raise Unsure


def _add_days(call: Call, day: date, count: int) -> date:
    return day + timedelta(days=count if call.op == "add_days" else -count)


def _cast(call: Call, value: Value) -> Value:
    source, target = call.args[0].type.kind, call.type.kind
    if target is Kind.TEXT and source in (Kind.INTEGER, Kind.DATE):
        return str(value)
    if target is Kind.TEXT and source is Kind.BOOLEAN:
        return "true" if value else "false"
    if source is Kind.BOOLEAN and (target in (Kind.INTEGER, Kind.DOUBLE)):
        return 1 if value else 0
    if target is Kind.BOOLEAN and source in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
        return bool(value)
    if target is Kind.INTEGER and source is Kind.INTEGER and isinstance(value, int):
        return value if call.type.lower <= value <= call.type.upper else None
    if target is Kind.DOUBLE and source in (Kind.INTEGER, Kind.DECIMAL):
        return value
    if target is Kind.DATE and isinstance(value, datetime):
        return value.date()
    if target is Kind.TIMESTAMP and source is Kind.DATE:
        return value
    raise Unsure


def _rounded(call: Call, value: Any) -> Any:
    return rounded(call, value if call.args[0].type.kind is Kind.DOUBLE else Fraction(value))


_RULES: dict[str, Callable[..., Any]] = {
    "add": _number(operator.add), "sub": _number(operator.sub), "mul": _number(operator.mul),
    "div": _number(operator.truediv), "idiv": _whole_divide, "mod": _modulo,
    "neg": lambda _, a: -a, "abs": lambda _, a: abs(a), "sign": lambda _, a: (a > 0) - (a < 0),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "trunc_to"), _rounded), "isnan": lambda _, a: math.isnan(a),
    "eq": _compare(operator.eq), "ne": _compare(operator.ne), "lt": _compare(operator.lt),
    "le": _compare(operator.le), "gt": _compare(operator.gt), "ge": _compare(operator.ge),
    "not": lambda _, a: not a, "like": _like, "ilike": _like,
    "lower": lambda _, a: _plain(a).lower(), "upper": lambda _, a: _plain(a).upper(), "length": lambda _, a: len(a),
    "trim": _trim, "ltrim": _trim, "rtrim": _trim, "substring": _substring, "left": _left, "right": _right,
    "join": lambda _, *parts: "".join(parts), "replace": _replace, "strpos": lambda _, a, b: a.find(b) + 1,
    "starts_with": lambda _, a, b: a.startswith(b), "ends_with": lambda _, a, b: a.endswith(b),
    "contains": lambda _, a, b: b in a,
    "part": _part, "date_trunc": _trunc, "shift": _shift, "add_days": _add_days, "sub_days": _add_days,
    "days": lambda _, a, b: (a - b).days, "cast": _cast,
}  # fmt: skip
