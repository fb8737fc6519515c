"""The clip bound C, chosen from a noisy histogram of unit norms: post-processing of what a search released.

A release clips each unit's whole vector to the norm C and adds noise of C·`noise_per_clip` to every cell. A small C
cuts off what heavy units contribute, a large one drowns the answer in noise. The search released how many units have
a norm in each half octave, with noise. `likely_histograms` draws what the true numbers may be; for each draw and each
bucket edge as a bound, √(cut² + noise²) is the error of a cell. C is the edge (or the cap, where that is lower) whose
error is the least multiple of the best one's, in the geometric mean over the draws: an error twice as large as need be
is as bad whichever side it comes from, and one bucket of noise far out, taken for units, would cost orders of
magnitude. A unit is taken to lie at the *upper* edge of its bucket: a C just below many units costs far more than one
just above them.

Where the evidence for any units is weak, nothing was *found*. C is then still the best guess within the cap, and much
better than the cap itself, but an answer should say so.

Everything here is a function of released numbers, the query's text and the policy, so it needs no proof of privacy:
any C is sound, and the emitted SQL enforces it. `tests/bench/clip_worlds.py` measures how good the choice is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

COUNT_WEIGHT, SPREAD_WEIGHT = 0.94, 0.34
"""What a unit adds to the two coordinates of its bucket, the second times t ≤ 1: together an L2 norm of at most 1."""

_FOUND = 3.0
"""The evidence for units (a Bayes factor) that is called a find."""
_UNEVEN = 1.25
"""The root mean square of the cut over cells, against its mean: heavy units are not spread evenly."""
_SPREAD_VARIES = 0.3
"""By how much the mean t of a bucket differs from that of all, as a standard deviation."""
_USEFUL, _USELESS = 0.25, 0.02
"""A draw for which even the best clip errs by more than this part of a cell counts this much: with a C near zero all of
it would be cut off, which is best only where nothing can be answered."""
_FEW = 200
"""Tables with fewer units than this are rarely asked about: draws with fewer count less."""
_SKEWED = 3
"""How many times as many must be kept until all values are seen, against values that are equally common."""
_MORE = 3
"""Buckets above the last one found that the cautious estimate of the cut counts as well."""
_CAUTION = 0.9
"""The part of the draws that it covers where nothing was found."""


@dataclass(frozen=True, slots=True)
class ClipChoice:
    """The bound C, and what is known of what it cuts off.

    If too little was `found`, `clip` is a guess.
    """

    clip: float
    """A bucket edge, or the cap where that is lower."""
    found: bool
    cut: float
    """The estimated sum, over all units and cells, of what the clip takes away."""
    cut_upper: float
    """A cautious estimate of the same, for error bars."""
    units: float
    above: float
    """The estimated number of units with a norm above C."""
    wider: bool = False
    """Was the search that of the same query with fewer conditions? Then these are more units than the query has."""


def search_share(groups: int) -> Fraction:
    """The search's part of a query's price (ρ or ε).

    A single total needs more: what is cut off of few heavy units adds up in one cell, where the noise of the release
    is small beside it, so that the search has to see fewer units.
    """
    return Fraction(30 if groups == 1 else 15, 100)


def choose_clip(
    histogram: NormHistogram,
    *,
    groups: int,
    noise_per_clip: float,
    mechanism: Mechanism,
    cap: float | None = None,
    cut_matters: float = 1.0,
    shown_from: float | None = None,
    values: int | None = None,
    most: float | None = None,
) -> ClipChoice:
    """The clip with the least estimated error, for `groups` cells with noise of C·`noise_per_clip` each.

    Of what it cuts off, the part `cut_matters` is an error of what is shown. If only cells are shown to which so many
    units add (`shown_from`), their number is not known: it is estimated from how the units spread over cells. Where
    different values are counted, of which there are so many `values`, a cell loses only those that no unit keeps. No
    norm is above `most`, if that is known.
    """
    if groups < 1 or not noise_per_clip > 0 or (cap is not None and not cap > 0):
        raise ValueError(f"groups, noise and cap must be positive, got {groups}, {noise_per_clip} and {cap}")
    likely = likely_histograms(histogram, mechanism, cap)
    uppers = histogram.uppers if most is None else np.minimum(histogram.uppers, most)
    shares = np.mean(likely.counts > 0, axis=0)
    reach = _reach(histogram, likely.counts.mean(axis=0), shares, groups)
    added = likely.counts * reach
    cells = groups if shown_from is None else _cells(histogram, likely.counts, reach, groups, shown_from)
    clips = uppers[:-1] if cap is None else np.unique(np.minimum(uppers[:-1], cap))
    cuts = added @ np.maximum(uppers[:, None] - clips, 0.0)
    middles = (uppers + np.concatenate(([0.0], uppers[:-1]))) / 2
    biases = cut_matters * _UNEVEN / cells * cuts
    if values is not None:
        biases = np.minimum(biases, _missed(values, added @ np.minimum(middles[:, None], clips) / cells))
    errors = np.hypot(biases, clips * noise_per_clip)
    least = errors.min(axis=1)
    few = (_FEW / np.maximum(likely.counts.sum(axis=1), 1.0)) ** 2
    weights = np.where(least < _USEFUL / cells * (added @ uppers), 1.0, _USELESS) / (1 + few)
    best = int(np.argmin(weights @ np.log(errors / least[:, None])))
    clip = float(clips[best])
    held = shares >= 0.5
    counts = np.where(held, likely.counts.mean(axis=0), 0.0)
    lost = np.maximum(uppers - clip, 0.0)
    within = lost if cap is None else np.minimum(lost, cap - clip)
    found = likely.evidence > _FOUND and bool(held.any())
    cut = float(np.maximum(middles - clip, 0.0) @ (counts * reach))
    upper = (
        _cautious(histogram, held, np.where(held, lost, within) * reach)
        if found
        else float(np.quantile(added @ within, _CAUTION))
    )
    most = math.inf if values is None else values * groups
    units = float(counts.sum())
    above = min(float(counts[uppers > clip].sum()), units)
    return ClipChoice(clip, found, min(cut, most), min(upper, most), units, above, histogram.wider)


def would_find(histogram: NormHistogram, mechanism: Mechanism, sd: float, part: float) -> bool:
    """Would a search with this noise find so large a part of the units that another one has found?"""
    expected = likely_histograms(histogram, mechanism, None).counts.mean(axis=0) * part
    return (
        likely_histograms(NormHistogram(histogram.first, expected, None, sd, None), mechanism, None).evidence > _FOUND
    )


def _reach(histogram: NormHistogram, counts: Floats, held: Floats, groups: int) -> Floats:
    """‖z‖₁/‖z‖₂ of a bucket's units: what a unit of norm 1 adds over all cells. It is 1 where the norm is L1."""
    if histogram.spreads is None or histogram.spread_sd is None:
        return np.ones_like(counts)
    mean = float(np.clip((histogram.spreads @ held) / max(counts.sum(), histogram.sd), 0.0, 1.0))
    signal = (counts * _SPREAD_VARIES) ** 2
    weight = held * signal / (signal + histogram.spread_sd**2)
    own = histogram.spreads / np.maximum(counts, histogram.sd)
    spread = np.clip(mean + weight * (own - mean), 0.0, 1.0)
    reach: Floats = 1 + spread * (np.sqrt(groups) - 1)
    return reach


