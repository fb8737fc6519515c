"""From what is known of a function's value to what follows for its operand: `year(d) = 2024` bounds `d`."""

from __future__ import annotations

from datetime import datetime

from dpsql.bounds import calendar
from dpsql.bounds.domain import Domain, Number, number, value_at
from dpsql.bounds.endpoints import DAY
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import TIMESTAMP, Kind, Type


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
