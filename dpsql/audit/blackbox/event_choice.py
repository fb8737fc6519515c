"""Choose the event that is the strongest evidence against a promise: some runs teach the statistics, others choose.

What is chosen here is only a guess at what gives a breach away; the test on fresh runs is valid whatever was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.blackbox.observations import FeatureTable
from dpsql.audit.blackbox.promise_test import Limit

Floats = NDArray[np.float64]
Hits = NDArray[np.bool_]
Statistic = Callable[[FeatureTable], Floats]
QUANTILES = np.concatenate([[0.01, 0.02, 0.035], np.linspace(0.05, 0.95, 37), [0.965, 0.98, 0.99]])
BINS = np.linspace(0.1, 0.9, 9)
CLEAR = 2.0
MOST_FEATURES = 60
SHARES = np.geomspace(0.05, 16, 26)
"""The promises that an event is weighed against, as shares of the one that was made."""
FAR = 4.0
"""How many standard errors refute a promise, about."""
_GRID = np.sin(np.linspace(0, np.pi / 2, 400)) ** 2


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an answer shows or does not; on which side it should be likelier, against which promise.

    `q` is about how likely it is on the other side.
    """

    name: str
    happened: Callable[[FeatureTable], Hits]
    with_unit: bool
    limit: Limit
    q: float


def choose(
    learn: tuple[FeatureTable, FeatureTable], pick: tuple[FeatureTable, FeatureTable], limits: Sequence[Limit]
) -> tuple[Event | None, Event | None]:
    """The best event for each direction, likelier with the unit and likelier without: it should refute the most."""
    events = list(_events(learn, pick))
    if not events:
        return None, None
    seen = np.array([[np.mean(happened(side)) for side in pick] for _, happened in events])
    runs = len(next(iter(pick[0].numbers.values())))
    return _best(events, seen, limits, runs, True), _best(events, seen[:, ::-1], limits, runs, False)


def _best(
    events: Sequence[tuple[str, Callable[[FeatureTable], Hits]]],
    seen: Floats,
    limits: Sequence[Limit],
    runs: int,
    with_unit: bool,
) -> Event:
    """The event and the promise of which it should refute the largest share, in noise.

    An event refutes what its complement does in the other direction. So only the rarer of the two is taken (p + q ≤ 1):
    otherwise both directions would test the same event, and a bad choice would be made twice.
    """
    p, q = (seen * runs + 1).T / (runs + 2)
    refuted = np.stack([_refuted(p, q, limit, runs) for limit in limits])
    limit, place = divmod(int(np.argmax(np.where(p + q <= 1, refuted, -1.0))), len(events))
    name, happened = events[place]
    return Event(name, happened, with_unit, limits[limit], float(np.clip(seen[place, 1], 0.002, 0.998)))


def _refuted(p: Floats, q: Floats, limit: Limit, runs: int) -> Floats:
    """For each event, about the largest share of the required noise that a test on twice the runs would refute."""
    scores = np.stack([_score(p, q, limit.at(limit.value * float(share)), runs) for share in SHARES])
    reached = np.maximum.accumulate((scores >= FAR)[::-1], axis=0)[::-1].sum(axis=0)
    inside = np.clip(reached, 1, len(SHARES) - 1)
    each = np.arange(len(p))
    above, below = scores[inside - 1, each], scores[inside, each]
    between = np.clip((above - FAR) / np.maximum(above - below, 1e-9), 0, 1)
    share = SHARES[inside - 1] * (SHARES[inside] / SHARES[inside - 1]) ** between
    share = np.where(reached == 0, SHARES[0] * np.exp(np.minimum(scores[0] - FAR, 0)), share)
    return np.asarray(share if limit.kind == "epsilon" else np.sqrt(share))


def _score(p: Floats, q: Floats, limit: Limit, runs: int) -> Floats:
    """About how many standard errors of twice the runs lie between what was seen and what a promise allows."""
    curve, step = limit.most(_GRID), 0.01
    most = np.interp(q, _GRID, curve)
    slope = (np.interp(np.minimum(1, q + step), _GRID, curve) - most) / step
    return np.asarray((p - most) / np.sqrt((p * (1 - p) + slope**2 * q * (1 - q)) / (2 * runs)))


def _events(
    learn: tuple[FeatureTable, FeatureTable], pick: tuple[FeatureTable, FeatureTable]
) -> Iterator[tuple[str, Callable[[FeatureTable], Hits]]]:
    """With each event its complement; where a value is missing, it is neither above nor below."""
    for name, statistic in _statistics(learn):
        values = np.concatenate([statistic(side) for side in pick])
        known = values[~np.isnan(values)]
        for cut in np.unique(np.quantile(known, QUANTILES)) if known.size else ():
            yield f"{name} ≥ {cut:.6g}", _above(statistic, float(cut))
            yield f"{name} < {cut:.6g}", _below(statistic, float(cut))
            if known.size < values.size:
                yield f"not {name} ≥ {cut:.6g}", _not(_above(statistic, float(cut)))
                yield f"not {name} < {cut:.6g}", _not(_below(statistic, float(cut)))
    for name in learn[0].flags:
        yield name, _flag(name, True)
        yield f"not {name}", _flag(name, False)


