"""Chosen cells as values, and how far off the rank of a choice may be. Post-processing only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.noise_stage import Released
from dpsql.answers.plain_words import in_words, is_plain
from dpsql.answers.tree_quantiles import quantile_cells, quantile_ends, rank_width, totals_of
from dpsql.budget.pricing import Priced
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, TIMESTAMP, Type
from dpsql.plan.builder.selection_aggregates import chosen_type
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.choice import MISSED, reach
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.interval_ends import BEYOND
from dpsql.sensitivity.statistics import Source

Cells = Sequence[NDArray[np.int64]]
CONFIDENCE = 0.95
"""What the ends of an interval are chosen for; and how sure it is that a group with no values is told from others."""


def chosen_values(
    priced: Priced, source: Source, aggregate: Aggregate, chosen: Cells | int, trees: Cells = (), totals: Cells = ()
) -> NDArray[Any]:
    """The value of each chosen cell, in the type that the aggregate has; NULL in groups with too few values.

    For a number of rows, as many NULLs: a choice has no law around the chosen value from which it could be drawn again.
    """
    if isinstance(chosen, int):
        return _nothing(aggregate, chosen)
    grid = grid_of(priced, source)
    if source.form == "choice":
        cells = chosen[source.first]
    else:
        assert aggregate.at is not None
        cells = quantile_cells(priced.bounded.trees[source.first], grid.cells, trees[source.first], aggregate.at)
    few = too_few(priced, source, totals, trees)
    return _values(grid, cells, aggregate) if few is None else _where_enough(grid, cells, aggregate, few)


def too_few(priced: Priced, source: Source, totals: Cells, trees: Cells) -> NDArray[np.bool_] | None:
    """Which groups have too few values, by their noisy weights; None where those were not released.

    A group without any value is among them but for a chance of 2.5%. A minimum or maximum also needs so many values
    that the cells beyond all of them are hardly ever chosen.
    """
    if source.form == "tree":
        noised = priced.trees[source.first]
        sums, limit = totals_of(priced.bounded.trees[source.first], noised, trees[source.first], CONFIDENCE)
        return sums <= limit
    if not totals:
        return None
    chosen = priced.chosen[source.first]
    noised_total = chosen.total
    assert noised_total is not None
    of = [n for n, other in enumerate(priced.chosen) if other.choice.histogram == chosen.choice.histogram]
    limit = noised_total.noise.half_width(CONFIDENCE) / sqrt(len(of))
    if chosen.choice.kind in ("least", "greatest"):
        cells = priced.bounded.histograms[chosen.choice.histogram].grid.cells
        limit += reach(chosen.law, cells) / chosen.choice.parts / 2**noised_total.shift
    few: NDArray[np.bool_] = np.mean([totals[number].astype(float) for number in of], axis=0) <= limit
    return few


def _nothing(aggregate: Aggregate, rows: int) -> NDArray[Any]:
    return np.full(rows, np.nan) if chosen_type(aggregate) == DOUBLE else np.full(rows, None, object)


def _where_enough(grid: Grid, cells: NDArray[np.int64], aggregate: Aggregate, few: NDArray[np.bool_]) -> NDArray[Any]:
    made = _nothing(aggregate, len(cells))
    made[~few] = _values(grid, cells[~few], aggregate)
    return made


def chosen_ends(released: Released, index: int, confidence: float) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The values between which the true one lies, row by row; None if that is unknown or they are not numbers.

    The ends of a quantile were chosen for 95%. For another confidence they are moved by as much as they would be if
    values lay evenly there. A minimum or maximum has an end at the bound of its column: one unit may lie anywhere.
    """
    priced, aggregate = released.priced, released.priced.bounded.release.aggregates[index]
    source = priced.bounded.sources[index]
    if not source.chosen or not chosen_type(aggregate).numeric:
        return None
    grid = grid_of(priced, source)
    cells = _end_cells(released, source, aggregate, confidence)
    if cells is None:
        return None
    few = too_few(priced, source, released.totals, released.trees)
    few = np.zeros(len(released.keys), bool) if few is None else few
    low, high = (_values(grid, each, aggregate).astype(float) for each in cells)
    if not grid.exact:
        assert grid.argument is not None
        half, unit = float(grid.step) / 2, float(grid.argument.grid)
        low, high = np.maximum(low - half, grid.lower * unit), np.minimum(high + half, grid.upper * unit)
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def _end_cells(
    released: Released, source: Source, aggregate: Aggregate, confidence: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    priced, number, size = released.priced, source.first, grid_of(released.priced, source).cells
    if source.form == "tree":
        assert aggregate.at is not None
        tree, noised = priced.bounded.trees[number], priced.trees[number]
        return quantile_ends(tree, noised, size, released.trees[number], aggregate.at, confidence)
    if not released.ends:
        return None
    middle = released.chosen[number]
    match priced.chosen[number].choice.kind:
        case "quantile":
            low, high = released.ends[number].T
            factor = max(0.0, 1 + log((1 - CONFIDENCE) / (1 - confidence)) / float(BEYOND))
            below, above = (np.ceil((end - middle) * sign * factor - 1e-9) for end, sign in ((low, -1), (high, 1)))
            return (
                np.maximum(middle - below, 0).astype(np.int64),
                np.minimum(middle + above, size - 1).astype(np.int64),
            )
        case "least":
            return np.zeros_like(middle), middle
        case "greatest":
            return middle, np.full_like(middle, size - 1)
    return None


def grid_of(priced: Priced, source: Source) -> Grid:
    """The grid among whose cells a source chooses."""
    bounded = priced.bounded
    made = bounded.choices[source.first] if source.form == "choice" else bounded.trees[source.first]
    return bounded.histograms[made.histogram].grid


def _values(grid: Grid, cells: NDArray[np.int64], aggregate: Aggregate) -> NDArray[Any]:
    type_ = chosen_type(aggregate)
    values = {int(cell): _as(grid.value(int(cell)), type_) for cell in np.unique(cells)}
    made = np.empty(len(cells), np.float64 if type_ == DOUBLE else object)
    made[:] = [values[int(cell)] for cell in cells]
    return made


def _as(value: Value, type_: Type) -> Value:
    if type_ == TIMESTAMP and isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def rank_error(priced: Priced, number: int, missed: float = MISSED) -> float:
    """The most rows (for MIN and MAX: units) by which the rank of a choice is off, except with probability `missed`.

    For a MODE it is how many more rows another value may have.
    """
    chosen = priced.chosen[number]
    histogram = priced.bounded.histograms[chosen.choice.histogram]
    return reach(chosen.law, histogram.grid.cells, missed) / (chosen.choice.parts * histogram.one)


def choice_notes(priced: Priced) -> list[str]:
    """What a reader should know of a chosen value beside its interval; nothing for a quantile."""
    notes = []
    for number, chosen in enumerate(priced.chosen):
        choice, off = chosen.choice, max(1, round(rank_error(priced, number)))
        match choice.kind:
            case "least" | "greatest":
                side = "below" if choice.kind == "least" else "above"
                text = f"the value {side} which about {off} units lie (95%: 0 to {2 * off})"
            case "mode":
                text = f"the most frequent value, or (95%) one with no more than about {off} rows less"
            case _ if chosen.ends is not None:
                continue
            case _:
                text = f"a value whose rank is off (95%) by no more than about {off} rows"
        notes.append(f"{choice.name} is {text}")
    return notes


def few_notes(released: Released) -> list[str]:
    """Which chosen values are NULL because their groups have too few values."""
    bounded, names = released.priced.bounded, dict[str, list[str]]()
    for aggregate, source in zip(bounded.release.aggregates, bounded.sources, strict=True):
        few = too_few(released.priced, source, released.totals, released.trees) if source.chosen else None
        if few is not None and few.any():
            where = f" in {few.sum():,} of {len(few):,} groups" if bounded.keys else ""
            names.setdefault(where, []).append(_in_words(aggregate))
    return [
        f"{' and '.join(dict.fromkeys(of))} {'is' if len(set(of)) == 1 else 'are'} NULL{where}: a noisy"
        " count found too few values there"
        for where, of in names.items()
    ]


def _in_words(aggregate: Aggregate) -> str:
    text = str(aggregate)
    if is_plain(text) or aggregate.argument is None:
        return text
    return f"{aggregate.function} of {in_words(aggregate.argument)}"


def rank_of(priced: Priced, index: int, missed: float = MISSED) -> float:
    """The same for an aggregate of the release, whether it is a choice or comes from a tree."""
    source, at = priced.bounded.sources[index], priced.bounded.release.aggregates[index].at
    if source.form == "choice":
        return rank_error(priced, source.first, missed)
    assert at is not None
    return rank_width(priced.bounded.trees[source.first], priced.trees[source.first], at, 1 - missed)
