"""For the steward: the very integers to which noise is added, with the claims that scale it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql.errors import PolicyError
from dpsql.expressions.expression import Value
from dpsql.sensitivity.choice import scored

if TYPE_CHECKING:
    from decimal import Decimal

    from dpsql.budget.allocate import Chosen, Priced
    from dpsql.engines.base import Weights
    from dpsql.session import Connection


@dataclass(frozen=True, slots=True)
class StatisticTrace:
    """One vector before noise; values and claims count steps of `grid`."""

    name: str
    values: tuple[int, ...]
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
) -> list[ReleaseTrace]:
    """Run the same code as a query up to the noise, and return what it would be added to. Charges nothing.

    It shows exact values, so it refuses a connection that was opened for an analyst.
    """
    if not db.steward:
        raise PolicyError(
            "a trace shows exact values: it is for the steward only", hint="open the connection with steward=True"
        )
    prepared = db.prepare(sql, epsilon, delta, mechanism, clipped=clipped)
    return [_release(db, priced, salt) for priced in prepared.bill.releases if not priced.free]


def _release(db: Connection, priced: Priced, salt: bytes) -> ReleaseTrace:
    bounded = priced.bounded
    exact = db._engine.run(priced, salt)
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
    for chosen in priced.chosen:
        statistics.append(_scores(priced, chosen, exact.histograms[chosen.choice.histogram], len(exact.keys)))
    joint = tuple(
        (
            tuple(bounded.statistics[i].name for i in share),
            priced.noised[share[0]].joint.l1,
            priced.noised[share[0]].joint.l2,
        )
        for share, _ in bounded.shares
        if len(share) > 1
    )
    return ReleaseTrace(bounded.rule, exact.keys, tuple(statistics), joint)


def _scores(priced: Priced, chosen: Chosen, weights: Weights, groups: int) -> StatisticTrace:
    """The scores of all cells of the first key, of the second, …: each moves by at most `linf`.

    Over all keys together the largest moves add up to no more than that.
    """
    histogram = priced.bounded.histograms[chosen.choice.histogram]
    values: list[int] = []
    for place in range(groups):
        runs = scored(chosen.choice, chosen.law, histogram.grid.cells, *weights.of(place))
        values += np.repeat(runs.scores, runs.sizes).tolist()
    linf, grid = chosen.choice.sensitivity(histogram.most), Fraction(1, chosen.choice.parts * histogram.one)
    name = chosen.choice.name
    return StatisticTrace(name, tuple(values), None, linf, None, None, grid, "exponential", chosen.law.scale)
