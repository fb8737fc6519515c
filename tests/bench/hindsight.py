"""The best clip in hindsight: what one price can buy if somebody who sees the data chooses the clip.

A query's cells are sums of one vector per unit (all groups and statistics, each statistic divided by a typical unit's
norm). The vector is clipped to the L2 norm C, Gaussian noise of C/√(2ρ) is added to every coordinate, and C is the one
with the least rms error over the query's cells (the scales, too, are the best of three). The keys of the groups are given, for nothing. This is a yardstick, not
a mechanism: C, the scales and the centres are read off the private data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from math import sqrt
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Key = tuple[str | None, ...]
DRAWS = 200
STEP = 2**0.25
LEAST = 1e-12
HOPELESS = 0.3
Typical = Callable[[Floats], float]
TYPICAL: tuple[Typical, ...] = (
    lambda norms: float(np.median(norms)),
    lambda norms: float(norms.mean()),
    lambda norms: sqrt(float(np.mean(norms**2))),
)
"""Scales between statistics: heavy sums want the median, rare events (whose median is next to nothing) the rms."""


@dataclass(frozen=True, slots=True)
class Total:
    """COUNT, SUM or COUNT(DISTINCT unit): a statistic as it is."""

    of: str


@dataclass(frozen=True, slots=True)
class Share:
    """A group's part of the sum over all groups."""

    of: str


@dataclass(frozen=True, slots=True)
class Ratio:
    """An average or a rate: one statistic over another, `times` 1 or 100."""

    over: str
    under: str
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """STDDEV (sample) of a column, from its sum, its sum of squares and its number of values."""

    total: str
    squares: str
    count: str


Output = Total | Share | Ratio | Spread


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each unit adds to each statistic of each group; rows without an owner have unit -1."""

    keys: tuple[Key, ...]
    units: Ints
    cells: Ints
    statistics: Mapping[str, Floats]

    def totals(self) -> dict[str, Floats]:
        """Every statistic of every group, with the rows that nobody owns."""
        return {name: self._summed(values) for name, values in self.statistics.items()}

    def owned(self) -> Contributions:
        """Without the rows that nobody owns; the groups stay."""
        mine = self.units >= 0
        statistics = {name: values[mine] for name, values in self.statistics.items()}
        return Contributions(self.keys, self.units[mine], self.cells[mine], statistics)

    def _summed(self, values: Floats) -> Floats:
        return np.bincount(self.cells, values, len(self.keys)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Best:
    """The best clip: `errors[output]` has a row for each draw and a column for each key."""

    clip: float
    loss: float
    keys: tuple[Key, ...]
    errors: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One statistic of the vector to which noise is added: minus `centre` times another, then divided by `norm`."""

    centre: float
    norm: float
    values: Floats


def key_text(value: Any) -> str | None:
    """A group key as text that is the same from DuckDB, pandas and an answer."""
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return None
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == datetime.min.time() else value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def contributions(
    connection: duckdb.DuckDBPyConnection, source: str, unit: str, keys: tuple[str, ...], statistics: Mapping[str, str]
) -> Contributions:
    """Every unit's own statistics by group: each is an aggregate over the rows of one unit in one group.

    In a settled order, so that the draws are the same in every run.
    """
    columns = [f"{unit} AS unit", *(f"{key} AS key{i}" for i, key in enumerate(keys))]
    columns += [f"coalesce({sql}, 0)::DOUBLE AS stat{i}" for i, sql in enumerate(statistics.values())]
    frame = connection.execute(f"SELECT {', '.join(columns)} FROM {source} GROUP BY ALL ORDER BY ALL").df()
    names = [f"key{i}" for i in range(len(keys))]
    if names:
        cells = np.asarray(frame.groupby(names, dropna=False, sort=False).ngroup(), np.int64)
        first = frame.iloc[np.unique(cells, return_index=True)[1]][names]
        found = tuple(tuple(key_text(v) for v in row) for row in first.itertuples(index=False))
    else:
        cells, found = np.zeros(len(frame), np.int64), ((),)
    units = pd.factorize(frame["unit"])[0].astype(np.int64)
    values = {name: frame[f"stat{i}"].to_numpy(np.float64) for i, name in enumerate(statistics)}
    return Contributions(found, units, cells, values)


def exact_output(output: Output, totals: Mapping[str, Floats]) -> Floats:
    """The output without noise, from totals."""
    found: Floats
    with np.errstate(divide="ignore", invalid="ignore"):
        match output:
            case Total(of):
                found = totals[of]
            case Share(of):
                found = totals[of] / totals[of].sum()
            case Ratio(over, under, times):
                found = times * totals[over] / totals[under]
            case Spread(total, squares, count):
                n = totals[count]
                found = np.sqrt(np.maximum(0, totals[squares] - totals[total] ** 2 / n) / (n - 1))
    return found


