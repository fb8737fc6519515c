"""Quantiles, and intervals around them, from the noisy nodes of a tree. Post-processing only.

**Consistency.** Let every node have noise of variance 1, and k = 16. Upwards, the best estimate z of a node from itself
and the nodes below has the variance V: 1 for a leaf, and 1/(1 + 1/(k·V below)) else. Downwards, a node's children get
what is missing from their sum in equal parts. That is least squares over the whole tree.
**Theorem.** Let e(x) be the noise of F̂(x) − q·F̂(last), where F̂ adds up the leaves. With x's digits j₁ j₂ … to the base
k, and φ_l the part of the leaves below a node of level l on x's path that are at most x, its variance is
(φ₀ − q)²·k·V₁ + Σ_l V_l·(j_l + φ_l² − (j_l + φ_l)²/k).
**Proof.** The deviations d of the children's z from their mean are independent of their sum, and so of everything
above and beside, and est(child) = est(parent)/k + d. So F̂(x) = φ₀·est(root) + Σ_l (Σ d of the j_l children to the
left + φ_l·d of the child on the path), with cov(d) = V_l·(1 − 1/k) on, and −V_l/k off, the diagonal.
**Theorem (intervals).** Let t(x) be what |e(x)| exceeds with probability at most α. The quantile, the first cell x*
with F(x*) ≥ q·N, lies between the first x with F̂(x) ≥ q·N̂ − t(x) and the cell after the last one with
F̂(x) < q·N̂ + t(x), but for a probability of α. **Proof.** F̂(x*) − q·N̂ ≥ e(x*), which is
below −t(x*) with probability at most α/2; and F̂(x*−1) − q·N̂ < e(x*−1), which is above t(x*−1) with the same
probability.
The noise is a sum of many: under Gaussian noise Gaussian, under Laplace noise between the two laws (the wider one is
taken).
**Requires** independent noise of one scale on every node (`dpsql.answers.noise_stage`), and a unit's joint claim on all
levels (`dpsql.sensitivity.quantile_tree`), which is what privacy rests on.
**Checked by** `tests/unit/release/test_tree.py`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from math import log1p, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.pricing import Noised
from dpsql.mechanisms import DiscreteLaplace
from dpsql.sensitivity.quantile_tree import BRANCHES, Tree

Floats = NDArray[np.float64]
Cells = NDArray[np.int64]
ROUNDING = 1e-9


def quantile_cells(tree: Tree, cells: int, nodes: NDArray[Any], at: Fraction) -> Cells:
    """The first cell in each group up to which the part `at` of all rows seems to lie.

    Sums that noise made fall are levelled halfway between the largest before and the least behind, which brings none of
    them further from the truth than the worst one is.
    """
    found = []
    for group in nodes:
        sums = cumulated(tree, group)
        total = max(float(sums[-1]), 0.0)
        levelled = (np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1])[:cells] / 2
        found.append(min(int(np.searchsorted(levelled, _under(float(at) * total))), cells - 1))
    return np.array(found, dtype=np.int64)


def quantile_ends(
    tree: Tree, noised: Noised, cells: int, nodes: NDArray[Any], at: Fraction, confidence: float
) -> tuple[Cells, Cells]:
    """The cells between which the quantile lies in each group with that confidence."""
    ends = []
    far = reach(noised, confidence) * _deviations(tree.height, at)
    for group in nodes:
        sums = cumulated(tree, group)
        above = sums - float(at) * sums[-1]
        first = np.flatnonzero(above >= -far - ROUNDING * abs(sums[-1]))
        last = np.flatnonzero(above < far + ROUNDING * abs(sums[-1]))
        low, high = first[0] if len(first) else 0, last[-1] + 1 if len(last) else 0
        ends.append([min(int(low), cells - 1), min(int(high), cells - 1)])
    low, high = np.array(ends, dtype=np.int64).reshape(len(nodes), 2).T
    return low, high


def totals_of(tree: Tree, noised: Noised, nodes: NDArray[Any], confidence: float) -> tuple[Floats, float]:
    """The estimated number of values in each group, and how far it is off at most with that confidence, in steps."""
    sums = np.array([cumulated(tree, group)[-1] for group in nodes])
    return sums, reach(noised, confidence) * float(_deviations(tree.height, Fraction(0))[-1])


def rank_width(tree: Tree, noised: Noised, at: Fraction, confidence: float) -> float:
    """The most rows by which the rank of this quantile is off with that confidence, wherever it lies."""
    far = reach(noised, confidence) * float(_deviations(tree.height, at).max())
    return far * float(2**noised.shift) / tree.one


def reach(noised: Noised, confidence: float) -> float:
    """How far a sum of noises with the variance of 1 node strays at most, with that confidence, in steps."""
    normal, scale = NormalDist().inv_cdf((1 + confidence) / 2), float(noised.noise.scale)
    if isinstance(noised.noise, DiscreteLaplace):
        return max(normal * sqrt(2), -log1p(-confidence)) * scale
    return normal * scale


def cumulated(tree: Tree, nodes: NDArray[Any]) -> Floats:
    """F̂: the least-squares estimates of the leaves, added up."""
    levels = [level.astype(np.float64) for level in np.split(nodes, np.cumsum(tree.sizes)[:-1])]
    variances = _variances(tree.height)
    for level in reversed(range(tree.height - 1)):
        below = _below(levels[level + 1])
        levels[level] = below + variances[level] * (levels[level] - below)
    for level in range(1, tree.height):
        missing = levels[level - 1] - _below(levels[level])
        levels[level] = levels[level] + np.repeat(missing / BRANCHES, BRANCHES)
    sums: Floats = np.cumsum(levels[-1])
    return sums


def _below(children: Floats) -> Floats:
    """The sum of the children of each node."""
    sums: Floats = children.reshape(len(children) // BRANCHES, BRANCHES).sum(axis=1)
    return sums


def _under(rank: float) -> float:
    """A rank, of no less than zero, that is met in spite of rounding."""
    return rank * (1 - ROUNDING)


@cache
def _variances(height: int) -> tuple[float, ...]:
    """V of levels 1 to `height`. It is also the weight of a node's own count in its estimate."""
    made = [1.0]
    while len(made) < height:
        made.insert(0, 1 / (1 + 1 / (BRANCHES * made[0])))
    return tuple(made)


@lru_cache(maxsize=16)
def _deviations(height: int, at: Fraction) -> Floats:
    """The deviation of e(x) for every leaf x."""
    leaves, variances = np.arange(BRANCHES**height), _variances(height)
    whole = (leaves + 1) / BRANCHES**height
    total = (whole - float(at)) ** 2 * BRANCHES * variances[0]
    for level, variance in enumerate(variances, start=1):
        width = BRANCHES ** (height - level)
        left, part = leaves // width % BRANCHES, (leaves % width + 1) / width
        total = total + variance * (left + part**2 - (left + part) ** 2 / BRANCHES)
    return np.asarray(np.sqrt(np.maximum(total, 0.0)))
