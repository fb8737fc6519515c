"""From a noisy histogram of unit norms to the clip bound C: post-processing of what a search released.

A release clips each unit's whole vector to the norm C and adds noise of C·`noise_per_clip` to every cell. A small C
cuts off what heavy units contribute, a large one drowns the answer in noise. The search released how many units have
a norm in each half octave; this module estimates the error of every bucket edge as a bound, and takes the least.

The histogram has about 190 buckets of which a dozen hold units: the rest is noise, and one bucket of noise far out,
taken for units, would cost orders of magnitude. So units are believed in where they are connected:

1. the *anchor* is the most significant run of up to 16 buckets; without a significant one nothing was found;
2. it grows on both sides as long as the next 1, 2 or 4 buckets together stand out a little;
3. what lies farther away counts only if it stands out beyond any doubt;
4. all other buckets are taken to be empty, and the number of units above an edge never grows with the edge;
5. C is the edge (or the cap, where that is lower) with the least √(cut² + noise²) for each cell, where a unit in a
   bucket is taken to lie at its *upper* edge: the cost of a C just below many units is far greater than just above.

Everything here is a function of released numbers, the query's text and the policy, so it needs no proof of privacy:
any C is sound, and the emitted SQL enforces it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mechanism = Literal["gaussian", "laplace"]

SEARCH_SHARE: dict[Mechanism, float] = {"gaussian": 0.15, "laplace": 0.15}
"""The search's part of a query's price (ρ or ε)."""
COUNT_WEIGHT, SPREAD_WEIGHT = 0.94, 0.34
"""What a unit adds to the two coordinates of its bucket, the second times t ≤ 1: together an L2 norm of at most 1."""

_LONGEST = 16
_FOUND, _FOUND_FEW, _FEW = 4.2, 4.8, 500
_GROW = ((1, 1.5), (2, 2.3), (4, 3.0))
_FAR_LONGEST, _FAR = 4, 6.0
_UNEVEN = 1.15
"""The root mean square of the cut over cells, against its mean: heavy units are not spread evenly."""
_SPREAD_VARIES = 0.15
"""By how much the mean t of a bucket differs from that of all, as a standard deviation."""
_MORE = 4
"""Buckets above the last one found, for the upper estimate of the cut."""


@dataclass(frozen=True, slots=True)
class NormHistogram:
    """What the search released: the noisy number of units by the norm of their contribution, and how they spread.

    `counts[0]` holds the norms in (0, lowest edge], `counts[-1]` those above the top edge; in between the bucket with
    the half-octave index h = `first`, `first` + 1, … holds 2^((h-1)/2) < norm ≤ 2^(h/2). A unit without a value is in
    none. `spreads` has the noisy sum of t = (‖z‖₁/‖z‖₂ - 1)/(√G - 1) for each bucket, None under Laplace noise.
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


def choose_clip(
    histogram: NormHistogram, *, groups: int, noise_per_clip: float, mechanism: Mechanism, cap: float | None = None
) -> ClipChoice:
    """The clip with the least estimated error, for `groups` cells with noise of C·`noise_per_clip` each."""
    kept = _occupied(histogram, mechanism)
    if kept is None:
        return ClipChoice(math.inf if cap is None else cap, False, 0.0, 0.0, 0.0, 0.0)
    counts = _monotone(np.where(kept, histogram.counts, 0.0))
    reach = _reach(histogram, counts, kept, groups)
    uppers = histogram.uppers
    clips = uppers[:-1] if cap is None else np.unique(np.minimum(uppers[:-1], cap))
    over = np.maximum(uppers - clips[:, None], 0.0)
    cuts = _UNEVEN * (over @ (counts * reach)) / groups
    best = int(np.argmin(np.hypot(cuts, clips * noise_per_clip)))
    clip = float(clips[best])
    middles = (uppers + np.concatenate(([0.0], uppers[:-1]))) / 2
    return ClipChoice(
        clip,
        True,
        float(np.maximum(middles - clip, 0.0) @ (counts * reach)),
        _cautious(histogram, kept, over[best] * reach),
        float(counts.sum()),
        float(counts[uppers > clip].sum()),
    )


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


