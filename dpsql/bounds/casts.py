"""Casts: monotone on every axis; what does not fit the target is NULL (the emitted cast is TRY_CAST)."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.bounds.constant_folding import as_type
from dpsql.bounds.domain import DAY, Domain, End, Number, Rule, ends, finite, grid, interval, of_type, span, to_float
from dpsql.expressions.expression import Call
from dpsql.expressions.types import Kind, Type

_EXACT = (Kind.INTEGER, Kind.DECIMAL)


def widened(domain: Domain, source: Type, target: Type) -> Domain:
    """A domain on the axis of a type that holds all values of its own (branches and sides of a comparison)."""
    if source == target:
        return domain
    if domain.values is not None:
        values = [as_type(v, target) for v in domain.values]
        made = finite(values, target, nullable=domain.nullable, origin=domain.origin)
        return Domain(made.lower, made.upper, made.values, made.nullable, domain.nan, made.origin)
    low, high = (_moved(end, target) for end in (domain.lower, domain.upper))
    return Domain(low, high, None, domain.nullable, domain.nan, domain.origin)


def _moved(end: Number | None, target: Type) -> Number | None:
    """An endpoint in another type: exact numbers become floats, and dates become timestamps."""
    if end is None:
        return None
    if target.kind is Kind.DOUBLE:
        return to_float(end)
    return int(end) * DAY if target.kind is Kind.TIMESTAMP else end


def _cast(call: Call, args: tuple[Domain, ...]) -> Domain:
    source, target, (domain,) = call.args[0].type, call.type, args
    if target.kind is Kind.DOUBLE and source.kind in _EXACT:
        return widened(domain, source, target)
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        made = widened(domain, source, target)
        return interval(made.lower, made.upper, nullable=domain.nullable or not domain.bounded, origin=domain.origin)
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
        low, high = (math.floor(e / DAY) if math.isfinite(e) else e for e in ends(domain, source))
        return span(low, high, target, args)
    if target.kind in _EXACT and source.kind in (*_EXACT, Kind.DOUBLE):
        return _to_exact(domain, source, target)
    return of_type(target)


def _to_exact(domain: Domain, source: Type, target: Type) -> Domain:
    """Rounded to the target's places; NULL where it does not fit, and for NaN."""
    low, high = ends(domain, source)
    fits = domain.bounded and not domain.nan and _fits(low, target) and _fits(high, target)
    sure = fits or (source.kind in _EXACT and _within(source, target))
    least, most = _placed(low, source, target, up=False), _placed(high, source, target, up=True)
    return interval(least, most, nullable=domain.nullable or not sure, origin=domain.origin)


def _placed(end: End, source: Type, target: Type, *, up: bool) -> Number | None:
    """Exact types round half away from zero, floats to an integer half to even, floats to a decimal somehow.

    A decimal without places counts as an integer, but its range is not that of so many bits: it is the same each way.
    """
    if math.isinf(end):
        return None
    if source.kind is Kind.DOUBLE:
        if target.scale:
            return grid(Fraction(end), target.scale, up=up)
        return round(end) if target.lower == -target.upper - 1 else math.ceil(end) if up else math.floor(end)
    scaled = Fraction(end) * 10**target.scale
    steps = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return grid(Fraction(steps, 10**target.scale), target.scale, up=up) if target.scale else steps


def _fits(end: End, target: Type) -> bool:
    return bool(target.lower <= Fraction(end) * 10**target.scale <= target.upper)


def _within(source: Type, target: Type) -> bool:
    """Does the whole hard range fit?"""
    if source.scale > target.scale:
        return False
    unit = int(10 ** (target.scale - source.scale))
    return target.lower <= source.lower * unit and source.upper * unit <= target.upper


RULES: dict[str, Rule] = {"cast": _cast}
