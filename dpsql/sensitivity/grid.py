"""The public grid of an argument: the values among which one is chosen, known from the policy and the query alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from dpsql.bounds.domain import Domain, number, value_at
from dpsql.expressions.expression import Expression, Value
from dpsql.expressions.types import Kind
from dpsql.sensitivity.argument import Argument, summed
from dpsql.sensitivity.group_keys import on_type

MOST_CELLS = 2**16


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells in the order of their values: those that are listed, or equal intervals of whole steps.

    `argument` says how a number becomes whole steps; dates and timestamps count days and microseconds. A value beyond
    the ends falls into the first or last cell, one that is not listed into none.
    """

    expression: Expression
    domain: Domain
    values: tuple[Value, ...] | None = None
    argument: Argument | None = None
    lower: int = 0
    upper: int = 0
    width: int = 1

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self.values) if self.values is not None else (self.upper - self.lower) // self.width + 1

    @property
    def exact(self) -> bool:
        """Does each cell stand for one value?"""
        return self.values is not None or (self.width == 1 and self.expression.type.kind is not Kind.DOUBLE)

    def value(self, cell: int) -> Value:
        """What a cell is shown as: its value, or the middle of its interval."""
        if self.values is not None:
            return self.values[cell]
        first = self.lower + cell * self.width
        place = (first + min(self.upper, first + self.width - 1)) // 2
        type_ = self.expression.type
        if self.argument is None:
            return value_at(place, type_)
        exact = place * self.argument.grid
        if type_.kind is Kind.DECIMAL:
            return Decimal(round(exact * 10**type_.scale)).scaleb(-type_.scale)
        return int(exact) if type_.kind is Kind.INTEGER else float(exact)

    @property
    def step(self) -> Fraction:
        """The length of a cell, in the argument's own unit (days, microseconds)."""
        return self.width * (self.argument.grid if self.argument is not None else Fraction(1))


def make_grid(expression: Expression, domain: Domain) -> Grid | None:
    """The grid of an argument; None where neither values nor both bounds are known."""
    type_ = expression.type
    if domain.values is not None:
        held = {v for v in (on_type(v, type_) for v in domain.values if v is not None) if v is not None}
        listed = sorted(held, key=_place)
        return Grid(expression, domain, tuple(listed)) if 0 < len(listed) <= MOST_CELLS else None
    if domain.lower is None or domain.upper is None or not domain.bounded:
        return None
    if type_.temporal:
        low = ceil(domain.lower)
        return _spaced(expression, domain, None, low, max(low, floor(domain.upper)))
    if not type_.numeric:
        return None
    argument = summed(expression, domain)
    return _spaced(expression, domain, argument, argument.lower, argument.upper)


def _spaced(expression: Expression, domain: Domain, argument: Argument | None, lower: int, upper: int) -> Grid | None:
    """At most MOST_CELLS cells; None for dates that no calendar has."""
    made = Grid(expression, domain, None, argument, lower, upper, (upper - lower) // MOST_CELLS + 1)
    ends = (value_at(place, expression.type) for place in (lower, upper))
    return None if argument is None and None in ends else made


def _place(value: Value) -> tuple[object, ...]:
    """The order of SQL: text byte by byte, everything else on its axis."""
    return (value.encode(),) if isinstance(value, str) else (number(value),)
