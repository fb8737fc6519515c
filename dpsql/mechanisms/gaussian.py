"""The discrete Gaussian law: zero-concentrated differential privacy for integer vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.mechanisms.discrete_noise import DiscreteLaplace, Noise, check_scale, finest
from dpsql.mechanisms.sampler import bernoulli_exp_fraction, geometric

LIMIT = 2**24
_LARGEST_EXPONENT = 800
_SUMMED_BELOW = 512
_CLOSED_FORM_FROM = 3


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Noise):
    """P[Z = z] ∝ exp(−z²/(2·scale²)), scale = σ = a/s with a < 2**24 and s <= 2**20 a power of two.

    **Theorem.** Adding independent draws to an integer vector of L2 sensitivity l2 is l2²/(2σ²)-zCDP.
    **Proof.** The Rényi divergence of order α between the law and its shift by an integer d is at most
    αd²/(2σ²), and it adds up over coordinates (Canonne, Kamath and Steinke 2020).
    **Requires** integer inputs, an l2 in the steps of σ, and draws that follow the law exactly (see `propose`).
    **Checked by** `tests/unit/mechanisms/test_gaussian_noise.py`, and goodness-of-fit tests in `test_noise.py` that
    accept the right scale and reject 0.8 and 1.25 times it.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        check_scale(self.scale, LIMIT)

    @classmethod
    def for_rho(cls, l2: int | Fraction, rho: Fraction) -> DiscreteGaussian:
        """The smallest representable sigma that makes l2 cost at most rho."""
        if l2 <= 0 or rho <= 0:
            raise InternalError("Gaussian noise needs a positive sensitivity and a positive rho")
        square = Fraction(l2) ** 2 / (2 * rho)
        return cls(finest(lambda s: _root_up(square * s**2), LIMIT))

    def rho(self, l2: int | Fraction) -> Fraction:
        """The exact cost of releasing a vector of L2 sensitivity l2."""
        return l2**2 / (2 * self.scale**2)

    def propose(self, n: int) -> NDArray[np.int64]:
        """Independent exact draws from n proposals of the discrete Laplace law of the same scale.

        **Theorem.** The law is exact.
        **Proof.** A proposal y has probability ∝ exp(−|y|/σ) and is kept with probability
        exp(−(|y| − σ)²/(2σ²)); the product is exp(−1/2)·exp(−y²/(2σ²)). `_accept` decides exactly, for
        every y that can be proposed: none is cut off.
        **Requires** proposals that are exactly discrete Laplace of this scale (`dpsql.mechanisms.discrete_noise`).
        **Checked by** `tests/unit/mechanisms/test_gaussian_noise.py`.
        """
        a, s = self.scale.as_integer_ratio()
        proposed = DiscreteLaplace(self.scale).propose(n)
        return proposed[_accept(np.abs(s * np.abs(proposed) - a), a)]

    def survival(self, x: int) -> float:
        """P[Z >= x]: a sum for small sigma, the Euler–Maclaurin formula for large, symmetry for x <= 0.

        erfc magnifies the relative error of its argument z, at most 1.5·2**-53, by 2z² + 1 < 1500.
        """
        if x <= 0:
            return 1 - self.survival(1 - x)
        sigma = float(self.scale)
        if sigma < _SUMMED_BELOW:
            k = np.arange(math.ceil(10 * sigma) + 1, dtype=np.float64)
            terms = np.exp(-k * (2.0 * min(x, 2**60) + k) / (2 * sigma * sigma))
            return self._density(x) * (float(terms.sum()) / self._total())
        z = math.sqrt(self._exponent(x))
        ends = self._density(x) * _euler_maclaurin(z * math.sqrt(2), sigma)
        return math.erfc(z) / 2 + ends / self._total()

    def _density(self, x: int) -> float:
        """exp(−x²/(2σ²)); the exponent is rounded once, so that its error stays below 800·2**-53."""
        return math.exp(-self._exponent(x))

    def _exponent(self, x: int) -> Fraction:
        """x²/(2σ²), cut where the density is no positive double."""
        return min((x / self.scale) ** 2 / 2, Fraction(_LARGEST_EXPONENT))

    def _total(self) -> float:
        """Σ exp(−z²/(2σ²)); by Poisson summation it is σ√(2π) up to a factor 1 + 2e^(−2π²σ²)."""
        if self.scale >= _CLOSED_FORM_FROM:
            return float(self.scale) * math.sqrt(2 * math.pi)
        return math.fsum(self._density(z) for z in _support())

    def loss(self, z: int, shift: int) -> Fraction:
        """(z² − (z − shift)²)/(2σ²)."""
        return shift * (2 * z - shift) / (2 * self.scale**2)

    def variance(self) -> float:
        """E[Z²]: a sum for small sigma; for others sigma², which differs from it by less than a rounding."""
        if self.scale >= _CLOSED_FORM_FROM:
            return float(self.scale**2)
        return math.fsum(z * z * self._density(z) for z in _support()) / self._total()


def _accept(distance: NDArray[np.int64], a: int) -> NDArray[np.bool_]:
    """True with probability exp(−d²/(2a²)), for 0 <= d < 2**46 and 0 < a < 2**24.

    **Theorem.** It is exactly that, and no step overflows. **Proof.** With d = am + r and mr = aq + p, 0 <= r, p < a,
    the exponent d²/(2a²) is m²/2 + q + (2ap + r²)/(2a²). An odd m² leaves a half, which is a²/(2a²): the whole part is
    ⌊m²/2⌋ + q and a rest of at most (a² + 2ap + r²)/(2a²) < 4a²/(2a²), normalised by one more division. Fits: proposals
    have s|y| <= X < a·2**22, so m < 2**22: m² < 2**44, mr < 2**46, q < 2**22, and the rest's numerator is below 4a² <
    2**50. A geometric draw reaches the whole part w with probability exp(−w); the series does the rest.
    **Requires** independent draws of both (`dpsql.mechanisms.sampler`).
    **Checked by** `tests/unit/mechanisms/test_gaussian_noise.py`.
    """
    m, r = np.divmod(distance, a)
    q, p = np.divmod(m * r, a)
    carry, rest = np.divmod((m & 1) * a * a + 2 * a * p + r * r, 2 * a * a)
    accepted: NDArray[np.bool_] = geometric(distance.size) >= (m * m >> 1) + q + carry
    kept = np.flatnonzero(accepted)
    accepted[kept] = bernoulli_exp_fraction(rest[kept], 2 * a * a)
    return accepted


def _euler_maclaurin(u: float, sigma: float) -> float:
    """(Σ_{z >= x} f(z) − ∫_x^∞ f)/f(x) for f(z) = exp(−z²/(2σ²)) and x = uσ.

    Derivatives of f are Hermite polynomials; the first term left out is below 2(u/(2πσ))^7, which is below
    10^-13 for σ >= 512 wherever f(x) is a positive double (u < 39).
    """
    h = 1 / sigma
    he3 = u**3 - 3 * u
    he5 = u**5 - 10 * u**3 + 15 * u
    return 0.5 + h * (u / 12 - h**2 * (he3 / 720 - h**2 * he5 / 30240))


def _root_up(x: Fraction) -> int:
    """The smallest integer whose square is at least x > 0."""
    return math.isqrt(math.ceil(x) - 1) + 1


def _support() -> range:
    """All integers at which the density is a positive double for sigma < 3."""
    return range(-120, 121)