def _above(statistic: Statistic, cut: float) -> Callable[[FeatureTable], Hits]:
    return lambda table: np.asarray(statistic(table) >= cut)


def _below(statistic: Statistic, cut: float) -> Callable[[FeatureTable], Hits]:
    return lambda table: np.asarray(statistic(table) < cut)


def _not(happened: Callable[[FeatureTable], Hits]) -> Callable[[FeatureTable], Hits]:
    return lambda table: ~happened(table)


def _flag(name: str, wanted: bool) -> Callable[[FeatureTable], Hits]:
    return lambda table: np.asarray(table.flags[name] == wanted)


def _statistics(learn: tuple[FeatureTable, FeatureTable]) -> Iterator[tuple[str, Statistic]]:
    """Each number by itself, a weighted sum of all by the distance of their means, and summed log-likelihoods."""
    clear = _clear(learn)
    for name in clear[:MOST_FEATURES] or list(learn[0].numbers)[:MOST_FEATURES]:
        yield name, _value(name)
    if len(clear) > 1:
        yield "weighed", _weighed(learn, clear[:MOST_FEATURES])
    if len(clear) + len(learn[0].flags) > 1:
        yield "likelihood", _likelihood(learn, clear[:MOST_FEATURES])


def _value(name: str) -> Statistic:
    return lambda table: table.numbers[name]


def _clear(learn: tuple[FeatureTable, FeatureTable]) -> list[str]:
    """Numbers whose means differ by more than chance, the clearest first."""
    found = {}
    for name, one in learn[0].numbers.items():
        two = learn[1].numbers[name]
        a, b = one[~np.isnan(one)], two[~np.isnan(two)]
        if min(a.size, b.size) > 20:
            spread = np.sqrt(a.var() / a.size + b.var() / b.size)
            found[name] = abs(a.mean() - b.mean()) / spread if spread > 0 else 0.0
    return sorted((name for name, t in found.items() if t > CLEAR), key=lambda name: -found[name])


def _weighed(learn: tuple[FeatureTable, FeatureTable], names: Sequence[str]) -> Statistic:
    """Fisher's linear discriminant; what is missing counts as the mean."""
    one, two = (np.stack([side.numbers[name] for name in names]) for side in learn)
    middle = np.nanmean(np.concatenate([one, two], axis=1), axis=1)
    filled = [np.where(np.isnan(each), middle[:, None], each) for each in (one, two)]
    spread = sum(np.cov(each).reshape(len(names), len(names)) for each in filled) / 2
    scale = np.sqrt(np.diag(spread)) + 1e-300
    correlation = spread / np.outer(scale, scale) + 0.05 * np.eye(len(names))
    weights = np.linalg.solve(correlation, (filled[0].mean(axis=1) - filled[1].mean(axis=1)) / scale) / scale

    def statistic(table: FeatureTable) -> Floats:
        values = np.stack([table.numbers[name] for name in names])
        return np.asarray(weights @ (np.where(np.isnan(values), middle[:, None], values) - middle[:, None]))

    return statistic


def _likelihood(learn: tuple[FeatureTable, FeatureTable], names: Sequence[str]) -> Statistic:
    """The sum over features of log-ratios of how often their value's bin was seen on either side."""
    edges = {name: _edges(learn, name) for name in names}
    weights = {
        name: _ratios([_binned(side.numbers[name], edges[name]) for side in learn], len(edges[name]) + 2)
        for name in names
    }
    flags = {name: _ratios([side.flags[name].astype(np.int64) for side in learn], 2) for name in learn[0].flags}
    kept = {name: ratio for name, ratio in flags.items() if ratio is not None}

    def statistic(table: FeatureTable) -> Floats:
        total = np.zeros(len(next(iter(table.numbers.values()))))
        for name, ratio in weights.items():
            if ratio is not None:
                total += ratio[_binned(table.numbers[name], edges[name])]
        for name, ratio in kept.items():
            total += ratio[table.flags[name].astype(np.int64)]
        return total

    return statistic


def _edges(learn: tuple[FeatureTable, FeatureTable], name: str) -> Floats:
    values = np.concatenate([side.numbers[name] for side in learn])
    return np.unique(np.quantile(values[~np.isnan(values)], BINS))


def _binned(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """The number of the bin; NaN has a bin of its own, the last."""
    bins = np.searchsorted(edges, values, side="right")
    return np.where(np.isnan(values), len(edges) + 1, bins).astype(np.int64)


def _ratios(sides: Sequence[NDArray[np.int64]], size: int) -> Floats | None:
    """The log-ratio of each bin, smoothed; none where the sides differ by no more than chance."""
    counts = [np.bincount(side, minlength=size) + 1.0 for side in sides]
    shares = [count / count.sum() for count in counts]
    apart = float((shares[0] * np.log(shares[0] / shares[1])).sum())
    if apart * len(sides[0]) < size:
        return None
    return np.asarray(np.log(shares[0] / shares[1]))
