"""Rényi differential privacy: a guarantee for every order α > 1, of which zCDP is the straight line r(α) = ρ·α.

**Definition** (Mironov 2017). M has the curve r if D_α(M(D)‖M(D')) ≤ r(α) for all neighbours. Curves add up under
composition, adaptive too, and post-processing keeps them. ρ-zCDP is the curve ρ·α, and a curve is ρ-zCDP with ρ = sup
r(α)/α.
**Theorem** (Canonne, Kamath and Steinke 2020). A curve gives (ε, δ)-DP, for each order, with
ε = r(α) + log(1−1/α) − (log δ + log α)/(α−1).
**Proof.** By definition of r, E[e^((α−1)·loss)] ≤ e^((α−1)·r(α)). For every loss x, (1 − e^(ε−x))₊ is at most
e^((α−1)(x−ε))·(1−1/α)^(α−1)/α: put y = x − ε, and maximise (1 − e^(−y))·e^(−(α−1)y), whose maximum is at
e^(−y) = 1 − 1/α. The mean of the left side is the δ at ε; solve for ε.
Here orders are tried one by one, in floats, to show and to compare: no charge is made from these numbers. The
ledger's conversion of zCDP, with proved rounding, is in `convert.py`.
**Requires** a curve that holds for all neighbours in both orders.
**Checked by** `tests/unit/mechanisms/test_laws.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import Number, exact, positive, probability

Curve = Callable[[float], float]
"""The divergence that is allowed at an order α > 1."""

ORDERS = tuple(1 + 2 ** (i / 16) for i in range(-160, 225))
"""From just above 1 to 16,385, each distance from 1 larger than the last by 4%."""


def zcdp_curve(rho: Number) -> Curve:
    """The curve of ρ-zCDP; Gaussian noise has it, with ρ = Δ²/2σ²."""
    rate = float(positive(rho, "rho"))
    return lambda order: rate * order


def pure_curve(epsilon: Number) -> Curve:
    """The curve of ε-DP: that of randomized response, which is the worst of all (Kairouz, Oh and Viswanath 2015).

    Log of p^α·q^(1−α) + q^α·p^(1−α), over α − 1, with p = e^ε/(1+e^ε) and q = 1 − p.
    """
    rate = float(positive(epsilon, "epsilon"))
    truth = -math.log1p(math.exp(-rate))

    def curve(order: float) -> float:
        likely, rare = truth + (order - 1) * rate, truth - order * rate
        return (likely + math.log1p(math.exp(rare - likely))) / (order - 1)

    return curve


def together(*curves: Curve) -> Curve:
    """The curve of several releases about the same people."""
    return lambda order: math.fsum(curve(order) for curve in curves)


def repeated(curve: Curve, k: int) -> Curve:
    """The curve of k releases with one curve."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ProgrammingError(f"a number of releases is at least 1, not {k!r}")
    return lambda order: k * curve(order)


def curve_epsilon(curve: Curve, delta: Number) -> float:
    """About the least ε that the curve gives with this δ."""
    chance = math.log(float(probability(delta)))
    return max(0.0, min(_epsilon(curve, order, chance) for order in ORDERS))


def curve_delta(curve: Curve, epsilon: Number) -> float:
    """About the least δ that the curve gives with this ε."""
    rate = float(exact(epsilon, "epsilon"))
    logs = ((a - 1) * (curve(a) - rate + math.log1p(-1 / a)) - math.log(a) for a in ORDERS)
    return math.exp(min(0.0, *logs))


def curve_rho(curve: Curve) -> float:
    """About the least ρ for which the curve is ρ-zCDP: its steepest slope from the origin, over the orders tried."""
    return max(curve(order) / order for order in ORDERS)


def _epsilon(curve: Curve, order: float, log_delta: float) -> float:
    return curve(order) + math.log1p(-1 / order) - (log_delta + math.log(order)) / (order - 1)
