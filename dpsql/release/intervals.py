"""Error bars for what came straight out of a release: exact laws, no resampling.

They cover the noise, and say nothing about what clamping and the bounds per unit cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.allocate import Priced
from dpsql.mechanisms import DiscreteGaussian
from dpsql.release.estimate import Floats, Numbers, argument, estimate, is_whole, real, step, whole
from dpsql.release.noise import Released
from dpsql.sensitivity.statistics import Source


def interval(released: Released, index: int, confidence: float) -> tuple[Numbers, Numbers]:
    """Lower and upper ends for aggregate `index` of a release, one pair per row of the released table."""
    priced = released.priced
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    if function == "avg":
        return _average(released, source, confidence)
    centre = estimate(priced, source, function, released.noisy).astype(np.float64)
    if source.form in ("count", "sum", "units"):
        values = real(priced, source.first, released.noisy)
        width = priced.noised[source.first].noise.half_width(confidence) * step(priced, source.first)
    else:
        values, width = centre, _two_noises(priced, source, function, confidence)
    if is_whole(priced, source, function):
        return whole(values - width), whole(values + width)
    return values - width, values + width


def half_width(priced: Priced, index: int, confidence: float) -> float | None:
    """The half width that every row will have, known before the data is touched; None for averages."""
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    if function == "avg":
        return None
    if source.form in ("count", "sum", "units"):
        return priced.noised[source.first].noise.half_width(confidence) * step(priced, source.first)
    return _two_noises(priced, source, function, confidence)


def count_width(priced: Priced, source: Source, confidence: float) -> float:
    """The half width of the number of rows that an average stands on."""
    return _two_noises(priced, source, "count", confidence)


def _factors(priced: Priced, source: Source, function: str) -> tuple[float, float]:
    """COUNT or SUM as a·S1 + b·S2 of a pair or of (count, centred sum)."""
    it = argument(priced, source)
    if source.form == "centred":
        return (1.0, 0.0) if function == "count" else (it.middle, 1.0)
    share = 1 / float(it.width * it.grid)
    return (
        (share, share)
        if function == "count"
        else (1 + float(it.lower * it.grid) * share, float(it.lower * it.grid) * share)
    )


def _two_noises(priced: Priced, source: Source, function: str, confidence: float) -> float:
    """The half width of a·Z1 + b·Z2."""
    scales = [abs(f) * _scale(priced, source.first + i) for i, f in enumerate(_factors(priced, source, function))]
    if isinstance(priced.noised[source.first].noise, DiscreteGaussian):
        return NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(scales[0] ** 2 + scales[1] ** 2)
    return float(_laplace_quantile(np.array([scales[0]]), np.array([scales[1]]), confidence)[0])


def _scale(priced: Priced, index: int) -> float:
    """The noise scale of a statistic in its own unit."""
    return float(priced.noised[index].noise.scale) * step(priced, index)


def _laplace_quantile(one: Floats, two: Floats, confidence: float) -> Floats:
    """T with P[|X+Y| > t] = 1 − confidence for independent Laplace X, Y of these scales.

    For scales a > b = ra the tail at t·a is (e^(−t) − r²e^(−t/r)) / (1−r²); r is kept just below 1, where that is exact
    to the eighth digit.
    """
    a = np.maximum(np.maximum(one, two), 1e-300)
    r = np.minimum(np.minimum(one, two) / a, 1 - 1e-4)

    def tail(t: Floats) -> Floats:
        small = np.where(r > 0, r * r * np.exp(-t / np.where(r > 0, r, 1.0)), 0.0)
        tails: Floats = (np.exp(-t) - small) / (1 - r * r)
        return tails

    low, high = np.zeros_like(a), np.full_like(a, 100.0)
    for _ in range(80):
        middle = (low + high) / 2
        above = tail(middle) > 1 - confidence
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return a * high


def _average(released: Released, source: Source, confidence: float) -> tuple[Floats, Floats]:
    """Invert the law of S1·(1−p) − S2·p (Laplace pair) or of S − θ·n (Gaussian, Fieller) inside the bounds."""
    it = argument(released.priced, source)
    low, high = float(it.lower * it.grid), float(it.upper * it.grid)
    one, two = (real(released.priced, source.first + i, released.noisy) for i in (0, 1))
    scales = [_scale(released.priced, source.first + i) for i in (0, 1)]
    if source.form == "centred":
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        left, right = _fieller(one, two, z * scales[0], z * scales[1])
        middle = it.middle
        return np.clip(middle + left, low, high), np.clip(middle + right, low, high)
    if isinstance(released.priced.noised[source.first].noise, DiscreteGaussian):
        raise AssertionError("a pair has Laplace noise")
    left, right = _inverted(one, two, scales[0], confidence)
    return low + (high - low) * left, low + (high - low) * right


def _fieller(n: Floats, s: Floats, zn: float, zs: float) -> tuple[Floats, Floats]:
    """All θ with (s − θn)² ≤ zs² + θ²zn²; everything where n is not clearly positive. Computed in units of zs."""
    s = s / zs
    a, c = n * n - zn * zn, s * s - 1
    safe = np.where((a > 0) & (n > 0), a, 1.0)
    root = np.sqrt(np.maximum((s * n) ** 2 - a * c, 0.0))
    left, right = zs * ((s * n - root) / safe), zs * ((s * n + root) / safe)
    usable = (a > 0) & (n > 0)
    return np.where(usable, left, -np.inf), np.where(usable, right, np.inf)


def _inverted(one: Floats, two: Floats, scale: float, confidence: float) -> tuple[Floats, Floats]:
    """All p in [0, 1] with |S1 − p(S1+S2)| ≤ the quantile of |(1−p)·Z1 − p·Z2|."""
    grid = np.linspace(0.0, 1.0, 513)
    quantiles = _laplace_quantile((1 - grid) * scale, grid * scale, confidence)
    total = one + two
    best = np.clip(np.where(total > 0, one / np.where(total > 0, total, 1.0), 0.5), 0.0, 1.0)

    def outside(p: Floats) -> NDArray[np.bool_]:
        return np.abs(one - p * total) > np.interp(p, grid, quantiles)

    ends = [_edge(best, np.full_like(best, end), outside) for end in (0.0, 1.0)]
    hopeless = (total <= 0) | outside(best)
    return np.where(hopeless, 0.0, ends[0]), np.where(hopeless, 1.0, ends[1])


def _edge(inside: Floats, end: Floats, outside: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """Bisect from a point inside the set towards `end`; `end` itself if it is inside, too."""
    low, high = inside.copy(), end.copy()
    beyond = outside(end)
    for _ in range(60):
        middle = (low + high) / 2
        out = outside(middle)
        low, high = np.where(out, low, middle), np.where(out, middle, high)
    return np.where(beyond, high, end)
