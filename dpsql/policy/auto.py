"""What a policy may leave to a private search: the bounds of a column, and how many rows of a unit count."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.policy.scalars import Bound

UNSEARCHED = 2**20
"""How many rows of a unit count while that is being searched for: more than any sensible answer."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched for: the bounds of a column, or without one the rows of a unit in the table."""

    table: str
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.column else f"max_rows_per_unit of {self.table}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: both bounds, or for rows per unit the upper one alone."""

    lower: Bound | None
    upper: Bound

    def __str__(self) -> str:
        return f"{self.upper}" if self.lower is None else f"{self.lower} to {self.upper}"
