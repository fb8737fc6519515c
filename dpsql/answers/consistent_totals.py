"""Totals that agree with their parts: the grouping sets of one query, fitted to each other by least squares.

Only sums over rows take part: counts of units or of distinct values do not add up. Tables with private keys do not list
every cell, so they stay as they are, as do tables whose keys have other values than the rest.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.estimation import step
from dpsql.answers.noise_stage import RELEASE, Noisy, NoisyTable
from dpsql.expressions.expression import order
from dpsql.plan.plan import Family, Plan

Draws = Mapping[str, tuple[Noisy, ...]]
Made = TypeVar("Made", bound=NoisyTable)
_RELEASE = RELEASE.take()
_Meaning = tuple[str, int, int]
"""What a statistic is, whatever its place: its argument, and its α and β."""


@dataclass(frozen=True, slots=True)
class _Table:
    """One statistic of one release as a table over the keys of its family."""

    name: str
    index: int
    axes: Axes
    shape: tuple[int, ...]
    step: float
    variance: float


def fit_tables(plan: Plan, released: Mapping[str, Made]) -> dict[str, Made]:
    """The tables with fitted values, and by how much their noise has shrunk."""
    spread = {name: [1.0] * len(table.noisy) for name, table in released.items()}
    values = {name: [each[None, :] for each in table.noisy] for name, table in released.items()}
    touched = set()
    for group in _groups(plan, released):
        for table, made, left in _fitted(group, values):
            values[table.name][table.index] = made
            spread[table.name][table.index] = sqrt(left / table.variance)
            touched.add(table.name)
    return {
        name: table if name not in touched
        else table.fitted(tuple(v[0] for v in values[name]), tuple(spread[name]), _RELEASE)
        for name, table in released.items()
    }  # fmt: skip


def fit_draws(plan: Plan, released: Mapping[str, NoisyTable], draws: Draws) -> dict[str, tuple[Noisy, ...]]:
    """Draws around raw values, fitted in the same way, so that together they vary as fitted values do."""
    values = {name: list(drawn) for name, drawn in draws.items()}
    for group in _groups(plan, released):
        for table, made, _ in _fitted(group, values):
            values[table.name][table.index] = made
    return {name: tuple(drawn) for name, drawn in values.items()}


def _fitted(
    group: Sequence[_Table], values: Mapping[str, Sequence[Noisy]]
) -> list[tuple[_Table, NDArray[np.float64], float]]:
    """Each table's fitted values in its own steps, one row for each draw, and their variance."""
    raw = [values[t.name][t.index].astype(np.float64).reshape(-1, *t.shape) * t.step for t in group]
    made, left = fitted(raw, [t.axes for t in group], [t.variance for t in group])
    return [
        (t, cells.reshape(len(cells), -1) / t.step, variance)
        for t, cells, variance in zip(group, made, left, strict=True)
    ]


def _groups(plan: Plan, released: Mapping[str, NoisyTable]) -> Iterator[list[_Table]]:
    """The tables that are fitted to each other: of one family, and of one meaning."""
    for family in plan.families:
        meanings: dict[_Meaning, list[_Table]] = {}
        for name in _listed(family, released):
            for meaning, table in _tables(family, name, released):
                meanings.setdefault(meaning, []).append(table)
        yield from (_comparable(group) for group in meanings.values() if len(group) > 1)


def _comparable(group: Sequence[_Table]) -> list[_Table]:
    """The tables in units of their largest step: in the steps of a very wide column their squares would overflow."""
    largest = max(table.step for table in group)
    parts = [table.step / largest for table in group]
    return [replace(t, step=part, variance=t.variance * part**2) for t, part in zip(group, parts, strict=True)]


def _listed(family: Family, released: Mapping[str, NoisyTable]) -> list[str]:
    """The releases of a family that list every cell, with the same values for each key."""
    names = list(dict.fromkeys(member.release for member in family.members))
    public = [name for name in names if released[name].priced.selection is None and released[name].keys]
    values = {key.name: key.values for name in public for key in released[name].priced.bounded.keys}
    return [n for n in public if all(values[k.name] == k.values for k in released[n].priced.bounded.keys)]


def _tables(family: Family, name: str, released: Mapping[str, NoisyTable]) -> Iterator[tuple[_Meaning, _Table]]:
    priced = released[name].priced
    bounded, every = priced.bounded, sorted({k for m in family.members for k in m.missing} | _keys(family, released))
    sizes = {key.name: len(key.values or ()) for key in bounded.keys}
    shape = tuple(sizes.get(key, 1) for key in every)
    axes = frozenset(every.index(key) for key in sizes)
    for index, statistic in enumerate(bounded.statistics):
        part, size = statistic.part, step(priced, index)
        if part.weighed:
            argument = bounded.arguments[part.argument].expression
            variance = max(priced.noised[index].noise.variance(), 1e-30)
            meaning = ("" if argument is None else order(argument), part.alpha, part.beta)
            yield meaning, _Table(name, index, axes, shape, size, variance)


def _keys(family: Family, released: Mapping[str, NoisyTable]) -> set[str]:
    return {key.name for member in family.members for key in released[member.release].priced.bounded.keys}


# the fit --------------------------------------------------------------------------------------------------------------


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
