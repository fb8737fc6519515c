"""Chosen cells as values, and how far off the rank of a choice may be. Post-processing only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.allocate import Priced
from dpsql.expressions.expression import Value
from dpsql.expressions.types import DOUBLE, TIMESTAMP, Type
from dpsql.plan.choosing import chosen_type
from dpsql.plan.relation import Aggregate
from dpsql.sensitivity.choice import MISSED, reach
from dpsql.sensitivity.statistics import Source


def chosen_values(
    priced: Priced, source: Source, aggregate: Aggregate, chosen: Sequence[NDArray[np.int64]] | int
) -> NDArray[Any]:
    """The value of each chosen cell, in the type that the aggregate has; for a number of rows, as many NULLs.

    A choice has no law around the chosen value from which it could be drawn again.
    """
    type_ = chosen_type(aggregate)
    if isinstance(chosen, int):
        return np.full(chosen, np.nan) if type_ == DOUBLE else np.full(chosen, None, object)
    grid, cells = priced.bounded.histograms[priced.bounded.choices[source.first].histogram].grid, chosen[source.first]
    values = {int(cell): _as(grid.value(int(cell)), type_) for cell in np.unique(cells)}
    made = np.empty(len(cells), np.float64 if type_ == DOUBLE else object)
    made[:] = [values[int(cell)] for cell in cells]
    return made


def _as(value: Value, type_: Type) -> Value:
    if type_ == TIMESTAMP and isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return float(value) if type_ == DOUBLE and isinstance(value, int) else value


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
    return notes
