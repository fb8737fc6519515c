"""Error bars of what mixes rows (windows, joins, subqueries): draw the noise again, run the finishing SQL again.

Post-processing of released values and of the public noise laws, so it is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.plan.plan import Plan
from dpsql.release.bars import Bars, Draw
from dpsql.release.cut_off import cut_off
from dpsql.release.finish import Finisher, Table
from dpsql.release.fit import fit_draws, fit_tables
from dpsql.release.noise import Released, box, resampled
from dpsql.release.quantiles import Floats, ends_of, number
from dpsql.release.tabulate import tabulate

TIMES = 200
Ends = dict[int, tuple[Floats, Floats]]
_CHOOSING = (exp.Max, exp.Min, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ArgMax, exp.ArgMin,
             exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Filter, exp.Case, exp.If)  # fmt: skip


def resampled_intervals(
    finisher: Finisher,
    plan: Plan,
    released: Mapping[str, Released],
    bars: Mapping[str, Bars],
    answer: Table,
    wanted: list[int],
    confidence: float,
    *,
    together: bool,
    draw: Draw = resampled,
) -> Ends:
    """Ends of the wanted output columns; NaN where rows cannot be matched.

    A maximum of noisy values lies too high, and its draws as far above it again; a count of groups above a threshold
    may stray either way. So the interval spans the draws and their reflection at the value shown. Where groups are
    chosen by their values no resampling is right (of equal groups the largest is all noise): there it also spans the
    answers at the low and at the high ends of all released values at once, which hold whatever grows with each of them.
    Last, it reaches as far again as the answer moves if all that clips are estimated to cut off is put back.
    Where private keys were selected and nothing moves, the draws say nothing about the keys that were left out, and
    there is no interval.
    """
    if not wanted:
        return {}
    drawn = _repeated(finisher, plan, released, bars, answer, wanted, confidence, draw)
    selected = any(table.priced.threshold is not None for table in released.values())
    ends: Ends = {}
    for index, values in drawn.items():
        shown = np.array([number(row[index]) for row in answer.rows])
        low, high = ends_of(values[:TIMES], shown, confidence, together=together)
        low, high = np.minimum(low, 2 * shown - high), np.maximum(high, 2 * shown - low)
        if any(isinstance(node, _CHOOSING) for node in plan.finishing.walk()):
            ends_of_all = values[TIMES:-1]
            low, high = np.fmin(low, np.fmin.reduce(ends_of_all)), np.fmax(high, np.fmax.reduce(ends_of_all))
        moved = np.nan_to_num(values[-1] - shown)
        low, high = low + np.minimum(moved, 0.0), high + np.maximum(moved, 0.0)
        unknown = (low == high) & selected
        ends[index] = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    return ends


def _repeated(
    finisher: Finisher,
    plan: Plan,
    released: Mapping[str, Released],
    bars: Mapping[str, Bars],
    answer: Table,
    wanted: list[int],
    confidence: float,
    draw: Draw,
) -> dict[int, Floats]:
    """One run for each draw, two for the low and the high ends, and one with what was cut off put back."""
    identity = _identity(plan, answer)
    by_place = identity is None and _keeps_order(plan)
    drawn = {i: np.full((TIMES + 3, len(answer.rows)), np.nan) for i in wanted}
    if identity is None and not by_place:
        return drawn
    noises = sum(len(table.keys) * len(table.noisy) for table in released.values())
    columns, drawn_ = {}, {name: draw(table, TIMES) for name, table in released.items()}
    draws, fitted = fit_draws(plan, released, drawn_), fit_tables(plan, released)
    for name, table in fitted.items():
        whole = [(noisy + cut)[None, :] for noisy, cut in zip(table.noisy, cut_off(table), strict=True)]
        parts = zip(draws[name], box(table, confidence, noises), whole, strict=True)
        columns[name] = tabulate(table, bars[name], [np.concatenate(part) for part in parts], times=TIMES + 3)
    for time, rows in enumerate(finisher.run_each(plan, columns, _unlimited(plan), TIMES + 3)):
        if identity is not None:
            _record(rows, plan, identity, drawn, time)
        elif len(rows) == len(answer.rows):
            for column, values in drawn.items():
                values[time] = [number(row[column]) for row in rows]
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
                values[time, position] = number(row[column])


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
