"""The discrete Laplace law: pure differential privacy for integer vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.mechanisms.discrete_noise import Noise, check_scale, finest
from dpsql.mechanisms.sampler import bernoulli_exp_fraction, geometric, random_bits, uniform

LIMIT = 2**40
_LARGEST_EXPONENT = 800


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Noise):
    """P[Z = z] ∝ exp(−|z|/scale), scale = t/s with t < 2**40 and s <= 2**20 a power of two.

    **Theorem.** Adding independent draws to an integer vector of L1 sensitivity l1 is (l1/scale)-differentially
    private.
    **Proof.** Moving the vector by d changes the probability of any output by a factor of at most
    exp(‖d‖₁/scale) (Ghosh, Roughgarden and Sundararajan 2009).
    **Requires** integer inputs, an l1 in the steps of the scale, and draws that follow the law exactly (see `propose`).
    **Checked by** `tests/unit/mechanisms/test_laplace_noise.py`, and goodness-of-fit tests in `test_noise.py` that
    accept the right scale and reject 0.8 and 1.25 times it.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        check_scale(self.scale, LIMIT)

    @classmethod
    def for_epsilon(cls, l1: int, epsilon: Fraction) -> DiscreteLaplace:
        """The smallest representable scale that makes l1 cost at most epsilon."""
        if l1 < 1 or epsilon <= 0:
            raise InternalError("Laplace noise needs a positive sensitivity and a positive epsilon")
        return cls(finest(lambda s: math.ceil(s * Fraction(l1) / epsilon), LIMIT))

    def epsilon(self, l1: int) -> Fraction:
        """The exact cost of releasing a vector of L1 sensitivity l1."""
        return l1 / self.scale

    def propose(self, n: int) -> NDArray[np.int64]:
        """Independent exact draws from n proposals.

        **Theorem.** The law is exact.
        **Proof.** U uniform in [0, t), kept with probability exp(−U/t), and V with P[V >= v] = exp(−v) make
        X = U + tV satisfy P[X = x] ∝ exp(−x/t). Then P[⌊X/s⌋ = y] ∝ exp(−ys/t). A fair sign, with −0
        drawn again, gives each ±y the weight of y and 0 its own. V < 2**22 and t < 2**40, so X < 2**62.
        **Requires** exact and independent draws of U, V and the sign (`dpsql.mechanisms.sampler`).
        **Checked by** `tests/unit/mechanisms/test_laplace_noise.py`, and the planted bugs "minus zero is kept" and "a
        sign that is not fair".
        """
        t, s = self.scale.as_integer_ratio()
        proposed = uniform(t, n)
        kept = proposed[bernoulli_exp_fraction(proposed, t)]
        magnitude = kept + t * geometric(kept.size) >> s.bit_length() - 1
        negative = random_bits(kept.size)
        drawn: NDArray[np.int64] = np.where(negative, -magnitude, magnitude)[~negative | (magnitude != 0)]
        return drawn

    def survival(self, x: int) -> float:
        """P[Z >= x]: with q = exp(−1/scale), q^x/(1 + q) for x >= 1, by symmetry for x <= 0."""
        if x <= 0:
            return 1 - self.survival(1 - x)
        return self._power(x) / (1 + self._power(1))

    def _power(self, x: int) -> float:
        """q^x; the exponent is rounded once, so that its error stays below 800·2**-53."""
        return math.exp(-float(min(x / self.scale, Fraction(_LARGEST_EXPONENT))))

    def loss(self, z: int, shift: int) -> Fraction:
        """(|z| − |z − shift|)/scale."""
        return (abs(z) - abs(z - shift)) / self.scale

    def variance(self) -> float:
        """2q/(1 − q)²."""
        return 2 * self._power(1) / math.expm1(-float(1 / self.scale)) ** 2
