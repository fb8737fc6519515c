"""Error bars with the law of the noise itself, no resampling, for linear forms of a row and their quotients.

They cover the noise, and what a clip is estimated to cut off; they say nothing about what declared bounds cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.pricing import Priced
from dpsql.mechanisms import Noise
from dpsql.release.cut_off import cut_off
from dpsql.release.estimate import Floats, Numbers, is_whole, real, step, whole
from dpsql.release.forms import Form, Known, Quotient, aggregate_form, source_form
from dpsql.release.law import deviation
from dpsql.release.noise import Table
from dpsql.sensitivity.statistics import Source

GRID = 257
Ends = tuple[Floats, Floats]


def interval(released: Table, index: int, confidence: float) -> tuple[Numbers, Numbers]:
    """Lower and upper ends for aggregate `index` of a release, one pair per row of the released table."""
    priced = released.priced
    low, high = form_ends(released, aggregate_form(priced, index), confidence)
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    return (whole(low), whole(high)) if is_whole(priced, source, function) else (low, high)


def half_width(priced: Priced, index: int, confidence: float) -> float | None:
    """The half width that every row will have, known before the data is touched; None for averages and choices."""
    if priced.bounded.sources[index].chosen:
        return None
    form = aggregate_form(priced, index)
    if isinstance(form, Quotient):
        return None
    return float(deviation(_steps(priced, form)[None, :], _noises(priced), confidence)[0])


def count_width(priced: Priced, source: Source, confidence: float) -> float:
    """The half width of the number of rows that an average stands on."""
    form = source_form(priced, source, "count")
    assert isinstance(form, Form)
    return float(deviation(_steps(priced, form)[None, :], _noises(priced), confidence)[0])


def form_ends(released: Table, known: Known, confidence: float) -> Ends:
    """The ends for each row: value ± deviation of a linear form, the confidence set of a quotient."""
    if isinstance(known, Quotient):
        low, high = _quotient_ends(released, known, confidence)
        biased = _quotient_bias(released, known)
        return np.maximum(low - biased, known.lower), np.minimum(high + biased, known.upper)
    values = _values(released, known)
    steps = _steps(released.priced, known) * released.stretch(confidence)
    width = deviation(steps[None, :], _noises(released.priced), confidence)[0]
    below, above = _cut(released, known)
    return values - width - below, values + width + above


def _cut(released: Table, form: Form) -> Ends:
    """How far below and above a linear form its exact value may lie because of what was cut off."""
    moved = [weight * step(released.priced, i) * cut_off(released)[i] for i, weight in form.weights.items() if weight]
    none = np.zeros(len(released.keys))
    below = sum((np.maximum(-each, 0) for each in moved), start=none)
    above = sum((np.maximum(each, 0) for each in moved), start=none)
    return below, above


def _quotient_bias(released: Table, quotient: Quotient) -> Floats:
    """How far a quotient may be off because of what was cut off above and below it."""
    over, under = (sum(_cut(released, form)) for form in (quotient.numerator, quotient.denominator))
    if not (np.any(over) or np.any(under)):
        return np.zeros(len(released.keys))
    numerator, denominator = (_values(released, form) for form in (quotient.numerator, quotient.denominator))
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (over + np.abs(numerator / denominator) * under) / np.abs(denominator)
    return abs(quotient.factor) * np.where(np.isfinite(off), off, 0.0)


def _noises(priced: Priced) -> Sequence[Noise]:
    return [noised.noise for noised in priced.noised]


def _values(released: Table, form: Form) -> Floats:
    total = np.full(len(released.keys), form.constant)
    for index, weight in form.weights.items():
        if weight:
            total += weight * real(released.priced, index, released.noisy)
    return total


def _steps(priced: Priced, form: Form) -> Floats:
    """The weight of one step of each statistic's noise."""
    return np.array([form.weights.get(i, 0.0) * step(priced, i) for i in range(len(priced.noised))])


