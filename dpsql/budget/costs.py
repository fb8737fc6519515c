"""Costs: the integer charges that the accountant adds up, and the epsilon, delta and rho that people see."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import Number, exact, positive, probability, units_up
from dpsql.mechanisms.zcdp_conversion import pure_rho


@dataclass(frozen=True, slots=True)
class Charge:
    """A δ-approximate ρ-zCDP event, in whole UNITs; `epsilon` is set where it is also pure ε-DP.

    Build one with `zcdp_charge` or `pure_charge`, which round up. A free event is not an event: ρ is at least
    one UNIT.
    """

    rho: int
    delta: int = 0
    epsilon: int | None = None

    def __post_init__(self) -> None:
        if not (_whole(self.rho) and self.rho > 0 and _whole(self.delta) and self.delta >= 0):
            raise ProgrammingError(f"not a cost: {self!r}")
        if self.epsilon is not None and not (_whole(self.epsilon) and self.epsilon > 0 and self.delta == 0):
            raise ProgrammingError(f"not the cost of a pure event: {self!r}")

    def __add__(self, other: Charge) -> Charge:
        """The cost of both events together; pure only if both are."""
        pure = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Charge(self.rho + other.rho, self.delta + other.delta, pure)


def zcdp_charge(rho: Number, delta: Number = 0) -> Charge:
    """The charge of a δ-approximate ρ-zCDP event, such as Gaussian noise, with δ for a threshold.

    >>> zcdp_charge(0.5, 1e-8).delta == 10**32
    True
    """
    slack = Fraction(0) if exact(delta, "delta") == 0 else probability(delta)
    return Charge(units_up(positive(rho, "rho")), units_up(slack))


def pure_charge(epsilon: Number, rho: Number | None = None) -> Charge:
    """The charge of an ε-DP event; ρ is its price in zCDP, where a better one than `pure_rho` is known."""
    price = pure_rho(epsilon) if rho is None else positive(rho, "rho")
    return Charge(units_up(price), 0, units_up(positive(epsilon, "epsilon")))


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost, or a budget, as people see it. Nothing is admitted by these floats.

    `share` is the part of the payer's budget, by which costs add up, where there is a payer; 0.01 is 1%.
    """

    epsilon: float
    delta: float
    rho: float
    share: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if any(math.isnan(part) or part < 0 for part in (self.epsilon, self.delta, self.rho)):
            raise ProgrammingError(f"not a cost: {self!r}")

    def __str__(self) -> str:
        return self.details if self.share is None else share_text(self.share)

    @property
    def details(self) -> str:
        """In ε, δ and ρ."""
        parts = [f"ε = {self.epsilon:.4g}"]
        if self.delta:
            parts.append(f"δ = {self.delta:.3g}")
        if self.rho:
            parts.append(f"ρ = {self.rho:.4g}")
        return ", ".join(parts)


FREE = Cost(0.0, 0.0, 0.0)
"""The cost of a replay."""


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


DUST = 1e-5
"""The part of a spent budget that rounding can leave: it can be asked for, and buys nothing."""


# shares as people see them -----------------------------------------------------------------------------------------


def share_text(share: Number) -> str:
    """A cost as a percentage, rounded to the nearest hundredth; what is smaller in two digits."""
    return _percent(share, ROUND_HALF_EVEN)


def share_down(share: Number) -> str:
    """What is left, rounded down: it can be asked for."""
    return _percent(share, ROUND_FLOOR)


def share_spent(share: Number) -> str:
    """What is spent, in hundredths, rounded up: with `share_left` it adds up to 100%."""
    return f"{_hundredths(_exact_percent(share), ROUND_CEILING):f}%"


def share_left(spent: Number) -> str:
    """What is left when so much is spent, in hundredths, rounded down."""
    return f"{_hundredths(max(Decimal(0), 100 - _exact_percent(spent)), ROUND_FLOOR):f}%"


def _percent(share: Number, rounding: str) -> str:
    percent = _exact_percent(share)
    if 0 < percent < Decimal("0.1"):
        return f"{Context(prec=2, rounding=rounding).create_decimal(percent):f}%"
    return f"{_hundredths(percent, rounding):f}%"


def _exact_percent(share: Number) -> Decimal:
    return Decimal(exact(share).numerator * 100) / Decimal(exact(share).denominator)


def _hundredths(percent: Decimal, rounding: str) -> Decimal:
    return percent.quantize(Decimal("0.01"), rounding)
