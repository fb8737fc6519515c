"""What the clip of a vector cuts off, as far as the search for it tells: for error bars, by released numbers alone.

A clip shortens a unit's whole vector, so it moves every total towards zero. How much is cut in all is estimated from
the histogram of norms; each cell bears its part by its released size. A sum around the centre of an average is near
zero by design, and yet it is what makes a unit heavy: it bears at least twice as much as the count beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.release.noise import Noisy, Table

Floats = NDArray[np.float64]


def cut_off(released: Table) -> tuple[Floats, ...]:
    """For each statistic how much further from zero its exact totals may lie, with their sign, in noisy steps."""
    nothing = tuple(np.zeros(len(values)) for values in released.noisy)
    clip, priced = released.priced.bounded.clip, released.priced
    if clip is None or clip.choice is None:
        return nothing
    members = [place for place, exponent in enumerate(clip.exponents) if exponent is not None]
    steps = {place: 2.0 ** priced.noised[place].shift for place in members}
    sizes = {place: released.noisy[place].astype(np.float64) * each for place, each in steps.items()}
    for source in priced.bounded.sources:
        if source.form == "centred" and source.first in sizes:
            count, centred = np.abs(sizes[source.first]), sizes[source.first + 1]
            sizes[source.first + 1] = np.where(np.abs(centred) > 2 * count, centred, 2 * count)
    whole = sum(float(np.abs(each).sum()) for each in sizes.values())
    if whole == 0:
        return nothing
    taken = max(clip.choice.cut, clip.choice.cut_upper) * clip.bound / clip.choice.clip
    return tuple(
        taken / whole * sizes[place] / steps[place] if place in sizes else none for place, none in enumerate(nothing)
    )


def drawn_with_cut(released: Table, draws: Sequence[Noisy], times: int) -> tuple[Noisy, ...]:
    """Draws of noise around released values, each with some part of the cut put back: the same part in all cells."""
    cuts = cut_off(released)
    if not any(cut.any() for cut in cuts):
        return tuple(draws)
    parts = (np.arange(times) + 0.5) / times
    return tuple(draw + parts[:, None] * cut for draw, cut in zip(draws, cuts, strict=True))