def _quotient_ends(released: Table, quotient: Quotient, confidence: float) -> Ends:
    """The confidence set of θ = N/D: all θ for which N − θD is no further from 0 than its noise strays.

    **Theorem.** The set holds the true quotient with the given confidence, whatever the denominator (Fieller). Its hull
    inside the known bounds, which is what is returned, holds it at least as often.
    **Proof.** At the true θ the exact parts of N − θD cancel: what is left is its noise, whose law is known.
    θ is an angle φ here, θ = (a/b)·tan φ for the scales a, b of the two noises: then "D might be 0" is no special case,
    but an arc of angles that crosses ±90°, which is two rays of θ.
    **Requires** independent noises of the statistics, of public scales (`dpsql.release.noise`); N and D may share some.
    What bounds cut off is no noise: the set is about the quotient of the bounded totals.
    **Checked by** `tests/bench/coverage.py` and its small edition in `tests/unit/release/test_coverage.py`.
    """
    priced = released.priced
    stretch = np.array(released.stretch(confidence))
    over, under = (_steps(priced, form) * stretch for form in (quotient.numerator, quotient.denominator))
    a, b = (_size(priced, w, f) for w, f in ((over, quotient.numerator), (under, quotient.denominator)))
    angles = np.linspace(-np.pi / 2, np.pi / 2, GRID)
    rows = np.outer(np.cos(angles), over / a) - np.outer(np.sin(angles), under / b)
    limits = deviation(rows, _noises(priced), confidence)
    arc = _arc(_values(released, quotient.numerator) / a, _values(released, quotient.denominator) / b, angles, limits)
    with np.errstate(over="ignore", invalid="ignore"):
        ends = quotient.factor * (a / b) * np.tan(np.stack(arc)) + quotient.shift
    return _hull(arc, ends, quotient)


def _size(priced: Priced, steps: Floats, form: Form) -> float:
    """The scale of a form's noise; of its constant, where it has no noise."""
    scales = [float(noised.noise.scale) for noised in priced.noised]
    return hypot(*(float(s) * scale for s, scale in zip(steps, scales, strict=True))) or abs(form.constant) or 1.0


def _arc(one: Floats, two: Floats, angles: Floats, limits: Floats) -> Ends:
    """The angles φ around the estimate with |one·cos φ − two·sin φ| ≤ limit(φ); NaN where that is all of them."""
    centre = np.arctan2(one, two)
    centre = np.where(np.abs(centre) > np.pi / 2, centre - np.copysign(np.pi, centre), centre)
    radius = np.hypot(one, two)
    ends = []
    for side in (-1.0, 1.0):

        def outside(turn: Floats, side: float = side) -> NDArray[np.bool_]:
            return radius * np.sin(turn) > np.interp(centre + side * turn, angles, limits, period=np.pi)

        low, high = np.zeros_like(centre), np.full_like(centre, np.pi / 2)
        bounded = outside(high)
        for _ in range(50):
            middle = (low + high) / 2
            out = outside(middle)
            low, high = np.where(out, low, middle), np.where(out, middle, high)
        ends.append(np.where(bounded, centre + side * high, np.nan))
    return ends[0], ends[1]


def _hull(arc: Ends, ends: Floats, quotient: Quotient) -> Ends:
    """The least interval around the set inside the bounds; all of the bounds where the set is everything or nothing."""
    left, right = arc
    rising = quotient.factor >= 0
    low, high = (ends[0], ends[1]) if rising else (ends[1], ends[0])
    lower, upper = quotient.lower, quotient.upper
    rays = (left <= -np.pi / 2) | (right >= np.pi / 2)
    above, below = rays & (low <= upper), rays & (high >= lower)
    start = np.where(rays, np.where(above & ~below, np.maximum(low, lower), lower), np.maximum(low, lower))
    stop = np.where(rays, np.where(below & ~above, np.minimum(high, upper), upper), np.minimum(high, upper))
    known = ~np.isnan(left) & ~np.isnan(right) & (start <= stop)
    return np.where(known, start, lower), np.where(known, stop, upper)
