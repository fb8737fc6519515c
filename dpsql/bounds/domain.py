"""What is known of an expression's values: an interval, or a finite set, NULL and NaN, and where that came from.

The contract of every rule in this package:
1. The ends are closed. `None` is unbounded. Unknown is unbounded, never a guess.
2. Dates count days since 1970-01-01, timestamps microseconds, booleans are 0 and 1.
3. A domain holds for rows that obey the policy. It is not trusted: the emitted SQL clamps to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.expressions.expression import Call, Column, Expression, Value
from dpsql.expressions.types import Kind, Type

Number = int | float | Decimal

LARGEST = 2**900

EPOCH_DAY = date(1970, 1, 1)

EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Domain:
    """An interval (and, where finite and known, the values themselves) with its origins, for people."""

    lower: Number | None = None
    upper: Number | None = None
    values: tuple[Value, ...] | None = None
    nullable: bool = True
    nan: bool = False
    origin: tuple[str, ...] = ()

    @property
    def bounded(self) -> bool:
        """Are both ends known, and so far from the largest float that no total leaves its range?"""
        return self.lower is not None and self.upper is not None and max(-self.lower, self.upper) <= LARGEST

    @property
    def empty(self) -> bool:
        """Whether no value but NULL is possible."""
        return self.values == () and not self.nan

    @property
    def impossible(self) -> bool:
        """Whether not even NULL is possible, so that no row gets here."""
        return self.empty and not self.nullable

    def because(self, *origin: str) -> Domain:
        """The same with further origins, each named once."""
        return replace(self, origin=tuple(dict.fromkeys((*self.origin, *origin))))


UNKNOWN = Domain(nan=True)

ONLY_NULL = Domain(values=())


def interval(
    lower: Number | None, upper: Number | None, *, nullable: bool = True, nan: bool = False, origin: Iterable[str] = ()
) -> Domain:
    """An interval; an infinite end is unbounded, ends the wrong way round mean an empty set, kept as one point."""
    low = None if lower is None or math.isnan(lower) or math.isinf(lower) else lower
    high = None if upper is None or math.isnan(upper) or math.isinf(upper) else upper
    if low is not None and high is not None and low > high:
        high = low
    return Domain(low, high, None, nullable, nan, tuple(dict.fromkeys(origin)))


def finite(values: Iterable[Value], type_: Type, *, nullable: bool, origin: Iterable[str] = ()) -> Domain:
    """A finite set, in the order given; numbers and dates get their interval too."""
    distinct = tuple(dict.fromkeys(values))
    ends = [number(v) for v in distinct] if type_.kind not in (Kind.TEXT, Kind.NULL) and distinct else []
    low, high = (min(ends), max(ends)) if ends else (None, None)
    return Domain(low, high, distinct, nullable, False, tuple(dict.fromkeys(origin)))


def number(value: Value) -> Number:
    """The position of a value on its kind's axis (contract 2)."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH_DAY).days
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | Decimal):
        return value
    raise TypeError(f"no axis for {type(value).__name__}")


def value_at(position: Number, type_: Type) -> Value:
    """The inverse of `number` for whole positions; None if it lies outside the calendar."""
    try:
        if type_.kind is Kind.DATE:
            return EPOCH_DAY + timedelta(days=int(position))
        if type_.kind is Kind.TIMESTAMP:
            return EPOCH + timedelta(microseconds=int(position))
    except OverflowError:
        return None
    return bool(position) if type_.kind is Kind.BOOLEAN else position


def union(domains: Iterable[Domain]) -> Domain:
    """What holds for a value that comes from any one of the domains."""
    every = list(domains)
    parts = [d for d in every if not d.empty]
    lows, highs = [d.lower for d in parts], [d.upper for d in parts]
    values: tuple[Value, ...] | None = None
    if all(d.values is not None for d in parts):
        values = tuple(dict.fromkeys(v for d in parts for v in d.values or ()))
    return Domain(
        None if None in lows or not lows else min(x for x in lows if x is not None),
        None if None in highs or not highs else max(x for x in highs if x is not None),
        values, any(d.nullable for d in every), any(d.nan for d in every),
        tuple(dict.fromkeys(o for d in every for o in d.origin)),
    )  # fmt: skip


