"""Chosen cells as values, and how far off the rank of a choice may be. Post-processing only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.noise_stage import Released
from dpsql.answers.tree_quantiles import quantile_cells, quantile_ends, rank_width
from dpsql.budget.pricing import Priced
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, TIMESTAMP, Type
from dpsql.plan.builder.selection_aggregates import chosen_type
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.choice import MISSED, reach
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.statistics import Source

Cells = Sequence[NDArray[np.int64]]


def chosen_values(
    priced: Priced, source: Source, aggregate: Aggregate, chosen: Cells | int, trees: Cells = ()
) -> NDArray[Any]:
    """The value of each chosen cell, in the type that the aggregate has; for a number of rows, as many NULLs.

    A choice has no law around the chosen value from which it could be drawn again.
    """
    if isinstance(chosen, int):
        double = chosen_type(aggregate) == DOUBLE
        return np.full(chosen, np.nan) if double else np.full(chosen, None, object)
    if source.form == "choice":
        return _values(grid_of(priced, source), chosen[source.first], aggregate)
    assert aggregate.at is not None
    grid = grid_of(priced, source)
    cells = quantile_cells(priced.bounded.trees[source.first], grid.cells, trees[source.first], aggregate.at)
    return _values(grid, cells, aggregate)


def chosen_ends(released: Released, index: int, confidence: float) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Between which values the true quantile lies, row by row; None where nothing tells, or they are no numbers."""
    priced, aggregate = released.priced, released.priced.bounded.release.aggregates[index]
    source = priced.bounded.sources[index]
    if source.form != "tree" or aggregate.at is None or not chosen_type(aggregate).numeric:
        return None
    tree, grid, number = priced.bounded.trees[source.first], grid_of(priced, source), source.first
    low, high = quantile_ends(tree, priced.trees[number], grid.cells, released.trees[number], aggregate.at, confidence)
    half = 0.0 if grid.exact else float(grid.step) / 2
    return _values(grid, low, aggregate).astype(float) - half, _values(grid, high, aggregate).astype(float) + half


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
    """By how many rows (for MIN and MAX: units) the rank of a choice is off at most, but for a chance of `missed`.

    A MODE is off by so many rows in its count: another value may have as many more.
    """
    chosen = priced.chosen[number]
    histogram = priced.bounded.histograms[chosen.choice.histogram]
    return reach(chosen.law, histogram.grid.cells, missed) / (chosen.choice.parts * histogram.one)


def choice_notes(priced: Priced) -> list[str]:
    """What a reader of a chosen value should know."""
    notes = []
    for number, chosen in enumerate(priced.chosen):
        choice, off = chosen.choice, max(1, round(rank_error(priced, number)))
        match choice.kind:
            case "least" | "greatest":
                side = "below" if choice.kind == "least" else "above"
                text = f"the value {side} which about {off} units lie (95%: 0 to {2 * off})"
            case "mode":
                text = f"the most frequent value, or (95%) one with no more than about {off} rows less"
            case _:
                text = f"a value whose rank is off (95%) by no more than about {off} rows"
        notes.append(f"{choice.name} is {text}")
    return notes + [
        f"{aggregate} is from a tree of counts: its rank is off (95%) by no more than about "
        f"{max(1, round(rank_of(priced, index)))} rows"
        for index, aggregate in enumerate(priced.bounded.release.aggregates)
        if priced.bounded.sources[index].form == "tree"
    ]


def rank_of(priced: Priced, index: int, missed: float = MISSED) -> float:
    """The same for an aggregate of the release, whether it is a choice or comes from a tree."""
    source, at = priced.bounded.sources[index], priced.bounded.release.aggregates[index].at
    if source.form == "choice":
        return rank_error(priced, source.first, missed)
    assert at is not None
    return rank_width(priced.bounded.trees[source.first], priced.trees[source.first], at, 1 - missed)
