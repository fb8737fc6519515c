"""Bounds of the functions in the table of functions, and of text functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from dpsql.bounds.domain import Domain, End, Rule, ends, finite, of_type, span
from dpsql.expressions.expression import Call
from dpsql.expressions.functions.function import Anything, Function, Image, Listed, Monotone
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import TEXT, Kind


def rule_of(op: str) -> Rule | None:
    """The rule that the table of functions declares for an operation; None if it declares none."""
    function = FUNCTIONS.get(op)
    match function.bounds if function is not None else None:
        case Anything() | Image() | Listed() | Monotone():
            return _rule
    return None


def lenient(op: str) -> bool:
    """Can it answer although an argument is NULL?"""
    return op in FUNCTIONS and not FUNCTIONS[op].strict


def _rule(call: Call, args: tuple[Domain, ...]) -> Domain:
    function = FUNCTIONS[call.op]
    null = function.null or not function.strict or any(d.nullable for d in args)
    match function.bounds:
        case Image(low, high):
            return span(low, high, call.type, args, nan=function.nan, null=null)
        case Monotone():
            return _monotone(function, function.bounds, call, args)
        case Listed(values):
            return finite(values, call.type, nullable=null)
    made = of_type(call.type)
    return Domain(made.lower, made.upper, made.values, null, call.type.kind is Kind.DOUBLE, made.origin)


def _monotone(function: Function, shape: Monotone, call: Call, args: tuple[Domain, ...]) -> Domain:
    low, high = ends(args[0], call.type)
    nan = function.nan or low < shape.least or high > shape.most
    first, last = (min(max(float(end), shape.least), shape.most) for end in (low, high))
    if shape.falling:
        first, last = last, first
    least, most = widened(shape.function, first, -shape.slack), widened(shape.function, last, shape.slack)
    return span(least, most, call.type, args, nan=nan, null=function.null)


def widened(function: Callable[[float], float], end: End, slack: float) -> float:
    """The function's value, moved outwards by the library's own rounding; infinite where Python has no value."""
    try:
        value = function(float(end))
    except (OverflowError, ValueError):
        return math.copysign(math.inf, end)
    exact = value.is_integer() and abs(value) < 2**53
    return value if exact or not math.isfinite(value) else value + abs(value) * slack


# Text functions ------------------------------------------------------------------------------------------------------

MOST_PRODUCTS = 1_000


def _length(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A length or a position is never negative."""
    return span(0, math.inf, call.type, args)


def _any_value(call: Call, args: tuple[Domain, ...]) -> Domain:
    """Strict, and otherwise anything of its type."""
    made = of_type(call.type)
    return Domain(made.lower, made.upper, made.values, any(d.nullable for d in args), False, made.origin)


def _longer(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A text that grows too long is NULL."""
    return of_type(call.type)


def _concat(call: Call, args: tuple[Domain, ...]) -> Domain:
    """Concat ignores NULL."""
    if any(d.values is None for d in args):
        return Domain(nullable=False)
    parts = [[str(v) for v in d.values or ()] + ([""] if d.nullable else []) for d in args]
    if math.prod(map(len, parts)) > MOST_PRODUCTS:
        return Domain(nullable=False)
    made = ("".join(combination) for combination in product(*parts))
    return finite(made, TEXT, nullable=False, origin=[o for d in args for o in d.origin])


RULES: dict[str, Rule] = {
    "length": _length, "strpos": _length, "concat": _concat, "join": _longer, "replace": _longer,
    **dict.fromkeys(
        ("lower", "upper", "trim", "ltrim", "rtrim", "substring", "left", "right", "like", "ilike", "starts_with",
         "ends_with", "contains"), _any_value),
}  # fmt: skip
