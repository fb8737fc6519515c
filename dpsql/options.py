"""The options of a query: its price, its mechanism, the accuracy that it needs, and how it is read and shown.

Every interface takes the same options. A new option is added here, to `QueryOptions` and to `QueryKeywords`, and is
then accepted by `Connection.query`, `explain` and all interfaces that pass options on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypedDict

from dpsql.errors import InterfaceError

Number = float | Decimal


_LONGEST_SHARE = 32


def read_share(text: object) -> Fraction:
    """A share of the budget as people write it: `2%` is a fiftieth. Above 0% and at most 100%."""
    written = text.strip() if isinstance(text, str) and len(text) <= _LONGEST_SHARE else ""
    try:
        percent = Decimal(written.removesuffix("%").strip())
    except InvalidOperation:
        percent = Decimal(0)
    if not written.endswith("%") or percent.is_nan() or not Decimal("1e-9") <= percent <= 100:
        raise InterfaceError(
            f"{str(text)[:_LONGEST_SHARE]!r} is not a share of the budget",
            hint='write a percentage above 0% and up to 100%, as in price="2%"',
        )
    return Fraction(percent) / 100


@dataclass(frozen=True, slots=True)
class Within:
    """The largest error that is acceptable: `amount` in either direction, with probability `confidence`, in each row.

    `Within(100)` is absolute; `Within("2%")` is relative to the value without noise. Like error bars, it is about the
    noise: what clamping and the bounds per unit cut off is not covered.
    """

    amount: float | Decimal | str
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.confidence, float) or not 0.5 <= self.confidence <= 0.9999:
            raise InterfaceError(
                f"confidence must be between 0.5 and 0.9999, got {self.confidence!r}", hint="write confidence=0.95"
            )
        if not 0 < self.size < float("inf"):
            raise InterfaceError(
                f"{self.amount!r} is not an accuracy",
                hint='write a positive number, as in Within(100) or Within("2%")',
            )

    @property
    def relative(self) -> bool:
        """Whether the amount is a percentage of the value."""
        return isinstance(self.amount, str) and self.amount.strip().endswith("%")

    @property
    def size(self) -> float:
        """The amount as a number, NaN if it is not one. A percentage is given as a fraction: 2% is 0.02."""
        text = str(self.amount).strip()
        try:
            number = Decimal("NaN") if isinstance(self.amount, bool) else Decimal(text.removesuffix("%"))
        except InvalidOperation:
            return float("nan")
        return float(number) / 100 if self.relative else float(number)

    def __str__(self) -> str:
        shown = f"{self.size:.4%}".rstrip("0%").rstrip(".") + "%" if self.relative else f"{self.size:.6g}"
        return f"± {shown} ({self.confidence * 100:g}%)"


Target = Within | float | Decimal | str
Accuracy = Target | Mapping[str, Target]
"""One target for all noisy columns, or a target for each named column."""


class QueryKeywords(TypedDict, total=False):
    """The options of a query as keyword arguments: `db.query(sql, epsilon=0.5)`."""

    epsilon: Number | None
    delta: Number | None
    mechanism: str | None
    dialect: str | None
    accuracy: Accuracy | None
    nonnegative: bool
    clipped: bool
    price: str | None


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The options of a query, or the settings of a session. An option that is not given keeps its default.

    price           what the whole query may cost, as a share of the analyst's budget: "2%"
    epsilon, delta  the same for experts: epsilon in place of the share; delta is for private group keys too
    mechanism       "laplace", "gaussian" or "auto"
    dialect         the SQL that the query is written in: "duckdb" or "postgres"
    accuracy        the error that is acceptable; the query then costs the least that achieves it, and at most the price
    nonnegative     show counts below zero as zero
    clipped         spend part of the price on measuring how much the bounds cut off
    """

    epsilon: Number | None = None
    delta: Number | None = None
    mechanism: str | None = None
    dialect: str | None = None
    accuracy: Accuracy | None = None
    nonnegative: bool = False
    clipped: bool = False
    price: str | None = None

    def over(self, other: QueryOptions) -> QueryOptions:
        """These options; those that are not given here are taken from `other`.

        A price that is given here, as a share or as epsilon, replaces that of `other`, whichever way it is given.
        """
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not f.default}
        priced = given.keys() & {"price", "epsilon"}
        return replace(replace(other, price=None, epsilon=None) if priced else other, **given)
