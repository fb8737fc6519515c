"""What a predicate implies for a row, in three-valued logic.

A condition that holds is TRUE. One that did not hold is FALSE *or NULL*, so it says nothing against NULL, and nothing
at all where its other side may have been NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from dpsql.bounds import calendar
from dpsql.bounds.constant_folding import as_type
from dpsql.bounds.domain import (
    DAY,
    ONLY_NULL,
    Domain,
    Number,
    RowDomains,
    either,
    ends,
    finite,
    intersect,
    number,
    to_float,
    value_at,
)
from dpsql.bounds.logic import can
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.types import BOOLEAN, DOUBLE, TIMESTAMP, Kind, Type

# what a comparison leaves to one side ---------------------------------------------------------------------------------
# The domain that a comparison leaves to one of its sides.
#
# Whole numbers, dates and decimals lie on a grid: `x < 6` means `x <= 5`. Where the engine compares an exact number as
# DOUBLE, it rounds first, and the bound gets a margin.


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


Infer = Callable[[Expression, RowDomains], Domain]

MOST_TRIED = 1_000


@dataclass(frozen=True, slots=True)
class Truth:
    """The condition is `value`, or perhaps NULL."""

    value: bool
    or_null: bool

    def __invert__(self) -> Truth:
        return Truth(not self.value, self.or_null)

    def admits(self, domain: Domain) -> bool:
        """Whether a condition with that domain can have that truth value."""
        return can(domain, self.value) or (self.or_null and domain.nullable)


def narrowed(known: RowDomains, condition: Expression, truth: Truth, infer: Infer, clause: str) -> RowDomains:
    """The row, given that the condition has that truth value."""
    if known.impossible:
        return known
    match condition:
        case Call(op="not", args=(inner,)):
            return narrowed(known, inner, ~truth, infer, clause)
        case Call(op="and" | "or", args=(one, two)):
            first = narrowed(known, one, truth, infer, clause)
            if (condition.op == "and") == truth.value:
                return narrowed(first, two, truth, infer, clause)
            return either(known, first, narrowed(known, two, truth, infer, clause))
        case Call(op="is_not_distinct" | "is_distinct", args=(inner, Literal(value=bool(wanted)))):
            same = (condition.op == "is_not_distinct") == truth.value
            return narrowed(known, inner, Truth(wanted == same, or_null=not same), infer, clause)
    origin = f"{clause} {describe(condition)}" if truth.value else f"{clause} NOT ({describe(condition)})"
    for expression, domain in _facts(known, condition, truth, infer):
        known = _refined(known, expression, domain.because(origin))
    return _tried(known, condition, truth, infer, origin)


def _refined(known: RowDomains, expression: Expression, domain: Domain) -> RowDomains:
    """Refine the expression, and what it is made of where the operation can be turned round."""
    known = known.refined(expression, domain)
    below = inverted(expression, domain)
    return known if below is None else _refined(known, below[0], below[1])


def _facts(known: RowDomains, condition: Expression, truth: Truth, infer: Infer) -> Iterator[tuple[Expression, Domain]]:
    """What follows for the operands of one comparison."""
    match condition:
        case Column():
            yield condition, finite((truth.value,), BOOLEAN, nullable=truth.or_null)
        case Call(op="eq" | "ne" | "lt" | "le" | "gt" | "ge", args=(one, two)):
            op = condition.op if truth.value else NEGATED[condition.op]
            yield from _compared(known, op, one, two, truth.or_null, infer)
            yield from _compared(known, SWAPPED[op], two, one, truth.or_null, infer)
        case Call(op="is_not_distinct" | "is_distinct", args=(one, two)):
            same = (condition.op == "is_not_distinct") == truth.value
            yield from _matched(known, same, one, two, infer)
            yield from _matched(known, same, two, one, infer)
        case Call(op="in", args=(it, *listed)) if truth.value and not (truth.or_null and any(_null(x) for x in listed)):
            domains = [infer(x, known) for x in listed]
            if all(
                d.values is not None and (x.type.kind is it.type.kind or _null(x))
                for d, x in zip(domains, listed, strict=True)
            ):
                values = [v for d in domains for v in d.values or ()]
                yield it, finite(values, it.type, nullable=truth.or_null)
        case Call(op="is_null", args=(it,)):
            yield it, ONLY_NULL if truth.value else Domain(nullable=False, nan=True)
        case Call(op="isnan", args=(it,)) if not truth.value:
            yield it, Domain(nullable=truth.or_null, nan=False)


def _null(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None


def _compared(
    known: RowDomains, op: str, one: Expression, two: Expression, or_null: bool, infer: Infer
) -> Iterator[tuple[Expression, Domain]]:
    """What `one op two` implies for `one`. A date compared with a timestamp is NULL where no timestamp represents
    it.
    """
    other = infer(two, known)
    unread = one.type.temporal and one.type != two.type
    if isinstance(one, Literal) or other.empty or (or_null and (other.nullable or unread)):
        return
    made = excluded(one, infer(one, known), two, other) if op == "ne" else limited(op, one, two, other)
    yield one, replace(made, nullable=or_null)


def _matched(
    known: RowDomains, same: bool, one: Expression, two: Expression, infer: Infer
) -> Iterator[tuple[Expression, Domain]]:
    other = infer(two, known)
    if isinstance(one, Literal) or other.empty:
        return
    if same:
        yield one, replace(limited("eq", one, two, other), nullable=other.nullable)
    elif not other.nullable:
        yield one, excluded(one, infer(one, known), two, other)


def _tried(known: RowDomains, condition: Expression, truth: Truth, infer: Infer, origin: str) -> RowDomains:
    """Put NULL, and each of finitely many values, for each column; keep those with which the condition can hold.

    Two compared columns have already exchanged their bounds, and their lists of values if they are equal.
    """
    match condition:
        case Call(op="eq" | "ne" | "lt" | "le" | "gt" | "ge", args=(Column(), Column())):
            if truth == Truth(True, or_null=False):
                return known

    def possible(name: str, domain: Domain) -> bool:
        return truth.admits(infer(condition, known.with_column(name, domain)))

    for column in {n.name: n for n in condition.walk() if isinstance(n, Column)}.values():
        domain = known.column(column)
        if domain.nullable and not possible(column.name, ONLY_NULL):
            domain = replace(domain, nullable=False)
        if domain.values is not None and not domain.nan and len(domain.values) <= MOST_TRIED:
            points = (finite((v,), column.type, nullable=False) for v in domain.values)
            kept = tuple(v for v, point in zip(domain.values, points, strict=True) if possible(column.name, point))
            if kept != domain.values:
                domain = intersect(domain, Domain(values=kept, nullable=domain.nullable, origin=(origin,)))
        known = known.with_column(column.name, domain)
    return known


LONGEST = 60


def describe(expression: Expression) -> str:
    """The expression in SQL's own signs, cut where it is long."""
    text = str(expression)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# from a function's value to its operand -------------------------------------------------------------------------------
