"""From a noisy histogram of unit norms to the clip bound C: post-processing of what a search released.

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

import numpy as np
from numpy.typing import NDArray

from dpsql.sensitivity.norm_histogram import Floats, Mechanism, NormHistogram, likely_histograms

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
) -> ClipChoice:
    """The clip with the least estimated error, for `groups` cells with noise of C·`noise_per_clip` each.

    Of what it cuts off, the part `cut_matters` is an error of what is shown. If only cells are shown to which so many
    units add (`shown_from`), their number is not known: it is estimated from how the units spread over cells. Where
    different values are counted, of which there are so many `values`, a cell loses only those that no unit keeps.
    """
    if groups < 1 or not noise_per_clip > 0 or (cap is not None and not cap > 0):
        raise ValueError(f"groups, noise and cap must be positive, got {groups}, {noise_per_clip} and {cap}")
    likely = likely_histograms(histogram, mechanism, cap)
    uppers = histogram.uppers
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
    return ClipChoice(clip, found, min(cut, most), min(upper, most), units, above)


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
