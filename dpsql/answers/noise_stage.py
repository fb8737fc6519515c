"""Where exact integers end: noise is added here, and what leaves is a released table.

**Theorem.** The released table is a function of (exact + noise) alone: for public keys one noisy integer per key and
statistic, of all keys or of those whose noisy weight reaches the threshold; for private keys those of the keys whose
noisy weight reaches the threshold, with fresh noise for every value shown; of one cell per key and choice, which the
exponential mechanism has chosen, of the two ends that it has chosen given that cell, and of one noisy integer for the
weight of the key; and of one noisy integer per key and node of a tree.
**Proof.** The only uses of `exact` below are `exact + sample` (each sample is used once, for one release), the
comparison of such a sum with the threshold, and scores, which only the mechanism reads; keys come from the query and
the policy, or have passed the threshold; their order is that of the keys.
**Requires** a claim that holds for `exact` (`dpsql.sensitivity.bound` and the SQL that enforces it), a charge that is
durable before `exact` exists (`dpsql.budget.ledger.reservation`), and draws from the operating system
(`dpsql.mechanisms.sampler`).
**Checked by** `tests/unit/release/test_noise_stage.py` and `tests/unit/test_locks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import product
from math import log1p, prod, sqrt
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.pricing import Noised, Priced, PricedChoice
from dpsql.engines.sealed import OPEN, Exact, Integers
from dpsql.errors import InternalError
from dpsql.expressions.expression import Value
from dpsql.mechanisms import DiscreteLaplace
from dpsql.rights import Right, Token
from dpsql.sensitivity.bound import MAX_RELEASED
from dpsql.sensitivity.choice import scored
from dpsql.sensitivity.interval_ends import choose_ends
from dpsql.sensitivity.quantile_tree import LARGEST, Tree, counted

Noisy = NDArray[np.number[Any]]


RELEASE = Right(
    "make a released table",
    "dpsql.answers.noise_stage",
    "dpsql.answers.serialize",
    "dpsql.answers.consistent_totals",
    "dpsql.answers.reuse",
    "dpsql.answers.pilot_pricing",
    "dpsql.answers.explain",
)
"""The noise stage; what reads a table that was stored; and what makes one of released tables, or of public figures."""
_OPEN, _RELEASE = OPEN.take(), RELEASE.take()


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """What finishing reads: keys, an array of integers per statistic, in steps of its noise grid, chosen cells, and the
    nodes of each tree, one row per key. The analyst's tables are `Released`; the steward's trace has its own.

    For each choice there are the cells at the `ends` of its interval (two columns; none but for a quantile), and the
    noisy weights of its groups, the `totals`, in steps of their noise.

    Fitted values (`dpsql.answers.consistent_totals`) are no integers; their error is `spread` times that of the noise
    drawn.
    """

    priced: Priced
    keys: tuple[tuple[Value, ...], ...]
    noisy: tuple[Noisy, ...]
    spread: tuple[float, ...] = ()
    chosen: tuple[NDArray[np.int64], ...] = ()
    trees: tuple[NDArray[np.int64], ...] = ()
    ends: tuple[NDArray[np.int64], ...] = ()
    totals: tuple[NDArray[np.int64], ...] = ()

    def stretch(self, confidence: float) -> Sequence[float]:
        """By how much the half width of each statistic's noise is to be multiplied at that confidence.

        A fitted value has a weighted sum of many noises. Of Gaussian ones that is Gaussian again; of Laplace ones its
        law lies between Laplace and Gaussian, whichever is the wider there.
        """
        if not self.spread:
            return [1.0] * len(self.noisy)
        wider = max(1.0, NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(2) / -log1p(-confidence))
        laplace = [isinstance(noised.noise, DiscreteLaplace) for noised in self.priced.noised]
        return [each * (wider if drawn else 1.0) for each, drawn in zip(self.spread, laplace, strict=True)]

    def fitted(self, noisy: tuple[Noisy, ...], spread: tuple[float, ...], by: Token) -> Self:
        """The same table with fitted values."""
        return replace(self, noisy=noisy, spread=spread)


@dataclass(frozen=True, slots=True)
class Released(NoisyTable):
    """A noisy table.

    **Theorem.** No exact value is in it: it holds what the noise stage made, or a function of such tables.
    **Proof.** It is made with a token for `RELEASE`, also by `replace`. Of the modules that have one, only the noise
    stage can open exact values, and what it makes is noisy (above); the others have released tables, stored ones and
    public figures in hand, and nothing else that depends on the data.
    **Requires** that exact values stay sealed until they are opened here (`dpsql.engines.sealed`).
    **Checked by** `tests/unit/test_locks.py`, and the planted bugs "anybody makes a released table" and "a trace is
    released".
    """

    by: InitVar[Token] = field(kw_only=True)

    def __post_init__(self, by: Token) -> None:
        RELEASE.check(by)

    def fitted(self, noisy: tuple[Noisy, ...], spread: tuple[float, ...], by: Token) -> Self:
        """See `NoisyTable`."""
        return replace(self, noisy=noisy, spread=spread, by=by)

    def shown_as(self, twin: Priced) -> Self:
        """The same table as the answer to an equal release of the same query."""
        return replace(self, priced=twin, by=_RELEASE)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Noise that waits for its exact values: an array for each statistic, and for each tree one row per key."""

    statistics: tuple[NDArray[np.int64], ...]
    trees: tuple[NDArray[np.int64], ...]
    totals: tuple[NDArray[np.int64], ...] = ()
    selection: NDArray[np.int64] | None = None

    def of(self, keys: int) -> Drawn:
        """The noise of so many keys, and of no other number: one sample must not be spread over several of them."""
        selection = () if self.selection is None else (self.selection,)
        if any(len(each) != keys for each in (*self.statistics, *self.trees, *self.totals, *selection)):
            raise InternalError("noise was drawn for another number of keys")
        return self

    def at(self, places: NDArray[np.int64]) -> Drawn:
        """The noise of the keys at these places."""
        statistics, trees, totals = (
            tuple(each[places] for each in many) for many in (self.statistics, self.trees, self.totals)
        )
        return Drawn(statistics, trees, totals)