def _occupied(histogram: NormHistogram, mechanism: Mechanism) -> NDArray[np.bool_] | None:
    """Which buckets are taken to hold units; None if no run of buckets stands out."""
    totals = np.concatenate(([0.0], np.cumsum(histogram.counts)))
    size = len(histogram.counts)

    def stands_out(start: int, stop: int) -> float:
        total = np.asarray(totals[stop] - totals[start])
        return float(_significance(total, stop - start, histogram.sd, mechanism))

    best, low, high = -math.inf, 0, 0
    for terms in range(1, min(_LONGEST, size) + 1):
        runs = _significance(totals[terms:] - totals[:-terms], terms, histogram.sd, mechanism)
        start = int(np.argmax(runs))
        if runs[start] > best:
            best, low, high = float(runs[start]), start, start + terms
    if best < (_FOUND if totals[high] - totals[low] >= _FEW else _FOUND_FEW):
        return None
    while steps := [m for m, z in _GROW if high + m <= size and stands_out(high, high + m) > z]:
        high += steps[0]
    while steps := [m for m, z in _GROW if low >= m and stands_out(low - m, low) > z]:
        low -= steps[0]
    kept = np.zeros(size, dtype=bool)
    kept[low:high] = True
    for terms in range(1, min(_FAR_LONGEST, size) + 1):
        runs = _significance(totals[terms:] - totals[:-terms], terms, histogram.sd, mechanism)
        for start in np.flatnonzero(runs > _FAR).tolist():
            if start >= high or start + terms <= low:
                kept[start : start + terms] = True
    return kept


def _monotone(counts: Floats) -> Floats:
    """Counts that are nowhere negative: the number of units above an edge is the least-squares fit that never grows."""
    blocks: list[tuple[float, int]] = []
    tails = np.cumsum(counts[::-1])
    for tail in tails:
        mean, size = float(tail), 1
        while blocks and blocks[-1][0] > mean:
            before, width = blocks.pop()
            mean, size = (before * width + mean * size) / (width + size), size + width
        blocks.append((mean, size))
    fitted = np.maximum(np.concatenate([np.full(size, mean) for mean, size in blocks]), 0.0)
    result: Floats = np.diff(fitted, prepend=0.0)[::-1]
    return result


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


def _cautious(histogram: NormHistogram, kept: NDArray[np.bool_], taken: Floats) -> float:
    """The cut if all units lie at upper edges, with a few more buckets above, plus one standard deviation.

    `taken` is what a unit at the upper edge of each bucket loses.
    """
    top = min(int(np.flatnonzero(kept)[-1]) + _MORE, len(kept) - 1)
    counted = kept.copy()
    counted[top - _MORE : top + 1] = True
    weights = np.where(counted, taken, 0.0)
    return max(float(weights @ histogram.counts), 0.0) + histogram.sd * float(np.sqrt(np.sum(weights**2)))


@dataclass(frozen=True, slots=True)
class Widening:
    """What the cut-off means for one cell: `add` to its value, and widen its bar by `below` and `above`."""

    add: float
    below: float
    above: float


def widen(value: float, share: float, sd: float, choice: ClipChoice) -> Widening:
    """How a cell's bar allows for the cut, of which the cell bears its `share` of the total (the shares add up to 1).

    A cut that is small beside the noise (`sd`) is added back, and the bar allows for half of it being wrong; a large
    one is only allowed for above, as nothing says in which cells it was made.
    """
    cut, most = choice.cut * share, max(choice.cut_upper, choice.cut) * share
    if value <= 0 or cut > 3 * sd:
        return Widening(0.0, 0.0, most)
    return Widening(cut, cut / 2, most - cut)
