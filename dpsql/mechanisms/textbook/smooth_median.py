"""Smooth sensitivity: a median with noise for these data, and not for the worst (Nissim, Raskhodnikova and Smith 2007).

The median of numbers in [lower, upper] has the global sensitivity upper − lower, which is useless, while near most
data it hardly moves. Noise of the *local* sensitivity LS(x) would be small, but its size would tell of the data. It
is made safe by a scale that moves by no more than one level from a database to its neighbours. n is public:
neighbours replace one value.

**Theorem.** The release is (ε, δ)-DP.
**Proof.** Values are whole steps of the grid, m is the place of the median, and A_k = max over 0 ≤ t ≤ k+1 of x₍m+t₎
− x₍m+t−k−1₎ (lower and upper stand beyond the ends) is the largest local sensitivity at distance k from x, so that
A_k(x) ≤ A_(k+1)(y) for neighbours x, y. Scales s_0 < s_1 < … are public and s_(j+1) ≤ λ·s_j with λ = 1 + ε/(2
ln(2/δ)). L(A) is the first j with s_j ≥ 2A/ε, and the scale of x is that of level j(x) = max over k of L(A_k(x)) − k
(at least 0).
*One level.* j(x) ≤ max of L(A_(k+1)(y)) − k ≤ j(y) + 1, so the two scales s, s' differ by a factor of at most λ. And
A_0 = LS, so both are at least 2|f(x) − f(y)|/ε.
*Another scale, same centre.* From a larger scale to a smaller, s' = λs: P_s'(z)/P_s(z) ≤ exp(|z|(1/s − 1/s')) exceeds
e^(ε/2) only where |z|/s' > (ε/2)/(λ−1) = ln(2/δ), and P_s'[|Z| ≥ t·s'] ≤ 2e^(−t): probability at most δ. From the
smaller to the larger: P_s(z)/P_s'(z) ≤ tanh(1/2s)/tanh(1/2s') ≤ λ ≤ e^(ε/2), since tanh is concave and ln(2/δ) ≥ 1.
*Another centre, same scale.* The shift is at most s'·ε/2 steps: a factor e^(ε/2). Scale first, then centre: e^ε·P'(A)
+ δ.
**Requires** δ ≤ 1/2, values that the caller does not look at first, a public n.
**No public error bar.** The scale is a function of the private data, and telling it would tell of them. So there is
no `accuracy`; for a median with a public error, in ranks, use `Exponential` with the rank as quality, as SQL's
`median` does.
**Checked by** `tests/unit/mechanisms/test_smooth_median.py`: every pair of neighbours over a small universe, by the
divergence of the two laws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.discrete_noise import LIMIT, DiscreteLaplace
from dpsql.mechanisms.exact_numbers import Number, positive, probability
from dpsql.mechanisms.textbook.additive import rational, stored

_PARTS = 2**10
"""Scales are multiples of 2^−10 steps."""
CELLS = 2**16
"""The range has so many steps unless a grid is declared."""


@dataclass(frozen=True, slots=True)
class SmoothMedian:
    """The median of numbers between `lower` and `upper`, with noise of their smooth sensitivity."""

    lower: Number
    upper: Number
    epsilon: Number
    delta: Number
    grid: Number | None = None
    step: Fraction = field(init=False, repr=False)
    scales: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        width = positive(rational(self.upper) - rational(self.lower), "upper − lower")
        epsilon, delta = positive(self.epsilon, "epsilon"), probability(self.delta)
        if delta > Fraction(1, 2):
            raise ProgrammingError(f"delta is at most 1/2 here, not {self.delta!r}")
        step = width / CELLS if self.grid is None else stored(self.grid, "grid")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "scales", _levels(math.ceil(width / step), epsilon, float(delta)))

    def release(self, values: Sequence[Number] | NDArray[Any]) -> float:
        """The median, the lower one of two, with noise; values outside the bounds are moved to the nearer end."""
        ordered = self._ordered(values)
        scale = Fraction(self.scales[self._level(ordered)], _PARTS)
        noisy = int(ordered[_middle(ordered)]) + int(DiscreteLaplace(scale).sample(1)[0])
        return float(rational(self.lower) + noisy * self.step)

    def law(self, values: Sequence[Number] | NDArray[Any]) -> tuple[int, Fraction]:
        """The centre and the scale of the output, in steps above `lower`: private, for checks only."""
        ordered = self._ordered(values)
        return int(ordered[_middle(ordered)]), Fraction(self.scales[self._level(ordered)], _PARTS)

    @property
    def top(self) -> int:
        """The upper end, in steps."""
        return math.ceil((rational(self.upper) - rational(self.lower)) / self.step)

    def _ordered(self, values: Sequence[Number] | NDArray[Any]) -> NDArray[np.int64]:
        low = rational(self.lower)
        steps = [min(max(math.floor((rational(value) - low) / self.step), 0), self.top) for value in values]
        if not steps:
            raise ProgrammingError("there is no median of no values")
        return np.sort(np.array(steps, dtype=np.int64))

    def _level(self, ordered: NDArray[np.int64]) -> int:
        """Max over k of L(A_k) − k, at least 0: A_k is at most the range, so from some k on nothing more can win."""
        highest, found, k = self._needed(self.top), 0, 0
        while highest - k > found:
            found = max(found, self._needed(local_sensitivity_at(ordered, k, self.top)) - k)
            k += 1
        return found

    def _needed(self, change: int) -> int:
        """The first level whose scale is at least 2·change/ε."""
        least = math.ceil(2 * change * _PARTS / positive(self.epsilon))
        return int(np.searchsorted(np.array(self.scales), least))


def local_sensitivity_at(ordered: NDArray[np.int64], k: int, top: int) -> int:
    """A_k: how far one value more can move the median of data that differ in k values from these."""
    place, n = _middle(ordered), ordered.size
    ends = np.concatenate([np.zeros(k + 2, np.int64), ordered, np.full(k + 2, top, np.int64)])
    right = np.arange(place, place + k + 2) + k + 2
    assert n > 0
    return int(np.max(ends[right] - ends[right - k - 1]))


def _middle(ordered: NDArray[np.int64]) -> int:
    return (ordered.size - 1) // 2


def _levels(width: int, epsilon: Fraction, delta: float) -> tuple[int, ...]:
    """Scales in parts of a step, from a thousand of them on, each at most λ times the one before."""
    growth = Fraction(float(epsilon) / (2 * math.log(2 / delta)) * (1 - 1e-12))
    last, levels = math.ceil(2 * width * _PARTS / epsilon), [max(_PARTS, math.ceil(_PARTS / epsilon))]
    if last >= LIMIT:
        raise ProgrammingError("this grid is too fine for that epsilon", hint="declare a coarser grid")
    while levels[-1] < last:
        grown = levels[-1] + math.floor(levels[-1] * growth)
        if grown == levels[-1]:
            raise ProgrammingError("this epsilon and delta are too small for smooth sensitivity")
        levels.append(min(grown, last))
    return tuple(levels)