def intersect(one: Domain, two: Domain) -> Domain:
    """What holds for a value that is in both; `two` is the later knowledge, its origin is kept if it narrowed."""
    low = two.lower if one.lower is None else one.lower if two.lower is None else max(one.lower, two.lower)
    high = two.upper if one.upper is None else one.upper if two.upper is None else min(one.upper, two.upper)
    if low is not None and high is not None and low > high:
        high = low
    values = two.values if one.values is None else one.values
    if one.values is not None and two.values is not None:
        other = frozenset(two.values)
        values = tuple(v for v in one.values if v in other)
    unchanged = values is one.values and (low, high) == (one.lower, one.upper)
    if values and not unchanged and not isinstance(values[0], str):
        values = tuple(v for v in values if _within(number(v), low, high))
        if values:
            low, high = min(map(number, values)), max(map(number, values))
    narrowed = (low, high, values) != (one.lower, one.upper, one.values)
    origin = tuple(dict.fromkeys((*one.origin, *two.origin))) if narrowed else one.origin
    return Domain(low, high, values, one.nullable and two.nullable, one.nan and two.nan, origin)


def _within(x: Number, low: Number | None, high: Number | None) -> bool:
    return (low is None or x >= low) and (high is None or x <= high)


def of_type(type_: Type) -> Domain:
    """The domain of the type alone: only booleans are finite, and only small integers get a useful range."""
    if type_.kind is Kind.BOOLEAN:
        return finite((False, True), type_, nullable=True, origin=("type boolean",))
    if type_.kind in (Kind.INTEGER, Kind.DECIMAL) and type_.upper - type_.lower < 2**16:
        unit = Decimal(1).scaleb(-type_.scale) if type_.scale else 1
        return interval(type_.lower * unit, type_.upper * unit, origin=(f"type {type_}",))
    return Domain(nan=type_.kind is Kind.DOUBLE)


Rule = Callable[[Call, tuple[Domain, ...]], Domain]


# what is known of one row ---------------------------------------------------------------------------------------------
# What is known of one row: the domain of each column, and of each expression that a predicate restricts.


@dataclass(frozen=True, slots=True)
class RowDomains:
    """An immutable environment; every change gives a new one."""

    columns: Mapping[str, Domain] = field(default_factory=dict)
    refinements: Mapping[Expression, Domain] = field(default_factory=dict)

    def column(self, node: Column) -> Domain:
        """The domain of a column; a column that was never described is known by its type only."""
        return self.columns.get(node.name, of_type(node.type))

    def with_column(self, name: str, domain: Domain) -> RowDomains:
        """The same row with other knowledge of one column."""
        return RowDomains({**self.columns, name: domain}, self.refinements)

    def refined(self, expression: Expression, domain: Domain) -> RowDomains:
        """The same row, where the expression is known to lie in the domain as well."""
        if isinstance(expression, Column):
            return self.with_column(expression.name, intersect(self.column(expression), domain))
        before = self.refinements.get(expression)
        now = domain if before is None else intersect(before, domain)
        return RowDomains(self.columns, {**self.refinements, expression: now})

    def sharpen(self, expression: Expression, domain: Domain) -> Domain:
        """The inferred domain of an expression, intersected with what predicates imply."""
        said = self.refinements.get(expression)
        return domain if said is None else intersect(domain, said)

    @property
    def impossible(self) -> bool:
        """Whether no such row can exist."""
        return any(d.impossible for d in (*self.columns.values(), *self.refinements.values()))


def either(before: RowDomains, one: RowDomains, two: RowDomains) -> RowDomains:
    """What holds for a row of which one of two things became known; values stay in the order they had before.

    An expression that only one of them restricts is dropped.
    """
    if one.impossible or two.impossible:
        return two if one.impossible else one
    columns = {
        name: _in_order(union((domain, two.columns[name])), before.columns.get(name))
        for name, domain in one.columns.items() if name in two.columns
    }  # fmt: skip
    spoken = [e for e in one.refinements if e in two.refinements]
    return RowDomains(columns, {e: union((one.refinements[e], two.refinements[e])) for e in spoken})


def _in_order(domain: Domain, before: Domain | None) -> Domain:
    if domain.values is None or before is None or before.values is None:
        return domain
    kept = frozenset(domain.values)
    return replace(domain, values=tuple(v for v in before.values if v in kept))


# the ends of intervals as numbers -------------------------------------------------------------------------------------
# The ends of intervals as numbers one can compute with: exact where the type is exact, floats where it is DOUBLE.
#
# Rounding to nearest is monotone, so float operations on the ends enclose float operations on values between them.


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
    """The same without bounds."""
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
