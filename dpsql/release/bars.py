"""Error bars of expressions over one released row: exact where the law is known, resampled row by row elsewhere.

Post-processing of released values and of the public noise laws, so it is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.plan.plan import Bar, Plan
from dpsql.release.cut_off import drawn_with_cut
from dpsql.release.finish import Finisher, direct_index
from dpsql.release.forms import form_of
from dpsql.release.intervals import form_ends, interval
from dpsql.release.noise import Noisy, Table, resampled
from dpsql.release.quantiles import Floats, ends_of
from dpsql.release.tabulate import tabulate

DRAWS = 2_000
FEWEST = 200
MOST_VALUES = 2_000_000
Bars = dict[str, NDArray[Any]]
Draw = Callable[[Table, int], tuple[Noisy, ...]]
"""So many draws of a released table's noise around its values."""
_Ends = tuple[NDArray[Any], NDArray[Any]]


def bar_columns(finisher: Finisher, plan: Plan, released: Mapping[str, Table]) -> dict[str, Bars]:
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


def _bar(finisher: Finisher, plan: Plan, table: Table, bar: Bar, ends: _Ends) -> NDArray[Any]:
    """One end; or the distance to the further one, so that value ± error holds the whole interval."""
    low, high = ends
    if bar.end != "error":
        return low if bar.end == "low" else high
    [shown] = finisher.numbers(plan, table.priced.bounded.release.name, tabulate(table, {}), [bar.expression])
    return np.maximum(high - shown, shown - low)


def row_ends(
    finisher: Finisher,
    plan: Plan,
    table: Table,
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
    **Requires** separate draws for every row and for the selection (`dpsql.release.noise`), and intervals that are
    right for one row (`dpsql.release.intervals`).
    **Checked by** `tests/unit/release/test_coverage.py`.
    """
    each = confidence ** (1 / max(1, len(table.keys))) if together else confidence
    ends = [_exact(table, expression, each) for expression in expressions]
    others = [e for e, known in zip(expressions, ends, strict=True) if known is None]
    if others:
        drawn = iter(_drawn(finisher, plan, table, bars, others, confidence, together=together, draw=draw))
        ends = [next(drawn) if known is None else known for known in ends]
    return [known for known in ends if known is not None]


def _exact(table: Table, expression: exp.Expr, confidence: float) -> _Ends | None:
    index = direct_index(expression)
    if index is not None:
        return interval(table, index, confidence)
    form = form_of(expression, table.priced)
    return None if form is None else form_ends(table, form, confidence)


def _drawn(
    finisher: Finisher,
    plan: Plan,
    table: Table,
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
