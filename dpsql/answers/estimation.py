"""From noisy statistics to the aggregates that were asked for, as columns for the finishing SQL: post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.chosen_values import chosen_values
from dpsql.answers.noise_stage import Noisy, NoisyTable
from dpsql.budget.pricing import Priced
from dpsql.sensitivity.argument import Argument
from dpsql.sensitivity.statistics import Source

Floats = NDArray[np.float64]
Numbers = NDArray[np.float64] | NDArray[np.int64]


def estimates(
    priced: Priced,
    noisy: Sequence[Noisy],
    chosen: Sequence[NDArray[np.int64]] | int = (),
    trees: Sequence[NDArray[np.int64]] = (),
    totals: Sequence[NDArray[np.int64]] = (),
    *,
    nonnegative: bool = False,
) -> list[NDArray[Any]]:
    """One array per aggregate of the release, in its order. NaN where an average has no count to stand on.

    In place of the chosen cells a number of rows may stand, for which no choice is known.
    """
    made: list[NDArray[Any]] = []
    for aggregate, source in zip(priced.bounded.release.aggregates, priced.bounded.sources, strict=True):
        if source.chosen:
            made.append(chosen_values(priced, source, aggregate, chosen, trees, totals))
            continue
        values = estimate(priced, source, aggregate.function, noisy)
        if aggregate.function == "count" and nonnegative:
            values = np.maximum(values, 0)
        made.append(values)
    return made


def estimate(priced: Priced, source: Source, function: str, noisy: Sequence[Noisy]) -> Numbers:
    """The aggregate `function` from the statistics of its source."""
    if function == "avg":
        return average(priced, source, noisy)
    if source.form in ("count", "units", "distinct", "sum"):
        values = real(priced, source.first, noisy)
    elif source.form == "nested":
        values = real(priced, source.first, noisy) + real(priced, source.first + 1, noisy)
    else:
        values = _from_two(priced, source, function, noisy)
    return rounded(values) if is_integer(priced, source, function) else values


def real(priced: Priced, index: int, noisy: Sequence[Noisy]) -> Floats:
    """A statistic in its own unit: the nearest number to so many steps of its grid, rounded once."""
    grid = _grid(priced, index)
    return noisy[index].astype(np.float64) * grid.numerator / grid.denominator


def step(priced: Priced, index: int) -> float:
    """The size of one step of the noise grid."""
    return float(_grid(priced, index))


def _grid(priced: Priced, index: int) -> Fraction:
    return priced.bounded.statistics[index].grid * Fraction(2) ** priced.noised[index].shift


def is_integer(priced: Priced, source: Source, function: str) -> bool:
    """Counts, and sums of integers, are shown as whole numbers."""
    if function == "count":
        return True
    expression = argument(priced, source).expression
    return function == "sum" and expression is not None and expression.type.sums_whole


def rounded(values: Floats) -> NDArray[np.int64]:
    """Rounded to the nearest whole number, ties to even (so that symmetric noise stays unbiased)."""
    return np.clip(np.rint(values), -(2.0**62), 2.0**62).astype(np.int64)


def argument(priced: Priced, source: Source) -> Argument:
    """The argument of the source's statistics."""
    return priced.bounded.arguments[priced.bounded.statistics[source.first].part.argument]


def _from_two(priced: Priced, source: Source, function: str, noisy: Sequence[Noisy]) -> Floats:
    it = argument(priced, source)
    one, two = real(priced, source.first, noisy), real(priced, source.first + 1, noisy)
    if source.form == "pair":
        count = (one + two) / float(it.width * it.grid)
        return count if function == "count" else one + count * float(it.lower * it.grid)
    return one if function == "count" else two + one * it.middle


def average(priced: Priced, source: Source, noisy: Sequence[Noisy]) -> Floats:
    """L + (U−L)·S1/(S1+S2), or mid + S/n; inside the bounds, and NaN where the denominator is not positive."""
    it = argument(priced, source)
    low, high = float(it.lower * it.grid), float(it.upper * it.grid)
    one, two = real(priced, source.first, noisy), real(priced, source.first + 1, noisy)
    with np.errstate(divide="ignore", invalid="ignore"):
        if source.form == "pair":
            mean = low + (high - low) * (one / (one + two))
            count = one + two
        else:
            mean = it.middle + two / one
            count = one
    return np.where(count > 0, np.clip(mean, low, high), np.nan)


# the columns that the finishing SQL reads -----------------------------------------------------------------------------


def tabulate(
    released: NoisyTable,
    bars: Mapping[str, NDArray[Any]] | None = None,
    noisy: Sequence[Noisy] | None = None,
    *,
    times: int = 1,
    nonnegative: bool = False,
) -> dict[str, Any]:
    """Keys, estimated aggregates and their bars; with `noisy`, those of that many other draws, one after the other.

    The bars stay as they were shown: an answer that they choose (HAVING DP_LOW(n) > 100) is chosen in every draw.
    Chosen values are not drawn again: there they are NULL, and whatever is computed from them has no interval.
    """
    values = released.noisy if noisy is None else [draw.reshape(-1) for draw in noisy]
    rows = len(released.keys)
    columns: dict[str, Any] = {"_row": np.arange(rows * times, dtype=np.int64)}
    for index, key in enumerate(released.priced.bounded.keys):
        columns[key.name] = [row[index] for row in released.keys] * times
    chosen = released.chosen if noisy is None else rows * times
    made = estimates(released.priced, values, chosen, released.trees, released.totals, nonnegative=nonnegative)
    columns |= {f"_a{i}": estimate for i, estimate in enumerate(made)}
    return columns | {name: np.tile(values, times) for name, values in (bars or {}).items()}
