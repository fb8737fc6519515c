"""For the steward: the very integers to which noise is added, with the claims that scale it.

They are read with the steward's permit, without a charge, and stand in tables of their own type: the noise stage
refuses what was read so, and a released table cannot be made of it (`dpsql.answers.noise_stage`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpsql.answers.estimation import tabulate
from dpsql.answers.nested_results import NestedResults
from dpsql.answers.noise_stage import NoisyTable, public_table
from dpsql.engines.sealed import OPEN
from dpsql.expressions.expression import Value
from dpsql.sensitivity.choice import scored
from dpsql.sensitivity.quantile_tree import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from dpsql.budget.ledger.reservation import TracePermit
    from dpsql.budget.pricing import Priced, PricedChoice
    from dpsql.engines.sealed import Exact, Weights
    from dpsql.plan.nodes.released_scan import Content
    from dpsql.query_draft import PreparedQuery
    from dpsql.session import Connection

_OPEN = OPEN.take()


@dataclass(frozen=True, slots=True)
class TracedTable(NoisyTable):
    """A table of exact integers, for the steward: it goes through the same finishing as a released one."""


@dataclass(frozen=True, slots=True)
class StatisticTrace:
    """One vector before noise; values and claims count steps of `grid`."""

    name: str
    values: Sequence[int]
    l0: int | None
    linf: int | None
    l1: int | None
    l2: int | None
    grid: Fraction
    mechanism: str
    scale: Fraction


@dataclass(frozen=True, slots=True)
class ReleaseTrace:
    """One release before noise. `joint` claims hold for the concatenated vectors of the named statistics."""

    rule: str
    keys: tuple[tuple[Value, ...], ...]
    statistics: tuple[StatisticTrace, ...]
    joint: tuple[tuple[tuple[str, ...], int, int], ...]


def trace(
    db: Connection,
    sql: str,
    *,
    salt: bytes,
    epsilon: float | Decimal | None = None,
    delta: float | Decimal | None = None,
    mechanism: str | None = None,
    clipped: bool = False,
    released: Mapping[str, Content] | None = None,
) -> list[ReleaseTrace]:
    """Run the same code as a query up to the noise, and return what it would be added to. Charges nothing.

    It shows exact values, so it refuses a connection that was opened for an analyst.

    A query that reads results of its own below an aggregate reads those in `released`, by their names in the plan, else
    this database's own without noise. The claims of the outer releases are about neighbours that read the same results:
    take them from one database with `nested`, and give them to both.
    """
    prepared = db.prepare(sql, epsilon=epsilon, delta=delta, mechanism=mechanism, clipped=clipped)
    return traced(db, prepared, salt=salt, released=released)[0]


def nested(
    db: Connection,
    sql: str,
    *,
    salt: bytes,
    epsilon: float | Decimal | None = None,
    delta: float | Decimal | None = None,
    mechanism: str | None = None,
) -> dict[str, Content]:
    """What the nested queries of a query give on this database without noise; for `trace(…, released=…)`."""
    return traced(db, db.prepare(sql, epsilon=epsilon, delta=delta, mechanism=mechanism), salt=salt)[1]


def traced(
    db: Connection, prepared: PreparedQuery, *, salt: bytes, released: Mapping[str, Content] | None = None
) -> tuple[list[ReleaseTrace], dict[str, Content]]:
    """A query that is prepared already, and what its nested queries gave (or were given).

    Where two databases have the same schema, policy and public rows, one plan serves both: it depends on nothing else.
    """
    made, contents, _ = _traced(db, prepared, salt, released)
    return made, dict(contents.made)


def exact_answer(db: Connection, prepared: PreparedQuery, *, salt: bytes) -> list[tuple[Any, ...]]:
    """The rows that a query would have without noise, by the product's own estimators and finishing SQL."""
    _, _, tables = _traced(db, prepared, salt, None)
    return db.dataset.finisher.run(prepared.plan, {name: tabulate(table) for name, table in tables.items()}).rows


def _traced(
    db: Connection, prepared: PreparedQuery, salt: bytes, released: Mapping[str, Content] | None
) -> tuple[list[ReleaseTrace], NestedResults, dict[str, NoisyTable]]:
    permit = db.permit_trace()
    contents = NestedResults(db.dataset.finisher, prepared.plan.nested, dict(released or {}))
    tables: dict[str, NoisyTable] = {}
    made = []
    for priced in prepared.bill.releases:
        name = priced.bounded.release.name
        if priced.free:
            tables[name] = public_table(priced)
            continue
        contents.complete(tables)
        shown, tables[name] = _release(db, priced, salt, permit, contents)
        made.append(shown)
    return made, contents, tables


def same_integers(one: Exact, two: Exact) -> bool:
    """Are these the same exact values? For checks that ask an engine the same again."""
    return pickle.dumps(one.open(_OPEN)) == pickle.dumps(two.open(_OPEN))


