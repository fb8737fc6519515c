"""The released tables of a query with grouping sets, made consistent; every other table stays as it is.

Only sums over rows take part: counts of units or of different values do not add up. Tables with private keys do not
list every cell, so they are left alone, as are those whose keys have other values than in the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.expressions.json_form import order
from dpsql.plan.plan import Family, Plan
from dpsql.release.consistent import Axes, fitted
from dpsql.release.estimate import step
from dpsql.release.noise import RELEASE, Noisy, Table

Draws = Mapping[str, tuple[Noisy, ...]]
Made = TypeVar("Made", bound=Table)
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


def fit_draws(plan: Plan, released: Mapping[str, Table], draws: Draws) -> dict[str, tuple[Noisy, ...]]:
    """Draws around raw values as the same fit would show them: so they vary, together, as fitted values do."""
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


def _groups(plan: Plan, released: Mapping[str, Table]) -> Iterator[list[_Table]]:
    """The tables that are fitted to each other: of one family, and of one meaning."""
    for family in plan.families:
        meanings: dict[_Meaning, list[_Table]] = {}
        for name in _listed(family, released):
            for meaning, table in _tables(family, name, released):
                meanings.setdefault(meaning, []).append(table)
        yield from (_comparable(group) for group in meanings.values() if len(group) > 1)


def _comparable(group: Sequence[_Table]) -> list[_Table]:
    """The tables in parts of their largest step: in the steps of a very wide column their squares are no numbers."""
    largest = max(table.step for table in group)
    parts = [table.step / largest for table in group]
    return [replace(t, step=part, variance=t.variance * part**2) for t, part in zip(group, parts, strict=True)]


def _listed(family: Family, released: Mapping[str, Table]) -> list[str]:
    """The releases of a family that list every cell, with the same values for each key."""
    names = list(dict.fromkeys(member.release for member in family.members))
    public = [name for name in names if released[name].priced.bounded.public and released[name].keys]
    values = {key.name: key.values for name in public for key in released[name].priced.bounded.keys}
    return [n for n in public if all(values[k.name] == k.values for k in released[n].priced.bounded.keys)]


def _tables(family: Family, name: str, released: Mapping[str, Table]) -> Iterator[tuple[_Meaning, _Table]]:
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


def _keys(family: Family, released: Mapping[str, Table]) -> set[str]:
    return {key.name for member in family.members for key in released[member.release].priced.bounded.keys}
