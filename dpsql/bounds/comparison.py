"""Comparisons and logic: which truth values can occur, by three-valued logic over intervals. NaN is above all."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpsql.bounds.casts import widened
from dpsql.bounds.constant_folding import equal
from dpsql.bounds.domain import Domain, Rule, finite
from dpsql.bounds.endpoints import End, ends
from dpsql.expressions.expression import Call
from dpsql.expressions.types import BOOLEAN, Kind
from dpsql.expressions.typing import common


def truths(can_true: bool, can_false: bool, nullable: bool, like: tuple[Domain, ...] = ()) -> Domain:
    """A boolean domain."""
    values = [v for v, can in ((False, can_false), (True, can_true)) if can]
    return finite(values, BOOLEAN, nullable=nullable, origin=[o for d in like for o in d.origin])


def can(domain: Domain, value: bool) -> bool:
    """Can the boolean take that value?"""
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
    """Can the value be in the list, can it be none of it?"""
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
    "isnan": _is_nan, "and": _and, "or": _or, "not": _not,
}  # fmt: skip
LENIENT = {"is_null", "is_not_distinct", "is_distinct", "and", "or", "in"}
"""Operations that can answer although an operand is NULL."""
