"""Aggregates that choose a value of a public grid: what each cell's score is, and how far one unit can move it.

A *histogram* has, for each group, the weight of each cell: each row with a value adds its unit's weight to the cell of
its value (`rows`), or each unit adds once to the cell of its own least or greatest value in the group. What one unit
adds over all cells of all groups together is at most `most`, by the rules `row`, `single_row`, `one_group` and `clip`
(`dpsql.sensitivity.unit_weight`): one weight W per unit with W·n ≤ cap, n the number of
its rows that have a value (of its groups that have one).

**Ranks.** Let c be the weight below a cell, e that up to and with it, N the whole, b a whole number and T(N) a target.
The score of the cell is max(b·c − T, T − b·e, 0): how far, in b-ths, the target is from the ranks which the cell holds.
 · quantile q = a/b: T = a·N. MEDIAN is q = 1/2.
 · MIN: b = 2, T = min(2t, N); MAX: T = max(2N − 2t, N). The cells beyond all data have the score 2t, and a t that is
   large enough keeps them from being chosen; in a group of few units the target is its median.
**Theorem.** A unit that adds the weight w to a group moves every score there by at most Δ = w·max(a, b−a) for a
quantile, and 2w for MIN and MAX: their spread is 2Δ. **Proof.** With the unit, b·c and b·e grow by 0 … bw each, and T
by aw (or for MIN by 0 … w, for MAX by w … 2w). So b·c − T and T − b·e change by −aw … (b−a)w either way round (at most
2w), and the maximum of terms that each move by at most Δ moves by at most Δ.
**Theorem.** MODE has the score −(weight of the cell): a unit moves it by −w … 0, so the spread is w. **Proof.** What it
adds to one cell is between 0 and all that it adds to the group.
**Groups.** The sum over groups of w is at most `most`, so the spreads of one unit add up to that of `most`: all groups
together cost what one choice costs. Where the norm is L2, the sum of w² is at most `most`², and so is that of the
spreads: all groups together cost the ρ of one choice (`dpsql.mechanisms.exponential`).
**Requires** NULL and NaN settled before the cell is computed, one weight per unit.
**Checked by** `tests/properties/test_choices.py` and its planted bugs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, log
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms import ExponentialLaw
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.clip import Norm, Ranked
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.unit_weight import Term

MISSED = 0.05
"""How often the rank of a choice may be further off than is said."""

Kept = Literal["rows", "least", "greatest"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Weights by group and cell. A row or unit weighs `one`, or less under `term`; a unit in all at most `most`.

    With `clipped` that holds for the norm over the groups of what a unit adds to each of them, and not by `term`.
    """

    grid: Grid
    kept: Kept
    term: Term | None
    one: int
    most: int
    clipped: Norm | None = None

    @property
    def ranked(self) -> Ranked:
        """What of a unit is ranked."""
        return "rows" if self.kept == "rows" else "groups"

    def total_claim(self, groups: int) -> Claim:
        """What a unit changes in the weights of all groups, of which it may be in so many.

        **Theorem.** At most `most` in L1, and where `clipped` is L2 at most that in L2 and √groups times that in L1.
        **Proof.** The weight of a group is the sum over its cells, to which the unit adds no negative weight.
        **Requires** the bound of the histogram (`dpsql.sensitivity.choice_layout.histogram`).
        **Checked by** `tests/unit/sensitivity/test_interval_ends.py`.
        """
        along = self.most * (isqrt(groups - 1) + 1 if self.clipped == "l2" else 1)
        return Claim(None, self.most, along, self.most, 1 if self.one == self.most == 1 else groups)


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice per group, from a histogram: the quantile `at`, or an extreme, or the heaviest cell."""

    name: str
    histogram: int
    kind: Literal["quantile", "least", "greatest", "mode"]
    at: Fraction = Fraction(1, 2)

    @property
    def parts(self) -> int:
        """The b of the score."""
        return {"quantile": self.at.denominator, "mode": 1}.get(self.kind, 2)

    def sensitivity(self, most: int) -> int:
        """How far a unit that adds `most` can move a score."""
        if self.kind == "mode":
            return most
        return most * (max(self.at.numerator, self.parts - self.at.numerator) if self.kind == "quantile" else 2)

    def spread(self, most: int) -> int:
        """How far apart the moves of two cells' scores can be."""
        return self.sensitivity(most) * (1 if self.kind == "mode" else 2)


@dataclass(frozen=True, slots=True)
class Runs:
    """Neighbouring cells with one score each: where a run starts, how many cells it has."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    scores: NDArray[Any]


def reach(law: ExponentialLaw, cells: int, missed: float = MISSED) -> int:
    """The score above the least one that a choice exceeds with probability below `missed`.

    The cells with a score that is higher by x have together at most cells·exp(−x/scale) times the weight of the best.
    """
    return ceil(log(cells / missed) * law.scale)


def scored(
    choice: Choice, law: ExponentialLaw, size: int, cells: NDArray[np.int64], weights: NDArray[np.int64]
) -> Runs:
    """The scores of one group with these weights in these cells, in ascending order; all other cells have none."""
    total = int(sum(weights.tolist()))
    held = weights.astype(object) if total * (choice.parts + 1) >= 2**61 else weights
    starts, sizes = _runs(size, cells)
    below = np.repeat(np.concatenate([np.zeros(1, held.dtype), np.cumsum(held)]), 2)[:-1]
    upto = np.concatenate([below[1:], below[-1:]])
    if choice.kind == "mode":
        scores = below - upto
    else:
        target = _target(choice, law, size, total)
        scores = np.maximum(np.maximum(choice.parts * below - target, target - choice.parts * upto), 0)
    kept = sizes > 0
    return Runs(starts[kept], sizes[kept], scores[kept])


def _target(choice: Choice, law: ExponentialLaw, size: int, total: int) -> int:
    """The rank that is sought, in parts of a weight."""
    if choice.kind == "quantile":
        return choice.at.numerator * total
    least = min(reach(law, size), total)
    return least if choice.kind == "least" else 2 * total - least


def _runs(size: int, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gap, cell, gap, cell, …, gap: some of the gaps are empty."""
    edges = np.concatenate([np.array([-1]), cells, np.array([size])])
    starts, sizes = np.empty(2 * len(cells) + 1, np.int64), np.ones(2 * len(cells) + 1, np.int64)
    starts[0::2], starts[1::2] = edges[:-1] + 1, cells
    sizes[0::2] = np.diff(edges) - 1
    return starts, sizes


def choice_of(aggregate: Aggregate, histogram: int) -> Choice:
    """The choice that an aggregate asks for."""
    name = str(aggregate)
    match aggregate.function, aggregate.at:
        case "min", _:
            return Choice(name, histogram, "least")
        case "max", _:
            return Choice(name, histogram, "greatest")
        case "mode", _:
            return Choice(name, histogram, "mode")
        case _, Fraction() as at:
            return Choice(name, histogram, "quantile", at)
    raise ValueError(f"{aggregate} chooses nothing")
