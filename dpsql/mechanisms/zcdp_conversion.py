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
from decimal import MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import UNIT, Number, exact, float_up, positive, probability, units_down, units_up

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


# what pure mechanisms cost in zCDP ------------------------------------------------------------------------------------


def pure_rho(epsilon: Number) -> Fraction:
    """ε·tanh(ε/2), rounded up: the zCDP price of any ε-DP mechanism.

    It is the price of one step of discrete Laplace, whose loss takes only the values ±ε, as in randomized
    response.
    """
    return laplace_rho(1, 1 / positive(epsilon, "epsilon"))


@lru_cache(maxsize=4096)
def laplace_rho(l1: int, scale: Fraction) -> Fraction:
    """The zCDP price of discrete Laplace noise on an integer vector with an L1 bound, rounded up to a UNIT.

    Noise Z with P[Z = z] ∝ q^|z|, q = exp(−1/scale), is added to each coordinate, independently.

    **Theorem.** If neighbours differ by at most l1 in L1, this is ρ-zCDP with
        ρ = (E|Z−l1| − E|Z|)/scale = (l1 − 2q(1−q^l1)/(1−q²))/scale,
    the KL divergence of a shift of one coordinate by l1, and no smaller ρ will do.

    **Proof.** *One coordinate, a shift of d.* Let P, Q be the two laws, u = α−½ and M(u) = Σ
    √(PQ)·exp(u·log(P/Q)), so that (α−1)·D_α(P‖Q) = log M(u) and M(½) = 1. Left of both centres and right of
    both the loss is ±d/scale, between them it falls by 2/scale a step; with w = exp(2u/scale) and a constant
    C,
        M(u) = C·w^(−d/2)·p(w),  p(w) = 1 + w^d + (1−q)(w + … + w^(d−1)),  (w−1)·p(w) = w^d·(w−q) − (1−qw).
    So a zero of p has w^d·(w−q)/(1−qw) = 1. The left side is a Blaschke product: its modulus is below 1
    inside the unit circle and above 1 outside, so all d zeros lie on the circle. p is real and p(1) > 0: the
    zeros are −1 or come in pairs exp(±iθ), 0 < θ ≤ π, and M(u) is a constant times factors cosh(u/scale) and
    cosh(2u/scale) − cos θ. By Euler's product each of these is a constant times factors 1 + u²/b². Hence log
    M is concave as a function of t = u² and lies below its tangent at t = ¼:
        (α−1)·D_α = log M ≤ (t−¼)·(d log M/dt at ¼) = α(α−1)·K(d),
    where the slope is K(d) = KL(P‖Q), as D_α → KL for α → 1. Because log(P/Q) = (|z−d|−|z|)/scale, K(d) =
    (E|Z−d| − E|Z|)/scale, and adding up E|Z−j−1| − E|Z−j| = 1 − 2·P[Z > j] = 1 − 2q^(j+1)/(1+q) gives the
    formula.
    *A vector.* Divergences of independent coordinates add up: the price is Σ K(|dᵢ|). K is convex (a mean of
    convex functions) and K(0) = 0, so Σ K(|dᵢ|) ≤ K(Σ|dᵢ|) ≤ K(l1). The bound is tight because K(l1) is the
    limit α → 1 of one coordinate. ∎

    K(d) never exceeds ε·tanh(ε/2) at ε = d/scale, the price of every ε-DP mechanism, and meets it at d = 1.

    **Requires** integer data, an L1 bound in the same steps as the scale, noise of exactly this law.
    **Checked by** tests/unit/mechanisms/test_price.py: numeric Rényi divergences over many orders, scales and
    vectors.

    >>> [round(float(laplace_rho(steps, Fraction(steps))), 4) for steps in (1, 2, 50)]
    [0.4621, 0.3935, 0.3679]
    """
    if l1 < 1 or int(l1) != l1 or scale <= 0:
        raise ProgrammingError(f"no Laplace noise: a sensitivity of {l1!r} steps, a scale of {scale!r}")
    positive(l1 / scale, "epsilon")
    with localcontext(Context(prec=_digits(l1, scale), Emin=MIN_EMIN)):
        rate = Decimal(scale.denominator) / Decimal(scale.numerator)
        q = (-rate).exp()
        correction = 2 * q * (1 - (-rate * l1).exp()) / (1 - q * q)
        rho = (l1 - correction) * rate + Decimal(10) ** -50
    return units_up(Fraction(rho)) * UNIT


def _digits(l1: int, scale: Fraction) -> int:
    """Enough that the result is off by far less than 1e-50.

    1 − q² is at least about 1/scale, so a rounding by 10^−d moves the correction by a few 10^−d·scale·(1 + l1), and
    the price by a few 10^−d·(1/scale + 1)·(1 + l1); l1/scale, an ε, is at most 10^12.
    """
    return 100 + len(str(l1)) + len(str(math.ceil(scale)))