# From what is known of a function's value to what follows for its operand: `year(d) = 2024` bounds `d`.


def inverted(expression: Expression, domain: Domain) -> tuple[Expression, Domain] | None:
    """The operand and its domain; None where nothing follows.

    Only for a value that is not NULL: what these functions make NULL of is not known.
    """
    if not isinstance(expression, Call) or domain.nullable:
        return None
    match expression:
        case Call(op="part", option="year", args=(moment,)):
            return moment, _between(_new_year(domain.lower, 0), _new_year(domain.upper, 1), moment.type, domain)
        case Call(op="date_trunc", option=str(unit), args=(moment,)):
            return moment, _between(domain.lower, _next_period(domain.upper, unit), moment.type, domain)
        case Call(op="cast", args=(moment,)) if moment.type.temporal and expression.type.kind is Kind.TIMESTAMP:
            after = None if domain.upper is None else domain.upper + 1
            return moment, _between(domain.lower, after, moment.type, domain)
        case Call(op="add" | "sub", args=(one, Literal(value=int(amount)))) if expression.type.kind is Kind.INTEGER:
            return one, _moved(domain, -amount if expression.op == "add" else amount)
    return None


def _between(first: Number | None, after: Number | None, type_: Type, like: Domain) -> Domain:
    """From `first` to just before `after`, both in microseconds, on the axis of the operand."""
    step = DAY if type_.kind is Kind.DATE else 1
    low, high = (None if end is None else -(-int(end) // step) for end in (first, after))
    return Domain(low, None if high is None else high - 1, nullable=False, origin=like.origin)


def _new_year(year: Number | None, later: int) -> Number | None:
    if year is None or not 1 <= year + later <= 9999:
        return None
    return number(datetime(int(year) + later, 1, 1))


def _next_period(end: Number | None, unit: str) -> Number | None:
    moment = None if end is None else value_at(end, TIMESTAMP)
    if not isinstance(moment, datetime):
        return None
    try:
        return number(calendar.following(calendar.truncated(moment, unit), unit))
    except (OverflowError, ValueError):
        return None


def _moved(domain: Domain, amount: int) -> Domain:
    low = None if domain.lower is None else int(domain.lower) + amount
    high = None if domain.upper is None else int(domain.upper) + amount
    return Domain(low, high, nullable=False, origin=domain.origin)
