"""The ends of intervals as numbers one can compute with: exact where the type is exact, floats where it is DOUBLE.

Rounding to nearest is monotone, so float operations on the ends enclose float operations on values between them.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.bounds.domain import LARGEST, Domain, Number, interval
from dpsql.expressions.types import Kind, Type

End = int | float | Fraction
DAY = 86_400 * 10**6
"""Microseconds: the step from the axis of dates to that of timestamps."""
_WIDE = Context(prec=150)


def ends(domain: Domain, type_: Type) -> tuple[End, End]:
    """Both endpoints on the axis of `type_`'s kind, ±inf where unbounded or where exact numbers exceed `LARGEST`."""
    low = -math.inf if domain.lower is None else _end(domain.lower, type_)
    high = math.inf if domain.upper is None else _end(domain.upper, type_)
    if type_.kind is Kind.DOUBLE:
        return low, high
    return -math.inf if low < -LARGEST else min(low, LARGEST), math.inf if high > LARGEST else max(high, -LARGEST)


def _end(number: Number, type_: Type) -> End:
    return to_float(number) if type_.kind is Kind.DOUBLE else Fraction(number)


def to_float(number: Number | Fraction) -> float:
    """The nearest float; beyond its range, infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def magnitude(*numbers: End) -> End:
    """The largest distance from zero."""
    return max(-x if x < 0 else x for x in numbers)


def span(
    low: End, high: End, type_: Type, like: tuple[Domain, ...], *, nan: bool = False, null: bool = False
) -> Domain:
    """An interval for a strict operation: NULL if an operand is, with the operands' origins."""
    return _strict(_number(low, type_, math.ceil), _number(high, type_, math.floor), like, nan, null)


def endless(like: tuple[Domain, ...], *, nan: bool = False, null: bool = False) -> Domain:
    """The same without ends."""
    return _strict(None, None, like, nan, null)


def _strict(low: Number | None, high: Number | None, like: tuple[Domain, ...], nan: bool, null: bool) -> Domain:
    return interval(
        low, high, nullable=null or any(d.nullable for d in like), nan=nan or any(d.nan for d in like),
        origin=[o for d in like for o in d.origin],
    )  # fmt: skip


def _number(end: End, type_: Type, inwards: object) -> Number | None:
    """An end as a domain keeps it; whole kinds are rounded inwards, where their values are."""
    if isinstance(end, float) and not math.isfinite(end):
        return None
    if type_.kind is Kind.DOUBLE:
        return to_float(end)
    if not -LARGEST <= end <= LARGEST:
        return None
    if type_.kind is Kind.DECIMAL and Fraction(end).denominator != 1:
        return grid(Fraction(end), type_.scale, up=inwards is math.ceil)
    return math.ceil(end) if inwards is math.ceil else math.floor(end)


def grid(number: Fraction, scale: int, *, up: bool) -> Decimal:
    """The next multiple of 10**-scale."""
    unscaled = math.ceil(number * 10**scale) if up else math.floor(number * 10**scale)
    return Decimal(unscaled).scaleb(-scale, _WIDE)


def tidy(domain: Domain, type_: Type) -> Domain:
    """A declared domain with ends of its type: whole for whole kinds, floats for DOUBLE."""
    if type_.kind in (Kind.TEXT, Kind.NULL, Kind.BOOLEAN) or domain.values is not None:
        return domain
    low, high = ends(domain, type_)
    return Domain(_number(low, type_, math.ceil), _number(high, type_, math.floor), None, domain.nullable, domain.nan,
                  domain.origin)  # fmt: skip
