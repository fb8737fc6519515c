"""Global and local sensitivity by search over a small universe, to check a claim.

A sensitivity that was derived on paper is compared with every pair of neighbours there is. That proves nothing for
larger data, and refutes a wrong claim at once, with the pair that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.textbook.additive import rational

Neighbours = Literal["replace", "add-remove"]
"""Neighbours differ in one row, or one has a row more."""
Function = Callable[[tuple[Any, ...]], Any]
_MOST = 2_000_000


@dataclass(frozen=True, slots=True)
class LargestChange:
    """The largest change, and two neighbours between which it happens."""

    value: Fraction | float
    pair: tuple[tuple[Any, ...], tuple[Any, ...]] | None


def global_sensitivity(
    function: Function, universe: Sequence[Any], size: int, neighbours: Neighbours = "replace", norm: int = 1
) -> LargestChange:
    """The most that one row changes a function, over all databases of `size` rows (at most, for add-remove)."""
    sizes = [size] if neighbours == "replace" else list(range(size + 1))
    if sum(len(universe) ** n for n in sizes) * (size + 1) * (len(universe) + 1) > _MOST:
        raise ProgrammingError("there are too many databases to try", hint="take a smaller universe, or fewer rows")
    found = LargestChange(Fraction(0), None)
    for n in sizes:
        for rows in product(universe, repeat=n):
            here = local_sensitivity(function, rows, universe, neighbours, norm)
            found = max(found, here, key=lambda each: each.value)
    return found


def local_sensitivity(
    function: Function, rows: Sequence[Any], universe: Sequence[Any], neighbours: Neighbours = "replace", norm: int = 1
) -> LargestChange:
    """The most that one row changes a function, from these rows on."""
    here, found = tuple(rows), LargestChange(Fraction(0), None)
    value = _vector(function(here))
    for other in _next_to(here, universe, neighbours):
        change = _distance(value, _vector(function(other)), norm)
        if change > found.value:
            found = LargestChange(change, (here, other))
    return found


def _next_to(rows: tuple[Any, ...], universe: Sequence[Any], neighbours: Neighbours) -> Iterator[tuple[Any, ...]]:
    """All neighbours of these rows; a row is added at the end, as the order of rows means nothing."""
    if neighbours == "replace":
        yield from ((*rows[:i], new, *rows[i + 1 :]) for i in range(len(rows)) for new in universe if new != rows[i])
        return
    if neighbours != "add-remove":
        raise ProgrammingError(f"neighbours are replace or add-remove, not {neighbours!r}")
    yield from (rows[:i] + rows[i + 1 :] for i in range(len(rows)))
    yield from ((*rows, new) for new in universe)


def _vector(value: Any) -> list[Fraction]:
    return [rational(part) for part in value] if isinstance(value, Iterable) else [rational(value)]


def _distance(one: list[Fraction], two: list[Fraction], norm: int) -> Fraction | float:
    if norm not in (1, 2) or len(one) != len(two):
        raise ProgrammingError("a distance is L1 or L2, between vectors of one length")
    parts = [abs(a - b) for a, b in zip(one, two, strict=True)]
    if norm == 1 or len(parts) == 1:
        return sum(parts, Fraction(0))
    return math.sqrt(sum(part**2 for part in parts))
