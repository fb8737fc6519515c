"""The ends of the interval around a quantile: two further choices, on a ladder of distances from the cell chosen first.

Let m be the cell that was chosen for the quantile q = a/b, and d_0 = 0 < d_1 < … the *rungs*: distances in cells that
grow by half octaves and depend on the size of the grid alone. The upper end is one of the cells U_j =
min(m + d_j, last), the lower one of L_j = max(m − d_j, 0). With N the weight of the group, e(x) its weight up to and
with the cell x, c(x) its weight below x, a whole number T and a steepness k, the scores are
 · upper: max(k·(aN + T − b·e(U_j)), b·e(U_{j−1}) − aN − T, 0),
 · lower: max(k·(b·c(L_j) − aN + T), aN − T − b·c(L_{j−1}), 0);
the second term is left out for j = 0, and the first where U_j is the last cell, or L_j the first: what lies beyond the
grid counts as enough. So a rung is best where the rank that is T/b beyond the quantile is first reached, stopping short
of it costs k times as much as going too far, and a group that is too small for T has the ends of the grid.
**Theorem (privacy).** Given m, adding a unit with the weight w in the group changes the sum of the two scores, over all
pairs of rungs, by an amount in some interval of length w·((k+1)·max(a, b−a) + max(ka, b−a) + max(k(b−a), a)). So if
both rungs are chosen by the exponential mechanism with scores over one `scale`, the pair is ε-DP and (ε²/8)-zCDP for
ε = that spread/scale.
**Proof.** Each is drawn with probability proportional to its number of tickets (public) times exp(−score/scale), and
independently, so the pair is chosen by the exponential mechanism with the sum of the scores
(`dpsql.mechanisms.exponential` with the base measure of tickets). A unit's weight is made of rows; a row of weight w in
a cell v ≤ m lies up to and with every U_j, as U_j ≥ m: there the first term changes by −k(b−a)w or (where left out) by
0, the second by (b−a)w, and the maximum of such terms by an amount in [−k(b−a)w, (b−a)w]. For the lower end b·c − aN
changes by (b−a)w or −aw, so the score by an amount between −max(ka, b−a)·w and max(k(b−a), a)·w. Together that is
(k+1)(b−a) + max(ka, b−a) + max(k(b−a), a) times w. A row with v ≥ m is its mirror image, with a and b−a exchanged. Rows
of one unit add up: the interval of the sum is the sum of the intervals, whose length is at most the larger of the two
lengths times its whole weight. Over groups the spreads add up as for the first choice (`dpsql.sensitivity.choice`).
**Theorem (interval).** The upper end lies below the quantile with probability at most e^(−kT/scale)·R/r, where R are
the tickets of all rungs and r those of the rungs that have the score 0; and likewise for the lower end. **Proof.** If
U_j is below the first cell x* with b·e(x*) ≥ aN, then b·e(U_j) < aN, and its score is above kT. There is a rung with
the score 0: the first one with b·e(U_j) ≥ aN + T, or the first that reaches the end.
R/r is a few units where rows lie about evenly, in whatever direction they thin out, since octaves of distance have
about the same number of tickets; it is largest where the quantile lies in a wide gap between crowded values. `BEYOND`
was chosen so that the two ends together miss in 5% of cases where values lie evenly (`tests/bench/quantile_bars.py`).
**Requires** scores that are exact whole numbers, and m, which is released, as nothing but a choice that was paid for.
**Checked by** `tests/unit/sensitivity/test_interval_ends.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms import ExponentialLaw
from dpsql.sensitivity.choice import Choice

Cells = NDArray[np.int64]

STEEPNESS = 2
"""The k of the scores: how many times as much it costs to stop short as to go too far."""
BEYOND = Fraction(5, 2)
"""How far beyond the quantile the ends aim, in ranks that make a rung e times as unlikely."""
PAST = 4
"""Rungs go on until they are so many times as far as the grid is long: beyond it they all mean its end."""
_TICKETS = 1024


@dataclass(frozen=True, slots=True)
class EndsLaw:
    """How both ends of the interval around a quantile are chosen."""

    law: ExponentialLaw
    spread: int

    @property
    def beyond(self) -> int:
        """The T of the scores."""
        return int(BEYOND * self.law.scale / STEEPNESS)


def ends_spread(choice: Choice, most: int) -> int:
    """How far apart the moves of the scores of two pairs of rungs can be, for a unit that adds `most`."""
    a, b, k = choice.at.numerator, choice.at.denominator, STEEPNESS
    return most * ((k + 1) * max(a, b - a) + max(k * a, b - a) + max(k * (b - a), a))


@cache
def rungs(cells: int) -> tuple[Cells, Cells]:
    """The distances of a ladder on a grid with so many cells, and how many tickets each has.

    A rung has tickets in proportion to the logarithmic distance to the next one, times the cube root of the distance.
    """
    distances, root = [0, 1], 1
    while distances[-1] < PAST * cells:
        root *= 2
        distances += sorted({each for each in (round(root * 2**-0.5), root) if each > distances[-1]})
    gaps = [1, *(after - at for at, after in zip(distances[1:], [*distances[2:], 2 * distances[-1]], strict=True))]
    tickets = [
        max(1, round(_TICKETS * gap / max(1, at) * max(1, at) ** (1 / 3)))
        for at, gap in zip(distances, gaps, strict=True)
    ]
    return np.array(distances, np.int64), np.array(tickets, np.int64)


def ends_scored(
    choice: Choice, ends: EndsLaw, middle: int, size: int, cells: Cells, weights: Cells
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The scores of all rungs of the lower and of the upper end, in a group with these weights in these cells."""
    a, b = choice.at.numerator, choice.at.denominator
    large = (int(sum(weights.tolist())) + 1) * b * STEEPNESS + STEEPNESS * ends.beyond >= 2**61
    held = weights.astype(object) if large else weights
    sums = np.concatenate([np.zeros(1, held.dtype), np.cumsum(held)])
    whole, beyond, distances = sums[-1], ends.beyond, rungs(size)[0]
    lower, upper = np.maximum(middle - distances, 0), np.minimum(middle + distances, size - 1)
    below, upto = sums[np.searchsorted(cells, lower)], sums[np.searchsorted(cells, upper, side="right")]
    return (
        _score(b * below - a * whole + beyond, lower == 0),
        _score(a * whole + beyond - b * upto, upper == size - 1),
    )


def _score(short: NDArray[Any], last: NDArray[np.bool_]) -> NDArray[Any]:
    """The score of each rung: how far it stops short, or how far the rung before already went too far."""
    missing = np.where(last, 0, STEEPNESS * short)
    passed = np.concatenate([np.zeros(1, short.dtype), -short[:-1]])
    scores: NDArray[Any] = np.maximum(np.maximum(missing, passed), 0)
    return scores


def choose_ends(choice: Choice, ends: EndsLaw, middle: int, size: int, cells: Cells, weights: Cells) -> tuple[int, int]:
    """The cells at the two ends."""
    distances, tickets = rungs(size)
    scores = ends_scored(choice, ends, middle, size, cells, weights)
    low, high = (int(distances[ends.law.choose(tickets, each)[0]]) for each in scores)
    return max(middle - low, 0), min(middle + high, size - 1)
