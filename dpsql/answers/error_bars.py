"""Error bars of any expression: exact where the law of the noise is known, resampled elsewhere.

An expression over one released row is computed again over resampled noise row by row. For what mixes rows (windows,
joins, subqueries) the noise is drawn again and the finishing SQL runs again. All of it is post-processing of released
values and of public noise laws, so it is free, and the same release has the same bars each time, through every door.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from math import expm1, floor, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.answers.analytic_bars import cut_off, drawn_with_cut, form_ends, form_of, interval
from dpsql.answers.consistent_totals import fit_draws, fit_tables
from dpsql.answers.estimation import tabulate
from dpsql.answers.finish import AnswerTable, Finisher, direct_index
from dpsql.answers.missing_groups import only_present
from dpsql.answers.noise_stage import Noisy, NoisyTable, Released, box
from dpsql.mechanisms import DiscreteLaplace, Noise
from dpsql.plan.canonical import describe_relation
from dpsql.plan.plan import Bar, Plan

Floats = NDArray[np.float64]


def number(value: Any) -> float:
    """A cell of an answer as a number; NaN for NULL and for anything that is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def nearest(known: Floats, values: Floats) -> NDArray[np.intp]:
    """For each value the position of the nearest known one."""
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
            rank = floor((len(seen) + 1) * (1 - confidence) / 2 + 1e-9)
            ends[:, column] = (seen[rank - 1], seen[-rank]) if rank else _stretched(seen, confidence)
    return ends[0], ends[1]


def _stretched(ordered: Floats, confidence: float) -> Floats:
    """Ends beyond all draws, for more confidence than there are draws: as far as if their tails were exponential."""
    middle, seen = np.median(ordered), 2 / (len(ordered) + 1)
    stretched: Floats = middle + (ordered[[0, -1]] - middle) * (log(1 - confidence) / log(seen))
    return stretched


def _ranked(ordered: Floats, confidence: float) -> float:
    """The smallest of the draws that a fresh one stays below with that confidence."""
    return float(ordered[min(len(ordered), -floor(-(len(ordered) + 1) * confidence)) - 1])


# expressions over one released row ------------------------------------------------------------------------------------


DRAWS = 2_000
FEWEST = 200
MOST_VALUES = 2_000_000
Bars = dict[str, NDArray[Any]]
Draw = Callable[[NoisyTable, int], tuple[Noisy, ...]]
"""So many draws of a released table's noise around its values."""
_Ends = tuple[NDArray[Any], NDArray[Any]]


def resampled(released: NoisyTable, times: int) -> tuple[Noisy, ...]:
    """Draws of the same laws around the released values, `times` rows of them: the same draws each time.

    They only measure widths, and their seed is a digest of what was released: whoever knows it knows the answer, and
    nothing else. No noise that protects anything is drawn here.
    """
    random = np.random.default_rng(int.from_bytes(_digest(released)))
    spread = released.spread or (1,) * len(released.noisy)
    return tuple(
        values + each * _around_zero(random, noised.noise, (times, len(values)))
        for values, noised, each in zip(released.noisy, released.priced.noised, spread, strict=True)
    )


def _digest(released: NoisyTable) -> bytes:
    """A digest of the values, and of what they are: two releases that happen to be equal have different draws."""
    release = released.priced.bounded.release
    read = [describe_relation(release.source), *map(repr, release.keys), *map(repr, release.aggregates)]
    digest = hashlib.sha256(json.dumps(read, default=str).encode())
    for values in released.noisy:
        digest.update(np.asarray(values, dtype=np.float64).tobytes())
    return digest.digest()


