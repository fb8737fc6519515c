"""The scores of all cells of a grid, which may have millions: runs of equal scores, group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import overload

Runs = tuple[tuple[int, ...], tuple[int, ...]]
"""Scores, and for how many cells each holds."""


@dataclass(frozen=True, slots=True, eq=True)
class Stepwise(Sequence[int]):
    """As long as all cells of all groups; compared and measured by its runs."""

    groups: tuple[Runs, ...]

    def __len__(self) -> int:
        return sum(sum(sizes) for _, sizes in self.groups)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(repeat(s, n) for group in self.groups for s, n in zip(*group, strict=True))

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...
    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        return tuple(self)[place]

    def best(self, group: int) -> int:
        """The first cell with the least score."""
        scores, sizes = self.groups[group]
        least = scores.index(min(scores))
        return sum(sizes[:least])


def extremes(one: Runs, two: Runs | None) -> tuple[int, int]:
    """The smallest and the largest difference between the cells of two groups; without another, to zero."""
    if two is None:
        return min(one[0]), max(one[0])
    ends = [list(accumulate(sizes)) for _, sizes in (one, two)]
    i = j = 0
    found = []
    while i < len(ends[0]) and j < len(ends[1]):
        found.append(one[0][i] - two[0][j])
        a, b = ends[0][i], ends[1][j]
        i, j = i + (a <= b), j + (b <= a)
    return min(found), max(found)
