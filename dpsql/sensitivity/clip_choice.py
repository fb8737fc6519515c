"""From a noisy histogram of unit norms to the clip bound C: post-processing of what a search released.

A release clips each unit's whole vector to the norm C and adds noise of C·`noise_per_clip` to every cell. A small C
cuts off what heavy units contribute, a large one drowns the answer in noise. The search released how many units have
a norm in each half octave; this module estimates the error of every bucket edge as a bound, and takes the least.

The histogram has about 190 buckets of which a dozen hold units. The rest is noise, and one bucket of noise far out,
taken for units, would cost orders of magnitude. So units are believed to be where they are connected:

1. The *anchor* is the most significant run of up to 16 buckets. If none is significant, nothing was found. Close below
   the cap less is asked for: few buckets are there to mislead, and they do not mislead beyond the fallback.
2. It grows on both sides as long as the next 1, 2 or 4 buckets together stand out a little.
3. Runs farther away must stand out the more, the farther they are: for each octave of distance, which doubles the
   noise that a mistake would buy, the chance of a mistake falls by more than a half.
4. All other buckets are taken to be empty, and the number of units above an edge never grows with the edge.
5. C is the edge (or the cap, where that is lower) with the least √(cut² + noise²) in a cell. A unit is taken to lie at
   the *upper* edge of its bucket: a C just below many units costs far more than one just above them.

Everything here is a function of released numbers, the query's text and the policy, so it needs no proof of privacy:
any C is sound, and the emitted SQL enforces it. `tests/bench/clip_worlds.py` measures how good the choice is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mechanism = Literal["gaussian", "laplace"]

COUNT_WEIGHT, SPREAD_WEIGHT = 0.94, 0.34
"""What a unit adds to the two coordinates of its bucket, the second times t ≤ 1: together an L2 norm of at most 1."""

_LONGEST = 16
_FOUND, _FOUND_NEAR, _NEAR = 4.5, 3.3, 20
"""The significance of an anchor: anywhere, and within this many half octaves below the cap."""
_GROW = ((1, 1.3), (2, 1.8), (4, 2.5))
"""How much the next so many buckets must stand out together to be joined to the anchor."""
_FAR_LONGEST, _FAR, _FARTHER = 4, 3.5, 0.5
"""Runs apart from the anchor: their length, their least exponent, and how much more for each half octave between."""
_UNEVEN = 1.15
"""The root mean square of the cut over cells, against its mean: heavy units are not spread evenly."""
_SPREAD_VARIES = 0.3
"""By how much the mean t of a bucket differs from that of all, as a standard deviation."""
_SKEWED = 3
"""How many times as many must be kept until all values are seen, against values that are equally common."""
_MORE = 3
"""Buckets above the last one found that the cautious estimate of the cut counts as well."""


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


@dataclass(frozen=True, slots=True)
class ClipChoice:
    """The bound C, and what is known of what it cuts off.

    If too little was `found`, `clip` is the cap, or infinite without one, and nothing is known about the units.
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
    values: int | None = None,
) -> ClipChoice:
    """The clip with the least estimated error, for `groups` cells with noise of C·`noise_per_clip` each.

    Of what it cuts off, the part `cut_matters` is an error of what is shown. Where different values are counted, of
    which there are so many `values`, a cell loses only those that no unit keeps.
    """
    if groups < 1 or not noise_per_clip > 0 or (cap is not None and not cap > 0):
        raise ValueError(f"groups, noise and cap must be positive, got {groups}, {noise_per_clip} and {cap}")
    kept = _occupied(histogram, mechanism, cap)
    if not kept.any():
        return ClipChoice(math.inf if cap is None else cap, False, 0.0, 0.0, 0.0, 0.0)
    counts = _monotone(np.where(kept, histogram.counts, 0.0))
    reach = _reach(histogram, counts, kept, groups)
    uppers = histogram.uppers
    clips = uppers[:-1] if cap is None else np.unique(np.minimum(uppers[:-1], cap))
    over = np.maximum(uppers - clips[:, None], 0.0)
    middles = (uppers + np.concatenate(([0.0], uppers[:-1]))) / 2
    cuts = cut_matters * _UNEVEN * (over @ (counts * reach)) / groups
    if values is not None:
        cuts = np.minimum(cuts, _missed(values, np.minimum(middles, clips[:, None]) @ (counts * reach) / groups))
    best = int(np.argmin(np.hypot(cuts, clips * noise_per_clip)))
    clip = float(clips[best])
    most = math.inf if values is None else values * groups
    cut = min(float(np.maximum(middles - clip, 0.0) @ (counts * reach)), most)
    above = float(counts[uppers > clip].sum())
    taken = np.where(kept, over[best], np.minimum(over[best], math.inf if cap is None else cap - clip))
    upper = min(_cautious(histogram, kept, taken * reach), most)
    return ClipChoice(clip, True, cut, upper, float(counts.sum()), above)