def _around_zero(random: np.random.Generator, noise: Noise, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Draws of a noise law, Gaussian ones by rounding."""
    scale = float(noise.scale)
    if isinstance(noise, DiscreteLaplace):
        above, below = (random.geometric(-expm1(-1 / scale), shape) for _ in range(2))
        return above - below
    return np.rint(random.normal(0.0, scale, shape)).astype(np.int64)


def bar_columns(finisher: Finisher, plan: Plan, released: Mapping[str, NoisyTable]) -> dict[str, Bars]:
    """The columns `_b0, _b1, …` of each released table; the ends of one bar come from the same draws."""
    columns: dict[str, Bars] = {name: {} for name in released}
    for release in plan.releases:
        made: dict[tuple[exp.Expr, float], _Ends] = {}
        for place, bar in enumerate(release.bars):
            asked = (bar.expression, bar.confidence)
            if asked not in made:
                made[asked] = row_ends(finisher, plan, released[release.name], {}, [bar.expression], bar.confidence)[0]
            columns[release.name] |= {f"_b{place}": _bar(finisher, plan, released[release.name], bar, made[asked])}
    return columns


def _bar(finisher: Finisher, plan: Plan, table: NoisyTable, bar: Bar, ends: _Ends) -> NDArray[Any]:
    """One end; or the distance to the further one, so that value ± error holds the whole interval."""
    low, high = ends
    if bar.end != "error":
        return low if bar.end == "low" else high
    [shown] = finisher.numbers(plan, table.priced.bounded.release.name, tabulate(table, {}), [bar.expression])
    return np.maximum(high - shown, shown - low)


def row_ends(
    finisher: Finisher,
    plan: Plan,
    table: NoisyTable,
    bars: Bars,
    expressions: Sequence[exp.Expr],
    confidence: float,
    *,
    together: bool = False,
    draw: Draw = resampled,
) -> list[_Ends]:
    """Both ends of each expression in each row of the release; `together`: all rows of one expression at once.

    **Theorem.** Of k rows, each with an interval of confidence c^(1/k), all hold together with confidence c. The rows
    shown of private keys may be chosen by the data, and rows of the answer by what was released: it holds all the same.
    **Proof.** The noises of different rows are independent, and so is the noise of the selection; given the rows that
    were released each interval depends on the noise of its own row only. k counts all of them, so whatever
    HAVING, LIMIT or a reader picks out of them is covered.
    **Requires** separate draws for every row and for the selection (`dpsql.answers.noise_stage`), and intervals that
    are right for one row (`dpsql.answers.analytic_bars`).
    **Checked by** `tests/unit/release/test_coverage.py`.
    """
    each = confidence ** (1 / max(1, len(table.keys))) if together else confidence
    ends = [_exact(table, expression, each) for expression in expressions]
    others = [e for e, known in zip(expressions, ends, strict=True) if known is None]
    if others:
        drawn = iter(_drawn(finisher, plan, table, bars, others, confidence, together=together, draw=draw))
        ends = [next(drawn) if known is None else known for known in ends]
    return [known for known in ends if known is not None]


def _exact(table: NoisyTable, expression: exp.Expr, confidence: float) -> _Ends | None:
    index = direct_index(expression)
    if index is not None:
        return interval(table, index, confidence)
    form = form_of(expression, table.priced)
    return None if form is None else form_ends(table, form, confidence)


def _drawn(
    finisher: Finisher,
    plan: Plan,
    table: NoisyTable,
    bars: Bars,
    expressions: Sequence[exp.Expr],
    confidence: float,
    *,
    together: bool,
    draw: Draw,
) -> list[tuple[Floats, Floats]]:
    """All draws in one table and one run."""
    rows, name = len(table.keys), table.priced.bounded.release.name
    times = max(FEWEST, min(DRAWS, MOST_VALUES // max(1, rows)))
    shown = finisher.numbers(plan, name, tabulate(table, bars), expressions)
    drawn = finisher.numbers(
        plan, name, tabulate(table, bars, drawn_with_cut(table, draw(table, times), times), times=times), expressions
    )
    return [
        ends_of(values.reshape(times, rows), value, confidence, together=together)
        for values, value in zip(drawn, shown, strict=True)
    ]


# expressions that mix rows --------------------------------------------------------------------------------------------


TIMES = 200
BESIDE = 4
"""Further runs: the low and the high ends, and what was cut off put back in all statistics, or in sums only."""
Ends = dict[int, tuple[Floats, Floats]]
_CHOOSING = (exp.Max, exp.Min, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ArgMax, exp.ArgMin,
             exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Filter, exp.Case, exp.If)  # fmt: skip


def resampled_intervals(
    finisher: Finisher,
    plan: Plan,
    released: Mapping[str, Released],
    bars: Mapping[str, Bars],
    answer: AnswerTable,
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
    Last, it reaches as far again as the answer moves if all that clips are estimated to cut off is put back, or only
    what they cut off sums of values: it may be a few heavy values, which a variance shows.
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
            ends_of_all = values[TIMES:-2]
            low, high = np.fmin(low, np.fmin.reduce(ends_of_all)), np.fmax(high, np.fmax.reduce(ends_of_all))
        moved = np.nan_to_num(values[-2:] - shown)
        low, high = low + np.minimum(moved, 0.0).min(axis=0), high + np.maximum(moved, 0.0).max(axis=0)
        unknown = (low == high) & selected
        ends[index] = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    return ends


def _repeated(
    finisher: Finisher,
    plan: Plan,
    released: Mapping[str, Released],
    bars: Mapping[str, Bars],
    answer: AnswerTable,
    wanted: list[int],
    confidence: float,
    draw: Draw,
) -> dict[int, Floats]:
    """One run for each draw, two for the low and the high ends, and two with what was cut off put back."""
    identity = _identity(plan, answer)
    by_place = identity is None and _keeps_order(plan)
    drawn = {i: np.full((TIMES + BESIDE, len(answer.rows)), np.nan) for i in wanted}
    if identity is None and not by_place:
        return drawn
    noises = sum(len(table.keys) * len(table.noisy) for table in released.values())
    columns, drawn_ = {}, {name: draw(table, TIMES) for name, table in released.items()}
    draws, fitted = fit_draws(plan, released, drawn_), fit_tables(plan, released)
    for name, table in fitted.items():
        summed = [statistic.part.alpha != 0 for statistic in table.priced.bounded.statistics]
        cuts = zip(table.noisy, cut_off(table), summed, strict=True)
        whole = [np.stack([noisy + cut, noisy + cut * values]) for noisy, cut, values in cuts]
        parts = zip(draws[name], box(table, confidence, noises), whole, strict=True)
        drawn_table = tabulate(table, bars[name], [np.concatenate(part) for part in parts], times=TIMES + BESIDE)
        columns[name] = only_present(released[name], drawn_table, TIMES + BESIDE)
    sizes = {name: len(table.keys) for name, table in released.items()}
    for time, rows in enumerate(finisher.run_each(plan, columns, _unlimited(plan), TIMES + BESIDE, sizes)):
        if identity is not None:
            _record(rows, plan, identity, drawn, time)
        elif len(rows) == len(answer.rows):
            for column, values in drawn.items():
                values[time] = [number(row[column]) for row in rows]
    return drawn


def _keeps_order(plan: Plan) -> bool:
    """Whether the finishing SQL neither chooses nor orders rows by their values: then a position identifies a row."""
    moves = (exp.Order, exp.Limit, exp.Where, exp.Having, exp.Qualify, exp.Distinct, exp.Join)
    return not any(isinstance(node, moves) for node in plan.finishing.walk())


def _identity(plan: Plan, answer: AnswerTable) -> dict[tuple[Any, ...], int] | None:
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
