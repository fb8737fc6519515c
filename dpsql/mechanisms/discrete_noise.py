"""What every noise law offers: draws, tails, error bars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError

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
