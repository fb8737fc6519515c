"""Totals that agree with their parts: the grouping sets of one query, fitted to each other by least squares.

Each grouping set is released with noise of its own, so a total and the sum of its parts are two measurements of one
number. The tables that are nearest to all of them, each weighed by its precision, are consistent and have the least
error. This is post-processing: it reads released values and public noise laws only, so it is free.

**Theorem.** `fitted` gives the weighted least-squares fit of all tables (the best linear unbiased estimate of each
cell) and its exact variance, which is the same for all cells of a table and no larger than before.
**Proof.** Let the full table have axes of n_i values. The space of tables is the orthogonal sum of the spaces H_U of
interactions of the axes in U (the mean along each axis of U is zero, and nothing varies along the others); the noise
of a table is white, so its components are uncorrelated, too. The marginal table over T ⊇ U, summed onto U, has in H_U
the component θ_U of the marginal over U, plus noise of variance σ_T²·∏ n_i (over i in T∖U) a cell before projection.
So the fit falls apart into one weighted mean for each U, with weights 1/(σ_T²·∏ n_i) and variance v_U = 1/Σ weights.
The table over S is Σ θ_U / ∏ n_i (over U ⊆ S, and i in S∖U), and the projection onto H_U leaves ∏(1 − 1/n_i) (over i
in U) of the variance in each cell. A U that only one table covers keeps its component: only the others are computed.
**Requires** tables that list every cell: public keys with the same values in each set.
**Checked by** `tests/unit/release/test_consistent.py`, against a dense solve, with the planted bug "wrong weights".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Axes = frozenset[int]


def fitted(
    tables: Sequence[Floats], sets: Sequence[Axes], variances: Sequence[float]
) -> tuple[list[Floats], list[float]]:
    """The fitted tables and their variances.

    Axis 0 counts draws; axis i+1 is key i, of length 1 where a table lacks it, and elsewhere as long as in all others.
    """
    shape = [max(table.shape[axis] for table in tables) for axis in range(1, tables[0].ndim)]
    made, left = [table.copy() for table in tables], list(variances)
    for axes in _shared(sets):
        covering = [i for i, each in enumerate(sets) if axes <= each]
        cells = {i: prod(shape[axis] for axis in sets[i] - axes) for i in covering}
        weights = {i: weight(variances[i], cells[i]) for i in covering}
        parts = {i: _component(tables[i], sets[i], axes) for i in covering}
        whole = sum(weights.values())
        mean = sum(weights[i] * parts[i] for i in covering) / whole
        kept = prod(1 - 1 / shape[axis] for axis in axes)
        for i in covering:
            made[i] += (mean - parts[i]) / cells[i]
            left[i] += (1 / whole - 1 / weights[i]) * kept / cells[i] ** 2
    return made, left


def weight(variance: float, cells: int) -> float:
    """The precision of a sum of so many cells."""
    return 1 / (variance * cells)


def _shared(sets: Sequence[Axes]) -> Iterator[Axes]:
    """The sets of axes that at least two tables have."""
    found = {
        frozenset(axes)
        for one, two in combinations(sets, 2)
        for size in range(len(one & two) + 1)
        for axes in combinations(sorted(one & two), size)
    }
    yield from sorted(found, key=lambda axes: (len(axes), sorted(axes)))


def _component(table: Floats, has: Axes, axes: Axes) -> Floats:
    """The table summed onto the axes, less its mean along each of them."""
    gone = tuple(axis + 1 for axis in sorted(has - axes))
    part = table.sum(axis=gone, keepdims=True) if gone else table
    for axis in axes:
        part = part - part.mean(axis=axis + 1, keepdims=True)
    return part
