"""Choices between values: CASE, COALESCE, NULLIF, GREATEST and LEAST (which ignore NULL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpsql.bounds.casts import widened
from dpsql.bounds.comparison import can
from dpsql.bounds.constant_folding import Unsure, equal
from dpsql.bounds.domain import Domain, Rule, intersect, interval, union
from dpsql.bounds.endpoints import ends, span
from dpsql.bounds.row_domains import RowDomains
from dpsql.expressions.expression import Call, Expression

Infer = Callable[[Expression, RowDomains], Domain]
Narrow = Callable[[RowDomains, Expression, bool], RowDomains]


def case(call: Call, known: RowDomains, infer: Infer, narrow: Narrow) -> Domain:
    """The branches that can be reached: each knows its condition, and that the earlier ones did not hold."""
    *pairs, default = call.args
    parts: list[Domain] = []
    for condition, result in zip(pairs[::2], pairs[1::2], strict=True):
        truth = infer(condition, known)
        simple = not any(isinstance(n, Call) and n.op == "case" for n in condition.walk())
        inside = narrow(known, condition, True) if simple else known
        if can(truth, True) and not inside.impossible:
            parts.append(widened(infer(result, inside), result.type, call.type))
        known = narrow(known, condition, False) if simple else known
        if known.impossible or (truth.values == (True,) and not truth.nullable):
            return union(parts)
    return union([*parts, widened(infer(default, known), default.type, call.type)])


def _aligned(call: Call, args: tuple[Domain, ...]) -> list[Domain]:
    return [widened(d, a.type, call.type) for d, a in zip(args, call.args, strict=True)]


def _coalesce(call: Call, args: tuple[Domain, ...]) -> Domain:
    parts: list[Domain] = []
    for domain in _aligned(call, args):
        parts.append(replace(domain, nullable=False))
        if not domain.nullable:
            return union(parts)
    return replace(union(parts), nullable=True)


def _nullif(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A single value that the other side must have goes; where that may be NULL (or NaN), it may stay too."""
    one, two = args
    if two.empty:
        return one
    if one.values is None or two.values is None or len(two.values) != 1:
        return replace(one, nullable=True)
    try:
        others = tuple(v for v in one.values if not equal(call, v, two.values[0]))
    except Unsure:
        return replace(one, nullable=True)
    sure = not two.nullable and not two.nan
    left = intersect(one, Domain(values=others, nan=True)) if sure else one
    return replace(left, nullable=one.nullable or two.nan or others != one.values)


def _greatest(call: Call, args: tuple[Domain, ...]) -> Domain:
    """At least every operand that is there; NaN is greatest of all, so LEAST passes it over."""
    parts = [d for d in _aligned(call, args) if not d.empty]
    if not parts:
        return Domain(values=())
    bounds = [ends(d, call.type) for d in parts]
    sure = [b for b, d in zip(bounds, parts, strict=True) if not d.nullable and not (d.nan and call.op == "least")]
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    if call.op == "greatest":
        low, high = max((low for low, _ in sure), default=min(lows)), max(highs)
    else:
        low, high = min(lows), min((high for _, high in sure), default=max(highs))
    made = span(low, high, call.type, tuple(parts))
    nan = made.nan and not (call.op == "least" and sure)
    made = replace(made, nullable=all(d.nullable for d in args), nan=nan)
    if all(d.values is not None for d in parts):
        return replace(intersect(union(parts), interval(made.lower, made.upper, nan=True)), nullable=made.nullable)
    return made


RULES: dict[str, Rule] = {"coalesce": _coalesce, "nullif": _nullif, "greatest": _greatest, "least": _greatest}
