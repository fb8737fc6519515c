"""Which private keys may be shown: the smallest threshold that hides a unit's own keys up to delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from dpsql.errors import InternalError
from dpsql.mechanisms.discrete_noise import Noise, smallest

_SLACK = 2.0**-48


def threshold(noise: Noise, weights: Sequence[int], delta: float) -> int:
    """The smallest integer T with 1 − (1 − P[Z >= T − w_g])^g <= delta for every g, w_g = weights[g − 1].

    **Theorem.** Let a unit that is in g groups give the integer weight w_g to each of them. Releasing exactly the
    keys with (sum of weights) + Z >= T, with independent Z for every key that some unit has, is
    delta-approximate ρ-zCDP, ρ the cost of the noise for these weight vectors (with Laplace noise
    (ε, delta)-DP).
    **Proof.** Let D' be D with one more unit, in g groups, j <= g of which are not in D. Let E be the event that
    none of these j is released from D'. Their weight is w_g, so P[E] = (1 − P[Z >= T − w_g])^j >= 1 − delta,
    and E does not depend on the noise of the other keys. Given E, both databases release a function of the
    noisy weights of D's keys, which differ by part of the unit's vector: ρ-zCDP, in both directions. D never
    releases the j keys. This is approximate zCDP (Bun and Steinke 2016).
    Minimal: P[Z >= 0] > 1/2 > delta, so T > w_1, where the search starts.
    **Requires** that every unit gives weight to at most len(weights) groups, and that keys come from the capped table
    only (`dpsql.engines.sql.emit`, `dpsql.answers.noise_stage`).
    **Checked by** `tests/unit/mechanisms/test_threshold.py`: by exact rational tails T suffices, T − 1 does not, and
    the continuous formula fails.
    """
    if not 0 < delta < 0.5 or not weights or min(weights) < 0:
        raise InternalError("a threshold needs weights and a delta strictly between 0 and 1/2")
    reached = weights[0]
    for groups in range(len(weights), 0, -1):
        weight = weights[groups - 1]
        reached = weight + smallest(partial(_hides, noise, groups, delta), reached - weight)
    return reached


def _hides(noise: Noise, groups: int, delta: float, gap: int) -> bool:
    return exposure(noise, gap, groups) <= delta


def exposure(noise: Noise, gap: int, groups: int) -> float:
    """An upper bound on the probability that one of `groups` keys, each `gap` below the threshold, shows."""
    shown = noise.tail(gap)
    return 1.0 if shown >= 1 else -math.expm1(groups * math.log1p(-shown)) * (1 + _SLACK)


def selection_weights(groups: int, bits: int = 20) -> tuple[int, ...]:
    """w_g = ⌊2^bits/√g⌋ for g = 1 … groups: DP set union (Gopi et al. 2020).

    **Theorem.** A unit's weight vector has L2 norm at most 2^bits, whatever the number of its groups.
    **Proof.** g·w_g² <= g·(4^bits/g), since w_g = ⌊√⌊4^bits/g⌋⌋ = ⌊√(4^bits/g)⌋ for integers.
    **Requires** that a unit in more groups than that gives weight to so many only (`dpsql.engines.sql.emit`).
    **Checked by** `tests/unit/mechanisms/test_threshold.py`.
    """
    return tuple(math.isqrt(4**bits // g) for g in range(1, groups + 1))
