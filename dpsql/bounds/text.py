"""Text functions: over finite texts they are evaluated (see `evaluate`); here is what holds for any text."""

from __future__ import annotations

import math
from itertools import product

from dpsql.bounds.domain import Domain, finite, of_type
from dpsql.bounds.ends import span
from dpsql.bounds.rule import Rule
from dpsql.expressions.expression import Call
from dpsql.expressions.types import TEXT

MOST_PRODUCTS = 1_000


def _count(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A length or a position is never negative."""
    return span(0, math.inf, call.type, args)


def _any(call: Call, args: tuple[Domain, ...]) -> Domain:
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
    "length": _count, "strpos": _count, "concat": _concat, "join": _longer, "replace": _longer,
    **dict.fromkeys(
        ("lower", "upper", "trim", "ltrim", "rtrim", "substring", "left", "right", "like", "ilike", "starts_with",
         "ends_with", "contains"), _any),
}  # fmt: skip
