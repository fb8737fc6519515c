"""The noisy histogram of unit norms that a search released, and the histograms that may lie behind it.

What a search releases is mostly noise: of about a hundred buckets a dozen hold units. Which, and how many, is told by a
model of how norms are distributed, a hidden Markov chain along the buckets. From below, all buckets are empty until a
cluster of units *starts*. In a cluster the number of units wanders from bucket to bucket, by an octave or so, until it
*ends*, or a *gap* of empty buckets comes before the next cluster. `likely_histograms` draws from the posterior of that
chain by forward filtering and backward sampling. So weak evidence counts as much as it is worth: many small counts in a
row are units, one alone far out is noise, unless it is large enough for its distance.

It is a function of released numbers, the policy and constants. The draws take their randomness from a fixed sequence,
so that the same histogram always tells the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mechanism = Literal["gaussian", "laplace"]

DRAWS = 128
_EMPTY = 0.02
"""The prior chance that no unit has a value at all."""
_END, _GAP, _AGAIN = 0.06, 0.06, 0.2
"""The chance after each bucket of a cluster that it was the last, or that a gap follows, and that a gap ends."""
_WANDER, _JUMP = 1.0, 0.1
"""By how many octaves the number of units differs from one bucket to the next: the mean of a Laplace law; and the
chance that it is any other number instead."""
_BELOW_CAP, _ABOVE_CAP, _ANYWHERE = 0.1, 0.5, 0.02
"""How fast the chance that the first units are in a bucket falls with its distance from the cap in half octaves, below
and above it, and how much of that chance is spread over all buckets."""
_ERFC = np.frompyfunc(math.erfc, 1, 1)
_BEFORE, _BETWEEN, _AFTER, _STATES = 0, 1, 2, 3
"""The states of an empty bucket: below all clusters, in a gap, and above; those that follow have units."""


@dataclass(frozen=True, slots=True, eq=False)
class NormHistogram:
    """What the search released: the noisy number of units by the norm of their contribution, and how they spread.

    `counts[0]` holds the norms in (0, lowest edge], `counts[-1]` those above the top edge; in between the bucket with
    the half-octave index h = `first`, `first` + 1, … holds 2^((h-1)/2) < norm ≤ 2^(h/2). A unit without a value is in
    none. `spreads` has the noisy sum of t = (‖z‖₁/‖z‖₂ - 1)/(√G - 1) for each bucket; it is None where the norm is L1,
    and may be for a single cell. `sd` and `spread_sd` are the standard deviations of the noise of one item of each,
    after what was released has been divided by `COUNT_WEIGHT` and `SPREAD_WEIGHT`.
    """

    first: int
    counts: Floats
    spreads: Floats | None
    sd: float
    spread_sd: float | None

    def __post_init__(self) -> None:
        if self.counts.ndim != 1 or len(self.counts) < 3:
            raise ValueError("a histogram needs an underflow, an overflow and a bucket between them")
        if (self.spreads is None) != (self.spread_sd is None):
            raise ValueError("spreads and spread_sd must be given together")
        if self.spreads is not None and self.spreads.shape != self.counts.shape:
            raise ValueError("spreads and counts must have the same length")
        if not (self.sd > 0 and (self.spread_sd is None or self.spread_sd > 0)):
            raise ValueError("the noise of a histogram must be positive")
        if not (np.isfinite(self.counts).all() and (self.spreads is None or np.isfinite(self.spreads).all())):
            raise ValueError("the counts and spreads of a histogram must be finite")

    @property
    def uppers(self) -> Floats:
        """The upper edge of each bucket; the overflow is taken to end half an octave above the top edge."""
        return np.exp2((self.first - 1 + np.arange(len(self.counts))) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class Likely:
    """Histograms of whole counts that may lie behind a noisy one, one in each row, and the evidence for any units.

    `evidence` is by how much the released counts are more likely with units than without (a Bayes factor).
    """

    counts: Floats
    evidence: float


@lru_cache(maxsize=64)
def likely_histograms(histogram: NormHistogram, mechanism: Mechanism, cap: float | None) -> Likely:
    """Draws from the posterior of the model; a histogram, which is compared by identity, is computed once."""
    levels = _levels(histogram)
    likelihood = _likelihood(histogram, levels, mechanism)
    starts = _starts(histogram, cap)
    moves, first = _moves(levels)
    steps = [_step(moves, first, start) for start in starts]
    forward = np.empty_like(likelihood)
    state = np.eye(1, len(moves))[0]
    for place, step in enumerate(steps):
        state = (state @ step) * likelihood[place]
        state /= state.sum()
        forward[place] = state
    lows, highs = levels
    uniforms = _uniforms(len(starts))
    counts = np.zeros((DRAWS, len(starts)))
    reached = np.broadcast_to(forward[-1], (DRAWS, len(moves)))
    for place in range(len(starts) - 1, -1, -1):
        sums = np.cumsum(reached, axis=1)
        states = np.sum(sums < (uniforms[place] * sums[:, -1])[:, None], axis=1)
        held, level = states >= _STATES, np.maximum(states - _STATES, 0)
        counts[:, place] = np.where(held, np.clip(histogram.counts[place], lows[level], highs[level]), 0.0)
        reached = forward[place - 1] * steps[place][:, states].T
    empty = float(forward[-1][_BEFORE])
    return Likely(counts, math.inf if empty == 0 else (1 - empty) / empty * _EMPTY / (1 - _EMPTY))


@lru_cache(maxsize=8)
def _uniforms(size: int) -> Floats:
    random = Random(size)  # noqa: S311 (no secret: it spreads the draws evenly)
    return np.array([[random.random() for _ in range(DRAWS)] for _ in range(size)])


def _levels(histogram: NormHistogram) -> tuple[Floats, Floats]:
    """The ends of the octaves that a bucket's number of units may lie in; those far below the noise are one."""
    most = max(float(histogram.counts.max()), 0.0) + 4 * histogram.sd + 4
    ends = np.exp2(np.arange(-1, math.ceil(math.log2(most)) + 1))
    ends = ends[(ends >= histogram.sd / 16) | (ends == ends[0])]
    return ends[:-1], ends[1:]


