"""Many quantiles of one argument: the weights of all cells of a tree over its grid, claimed together as one share.

Level l of the tree (1 … height) cuts the grid into 16^l equal runs of cells, those of the last level have one cell. The
root is not counted: it is the sum of the first level.
**Theorem.** A unit changes the vector of all nodes of all groups by at most height·most in L1, √height·most in L2 and
`most` in one coordinate, where `most` bounds what it adds to the histogram
(`dpsql.sensitivity.choice_layout.histogram`).
**Proof.** Each cell lies in one node a level, so a level is the histogram with some cells added up: the unit adds
non-negative weights of at most `most` in all to it, which is L1 ≤ most and so L2 ≤ most and linf ≤ most. With the
levels side by side the L1 norms add up, and the L2 norms in squares. The floor to a coarser grid is that of
`Claim.coarser`, over all nodes of all groups, or one node a level where a unit is one row. Where `most` bounds the L2
norm over groups of what a unit adds to each of them, a level is at most `most` in L2 all the same, since within a group
L2 ≤ L1; and at most √groups·most in L1.
**Requires** public keys, whose number bounds the coordinates.
**Checked by** `tests/properties/test_quantile_tree.py` and its planted bug "a level that is not charged".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from dpsql.sensitivity.choice import Choice, Histogram
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.clip import Norm

BRANCHES = 16
FEWEST = 4
"""Below so many quantiles of one argument each is a choice of its own."""
MOST_NODES = 2**17
"""Trees with more nodes, over all groups, are not built."""
LARGEST = 2**62
_ABSOLUTE = 0.8
"""The mean absolute value of a normal variable with deviation 1."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree over a histogram; `groups` is the number of its public groups."""

    name: str
    histogram: int
    height: int
    groups: int
    one: int
    most: int
    clipped: Norm | None = None

    @property
    def nodes(self) -> int:
        """How many a group has."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many there are on each level."""
        return tuple(BRANCHES**level for level in range(1, self.height + 1))

    @property
    def claim(self) -> Claim:
        """What a unit changes in all nodes together."""
        height, most = self.height, self.most
        reach = height if self.one == most == 1 else self.nodes * self.groups
        groups = isqrt(self.groups - 1) + 1 if self.clipped == "l2" else 1
        return Claim(None, most, height * most * groups, isqrt(height * most * most - 1) + 1, reach)


def height_of(cells: int) -> int:
    """The least height whose leaves are enough."""
    height = 1
    while BRANCHES**height < cells:
        height += 1
    return height


def plant(histograms: Sequence[Histogram], choices: Sequence[Choice], groups: int | None, mechanism: str) -> list[Tree]:
    """The trees that stand in place of choices: of histograms with so many quantiles that a tree errs less."""
    if groups is None:
        return []
    made = []
    for number, each in enumerate(histograms):
        places = [c.at for c in choices if c.histogram == number and c.kind == "quantile"]
        tree = Tree(f"tree of {each.grid.expression}", number, height_of(each.grid.cells), groups, each.one, each.most)
        small = tree.nodes * groups <= MOST_NODES
        if small and len(places) >= FEWEST and errs_less(places, tree.height, mechanism):
            made.append(tree)
    return made


def errs_less(places: Sequence[Fraction], height: int, mechanism: str) -> bool:
    """Is the mean error of a rank from one tree below that of a choice each, at the price of one?

    Both grow with most/ε, or most/√(2ρ). Of m choices with an m-th of the price each, one at q has a law about
    e^(−|error|/s) with s = 2·max(q, 1−q)·m, or max(q, 1−q)·√m. A tree has on each of h levels the noise of a sum of up
    to 16 nodes, of mean variance (16 − 1/16)/6 in units of a node's, whose deviation is √2·h, or √h.
    """
    side = float(sum(max(at, 1 - at) for at in places)) / len(places)
    node = sqrt(2) * height if mechanism == "laplace" else sqrt(height)
    choices = 2 * side * len(places) if mechanism == "laplace" else side * sqrt(len(places))
    return _ABSOLUTE * node * sqrt(height * (BRANCHES - 1 / BRANCHES) / 6) < choices


def counted(tree: Tree, shift: int, cells: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """All nodes of one group, level after level, floored to a grid 2**shift times as coarse; no data overflows."""
    held = weights.astype(object) if sum(weights.tolist()) >= LARGEST else weights
    levels = []
    for size in tree.sizes:
        sums = np.zeros(size, held.dtype)
        np.add.at(sums, cells // (BRANCHES**tree.height // size), held)
        levels.append(np.minimum(sums >> shift, LARGEST).astype(np.int64))
    return np.concatenate(levels)
