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

Report noisy max: add Laplace noise to every score and tell only whose is the largest.

**Theorem (privacy).** If one unit changes each score by at most Δ, noise of scale 2Δ/ε makes the answer ε-DP,
whatever the number of candidates; scale Δ/ε is enough where all scores move in one direction (`monotone`).
**Proof.** On the grid scores move by at most D whole steps. Fix the noise of all candidates but i. Candidate i wins
(ties go to the earlier one) if and only if its noise is at least some r. On a neighbour it wins at the latest from r
+ 2D on: its own score fell by at most D and no other rose by more. (If all rise, others rise by at most D and i not
at all: r + D; if all fall, i falls by at most D: again r + D.) For discrete Laplace P[Z ≥ r + s] ≥ e^(−s/scale)·P[Z ≥
r] for all r and s ≥ 0. Average over the others.
**Theorem (utility).** With probability at least 1 − β the winner is worse than the best by at most a + b, where the
noise of the best is below −a with probability β/2 at most, and some noise is above b with probability β/2 at most.
**Proof.** best − a ≤ its noisy score ≤ the winner's ≤ winner + b.
**Requires** independent draws that are exactly discrete Laplace (`dpsql.mechanisms.discrete_noise`), scores floored to
one grid (`additive.py`), and a list of candidates that is public.
**Checked by** `tests/unit/mechanisms/test_selection.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.discrete_noise import LIMIT, DiscreteLaplace
from dpsql.mechanisms.divergence import FiniteLaw
from dpsql.mechanisms.exact_numbers import Number, positive, probability
from dpsql.mechanisms.exponential import ExponentialLaw
from dpsql.mechanisms.textbook.additive import fine_grid, least_positive, missed_by_each, rational, stored
from dpsql.mechanisms.textbook.laplace_mechanism import laplace_noise

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


# report noisy max -----------------------------------------------------------------------------------------------------


_REACH = 45
"""Beyond so many scales Laplace noise has less than 10^−19 of its mass."""
_MOST = 10**6


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """The candidate with the largest noisy score; the score itself is not told."""

    sensitivity: Number
    epsilon: Number
    monotone: bool = False
    grid: Number | None = None
    step: Fraction = field(init=False, repr=False)
    noise: DiscreteLaplace = field(init=False, repr=False)

    def __post_init__(self) -> None:
        delta, epsilon = stored(self.sensitivity, "sensitivity"), positive(self.epsilon, "epsilon")
        step = fine_grid(delta, float(delta / epsilon), LIMIT // 4) if self.grid is None else stored(self.grid, "grid")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "noise", laplace_noise(math.ceil(delta / step) * (1 if self.monotone else 2), epsilon))

    def release(self, candidates: Sequence[T], quality: Quality[T]) -> T:
        """The winner; of equals the earlier one."""
        scores = scored(candidates, quality, self.step)
        noisy = [score + z for score, z in zip(scores, self.noise.sample(len(scores)).tolist(), strict=True)]
        return candidates[noisy.index(max(noisy))]

    def law(self, candidates: Sequence[T], quality: Quality[T]) -> FiniteLaw:
        """The probability of each candidate, by its place, added up over the noise of the winner; for coarse grids."""
        scores = scored(candidates, quality, self.step)
        reach = math.ceil(_REACH * self.noise.scale) + max(scores) - min(scores)
        if reach > _MOST:
            raise ProgrammingError("this grid is too fine to add up the law", hint="declare a coarser grid")
        outcomes = np.arange(min(scores) - reach, max(scores) + reach + 1)
        below = [self._below(outcomes - score) for score in scores]
        at_most = [self._below(outcomes + 1 - score) for score in scores]
        masses: dict[Hashable, float] = {}
        for i in range(len(scores)):
            others = [at_most[j] if j > i else below[j] for j in range(len(scores)) if j != i]
            masses[i] = float(np.sum((at_most[i] - below[i]) * np.prod(others, axis=0)))
        return FiniteLaw(masses, missing=len(scores) * 1e-14)

    def accuracy(self, beta: float, size: int) -> float:
        """The α with P[the winner of `size` candidates is worse than the best by more than α] ≤ β."""
        below = self.noise.reach(float(probability(beta, "beta")))
        above = self.noise.reach(2 * missed_by_each(beta / 2, candidates_of(size)))
        return float((below + above) * self.step)

    def epsilon_for(self, alpha: Number, beta: float, size: int) -> float:
        """The least ε for that accuracy: the inverse."""
        wanted = float(positive(alpha, "alpha"))
        return least_positive(lambda epsilon: replace(self, epsilon=epsilon).accuracy(beta, size) <= wanted)

    def _below(self, x: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """P[Z < x] for each x, as precise in both tails."""
        rate = float(1 / self.noise.scale)
        low, high = np.minimum(x, 0), np.maximum(x, 1)
        tail = 1 / (1 + math.exp(-rate))
        return np.where(x <= 0, np.exp((low - 1) * rate) * tail, 1 - np.exp(-high * rate) * tail)
