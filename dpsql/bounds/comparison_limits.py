"""The domain that a comparison leaves to one of its sides.

Whole numbers, dates and decimals lie on a grid: `x < 6` means `x <= 5`. Where the engine compares an exact number as
DOUBLE, it rounds first, and the bound gets a margin.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpsql.bounds.constant_folding import as_type
from dpsql.bounds.domain import Domain, Number, number
from dpsql.bounds.endpoints import DAY, ends, to_float
from dpsql.expressions.expression import Expression
from dpsql.expressions.types import DOUBLE, Kind, Type

NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
MARGIN = Fraction(1, 2**50)


def limited(op: str, one: Expression, two: Expression, other: Domain) -> Domain:
    """What `one op two` leaves to `one`, where `two` lies in `other`. NaN is above all numbers."""
    nan = op in ("gt", "ge") or (other.nan and op in ("le", "eq"))
    low = _bound(other.lower, one.type, two.type, up=True, strict=op == "gt") if op in ("eq", "gt", "ge") else None
    high = _bound(other.upper, one.type, two.type, up=False, strict=op == "lt") if op in ("eq", "lt", "le") else None
    if other.nan and op in ("lt", "le"):
        high = None
    same = op == "eq" and one.type.kind is two.type.kind and other.values is not None
    values = tuple(v for v in other.values or () if as_type(v, one.type) == v) if same else None
    return Domain(low, high, values, True, nan)


def _bound(end: Number | None, mine: Type, its: Type, *, up: bool, strict: bool) -> Number | None:
    """An end on my axis and on my grid, rounded towards my values."""
    if end is None:
        return None
    place = Fraction(end)
    if mine.kind is Kind.DATE and its.kind is Kind.TIMESTAMP:
        place /= DAY
    if mine.kind is Kind.TIMESTAMP and its.kind is Kind.DATE:
        place *= DAY
    if mine.kind is Kind.DOUBLE:
        made = to_float(place)
        return made if math.isfinite(made) else None
    if _inexact(place, mine, its):
        place, strict = place + (-1 if up else 1) * abs(place) * MARGIN, False
    steps = place * 10**mine.scale
    whole = math.ceil(steps) if up else math.floor(steps)
    if strict and whole == steps:
        whole += 1 if up else -1
    return whole if mine.scale == 0 else as_type(Fraction(whole, 10**mine.scale), mine)  # type: ignore[return-value]


def _inexact(place: Fraction, mine: Type, its: Type) -> bool:
    """Is an exact number compared as DOUBLE here, where that can round?"""
    return _as_double(mine, its) and (mine.kind is Kind.DECIMAL or abs(place) >= 2**53)


def _as_double(mine: Type, its: Type) -> bool:
    if DOUBLE in (mine, its):
        return True
    scale = max(mine.scale, its.scale)
    ends_ = [abs(end) * int(10 ** (scale - t.scale)) for t in (mine, its) for end in (t.lower, t.upper)]
    return max(ends_) >= 10**38


def excluded(one: Expression, domain: Domain, two: Expression, other: Domain) -> Domain:
    """What `one <> two` leaves to `one`: it matters only for a single value at an end, or in a list."""
    everything = Domain(nan=True)
    if other.nan or other.values is None or len(other.values) != 1 or one.type.kind is not two.type.kind:
        return everything
    point = other.values[0]
    if domain.values is not None:
        return replace(everything, values=tuple(v for v in domain.values if v != point))
    if one.type.kind not in (Kind.INTEGER, Kind.DATE):
        return everything
    at, (low, high) = number(point), ends(domain, one.type)
    return Domain(int(at) + 1 if low == at else None, int(at) - 1 if high == at else None, nan=True)
