"""Comparisons, logic and choices (CASE, COALESCE, NULLIF, GREATEST, LEAST): which values can occur, by intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dpsql.bounds.casts import widened
from dpsql.bounds.constant_folding import Unsure, equal
from dpsql.bounds.domain import Domain, End, RowDomains, Rule, ends, finite, intersect, interval, span, union
from dpsql.expressions.expression import Call, Expression
from dpsql.expressions.types import BOOLEAN, Kind
from dpsql.expressions.typing import common

# choices between values -----------------------------------------------------------------------------------------------
# Choices between values: CASE, COALESCE, NULLIF, GREATEST and LEAST (which ignore NULL).


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
    """Without the one value that the other side must have; if that side may be NULL or NaN, the value may stay."""
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
    """At least as large as every operand that is not NULL; NaN is greater than all numbers, so LEAST ignores it."""
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


_CHOICES: dict[str, Rule] = {"coalesce": _coalesce, "nullif": _nullif, "greatest": _greatest, "least": _greatest}


def truths(can_true: bool, can_false: bool, nullable: bool, like: tuple[Domain, ...] = ()) -> Domain:
    """A boolean domain."""
    values = [v for v, can in ((False, can_false), (True, can_true)) if can]
    return finite(values, BOOLEAN, nullable=nullable, origin=[o for d in like for o in d.origin])


def can(domain: Domain, value: bool) -> bool:
    """Whether the boolean can have that value."""
    return domain.values is None or value in domain.values


def sides(call: Call, args: tuple[Domain, ...]) -> list[tuple[End, End]]:
    """The intervals on one axis; NaN reaches above every number, and texts, which have no ends, reach everywhere."""
    type_ = common(call.args)[0]
    made = [ends(widened(d, a.type, type_), type_) for d, a in zip(args, call.args, strict=True)]
    return [(low, math.inf if d.nan else high) for (low, high), d in zip(made, args, strict=True)]


def _order(less: Callable[[End, End], bool], flipped: bool) -> Rule:
    """`less` is < or <=; a flipped rule reads the operands the other way round."""

    def rule(call: Call, args: tuple[Domain, ...]) -> Domain:
        null = any(d.nullable for d in args)
        (al, au), (bl, bu) = sides(call, args)[::-1] if flipped else sides(call, args)
        return truths(less(al, bu), not less(au, bl), null, args)

    return rule


def _same(call: Call, args: tuple[Domain, ...]) -> tuple[bool, bool]:
    """Can two values be equal, can they differ?"""
    one, two = args
    if one.values is not None and two.values is not None and call.args[0].type.kind in (Kind.TEXT, Kind.BOOLEAN):
        return bool(set(one.values) & set(two.values)), not (len(one.values) == 1 and one.values == two.values)
    (al, au), (bl, bu) = sides(call, args)
    return al <= bu and bl <= au, not al == au == bl == bu


def _equal(call: Call, args: tuple[Domain, ...]) -> Domain:
    same, different = _same(call, args)
    null = any(d.nullable for d in args)
    return truths(same, different, null, args) if call.op == "eq" else truths(different, same, null, args)


def _distinct(call: Call, args: tuple[Domain, ...]) -> Domain:
    """NULL equals NULL here, and the answer is never NULL."""
    same, different = (False, False) if any(d.empty for d in args) else _same(call, args)
    same = same or all(d.nullable for d in args)
    different = different or any(args[i].nullable and not args[1 - i].empty for i in (0, 1))
    return truths(*((same, different) if call.op == "is_not_distinct" else (different, same)), False, args)


def _in(call: Call, args: tuple[Domain, ...]) -> Domain:
    """A list that holds NULL never answers FALSE."""
    it, null = args[0], any(d.empty for d in args[1:])
    hit, miss = _hits(call, args)
    return truths(hit, miss and not null, it.nullable or (null and miss), (it,))


def _hits(call: Call, args: tuple[Domain, ...]) -> tuple[bool, bool]:
    """Whether the value can be in the list, and whether it can be outside."""
    if not args[0].nan and all(d.values is not None for d in args):
        listed = [v for d in args[1:] for v in d.values or ()]
        hits = [any(equal(call, v, one) for one in listed) for v in args[0].values or ()]
        return any(hits), not all(hits)
    (low, high), *places = sides(call, args)
    return any(low <= last and first <= high for first, last in places), True


def _is_null(call: Call, args: tuple[Domain, ...]) -> Domain:
    return truths(args[0].nullable, not args[0].empty, False, args)


def _is_nan(call: Call, args: tuple[Domain, ...]) -> Domain:
    return truths(args[0].nan, args[0].values != (), args[0].nullable, args)


def _and(call: Call, args: tuple[Domain, ...]) -> Domain:
    one, two = args
    null = (one.nullable and (two.nullable or can(two, True))) or (two.nullable and can(one, True))
    return truths(can(one, True) and can(two, True), can(one, False) or can(two, False), null, args)


def _or(call: Call, args: tuple[Domain, ...]) -> Domain:
    one, two = args
    null = (one.nullable and (two.nullable or can(two, False))) or (two.nullable and can(one, False))
    return truths(can(one, True) or can(two, True), can(one, False) and can(two, False), null, args)


def _not(call: Call, args: tuple[Domain, ...]) -> Domain:
    return truths(can(args[0], False), can(args[0], True), args[0].nullable, args)


def _lt(x: End, y: End) -> bool:
    return x < y


def _le(x: End, y: End) -> bool:
    return x <= y


RULES: dict[str, Rule] = {
    "lt": _order(_lt, False), "le": _order(_le, False), "gt": _order(_lt, True), "ge": _order(_le, True),
    "eq": _equal, "ne": _equal, "in": _in, "is_null": _is_null, "is_not_distinct": _distinct, "is_distinct": _distinct,
    "isnan": _is_nan, "and": _and, "or": _or, "not": _not, **_CHOICES,
}  # fmt: skip
LENIENT = {"is_null", "is_not_distinct", "is_distinct", "and", "or", "in"}
"""Operations that can answer although an operand is NULL."""
