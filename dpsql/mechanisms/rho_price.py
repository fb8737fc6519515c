"""What pure mechanisms cost in zCDP."""

from __future__ import annotations

import math
from decimal import MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import UNIT, Number, positive, units_up


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