def drawn_ahead(priced: Priced) -> Drawn | None:
    """The noise of a release, before the database is asked: where all keys are public their number is.

    Drawing takes a random time; drawn ahead, it tells nothing of the data, whatever was rejected on the way.
    """
    if not priced.bounded.public:
        return None
    return _drawn_for_all(priced, prod(len(key.values or ()) for key in priced.bounded.keys))


def _drawn_for_all(priced: Priced, keys: int) -> Drawn:
    """Fresh noise for so many public keys, also for which of them exist."""
    drawn = _draw(priced, keys)
    return drawn if priced.selection is None else replace(drawn, selection=priced.selection.noise.sample(keys))


def _draw(priced: Priced, keys: int) -> Drawn:
    """Fresh noise for so many keys."""
    statistics = tuple(noised.noise.sample(keys) for noised in priced.noised)
    grown = zip(priced.bounded.trees, priced.trees, strict=True)
    trees = [np.array([each.noise.sample(t.nodes) for _ in range(keys)]).reshape(keys, t.nodes) for t, each in grown]
    totals = tuple(each.total.noise.sample(keys) for each in priced.chosen if each.total is not None)
    return Drawn(statistics, tuple(trees), totals)


def add_noise(priced: Priced, sealed: Exact, ahead: Drawn | None = None) -> Released:
    """The released table; with the noise that was drawn ahead for it, if there is any."""
    if sealed.traced:
        raise InternalError("a trace is for the steward: it was not paid for, so it is never released")
    exact = sealed.open(_OPEN)
    if priced.bounded.public:
        ahead = _drawn_for_all(priced, len(exact.keys)) if ahead is None else ahead.of(len(exact.keys))
    places = _shown(priced, exact, ahead)
    keys = tuple(exact.keys[i] for i in places)
    drawn = _draw(priced, len(places)) if ahead is None else ahead.at(places)
    noisy = tuple(values[places] + each for values, each in zip(exact.values, drawn.statistics, strict=True))
    chosen = tuple(_choose(priced, exact, each, places) for each in priced.chosen)
    ends = [_ends(priced, exact, *both, places) for both in zip(priced.chosen, chosen, strict=True)]
    weights = [_weights(exact, each, each.total, places) for each in priced.chosen if each.total is not None]
    totals = tuple(exactly + each for exactly, each in zip(weights, drawn.totals, strict=True))
    nodes = [
        _nodes(exact, tree, noised, places) for tree, noised in zip(priced.bounded.trees, priced.trees, strict=True)
    ]
    trees = tuple(exactly + each for exactly, each in zip(nodes, drawn.trees, strict=True))
    return Released(priced, keys, noisy, chosen=chosen, trees=trees, ends=tuple(ends), totals=totals, by=_RELEASE)