def best_clip(
    given: Contributions, outputs: Mapping[str, Output], truth: Mapping[str, Floats], rho: float, seed: int = 0
) -> Best:
    """The C and the scales with the least rms error over the cells, and the errors of the draws against the truth.

    Each output column counts by its own rms truth, so that a sum of money does not outweigh a count beside it.
    """
    owned = given.owned()
    best = Best(np.inf, np.inf, owned.keys, {})
    for typical in TYPICAL:
        vector = _vector(owned, outputs, typical)
        if len(vector) == 1 and np.isfinite(best.loss):
            break  # nothing to weigh against each other
        normal = np.random.default_rng(seed).standard_normal((len(vector), DRAWS, len(owned.keys)))
        norms = np.sqrt(np.bincount(owned.units, np.sum([c.values**2 for c in vector.values()], axis=0)))
        for clip in _candidates(norms):
            noisy = _noisy(owned, vector, np.minimum(1, clip / np.maximum(norms, LEAST)), clip / sqrt(2 * rho) * normal)
            errors = {name: np.abs(_estimate(o, noisy, vector) - truth[name]) for name, o in outputs.items()}
            loss = sqrt(np.mean([_loss(outputs[name], errors[name], truth[name]) for name in outputs]))
            if loss < best.loss:
                best = Best(clip, loss, owned.keys, errors)
    return best


def _noisy(given: Contributions, vector: Mapping[str, Coordinate], kept: Floats, noise: Floats) -> dict[str, Floats]:
    """Every coordinate in its own units: each unit's part by what the clip leaves of it, plus noise."""
    groups, rows = len(given.keys), kept[given.units]
    return {
        name: c.norm * (np.bincount(given.cells, c.values * rows, groups) + each)
        for (name, c), each in zip(vector.items(), noise, strict=True)
    }


def _candidates(norms: Floats) -> list[float]:
    """Clips a quarter octave apart, from the smallest twentieth of the units to the largest."""
    positive = norms[norms > LEAST]
    if not len(positive):
        return [1.0]
    low, high = float(np.quantile(positive, 0.05)), float(positive.max())
    return [high / STEP**i for i in range(int(np.log(high / low) / np.log(STEP)) + 2)]


def _loss(output: Output, errors: Floats, truth: Floats) -> float:
    """Mean squared error in parts of the column's rms; a quotient's is cut, so that no hopeless group decides."""
    known = np.isfinite(truth)
    scale = sqrt(float(np.mean(truth[known] ** 2))) if known.any() else 0.0
    parts = np.nan_to_num(errors[:, known] / (scale or 1.0), nan=1.0, posinf=1.0)
    kept = parts if isinstance(output, Total) else np.minimum(parts, HOPELESS)
    return float(np.mean(kept**2)) if known.any() else 0.0


def _vector(given: Contributions, outputs: Mapping[str, Output], typical: Typical) -> dict[str, Coordinate]:
    """The coordinates that the outputs need: centred sums, and counts at a half of their scale beside those."""
    values = given.statistics
    halves = {o.under for o in outputs.values() if isinstance(o, Ratio)}
    halves |= {o.count for o in outputs.values() if isinstance(o, Spread)}
    raw: dict[str, float] = {}
    found: dict[str, tuple[float, Floats]] = {}
    for output in outputs.values():
        match output:
            case Total(of) | Share(of):
                raw[of] = 0.0
            case Ratio(over, under, _):
                centre = float(values[over].sum() / max(values[under].sum(), LEAST))
                found[f"{over}-{under}"] = (centre, values[over] - centre * values[under])
                raw[under] = 0.0
            case Spread(total, squares, count):
                n = max(values[count].sum(), 1.0)
                middle = float(values[total].sum() / n)
                around = values[squares] - 2 * middle * values[total] + middle**2 * values[count]
                spread = float(around.sum() / n)
                found[f"{total}-{count}"] = (middle, values[total] - middle * values[count])
                found[f"{squares}-{count}"] = (spread, around - spread * values[count])
                raw[count] = 0.0
    found |= {name: (centre, values[name]) for name, centre in raw.items()}
    return {name: _scaled(given, centre, each, typical, name in halves) for name, (centre, each) in found.items()}


def _scaled(given: Contributions, centre: float, values: Floats, typical: Typical, half: bool) -> Coordinate:
    """Divided by the typical norm of the units that have any (a count beside a centred sum: by twice that)."""
    norms = np.sqrt(np.bincount(given.units, values**2)) if len(values) else np.zeros(1)
    norm = typical(norms[norms > LEAST]) if (norms > LEAST).any() else 1.0
    norm *= 2 if half else 1
    return Coordinate(centre, norm, values / norm)


def _estimate(output: Output, noisy: Mapping[str, Floats], vector: Mapping[str, Coordinate]) -> Floats:
    """The output of each draw."""
    found: Floats
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        match output:
            case Total(of):
                found = noisy[of]
            case Share(of):
                found = noisy[of] / noisy[of].sum(axis=1, keepdims=True)
            case Ratio(over, under, times):
                name = f"{over}-{under}"
                found = times * (vector[name].centre + noisy[name] / np.maximum(noisy[under], 1))
            case Spread(total, squares, count):
                n = np.maximum(noisy[count], 2)
                first, second = noisy[f"{total}-{count}"] / n, noisy[f"{squares}-{count}"] / n
                found = np.sqrt(np.maximum(0, vector[f"{squares}-{count}"].centre + second - first**2) * n / (n - 1))
    return found