def _likelihood(histogram: NormHistogram, levels: tuple[Floats, Floats], mechanism: Mechanism) -> Floats:
    """How likely each state makes each released count, up to a factor for each count.

    A number of units is taken to be anywhere within its octave, so its density is the mean over that.
    """
    seen = histogram.counts[:, None] / histogram.sd
    lows, highs = (end / histogram.sd - seen for end in levels)
    near, far = (np.where(lows + highs < 0, *pair) for pair in ((-highs, lows), (-lows, highs)))
    mass = _beyond(near, mechanism) - _beyond(far, mechanism)
    empty = _density(seen, mechanism)
    likelihood = np.hstack([np.repeat(empty, _STATES, axis=1), mass / (far - near)])
    likelihood = np.maximum(likelihood, 1e-280)
    return np.asarray(likelihood / likelihood.max(axis=1, keepdims=True), dtype=np.float64)


def _density(x: Floats, mechanism: Mechanism) -> Floats:
    """The density of noise with the standard deviation 1."""
    if mechanism == "gaussian":
        return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    return np.asarray(np.exp(-math.sqrt(2) * np.abs(x)) / math.sqrt(2))


def _beyond(x: Floats, mechanism: Mechanism) -> Floats:
    """The chance that such noise is above x."""
    if mechanism == "gaussian":
        return np.asarray(_ERFC(x / math.sqrt(2)), dtype=np.float64) / 2
    tail = np.exp(-math.sqrt(2) * np.abs(x)) / 2
    return np.where(x < 0, 1 - tail, tail)


def _starts(histogram: NormHistogram, cap: float | None) -> Floats:
    """The chance for each bucket to start the first cluster, if no bucket below did: more likely close to the cap."""
    size = len(histogram.counts)
    weights = np.ones(size)
    if cap is not None:
        below = int(np.searchsorted(histogram.uppers, cap)) - np.arange(size)
        weights = np.exp(-np.where(below >= 0, _BELOW_CAP * below, -_ABOVE_CAP * below))
        weights += _ANYWHERE * weights.mean()
    weights *= (1 - _EMPTY) / weights.sum()
    left: Floats = np.cumsum(weights[::-1])[::-1] + _EMPTY
    return weights / left


def _moves(levels: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The chances to go from one state to another, but for starts, and those of each level to be a cluster's first."""
    octaves = np.log2(levels[1] / levels[0])
    first = octaves / octaves.sum()
    middles = np.log2(levels[0] * levels[1]) / 2
    near = np.exp(-np.abs(middles - middles[:, None]) / _WANDER) * octaves
    moves = np.zeros((_STATES + len(first),) * 2)
    near = (1 - _JUMP) * near / near.sum(axis=1, keepdims=True) + _JUMP * first
    moves[_STATES:, _STATES:] = (1 - _END - _GAP) * near
    moves[_STATES:, _BETWEEN], moves[_STATES:, _AFTER] = _GAP, _END
    moves[_BETWEEN, _BETWEEN], moves[_BETWEEN, _STATES:] = 1 - _AGAIN, _AGAIN * first
    moves[_AFTER, _AFTER] = 1
    return moves, first


def _step(moves: Floats, first: Floats, start: float) -> Floats:
    """The moves into a bucket that starts the first cluster with a chance."""
    step = moves.copy()
    step[_BEFORE, _BEFORE], step[_BEFORE, _STATES:] = 1 - start, start * first
    return step
