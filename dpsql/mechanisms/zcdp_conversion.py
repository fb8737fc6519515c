"""The tight conversion between zCDP and (ε, δ), rounded to the safe side.

**Theorem** (Canonne, Kamath and Steinke 2020). A ρ-zCDP mechanism is (ε, δ)-DP for every α > 1 with
    log δ ≥ (α−1)(αρ − ε + log(1−1/α)) − log α.
**Proof.** By `dpsql.mechanisms.textbook.rdp`, with the curve r(α) = ρ·α.
So each order α gives a valid bound, and the three functions below take the best one. The right side is convex
in α (its derivative (2α−1)ρ − ε + log(1−1/α) grows), hence at the best order the derivative vanishes;
eliminating the unknown between the two equations leaves one monotone equation in x = α−1.

Soundness does not rest on finding the best order: it is sought in floats, then the bound is evaluated at that
very order in 80 digits (`ln` and `exp` of `decimal` are correctly rounded) and moved to the safe side by more
than their error.

**Requires** that ρ, or δ, is what the ledger keeps: whole units, rounded up (`dpsql.budget.costs`).
**Checked by** `tests/unit/mechanisms/test_convert.py` (published values, brute force over orders, the exact δ of
Gaussian noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import UNIT, Number, exact, float_up, positive, probability, units_down

_DIGITS = 80
_ERROR = Decimal(10) ** -70


def rho_for(epsilon: Number, delta: Number) -> Fraction:
    """The largest ρ (a multiple of UNIT, rounded down) for which ρ-zCDP surely implies (ε, δ)-DP."""
    return _rho_for(positive(epsilon, "epsilon"), probability(delta))


def epsilon_for(rho: Number, delta: Number) -> float:
    """The least ε (rounded up) for which ρ-zCDP surely implies (ε, δ)-DP; zero where δ alone pays for it."""
    return _epsilon_for(_nonnegative(rho, "rho"), probability(delta))


def delta_for(rho: Number, epsilon: Number) -> float:
    """The least δ (rounded up) for which ρ-zCDP surely implies (ε, δ)-DP."""
    return _delta_for(_nonnegative(rho, "rho"), _nonnegative(epsilon, "epsilon"))


@lru_cache(maxsize=4096)
def _rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    e, log_delta = float(epsilon), math.log(delta)
    x = _root(lambda x: x * x * (e + math.log1p(1 / x)) / (2 * x + 1) + math.log1p(x) + log_delta)
    with localcontext(Context(prec=_DIGITS)):
        order, budget = x + 1, _decimal(epsilon)
        paid = _decimal(delta).ln() + order.ln()
        rho = (paid / x + budget + (order / x).ln()) / order
        rho -= _margin(x, budget, abs(paid))
    units = units_down(Fraction(rho))
    if units <= 0:
        raise ProgrammingError(f"epsilon {e!r} with delta {float(delta)!r} is too small to account for")
    return units * UNIT


@lru_cache(maxsize=4096)
def _epsilon_for(rho: Fraction, delta: Fraction) -> float:
    if rho == 0:
        return 0.0
    r, log_delta = float(rho), math.log(delta)
    x = _root(lambda x: x * x * r + math.log1p(x) + log_delta)
    with localcontext(Context(prec=_DIGITS)):
        order = x + 1
        paid = _decimal(delta).ln() + order.ln()
        epsilon = order * _decimal(rho) + (x / order).ln() - paid / x
        epsilon += _margin(x, order * _decimal(rho), abs(paid))
    return float_up(max(Fraction(epsilon), Fraction(0)))


@lru_cache(maxsize=4096)
def _delta_for(rho: Fraction, epsilon: Fraction) -> float:
    if rho == 0:
        return 0.0
    r, e = float(rho), float(epsilon)
    x = _root(lambda x: (2 * x + 1) * r - e - math.log1p(1 / x))
    with localcontext(Context(prec=_DIGITS)):
        order = x + 1
        rate = order * _decimal(rho) - _decimal(epsilon) + (x / order).ln()
        log_delta = x * rate - order.ln()
        log_delta += order * _margin(x, order * _decimal(rho), _decimal(epsilon))
        if log_delta < -740:
            return math.exp(-740)
        return min(1.0, float_up(Fraction(min(log_delta, Decimal(0)).exp() * (1 + _ERROR))))


def _root(increasing: Callable[[float], float]) -> Decimal:
    """About where the function crosses zero, by bisection over log x; exactly the float that was found."""
    low, high = -60.0, 100.0
    for _ in range(56):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(math.exp(middle)) < 0 else (low, middle)
    return Decimal(math.exp(low))


def _margin(x: Decimal, *terms: Decimal) -> Decimal:
    """More than the rounding of a handful of 80-digit operations on these terms, one of them divided by x."""
    return _ERROR * (1 + 1 / x) * (1 + sum(terms))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _nonnegative(value: Number, name: str) -> Fraction:
    return Fraction(0) if exact(value, name) == 0 else positive(value, name)
