"""The exponential mechanism, exact: choose a cell of a public grid with probability proportional to exp(−score/scale).

**Theorem (privacy).** Let neighbours change the score of every cell by an amount in some interval of length `spread`
(which interval it is may depend on the pair; |change| ≤ Δ gives spread 2Δ, a change in [0, Δ] or in [−Δ, 0], as
that of a count, gives spread Δ). Then the choice is ε-DP and (ε²/8)-zCDP with ε = spread/scale.
**Proof.** With s and s' = s + d the two scores, d in [m, m + spread], and Z, Z' the sums of exp(−s/scale) and of
exp(−s'/scale), the loss at a cell is log(P/P') = d/scale + log(Z'/Z). Over all cells d/scale varies by at most ε and
the second term is constant, so the loss lies in some interval of length ε. It cannot be positive everywhere, nor
negative everywhere, since both laws have mass one; so |loss| ≤ ε. Let K(α) be the log of the mean of exp(α·loss) under
P'. Then K(0) = K(1) = 0, and K'' is the variance of the loss under a tilted law, at most (ε/2)² since the loss has the
range ε; so (α−1)·D_α(P‖P') = K(α) ≤ α(α−1)·ε²/8 for α > 1.
Choices of which a unit moves the k-th by a spread r_k, Σ r_k ≤ spread, are together Σ r_k/scale ≤ ε and
Σ (r_k/scale)²/8 ≤ ε²/8: a unit that is spread over groups pays once. Where Σ r_k² ≤ spread² is all that is known of
the moves of K choices, the second still holds, and the ε of all together is at most √K·ε, since Σ r_k ≤ √K·spread.

Permute-and-flip errs less at the same ε, by at most a factor of two, but its loss has no bounded range: in zCDP it
costs ε·tanh(ε/2), four times as much, which is more than it gains.
**Requires** scores that are exact whole numbers and a grid of cells that is the same on both neighbours
(`dpsql.sensitivity.choice` proves the spread, `dpsql.sensitivity.grid` makes the cells of public ends).
**Checked by** `tests/unit/mechanisms/test_exponential.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.mechanisms.discrete_noise import check_scale, finest
from dpsql.mechanisms.sampler import LIMIT, bernoulli_exp_fraction, exp_bounds, random_words, uniform

FINE = 2**40
"""Scales keep their twenty binary digits after the point below this numerator."""

_BITS = 32
Scores = NDArray[Any]
"""Whole numbers: int64, or Python's own where those do not fit."""


@dataclass(frozen=True, slots=True)
class ExponentialLaw:
    """Cells with a score that is higher by `scale` are chosen 1/e times as often."""

    scale: Fraction

    def __post_init__(self) -> None:
        check_scale(self.scale, LIMIT)

    @classmethod
    def for_epsilon(cls, spread: int, epsilon: Fraction) -> ExponentialLaw:
        """The least scale that makes the choice ε-DP."""
        scale = finest(lambda s: -(-spread * s // epsilon), FINE)
        if scale.numerator >= LIMIT:
            raise UnsupportedQuery("at this price the choice would be almost random", hint="ask for a larger epsilon")
        return cls(scale)

    def epsilon(self, spread: int) -> Fraction:
        """The ε of a choice whose scores move by no more than this spread."""
        return spread / self.scale

    def rho(self, spread: int) -> Fraction:
        """Its price in zCDP."""
        return self.epsilon(spread) ** 2 / 8

    def choose(self, sizes: NDArray[np.int64], scores: Scores) -> tuple[int, int]:
        """A run and a place in it: `sizes[i]` neighbouring cells share the score `scores[i]`.

        **Theorem.** Each cell is chosen with probability exp(−score/scale)/Z, exactly.
        **Proof.** Let score − least = scale·(v + r), v whole and 0 ≤ r < 1. With U(v) ≥ 2^32·e^(−v) a whole
        number, one uniform draw below Σ size·U(v) gives a run, a cell in it and a number p uniform in [0, U(v)): each
        cell with p stands for one value of the draw. Further bits make p a real number; it is kept if
        p < 2^32·e^(−v), which the rational bounds of `exp_bounds` decide, and then with probability exp(−r). So in each
        turn a cell is kept with probability proportional to e^(−v)·e^(−r), and turns are independent.
        **Requires** uniform bits that are never used twice (`dpsql.mechanisms.sampler`), and bounds of e^(−v) that
        enclose it (`dpsql.mechanisms.exact_numbers`).
        **Checked by** `tests/unit/mechanisms/test_exponential.py`.
        """
        if not len(sizes) or int(sizes.min()) < 1:
            raise InternalError("there is nothing to choose from")
        if sizes.sum(dtype=np.float64) >= LIMIT >> _BITS:
            raise InternalError("a grid with too many cells to choose from")
        whole, rest = self._exponents(scores)
        tops = _tops()[np.minimum(whole, _BITS).astype(np.int64)]
        ends = np.cumsum(sizes * tops)
        while True:
            drawn = int(uniform(int(ends[-1]), 1)[0])
            run = int(np.searchsorted(ends, drawn, side="right"))
            place, prefix = divmod(drawn - int(ends[run]) + int(sizes[run] * tops[run]), int(tops[run]))
            fraction = np.array([int(rest[run])], dtype=np.int64)
            if _below(prefix, int(whole[run])) and bernoulli_exp_fraction(fraction, self.scale.numerator)[0]:
                return run, place

    def _exponents(self, scores: Scores) -> tuple[Scores, Scores]:
        """(score − least)/scale as a whole number and what is left of it, in parts of the scale's numerator."""
        above = scores - scores.min()
        if int(above.max()) * self.scale.denominator >= LIMIT:
            above = above.astype(object)
        return (
            above * self.scale.denominator // self.scale.numerator,
            above * self.scale.denominator % self.scale.numerator,
        )


@cache
def _tops() -> NDArray[np.int64]:
    """U(v) for v up to 32; there and beyond it is 1."""
    return np.array([_bounds(v, _BITS)[1] for v in range(_BITS + 1)], dtype=np.int64)


def _bounds(v: int, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits·e^(−v), which is below 1 from v = bits on."""
    return (0, 1) if v >= bits else exp_bounds(v, bits)


def _below(prefix: int, v: int) -> bool:
    """Is the real number with this whole part, and random bits behind the point, below 2^32·e^(−v)?"""
    bits = _BITS
    while True:
        lower, upper = _bounds(v, bits)
        if prefix < lower or prefix >= upper:
            return prefix < lower
        prefix, bits = prefix << 64 | int(random_words(1, 64)[0]), bits + 64
