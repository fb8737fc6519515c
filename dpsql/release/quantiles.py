"""From draws of an answer to the ends of its error bar."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def number(value: Any) -> float:
    """A cell of an answer as a number; NaN for NULL and for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def nearest(known: Floats, values: Floats) -> NDArray[np.intp]:
    """For each value the place of the known one that is nearest."""
    order = np.argsort(known)
    above = np.clip(np.searchsorted(known[order], values), 1, max(1, len(known) - 1))
    pair = order[np.stack([above - 1, np.minimum(above, len(known) - 1)])]
    chosen: NDArray[np.intp] = np.take_along_axis(pair, np.abs(known[pair] - values).argmin(axis=0)[None], axis=0)[0]
    return chosen


def ends_of(values: Floats, shown: Floats, confidence: float, *, together: bool) -> tuple[Floats, Floats]:
    """The ends between which the draws lie, column by column; with `together`, whole draws, all columns at once.

    For that each end is moved away from the value shown by one common factor: the least with which the share
    `confidence` of the draws lies inside everywhere.
    """
    low, high = _ends(values, confidence)
    if not together or values.shape[1] < 2:
        return low, high
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(values > shown, (values - shown) / (high - shown), (shown - values) / (shown - low))
    furthest = np.max(np.nan_to_num(beyond, nan=0.0, posinf=np.inf), axis=1, initial=1.0)
    factor = _ranked(np.sort(furthest), confidence)
    return shown - factor * (shown - low), shown + factor * (high - shown)


def _ends(values: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Order statistics, so that a fresh draw falls between them with at least that confidence; NaN if half are NULL.

    Of n draws and a fresh one, each rank of the fresh one is equally likely: between the k-th from either end it falls
    with probability (n+1−2k)/(n+1).
    """
    ends = np.full((2, values.shape[1]), np.nan)
    for column in range(values.shape[1]):
        seen = np.sort(values[:, column][~np.isnan(values[:, column])])
        if len(seen) > len(values) // 2:
            rank = max(1, floor((len(seen) + 1) * (1 - confidence) / 2 + 1e-9))
            ends[:, column] = seen[rank - 1], seen[-rank]
    return ends[0], ends[1]


def _ranked(ordered: Floats, confidence: float) -> float:
    """The smallest of the draws that a fresh one stays below with that confidence."""
    return float(ordered[min(len(ordered), -floor(-(len(ordered) + 1) * confidence)) - 1])
