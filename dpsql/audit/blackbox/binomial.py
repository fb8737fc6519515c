"""Clopper and Pearson's exact test for two binomials: how well counts on two neighbours agree with a promise.

**Theorem.** Let an event have been fixed before, and be seen k times in n runs on one neighbour and l times in m runs
on the other, all independent. If the promise holds, P[p-value ≤ x] ≤ x for every x; so the largest value that is
refuted at level x is, with confidence 1 − x, a lower bound on what the query really costs.
**Proof.** Order the outcomes by T = k − λ·l, λ ≥ 0 the slope of the limit at a q that was fixed before. The p-value
is the largest P[T ≥ t] over all (p, q) that the promise allows. T's tail grows with p and falls with q, so over a
cell q in [a, b] of the boundary it is at most that at (most(b), a); cells are halved until the bound is within a
fiftieth of a value that is attained. No normal approximation is used. With one sample (q known) this is Clopper and
Pearson's bound; two of their intervals side by side would be valid as well, but need √2 times the distance.
**Checked by** `tests/audit/test_blackbox.py` (coverage on the boundary of a promise, and power).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.blackbox.promise import Floats, Limit

CELLS = 64
_FINEST = 2**-14
_TIGHT = 1.02
_BISECTIONS = 14
_TOP = {"epsilon": 12.0, "rho": 12.0}


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an event was seen: `hits` of `runs` where it should be likelier, `misses` of `others` elsewhere."""

    hits: int
    runs: int
    misses: int
    others: int


def p_value(counts: Counts, limit: Limit, q: float) -> float:
    """The largest probability, under the promise, of counts that speak against it at least as much as these."""
    slope = slope_of(limit, q)
    t = counts.hits - slope * counts.misses
    angles = np.linspace(0, np.pi / 2, CELLS + 1)
    cells = np.stack([angles[:-1], angles[1:]])
    attained = 0.0
    while cells.size:
        low, high = np.sin(cells[0]) ** 2, np.sin(cells[1]) ** 2
        tops = limit.most(np.minimum(high, 1.0))
        bounds = _tail(counts, tops, low, t, slope)
        attained = max(attained, float(_tail(counts, tops, high, t, slope).max()))
        fine = cells[1] - cells[0] <= _FINEST
        if fine.any():
            attained = max(attained, float(bounds[fine].max()))
        open_ = (bounds > _TIGHT * attained) & ~fine
        if not open_.any():
            break
        middle = cells[:, open_].mean(axis=0)
        cells = np.concatenate([np.stack([cells[0, open_], middle]), np.stack([middle, cells[1, open_]])], axis=1)
    return min(1.0, _TIGHT * attained)


def lower_bound(counts: Counts, limit: Limit, q: float, level: float) -> float:
    """The largest value of the promise that the counts refute at this level; zero if they refute none."""
    low, high = 0.0, _TOP[limit.kind]
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5 if low > 0 else high / 8
        refuted = p_value(counts, limit.at(middle), q) <= level
        low, high = (middle, high) if refuted else (low, middle)
    return low


def slope_of(limit: Limit, q: float) -> float:
    """How fast the limit grows at q: what one more hit elsewhere has to be made up for."""
    step = 1e-4
    near = np.clip(np.array([q - step, q + step]), 0.0, 1.0)
    low, high = limit.most(near)
    return float((high - low) / max(near[1] - near[0], step / 2))


def _tail(counts: Counts, p: Floats, q: Floats, t: float, slope: float) -> Floats:
    """P[k − slope·l ≥ t] for k of `runs` with chance p and l of `others` with chance q, for each pair."""
    fewest = np.ceil(t + slope * np.arange(counts.others + 1) - 1e-9)
    needed = np.clip(fewest, 0, counts.runs + 1).astype(np.int64)
    reached = np.cumsum(_masses(counts.runs, p)[:, ::-1], axis=1)[:, ::-1]
    padded = np.concatenate([reached, np.zeros((len(p), 1))], axis=1)
    return np.asarray((_masses(counts.others, q) * padded[:, needed]).sum(axis=1))


def _masses(n: int, p: Floats) -> NDArray[np.float64]:
    """The binomial law of n and each p, one row each."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    ways = logs[n] - logs - logs[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(k == 0, 0.0, k * np.log(p)[:, None])
        miss = np.where(k == n, 0.0, (n - k) * np.log1p(-p)[:, None])
    return np.asarray(np.exp(ways + hit + miss), np.float64)
