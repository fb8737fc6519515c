"""The exponential mechanism: choose one of finitely many candidates, better ones more often.

**Theorem (privacy; McSherry and Talwar 2007).** If one unit changes the quality of each candidate by at most Δ,
choosing x with probability proportional to exp(ε·q(x)/2Δ) is ε-DP; if all qualities move in one direction
(`monotone`, as counts do when a row is added), exp(ε·q(x)/Δ) is.
**Proof.** In `exponential.py`, for scores −⌊q/g⌋ on a grid: they move by at most D = ⌈Δ/g⌉ steps, up or down, so in
an interval of length 2D, and of length D where all move in one direction, since rounding keeps the order.
**Theorem (utility).** With probability at least 1 − e^(−t), q(chosen) ≥ max q − (2Δ/ε)·(ln|X| + t).
**Proof.** A candidate that is worse than the best by more than a = (2Δ/ε)(ln|X| + t) has less than exp(−ε·a/2Δ) =
e^(−t)/|X| times the weight of the best, hence such a probability at most, and there are at most |X| of them.
**Requires** a Δ that holds for every candidate, which the caller states, and candidates that do not depend on the data.
**Checked by** `tests/unit/mechanisms/test_textbook.py` and `test_selection.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.divergence import FiniteLaw
from dpsql.mechanisms.exact_numbers import Number, positive, probability
from dpsql.mechanisms.exponential import ExponentialLaw
from dpsql.mechanisms.textbook.additive import rational, stored

T = TypeVar("T")
Quality = Callable[[T], Number] | Sequence[Number]
"""A score for each candidate: a function, or one number each."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """A private choice among candidates by a quality of which one unit changes at most `sensitivity`."""

    sensitivity: Number
    epsilon: Number
    monotone: bool = False
    grid: Number | None = None
    step: Fraction = field(init=False, repr=False)
    choice: ExponentialLaw = field(init=False, repr=False)

    def __post_init__(self) -> None:
        delta, epsilon = stored(self.sensitivity, "sensitivity"), positive(self.epsilon, "epsilon")
        step = score_grid(delta) if self.grid is None else stored(self.grid, "grid")
        spread = math.ceil(delta / step) * (1 if self.monotone else 2)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "choice", ExponentialLaw.for_epsilon(spread, epsilon))

    def release(self, candidates: Sequence[T], quality: Quality[T]) -> T:
        """One of the candidates, drawn exactly."""
        scores = [-score for score in scored(candidates, quality, self.step)]
        kind: Any = np.int64 if max(map(abs, scores)) < 2**62 else object
        run, _ = self.choice.choose(np.ones(len(scores), dtype=np.int64), np.array(scores, dtype=kind))
        return candidates[run]

    def law(self, candidates: Sequence[T], quality: Quality[T]) -> FiniteLaw:
        """The probability of each candidate, by its place."""
        scores = scored(candidates, quality, self.step)
        weights = [math.exp((score - max(scores)) / self.choice.scale) for score in scores]
        total = math.fsum(weights)
        return FiniteLaw({place: weight / total for place, weight in enumerate(weights)})

    def accuracy(self, beta: float, size: int) -> float:
        """The α with P[the chosen one of `size` candidates is worse than the best by more than α] ≤ β."""
        chance = float(probability(beta, "beta"))
        return float(self.choice.scale * self.step) * math.log(candidates_of(size) / chance)

    def epsilon_for(self, alpha: Number, beta: float, size: int) -> float:
        """The least ε (to the sixth digit) for that accuracy: the inverse."""
        found = float(self.accuracy(beta, size) / float(positive(alpha, "alpha")) * float(positive(self.epsilon)))
        while replace(self, epsilon=found).accuracy(beta, size) > alpha:
            found *= 1 + 1e-9
        return found


def scored(candidates: Sequence[T], quality: Quality[T], step: Fraction) -> list[int]:
    """The quality of each candidate in whole steps, rounded down."""
    values = [quality(each) for each in candidates] if callable(quality) else list(quality)
    if len(values) != len(candidates) or not values:
        raise ProgrammingError(f"there are {len(candidates)} candidates with {len(values)} qualities")
    return [math.floor(rational(value) / step) for value in values]


def score_grid(sensitivity: Fraction) -> Fraction:
    """A power of two, at most 2^−16 of the sensitivity: whole numbers are on it unless they are huge."""
    return Fraction(2) ** (math.frexp(float(sensitivity))[1] - 17)


def candidates_of(size: int) -> int:
    """How many candidates there are: at least one."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ProgrammingError(f"size is a number of candidates, at least 1, not {size!r}")
    return size