def _missed(values: int, kept: Floats) -> Floats:
    """How many of so many values nobody keeps, of the values that units keep at random, some more often than others."""
    missed: Floats = values * np.exp(-kept / (_SKEWED * max(values, 1)))
    return missed


def _cells(histogram: NormHistogram, likely: Floats, reach: Floats, groups: int, shown_from: float) -> float:
    """To how many cells so many units add: a unit adds about evenly to ‖z‖₁²/‖z‖₂² of them."""
    if histogram.spreads is None:
        return groups
    return max(1.0, float(likely.mean(axis=0) @ reach**2) / shown_from)


def _cautious(histogram: NormHistogram, held: NDArray[np.bool_], lost: Floats) -> float:
    """The cut if all units lie at upper edges, with a few more buckets above, plus one standard deviation.

    `lost` is what a unit at the upper edge of each bucket loses; where none is held, at most one at the cap.
    """
    counted, top = held.copy(), int(np.flatnonzero(held)[-1])
    counted[top : top + 1 + _MORE] = True
    weights = np.where(counted, lost, 0.0)
    return max(float(weights @ histogram.counts), 0.0) + histogram.sd * float(np.sqrt(np.sum(weights**2)))


def widen(values: Floats, choice: ClipChoice, *, signed: bool = False) -> tuple[Floats, Floats]:
    """What the cut adds to the error bar of each cell, below and above, beside the noise.

    `values` are all released cells, in the units of the norms. Each is taken to have lost its share, by size, of the
    cautious estimate of the cut, so its true value may be that much higher; where contributions have both signs
    (`signed`), also lower. The bar of a sum of cells is widened by the sum of theirs. Nothing is added to the values
    themselves: an estimate of the cut, added back, gained next to nothing (`tests/bench/clip_worlds.py`) and sometimes
    lost a lot. Units that are too few to be seen by the search are not covered.
    """
    sizes = np.abs(values) if signed else np.maximum(values, 0.0)
    total = float(sizes.sum())
    shares = sizes / total if total > 0 else np.full(len(values), 1 / len(values))
    above = shares * max(choice.cut, choice.cut_upper)
    return (above if signed else np.zeros_like(above)), above


# the histograms that may lie behind a noisy one -----------------------------------------------------------------------

# The noisy histogram of unit norms that a search released, and the histograms that may lie behind it.
#
# What a search releases is mostly noise: of about a hundred buckets a dozen hold units. Which, and how many, is told by
# a model of how norms are distributed, a hidden Markov chain along the buckets. From below, all buckets are empty until
# a cluster of units *starts*. In a cluster the number of units wanders from bucket to bucket, by an octave or so, until
# it *ends*, or a *gap* of empty buckets comes before the next cluster. `likely_histograms` draws from the posterior of
# that chain by forward filtering and backward sampling. So weak evidence counts as much as it is worth: many small
# counts in a row are units, one alone far out is noise, unless it is large enough for its distance.
#
# It is a function of released numbers, the policy and constants. The draws take their randomness from a fixed sequence,
# so that the same histogram always tells the same.


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
    after what was released has been divided by `COUNT_WEIGHT` and `SPREAD_WEIGHT`. It is `wider` where it tells of the
    same query with fewer conditions.
    """

    first: int
    counts: Floats
    spreads: Floats | None
    sd: float
    spread_sd: float | None
    wider: bool = False

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

    def of_fewer(self, octaves: int, groups: int, fewer: int) -> NormHistogram:
        """The same histogram for a query with more conditions: in units that are so many octaves smaller, of which
        the vectors have so many cells instead of `groups`.
        """
        spreads, spread_sd = self.spreads, self.spread_sd
        if spreads is not None and spread_sd is not None and groups != fewer:
            stretch = (math.sqrt(groups) - 1) / (math.sqrt(fewer) - 1) if fewer > 1 else 0.0
            spreads, spread_sd = (spreads * stretch, spread_sd * stretch) if stretch else (None, None)
        return NormHistogram(self.first + 2 * octaves, self.counts, spreads, self.sd, spread_sd, wider=True)

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