def _significance(sums: Floats, terms: int, sd: float, mechanism: Mechanism) -> Floats:
    """How far a sum of noise is from zero, on the scale of a standard Gaussian: √(2·I), I the exponent of Cramér.

    For Gaussian noise that is the sum over its standard deviation. The sum of a few Laplace variables has heavier
    tails: with b their scale and x = sum/(b·terms), I = terms·(√(1+x²) - 1 - ln((1 + √(1+x²))/2)).
    """
    if mechanism == "gaussian":
        return sums / (sd * math.sqrt(terms))
    x = sums * math.sqrt(2) / (sd * terms)
    root = np.sqrt(1 + x**2)
    significance: Floats = np.sign(x) * np.sqrt(2 * terms * np.maximum(root - 1 - np.log((1 + root) / 2), 0.0))
    return significance


def _occupied(histogram: NormHistogram, mechanism: Mechanism, cap: float | None) -> NDArray[np.bool_]:
    """Which buckets are taken to hold units; none if no run of buckets stands out."""
    size = len(histogram.counts)
    totals = np.concatenate(([0.0], np.cumsum(histogram.counts)))
    runs = [
        _significance(totals[terms:] - totals[:-terms], terms, histogram.sd, mechanism)
        for terms in range(1, min(_LONGEST, size) + 1)
    ]
    kept = np.zeros(size, dtype=bool)
    found, low, high = _anchor(runs, 0, size)
    if found < _FOUND and cap is not None:
        top = min(int(np.searchsorted(histogram.uppers, cap)) + 1, size)
        found, low, high = _anchor(runs, max(top - _NEAR, 0), top)
        found += _FOUND - _FOUND_NEAR
    if found < _FOUND:
        return kept
    while steps := [m for m, least in _GROW if high + m <= size and runs[m - 1][high] > least]:
        high += steps[0]
    while steps := [m for m, least in _GROW if m <= low and runs[m - 1][low - m] > least]:
        low -= steps[0]
    kept[low:high] = True
    for terms, run in enumerate(runs[:_FAR_LONGEST], start=1):
        starts = np.arange(len(run))
        between = np.maximum(np.maximum(starts - high, low - starts - terms), 0)
        believed = (run > 0) & (run**2 / 2 > _FAR + _FARTHER * between) & ((starts >= high) | (starts + terms <= low))
        for start in np.flatnonzero(believed).tolist():
            kept[start : start + terms] = True
    return kept


def _anchor(runs: list[Floats], low: int, high: int) -> tuple[float, int, int]:
    """The most significant run of buckets between two, with where it starts and stops."""
    best = (-math.inf, low, low)
    for terms, run in enumerate(runs, start=1):
        inside = run[low : high - terms + 1]
        if len(inside) and float(inside.max()) > best[0]:
            start = low + int(inside.argmax())
            best = (float(inside.max()), start, start + terms)
    return best


def _monotone(counts: Floats) -> Floats:
    """Counts for which the number of units above an edge nowhere grows with the edge, and is nowhere negative."""
    above = np.maximum.accumulate(np.maximum(np.cumsum(counts[::-1]), 0.0))
    monotone: Floats = np.diff(above, prepend=0.0)[::-1]
    return monotone


def _reach(histogram: NormHistogram, counts: Floats, kept: NDArray[np.bool_], groups: int) -> Floats:
    """‖z‖₁/‖z‖₂ of a bucket's units: what a unit of norm 1 adds over all cells. It is 1 where the norm is L1."""
    if histogram.spreads is None or histogram.spread_sd is None:
        return np.ones_like(counts)
    units = counts.sum()
    mean = float(np.clip(histogram.spreads[kept].sum() / max(units, histogram.sd), 0.0, 1.0))
    noise, signal = histogram.spread_sd**2, (np.maximum(counts, 0.0) * _SPREAD_VARIES) ** 2
    weight = np.where(kept, signal / (signal + noise), 0.0)
    own = histogram.spreads / np.maximum(counts, histogram.sd)
    spread = np.clip(mean + weight * (own - mean), 0.0, 1.0)
    return 1 + spread * (math.sqrt(groups) - 1)


def _missed(values: int, kept: Floats) -> Floats:
    """How many of so many values nobody keeps, of the values that units keep at random, some more often than others."""
    missed: Floats = values * np.exp(-kept / (_SKEWED * max(values, 1)))
    return missed


def _cautious(histogram: NormHistogram, kept: NDArray[np.bool_], taken: Floats) -> float:
    """The cut if all units lie at upper edges, with a few more buckets above, plus one standard deviation.

    `taken` is what a unit at the upper edge of each bucket loses; where none was found, at most one at the cap.
    """
    counted, top = kept.copy(), int(np.flatnonzero(kept)[-1])
    counted[top : top + 1 + _MORE] = True
    weights = np.where(counted, taken, 0.0)
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
