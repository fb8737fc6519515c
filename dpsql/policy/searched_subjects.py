"""Subjects of private searches: the bounds of a column, or the number of rows of a unit that count."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from dpsql.policy.policy_values import Bound

UNSEARCHED = 2**20
"""How many rows of a unit count while that is being searched for: more than any sensible answer."""
SLACK = 4
"""By what factor bounds reach further than what was found, where vectors are clipped."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched for: the bounds of a column, or without one the rows of a unit in the table."""

    table: str
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.column else f"max_rows_per_unit of {self.table}"


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """What a search found: both bounds, or for rows per unit the upper one alone.

    `usual` is a value around which most values lie, and how far around.
    """

    lower: Bound | None
    upper: Bound
    usual: tuple[float, float] | None = field(default=None, compare=False)

    def wider(self) -> FoundBounds:
        """The same for numbers four times as far from zero, and from a quarter as far on: where vectors are clipped,
        noise does not grow with the bounds.

        A search does not see a few units beyond its bounds, and there is no need to move what they add.
        """
        low, high = self.lower, self.upper
        if not (isinstance(low, int | Decimal) and isinstance(high, int | Decimal)):
            return self
        return FoundBounds(_outwards(low, up=False), _outwards(high, up=True), self.usual)

    def __str__(self) -> str:
        return f"{self.upper}" if self.lower is None else f"{self.lower} to {self.upper}"


def _outwards(bound: int | Decimal, *, up: bool) -> int | Decimal:
    return bound * SLACK if (bound > 0) is up else Decimal(bound) / SLACK
