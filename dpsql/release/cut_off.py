"""What the clip of a vector cuts off, as far as the search for it tells: for error bars, by released numbers alone.

A clip shortens a unit's whole vector, so it moves every total towards zero. How much is cut in all is estimated from
the histogram of norms; each cell bears its part by its released size. A sum around the centre of an average is near
zero by design, and yet it is what makes a unit heavy: it bears at least twice as much as the count beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.release.noise import Noisy, Table
from dpsql.sensitivity.clip import Clip

Floats = NDArray[np.float64]


def cut_off(released: Table) -> tuple[Floats, ...]:
    """For each statistic how much further from zero its exact totals may lie, with their sign, in noisy steps."""
    cuts = [np.zeros(len(values)) for values in released.noisy]
    for each in released.priced.bounded.clipped:
        for place, cut in _cut_by(released, each.clip, each.vector.values):
            cuts[place] = cut
    return tuple(cuts)


def _cut_by(released: Table, clip: Clip | None, values: int | None) -> Iterator[tuple[int, Floats]]:
    """The same for the statistics of one clip; a number of different values, of so many, is cut from no more."""
    priced = released.priced
    if clip is None or clip.choice is None:
        return
    steps = {place: 2.0 ** priced.noised[place].shift for place in clip.members}
    sizes = {place: released.noisy[place].astype(np.float64) * each for place, each in steps.items()}
    for source in priced.bounded.sources:
        if source.form == "centred" and source.first in sizes:
            count, centred = np.abs(sizes[source.first]), sizes[source.first + 1]
            sizes[source.first + 1] = np.where(np.abs(centred) > 2 * count, centred, 2 * count)
    whole = sum(float(np.abs(each).sum()) for each in sizes.values())
    if whole == 0:
        return
    taken = max(clip.choice.cut, clip.choice.cut_upper) * clip.bound / clip.choice.clip
    for place, size in sizes.items():
        cut = taken / whole * size
        if values is not None:
            cut = np.clip(cut, 0.0, np.maximum(values / float(priced.bounded.statistics[place].grid) - size, 0.0))
        yield place, cut / steps[place]


def drawn_with_cut(released: Table, draws: Sequence[Noisy], times: int) -> tuple[Noisy, ...]:
    """Draws of noise around released values, each with some part of the cut put back: the same part in all cells."""
    cuts = cut_off(released)
    if not any(cut.any() for cut in cuts):
        return tuple(draws)
    parts = (np.arange(times) + 0.5) / times
    return tuple(draw + parts[:, None] * cut for draw, cut in zip(draws, cuts, strict=True))
