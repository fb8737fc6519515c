"""What every noise law offers (draws, tails, error bars), and the discrete Laplace law."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.mechanisms.sampler import bernoulli_exp_fraction, geometric, random_bits, uniform

CHUNK = 2**16
"""Proposals drawn at a time: the arrays stay in the cache."""

MAX_DENOMINATOR = 2**20

_RELATIVE_SLACK = 2.0**-41
_ABSOLUTE_SLACK = 2.0**-1070


class Noise(ABC):
    """A symmetric law Z on the integers, in steps of the noise grid."""

    __slots__ = ()

    scale: Fraction

    @abstractmethod
    def propose(self, n: int) -> NDArray[np.int64]:
        """Independent exact draws from n proposals; how many are accepted is random."""

    @abstractmethod
    def survival(self, x: int) -> float:
        """P[Z >= x] up to rounding: relative error below 3·10**-13, absolute error below 2**-1070."""

    @abstractmethod
    def variance(self) -> float:
        """E[Z²]."""

    @abstractmethod
    def loss(self, z: int, shift: int) -> Fraction:
        """log(P[Z = z − shift] / P[Z = z]), exactly: what the output z tells of a shift."""

    def sample(self, n: int) -> NDArray[np.int64]:
        """Independent exact draws, n of them.

        Accepted proposals are independent and identically distributed, so the first n of them are, too.
        """
        drawn = np.empty(n, np.int64)
        filled = 0
        while filled < n:
            batch = self.propose(min(CHUNK, 2 * (n - filled) + 16))[: n - filled]
            drawn[filled : filled + batch.size] = batch
            filled += batch.size
        return drawn

    def tail(self, x: int) -> float:
        """An upper bound on P[Z >= x], above it by less than one part in 10**12."""
        return min(1.0, self.survival(x) * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK)

    def cdf(self, x: int) -> float:
        """P[Z <= x] up to rounding, as precise in both tails."""
        return self.survival(-x)

    @lru_cache(maxsize=1024)  # noqa: B019 (laws are small values)
    def half_width(self, confidence: float) -> int:
        """The smallest w with P[|Z| <= w] >= confidence, for 0 < confidence < 1."""
        if not 0 < confidence < 1:
            raise InternalError(f"a confidence lies strictly between 0 and 1, not at {confidence}")
        return self.reach(1 - confidence)

    def reach(self, missed: float) -> int:
        """The smallest w with P[|Z| > w] <= missed, for 0 < missed < 1.

        By symmetry P[|Z| > w] = 2·P[Z > w]. Since `tail` is an upper bound, the coverage is never less; a tie
        within one part in 10**12 goes to the wider side.
        """
        return smallest(lambda w: 2 * self.tail(w + 1) <= missed)


def smallest(holds: Callable[[int], bool], start: int = 0) -> int:
    """The smallest integer >= start at which a monotone predicate holds."""
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        start, step = start + step, 2 * step
    low, high = start, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def check_scale(scale: Fraction, limit: int) -> None:
    """Refuse scales that the samplers do not represent exactly."""
    denominator = scale.denominator
    if not 0 < scale.numerator < limit:
        raise InternalError(f"a noise scale of {scale} steps is out of range")
    if denominator > MAX_DENOMINATOR or denominator & (denominator - 1):
        raise InternalError(f"the denominator of a noise scale is a power of two, not {denominator}")


def finest(numerator: Callable[[int], int], limit: int) -> Fraction:
    """numerator(s)/s for the largest power of two s <= 2**20 that keeps numerator(s) below the limit.

    The grids 1/s are nested, so a numerator that is rounded up makes this the smallest representable scale.
    """
    s = MAX_DENOMINATOR
    while s > 1 and numerator(s) >= limit:
        s //= 2
    return Fraction(numerator(s), s)


# the discrete Laplace law ---------------------------------------------------------------------------------------------
# The discrete Laplace law: pure differential privacy for integer vectors.


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
