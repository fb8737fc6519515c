"""Error bars for any expression above the aggregate: draw the noise again, run the finishing SQL again.

Post-processing of released values and of the public noise laws, so it is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.plan.plan import Plan
from dpsql.release.finish import Finisher, Table
from dpsql.release.noise import Released, resampled
from dpsql.release.tabulate import tabulate

TIMES = 200
STACKED = 2_000
MAX_STACKED = 2_000_000
Floats = NDArray[np.float64]
Ends = dict[int, tuple[Floats, Floats]]
Draw = Callable[[Released, int], tuple[NDArray[np.int64], ...]]
"""So many draws of a released table's noise around its values."""


def resampled_intervals(
    finisher: Finisher,
    plan: Plan,
    released: Mapping[str, Released],
    answer: Table,
    wanted: list[int],
    confidence: float,
    draw: Draw = resampled,
) -> Ends:
    """Ends of the wanted output columns; NaN where rows cannot be matched."""
    if not wanted:
        return {}
    edge = (1 - confidence) / 2
    if _row_by_row(plan):
        return {i: _quantiles(v, edge) for i, v in _stacked(finisher, plan, released, answer, wanted, draw).items()}
    drawn = _repeated(finisher, plan, released, answer, wanted, draw)
    selected = any(table.priced.threshold is not None for table in released.values())
    return {i: _reflected(v, edge, _column(answer, i), selected) for i, v in drawn.items()}


def _column(answer: Table, index: int) -> Floats:
    return np.array([_number(row[index]) for row in answer.rows])


def _reflected(values: Floats, edge: float, shown: Floats, selected: bool) -> tuple[Floats, Floats]:
    """The interval for what mixes rows: a maximum of noisy values lies too high, its draws as far above it again.

    So the draws are reflected at the value shown. Where private keys were selected and nothing moves, the draws say
    nothing about the keys that were left out, and there is no interval.
    """
    low, high = _quantiles(values, edge)
    low, high = 2 * shown - high, 2 * shown - low
    unknown = (low == high) & selected
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _row_by_row(plan: Plan) -> bool:
    """Is each output row a function of one released row?"""
    return plan.row is not None and not any(
        isinstance(n, exp.Window | exp.Subquery | exp.AggFunc) for n in plan.finishing.walk()
    )


def _stacked(
    finisher: Finisher, plan: Plan, released: Mapping[str, Released], answer: Table, wanted: list[int], draw: Draw
) -> dict[int, Floats]:
    """All draws in one table and one run."""
    [(name, table)] = released.items()
    rows = len(table.keys)
    times = max(TIMES, min(STACKED, MAX_STACKED // max(1, rows)))
    made = finisher.run(plan, {name: tabulate(table, draw(table, times))}, _unlimited(plan))
    found = np.array([row[-1] for row in made.rows], dtype=np.int64)
    shown = np.array([row[-1] for row in answer.rows], dtype=np.int64)
    drawn = {}
    for column in wanted:
        values = np.full(times * rows, np.nan)
        values[found] = [_number(row[column]) for row in made.rows]
        drawn[column] = values.reshape(times, rows)[:, shown]
    return drawn


def _repeated(
    finisher: Finisher, plan: Plan, released: Mapping[str, Released], answer: Table, wanted: list[int], draw: Draw
) -> dict[int, Floats]:
    """One run for each draw, for windows, joins and subqueries."""
    identity = _identity(plan, answer)
    by_place = identity is None and _keeps_order(plan)
    drawn = {i: np.full((TIMES, len(answer.rows)), np.nan) for i in wanted}
    if identity is None and not by_place:
        return drawn
    columns = {name: tabulate(table, draw(table, TIMES)) for name, table in released.items()}
    for time, rows in enumerate(finisher.run_each(plan, columns, _unlimited(plan), TIMES)):
        if identity is not None:
            _record(rows, plan, identity, drawn, time)
        elif len(rows) == len(answer.rows):
            for column, values in drawn.items():
                values[time] = [_number(row[column]) for row in rows]
    return drawn


def _keeps_order(plan: Plan) -> bool:
    """Nothing in the finishing SQL chooses or orders rows by their values, so rows can be told by their place."""
    moves = (exp.Order, exp.Limit, exp.Where, exp.Having, exp.Qualify, exp.Distinct, exp.Join)
    return not any(isinstance(node, moves) for node in plan.finishing.walk())


def _identity(plan: Plan, answer: Table) -> dict[tuple[Any, ...], int] | None:
    """How to find a row of the answer again: by its released row, else by its columns without noise."""
    keys = [_key(row, plan) for row in answer.rows]
    return {key: i for i, key in enumerate(keys)} if len(set(keys)) == len(keys) else None


def _key(row: tuple[Any, ...], plan: Plan) -> tuple[Any, ...]:
    if plan.row is not None:
        return (row[-1],)
    return tuple(row[i] for i, o in enumerate(plan.outputs) if not o.noisy)


def _record(
    rows: list[tuple[Any, ...]],
    plan: Plan,
    identity: Mapping[tuple[Any, ...], int],
    drawn: dict[int, Floats],
    time: int,
) -> None:
    for row in rows:
        position = identity.get(_key(row, plan))
        if position is not None:
            for column, values in drawn.items():
                values[time, position] = _number(row[column])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _quantiles(values: Floats, edge: float) -> tuple[Floats, Floats]:
    ends = np.full((2, values.shape[1]), np.nan)
    for row in range(values.shape[1]):
        seen = values[:, row][~np.isnan(values[:, row])]
        if len(seen) > len(values) // 2:
            ends[:, row] = np.quantile(seen, [edge, 1 - edge])
    return ends[0], ends[1]


def _unlimited(plan: Plan) -> exp.Query:
    """The finishing query without what drops rows at the very end, so that each row can be found in each replicate."""
    query = plan.finishing.copy()
    for clause in ("limit", "offset", "order"):
        query.set(clause, None)
    if plan.row is not None:
        if not any(isinstance(n, exp.Window) for n in query.walk()):
            query.set("where", None)
        query.set("qualify", None)
    return query
