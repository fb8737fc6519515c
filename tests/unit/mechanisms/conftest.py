"""Goodness of fit for integer samples: a right law is rejected once in 10**8 seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-8
ALARM_OF_ANOTHER_SAMPLER = 1e-12
"""Another library's draws cannot be repeated, so its test meets new ones each time."""
Survival = Callable[[int], float]


def _edges(survival: Survival, size: int) -> list[int]:
    """Cut points that leave at least 25 expected draws in every bin, about 40 bins."""
    edges: list[int] = []
    last = 1.0
    reach = 1
    while survival(reach) * size > 1:
        reach *= 2
    step = max(1, reach // 200)
    for x in range(-reach, reach + 1, step):
        now = survival(x)
        if (last - now) * size >= max(25, size / 40) and now * size >= 25:
            edges.append(x)
            last = now
    return edges


@pytest.fixture
def fits() -> Callable[[NDArray[np.int64], Survival], bool]:
    """Whether a sample may come from the law with this P[Z >= x] (Pearson's chi-square test)."""

    def check(sample: NDArray[np.int64], survival: Survival) -> bool:
        edges = _edges(survival, sample.size)
        at_least = np.array([1.0, *(survival(x) for x in edges), 0.0])
        counts = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=len(edges) + 1)
        return bool(stats.chisquare(counts, -np.diff(at_least) * sample.size).pvalue > ALARM)

    return check


@pytest.fixture
def same_law() -> Callable[[NDArray[np.int64], NDArray[np.int64]], bool]:
    """Whether two samples may come from one law (chi-square test of homogeneity)."""

    def check(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
        edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0.02, 0.98, 30)))
        table = [
            np.bincount(np.searchsorted(edges, z, side="right"), minlength=edges.size + 1) for z in (first, second)
        ]
        filled = np.array(table)[:, np.sum(table, axis=0) > 0]
        return bool(stats.chi2_contingency(filled).pvalue > ALARM_OF_ANOTHER_SAMPLER)

    return check
