"""A mechanism that adds noise: what Laplace and Gaussian share.

Noise lives on a grid of whole steps, so that it can be drawn exactly: a value is first rounded down to the grid. What
one unit can change is then counted in steps, and rounding is part of the count.
**Theorem.** If two vectors differ in at most m coordinates, by dᵢ, then ⌊xᵢ/g⌋ differ by at most Σ|dᵢ|/g + m − 1 steps
in L1, rounded up, and by ‖d‖₂/g + √m in L2; in one coordinate by ⌈|d|/g⌉. Whole numbers that are multiples of g
differ by d/g. The sensitivity and the grid are read as the data are (`stored`): the float 0.1 is a little more than a
tenth, and −0.1 and 0 lie two steps of a tenth apart.
**Proof.** |⌊a⌋ − ⌊b⌋| < |a − b| + 1, a whole number, so it is at most ⌈|a − b|⌉. Add up: below Σ|dᵢ|/g + m, and whole.
For L2 use the triangle inequality, the roundings being a vector of at most m ones.
**Requires** that the vectors are exact: what is rounded to floats before it is floored may differ by a step more.
**Checked by** `tests/unit/mechanisms/test_additive.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.discrete_noise import Noise
from dpsql.mechanisms.divergence import ShiftedLaw
from dpsql.mechanisms.exact_numbers import Number, positive, probability

FINE = 2**20
"""A scale has so many steps unless a grid is declared: six digits of every textbook figure."""


class Additive(ABC):
    """Noise of a law on a grid, added to each coordinate of a value."""

    __slots__ = ()

    one_is_worst: ClassVar[bool]
    """Whether whole numbers that move together tell no more than one of them that moves as far."""

    noise: Noise
    step: Fraction
    touched: int | None

    @abstractmethod
    def at(self, epsilon: Number) -> Self:
        """The same mechanism at another ε."""

    @overload
    def release(self, value: Number) -> float: ...
    @overload
    def release(self, value: Sequence[Number] | NDArray[Any]) -> NDArray[Any]: ...
    def release(self, value: Number | Sequence[Number] | NDArray[Any]) -> float | NDArray[Any]:
        """The value, or each coordinate of a vector, with noise: a whole number where the grid is one."""
        if isinstance(value, Sequence | np.ndarray):
            drawn = self.noise.sample(len(value)).tolist()
            noisy = [steps + z for steps, z in zip(self._steps(list(value)), drawn, strict=True)]
            return np.array([self._value(steps) for steps in noisy])
        return self._value(self._steps([value])[0] + int(self.noise.sample(1)[0]))

    def law(self, value: Number) -> ShiftedLaw:
        """The law of the output for this input, in steps of the grid."""
        return ShiftedLaw(self.noise, self._steps([value])[0], self.step)

    def accuracy(self, beta: float, k: int = 1) -> float:
        """The α with P[some of k coordinates is off by more than α] ≤ β: the exact quantile of the noise.

        Coordinates have independent noise, so each may fail with 1 − (1−β)^(1/k), a little more than the β/k of the
        union bound. A value that is not on the grid is off by less than one step more.
        """
        return float(self.noise.reach(missed_by_each(beta, k)) * self.step)

    def epsilon_for(self, alpha: Number, beta: float, k: int = 1) -> float:
        """The least ε at which this mechanism is off by more than α with probability at most β: the inverse."""
        wanted = float(positive(alpha, "alpha"))
        return least_positive(lambda epsilon: self.at(epsilon).accuracy(beta, k) <= wanted)

    def _steps(self, values: list[Any]) -> list[int]:
        whole = self.step.numerator == 1 and all(isinstance(value, Integral) for value in values)
        if len(values) > 1 and self.touched is None and not (whole and self.one_is_worst):
            raise ProgrammingError(
                "a unit may move several of these values, and this noise hides a change of one value only",
                hint="say how many coordinates one unit can change: touched=1 for a histogram, or their number",
            )
        return [math.floor(rational(value) / self.step) for value in values]

    def _value(self, steps: int) -> float:
        return steps * self.step.numerator if self.step.denominator == 1 else float(steps * self.step)


def rational(value: Any) -> Fraction:
    """A value of the data, exactly as it is stored."""
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float | np.floating | Decimal) and math.isfinite(value):
        return Fraction(*value.as_integer_ratio())
    raise ProgrammingError("noise is added to finite numbers", hint="settle missing values before")


def stored(value: Number, name: str) -> Fraction:
    """A positive length among values of the data, exactly as it is stored, as they are; `exact` is for ε and δ."""
    positive(value, name)
    return rational(value)


def fine_grid(sensitivity: Fraction, scale: float, most: int) -> Fraction:
    """A power of two, about a millionth of the scale; where that is too coarse for the sensitivity, a part of it.

    The scale has no more than `most` steps, and the sensitivity is a whole number of them where they are few.
    """
    step = Fraction(2) ** (math.frexp(scale / FINE)[1] - 1)
    if step * 1024 <= sensitivity:
        return step
    halvings = math.frexp(most * float(sensitivity) / scale)[1] - 1
    return sensitivity / (1 << max(0, min(10, halvings)))


def coordinates(touched: int | None) -> int:
    """How many coordinates one unit may change."""
    if touched is not None and (isinstance(touched, bool) or not isinstance(touched, int) or touched < 1):
        raise ProgrammingError(f"touched is a number of coordinates, at least 1, not {touched!r}")
    return touched or 1


def missed_by_each(beta: float, k: int) -> float:
    """How often each of k independent draws may fail if all hold together with probability 1 − β."""
    if k < 1:
        raise ProgrammingError(f"k is a number of coordinates, at least 1, not {k!r}")
    return -math.expm1(math.log1p(-float(probability(beta, "beta"))) / k)


def least_positive(holds: Callable[[float], bool], what: str = "epsilon", hint: str = "allow a larger error") -> float:
    """About the least positive number at which a monotone predicate holds; it does hold there."""
    low, high = 2.0**-10, 2.0**-10
    while not holds(high):
        low, high = high, high * 2
        if high > 2**20:
            raise ProgrammingError(f"no {what} is enough for that", hint=hint)
    while low == high and low > 2**-20:
        low, high = (low / 2, high / 2) if holds(low / 2) else (low / 2, high)
    for _ in range(36):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