def _release(
    db: Connection, asked: Priced, salt: bytes, permit: TracePermit, contents: NestedResults
) -> tuple[ReleaseTrace, TracedTable]:
    priced = contents.filled(asked)
    bounded = priced.bounded
    exact = db.engine.run(asked, salt, permit, contents.made).open(_OPEN)
    kinds = {True: "laplace", False: "gaussian"}
    statistics = []
    for statistic, noised, values in zip(bounded.statistics, priced.noised, exact.values, strict=True):
        claim = noised.claim
        statistics.append(
            StatisticTrace(
                statistic.name,
                tuple(values.tolist()),
                claim.l0,
                claim.linf,
                claim.l1,
                claim.l2,
                statistic.grid * 2**noised.shift,
                kinds[type(noised.noise).__name__ == "DiscreteLaplace"],
                noised.noise.scale,
            )
        )
    if priced.selection is not None and exact.selection is not None and bounded.selection is not None:
        claim = priced.selection.claim
        statistics.append(
            StatisticTrace(
                "selection",
                tuple(exact.selection.tolist()),
                claim.l0,
                claim.linf,
                claim.l1,
                claim.l2,
                Fraction(1, bounded.selection.one),
                kinds[type(priced.selection.noise).__name__ == "DiscreteLaplace"],
                priced.selection.noise.scale,
            )
        )
    groups = len(exact.keys)
    grown = [
        [counted(tree, noised.shift, *exact.histograms[tree.histogram].of(place)) for place in range(groups)]
        for tree, noised in zip(bounded.trees, priced.trees, strict=True)
    ]
    nodes = tuple(np.array(n, np.int64).reshape(groups, t.nodes) for n, t in zip(grown, bounded.trees, strict=True))
    for tree, noised, values in zip(bounded.trees, priced.trees, nodes, strict=True):
        claim, kind = noised.joint, kinds[type(noised.noise).__name__ == "DiscreteLaplace"]
        norms, grid = (claim.l0, claim.linf, claim.l1, claim.l2), Fraction(2**noised.shift, tree.one)
        statistics.append(
            StatisticTrace(tree.name, tuple(values.reshape(-1).tolist()), *norms, grid, kind, noised.noise.scale)
        )
    scores = [_scores(priced, each, exact.histograms[each.choice.histogram], groups) for each in priced.chosen]
    statistics += scores
    joint = tuple(
        (
            tuple(bounded.statistics[i].name for i in share),
            priced.noised[share[0]].joint.l1,
            priced.noised[share[0]].joint.l2,
        )
        for share, _ in bounded.shares
        if len(share) > 1
    )
    steps = [each.values for each in scores if isinstance(each.values, Stepwise)]
    cells = tuple(np.array([each.best(place) for place in range(groups)], dtype=np.int64) for each in steps)
    rows = np.arange(groups)
    if bounded.public and exact.selection is not None:
        rows = np.flatnonzero(exact.selection)
    keys, numbers = tuple(exact.keys[row] for row in rows), tuple(each[rows] for each in exact.values)
    cells, nodes = tuple(each[rows] for each in cells), tuple(each[rows] for each in nodes)
    shown = TracedTable(priced, keys, numbers, chosen=cells, trees=nodes)
    return ReleaseTrace(bounded.rule, exact.keys, tuple(statistics), joint), shown


def _scores(priced: Priced, chosen: PricedChoice, weights: Weights, groups: int) -> StatisticTrace:
    """The scores of all cells of the first key, of the second, …: each moves by at most `linf`.

    Over all keys together the largest moves add up to no more than that; with a claim `l2`, their squares do.
    """
    histogram = priced.bounded.histograms[chosen.choice.histogram]
    runs = [scored(chosen.choice, chosen.law, histogram.grid.cells, *weights.of(place)) for place in range(groups)]
    values = Stepwise(tuple((tuple(each.scores.tolist()), tuple(each.sizes.tolist())) for each in runs))
    linf, grid = chosen.choice.sensitivity(histogram.most), Fraction(1, chosen.choice.parts * histogram.one)
    name = chosen.choice.name
    l2 = linf if histogram.clipped == "l2" else None
    return StatisticTrace(name, values, None, linf, None, l2, grid, "exponential", chosen.law.scale)


# scores of a grid, which may have millions of cells -------------------------------------------------------------------


Runs = tuple[tuple[int, ...], tuple[int, ...]]
"""Scores, and for how many cells each holds."""


@dataclass(frozen=True, slots=True, eq=True)
class Stepwise(Sequence[int]):
    """As long as all cells of all groups; compared and measured by its runs."""

    groups: tuple[Runs, ...]

    def __len__(self) -> int:
        return sum(sum(sizes) for _, sizes in self.groups)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(repeat(s, n) for group in self.groups for s, n in zip(*group, strict=True))

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...
    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        return tuple(self)[place]

    def best(self, group: int) -> int:
        """The first cell with the least score."""
        scores, sizes = self.groups[group]
        least = scores.index(min(scores))
        return sum(sizes[:least])


def extremes(one: Runs, two: Runs | None) -> tuple[int, int]:
    """The smallest and the largest difference between the cells of two groups; without another, to zero."""
    if two is None:
        return min(one[0]), max(one[0])
    ends = [list(accumulate(sizes)) for _, sizes in (one, two)]
    i = j = 0
    found = []
    while i < len(ends[0]) and j < len(ends[1]):
        found.append(one[0][i] - two[0][j])
        a, b = ends[0][i], ends[1][j]
        i, j = i + (a <= b), j + (b <= a)
    return min(found), max(found)