def _nodes(exact: Integers, tree: Tree, noised: Noised, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The exact nodes of a tree, one row for each of these groups."""
    nodes = [counted(tree, noised.shift, *exact.histograms[tree.histogram].of(int(place))) for place in places]
    return np.array(nodes, dtype=np.int64).reshape(len(places), tree.nodes)


def _choose(priced: Priced, exact: Integers, chosen: PricedChoice, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """One cell for each of these groups; in an empty group all cells are equally likely."""
    size = priced.bounded.histograms[chosen.choice.histogram].grid.cells
    weights = exact.histograms[chosen.choice.histogram]
    cells = np.empty(len(places), np.int64)
    for number, place in enumerate(places):
        runs = scored(chosen.choice, chosen.law, size, *weights.of(int(place)))
        run, offset = chosen.law.choose(runs.sizes, runs.scores)
        cells[number] = runs.starts[run] + offset
    return cells


def _ends(
    priced: Priced, exact: Integers, chosen: PricedChoice, middles: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The cells at both ends of the interval around each chosen cell; none for anything but a quantile."""
    if chosen.ends is None:
        return np.empty((len(places), 0), np.int64)
    choice, size = chosen.choice, priced.bounded.histograms[chosen.choice.histogram].grid.cells
    weights = exact.histograms[choice.histogram]
    made = [
        choose_ends(choice, chosen.ends, int(middle), size, *weights.of(int(place)))
        for middle, place in zip(middles, places, strict=True)
    ]
    return np.array(made, np.int64).reshape(len(places), 2)


def _weights(exact: Integers, chosen: PricedChoice, total: Noised, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The exact weight of each group, floored to the grid of its noise; no data overflows."""
    groups = exact.histograms[chosen.choice.histogram]
    weights = [sum(groups.of(int(place))[1].tolist()) >> total.shift for place in places]
    return np.array([min(each, LARGEST) for each in weights], np.int64)


def public_table(priced: Priced) -> Released:
    """A release that shows public keys and nothing else: no data is read for it."""
    return Released(priced, tuple(product(*(key.values or () for key in priced.bounded.keys))), (), by=_RELEASE)


def _shown(priced: Priced, exact: Integers, ahead: Drawn | None) -> NDArray[np.int64]:
    """The positions of the keys that are shown: those that pass, or all where nothing is selected.

    A private key to which no unit gives weight is not a candidate: it is never shown, whatever the noise. Public keys
    are all candidates, with or without units.
    """
    if priced.selection is None or priced.threshold is None or exact.selection is None:
        return np.arange(len(exact.keys))
    if ahead is not None and ahead.selection is not None:
        return np.flatnonzero(exact.selection + ahead.selection >= priced.threshold)
    noisy = exact.selection + priced.selection.noise.sample(len(exact.selection))
    return np.flatnonzero((noisy >= priced.threshold) & (exact.selection > 0))[:MAX_RELEASED]


def box(released: Released, confidence: float, noises: int) -> tuple[Noisy, ...]:
    """The released values moved down and up, so far that with this confidence none of `noises` noises is larger."""
    each = confidence ** (1 / max(1, noises))
    drawn = [noised.noise.half_width(each) for noised in released.priced.noised]
    widths = [width * by for width, by in zip(drawn, released.stretch(each), strict=True)] if released.spread else drawn
    return tuple(np.stack([v - w, v + w]) for v, w in zip(released.noisy, widths, strict=True))
