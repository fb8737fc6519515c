"""Error bars from the law of the noise itself, without resampling, for linear forms of one row and their quotients.

The bars cover the noise, and what a clip is estimated to cut off. They do not cover what declared bounds cut off.
All other expressions are resampled (`dpsql.answers.error_bars`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.answers.estimation import Floats, Numbers, argument, is_integer, real, rounded, step
from dpsql.answers.noise_stage import Noisy, NoisyTable
from dpsql.answers.weighted_noise import deviation
from dpsql.budget.pricing import Priced
from dpsql.mechanisms import Noise
from dpsql.sensitivity.clip import ClippedVector
from dpsql.sensitivity.statistics import Source


@dataclass(frozen=True, slots=True)
class LinearForm:
    """A constant plus weighted statistics, each in its own unit; `nonnegative` where no data can make it negative."""

    constant: float
    weights: Mapping[int, float]
    nonnegative: bool = False

    def plus(self, other: LinearForm, times: float = 1.0) -> LinearForm:
        """The sum with `times` the other."""
        names = {**self.weights, **other.weights}
        weights = {i: self.weights.get(i, 0.0) + times * other.weights.get(i, 0.0) for i in names}
        nonnegative = self.nonnegative and (times == 0 or (times > 0 and other.nonnegative))
        return LinearForm(self.constant + times * other.constant, weights, nonnegative)


@dataclass(frozen=True, slots=True)
class Quotient:
    """`shift + factor · numerator / denominator`, known to lie in [lower, upper]."""

    shift: float
    factor: float
    numerator: LinearForm
    denominator: LinearForm
    lower: float = -inf
    upper: float = inf

    def scaled(self, times: float) -> Quotient:
        """`times` the quotient."""
        ends = sorted((self.lower * times, self.upper * times)) if times else [0.0, 0.0]
        return replace(self, shift=self.shift * times, factor=self.factor * times, lower=ends[0], upper=ends[1])

    def shifted(self, by: float) -> Quotient:
        """The quotient plus a constant."""
        return replace(self, shift=self.shift + by, lower=self.lower + by, upper=self.upper + by)


Known = LinearForm | Quotient


def aggregate_form(priced: Priced, index: int) -> Known:
    """An aggregate as a linear form of its statistics. Counts are never negative, nor are sums of such values."""
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    made = source_form(priced, source, function)
    positive = function == "count" or argument(priced, source).lower >= 0
    return replace(made, nonnegative=positive) if isinstance(made, LinearForm) else made


def source_form(priced: Priced, source: Source, function: str) -> Known:
    """COUNT, SUM or AVG in the statistics of a source."""
    if source.form in ("count", "units", "distinct", "sum"):
        return LinearForm(0.0, {source.first: 1.0})
    one, two = LinearForm(0.0, {source.first: 1.0}), LinearForm(0.0, {source.first + 1: 1.0})
    if source.form == "nested":
        return one.plus(two)
    return (
        _pair(priced, source, function, one, two)
        if source.form == "pair"
        else _centred(priced, source, function, one, two)
    )


def _pair(priced: Priced, source: Source, function: str, one: LinearForm, two: LinearForm) -> Known:
    it = argument(priced, source)
    low, width = float(it.lower * it.grid), float(it.width * it.grid)
    if function == "avg":
        return Quotient(low, width, one, one.plus(two), low, float(it.upper * it.grid))
    count = LinearForm(0.0, {source.first: 1 / width, source.first + 1: 1 / width})
    return count if function == "count" else one.plus(count, low)


def _centred(priced: Priced, source: Source, function: str, one: LinearForm, two: LinearForm) -> Known:
    it = argument(priced, source)
    if function == "avg":
        return Quotient(it.middle, 1.0, two, one, float(it.lower * it.grid), float(it.upper * it.grid))
    return one if function == "count" else two.plus(one, it.middle)


def form_of(node: exp.Expr, priced: Priced) -> Known | None:
    """What an expression over `_a0, _a1, …` is; None if it is neither linear nor a quotient of linear forms."""
    match node:
        case exp.Column() if node.name.startswith("_a"):
            index = int(node.name[2:])
            return None if priced.bounded.sources[index].chosen else aggregate_form(priced, index)
        case exp.Literal() if not node.is_string:
            return LinearForm(float(node.name), {}, nonnegative=True)
        case exp.Paren():
            return form_of(node.this, priced)
        case exp.Cast() if node.to.this in (exp.DType.DOUBLE, exp.DType.FLOAT):
            return form_of(node.this, priced)
        case exp.Nullif() if isinstance(node.expression, exp.Literal) and node.expression.name in ("0", "0.0"):
            return form_of(node.this, priced)
        case exp.Neg():
            return _times(form_of(node.this, priced), -1.0)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            one, two = form_of(node.this, priced), form_of(node.expression, priced)
            return None if one is None or two is None else _binary(node, one, two)
    return None


def _binary(node: exp.Expr, one: Known, two: Known) -> Known | None:
    match node:
        case exp.Add():
            return _sum(one, two)
        case exp.Sub():
            minus = _times(two, -1.0)
            return None if minus is None else _sum(one, minus)
        case exp.Mul():
            return _times(one, _constant(two)) or _times(two, _constant(one))
    divisor = _constant(two)
    if divisor is not None:
        return _times(one, 1 / divisor) if divisor else None
    if not (isinstance(one, LinearForm) and isinstance(two, LinearForm)):
        return None
    return Quotient(0.0, 1.0, one, two, 0.0 if one.nonnegative and two.nonnegative else -inf)


def _constant(known: Known) -> float | None:
    return known.constant if isinstance(known, LinearForm) and not any(known.weights.values()) else None


def _sum(one: Known, two: Known) -> Known | None:
    if isinstance(one, LinearForm) and isinstance(two, LinearForm):
        return one.plus(two)
    for quotient, other in ((one, two), (two, one)):
        constant = _constant(other)
        if isinstance(quotient, Quotient) and constant is not None:
            return quotient.shifted(constant)
    return None


def _times(known: Known | None, times: float | None) -> Known | None:
    if known is None or times is None:
        return None
    if isinstance(known, Quotient):
        return known.scaled(times)
    return LinearForm(0.0, {}, nonnegative=True).plus(known, times)


def whole_of(node: exp.Expr, priced: Priced) -> float:
    """What an expression over `_a0, _a1, …` is a share of: 1, or 100 in percent; 0 if it is no share.

    Shares are averages of what lies between 0 and 1, and quotients of counts and of sums of that.
    """
    form = form_of(node, priced)
    places = [int(column.name[2:]) for column in node.find_all(exp.Column) if column.name.startswith("_a")]
    if not isinstance(form, Quotient) or not all(_counts(priced, place) for place in places):
        return 0.0
    over, under = (max(map(abs, each.weights.values())) for each in (form.numerator, form.denominator))
    return abs(form.factor) * over / under


def _counts(priced: Priced, index: int) -> bool:
    """Is it a count, or made of values between 0 and 1?"""
    if priced.bounded.release.aggregates[index].function == "count":
        return True
    it = argument(priced, priced.bounded.sources[index])
    return it.lower == 0 and it.upper * it.grid == 1


# what clips cut off ---------------------------------------------------------------------------------------------------

# A clip shortens the whole vector of a unit, so it moves every total towards zero. How much is cut off altogether is
# estimated from the released histogram of norms; each cell bears a part in proportion to its released size. A sum
# around the centre of an average is close to zero by design and is still what makes a unit heavy, so it bears at least
# twice as much as the count beside it, and so does each sum that a variance or another quotient is computed from.


def cut_off(released: NoisyTable) -> tuple[Floats, ...]:
    """For each statistic, how much further from zero its exact totals may lie: signed, in steps of the noise grid."""
    cuts = [np.zeros(len(values)) for values in released.noisy]
    for each in released.priced.bounded.clipped:
        for place, cut in _cut_by(released, each):
            cuts[place] = cut
    return tuple(cuts)


def _cut_by(released: NoisyTable, clipped: ClippedVector) -> Iterator[tuple[int, Floats]]:
    """The same for the statistics of one clip. A number of different values is at most the known maximum."""
    priced, clip, values = released.priced, clipped.clip, clipped.vector.values
    if clip is None or clip.choice is None:
        return
    steps = {place: 2.0 ** priced.noised[place].shift for place in clip.members}
    sizes = {place: released.noisy[place].astype(np.float64) * each for place, each in steps.items()}
    for source in priced.bounded.sources:
        if source.form == "centred" and source.first in sizes:
            count, centred = np.abs(sizes[source.first]), sizes[source.first + 1]
            sizes[source.first + 1] = np.where(np.abs(centred) > 2 * count, centred, 2 * count)
    if clipped.vector.means:
        added = [place for place in sizes if priced.bounded.statistics[place].part.alpha]
        most = np.max([np.abs(each) for place, each in sizes.items() if place not in added] or [np.zeros(1)], axis=0)
        sizes |= {place: np.where(np.abs(sizes[place]) > 2 * most, sizes[place], 2 * most) for place in added}
    whole = sum(float(np.abs(each).sum()) for each in sizes.values())
    if whole == 0:
        return
    taken = max(clip.choice.cut, clip.choice.cut_upper) * clip.bound / clip.choice.clip
    for place, size in sizes.items():
        cut = taken / whole * size
        if values is not None:
            cut = np.clip(cut, 0.0, np.maximum(values / float(priced.bounded.statistics[place].grid) - size, 0.0))
        yield place, cut / steps[place]


def foreseen_cut(priced: Priced, index: int) -> float:
    """How much further the bars of a count or sum are expected to reach for what the clip cuts off.

    The cut is estimated from the search alone, before anything is released: each cell is taken to bear the same part.
    """
    form = aggregate_form(priced, index)
    if isinstance(form, Quotient):
        return 0.0
    cut = 0.0
    for each in priced.bounded.clipped:
        if each.clip is not None and each.clip.choice is not None and each.clip.members:
            choice = each.clip.choice
            mean = max(choice.cut, choice.cut_upper) * each.clip.bound / choice.clip / each.vector.cells
            weights = (form.weights.get(place, 0.0) * step(priced, place) for place in each.clip.members)
            shifts = (2.0 ** priced.noised[place].shift for place in each.clip.members)
            cut += sum(mean * abs(weight) / shift for weight, shift in zip(weights, shifts, strict=True))
    return cut


def drawn_with_cut(released: NoisyTable, draws: Sequence[Noisy], times: int) -> tuple[Noisy, ...]:
    """Draws of noise around released values, each with some part of the cut put back: the same part in all cells."""
    cuts = cut_off(released)
    if not any(cut.any() for cut in cuts):
        return tuple(draws)
    parts = (np.arange(times) + 0.5) / times
    return tuple(draw + parts[:, None] * cut for draw, cut in zip(draws, cuts, strict=True))


# intervals ------------------------------------------------------------------------------------------------------------


GRID = 257
Ends = tuple[Floats, Floats]


def interval(released: NoisyTable, index: int, confidence: float) -> tuple[Numbers, Numbers]:
    """Lower and upper ends for aggregate `index` of a release, one pair per row of the released table."""
    priced = released.priced
    low, high = form_ends(released, aggregate_form(priced, index), confidence)
    source, function = priced.bounded.sources[index], priced.bounded.release.aggregates[index].function
    return (rounded(low), rounded(high)) if is_integer(priced, source, function) else (low, high)


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
    assert isinstance(form, LinearForm)
    return float(deviation(_steps(priced, form)[None, :], _noises(priced), confidence)[0])


def form_ends(released: NoisyTable, known: Known, confidence: float) -> Ends:
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


def _cut(released: NoisyTable, form: LinearForm) -> Ends:
    """How far below and above a linear form its exact value may lie because of what was cut off."""
    moved = [weight * step(released.priced, i) * cut_off(released)[i] for i, weight in form.weights.items() if weight]
    none = np.zeros(len(released.keys))
    below = sum((np.maximum(-each, 0) for each in moved), start=none)
    above = sum((np.maximum(each, 0) for each in moved), start=none)
    return below, above


def _quotient_bias(released: NoisyTable, quotient: Quotient) -> Floats:
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


def _values(released: NoisyTable, form: LinearForm) -> Floats:
    total = np.full(len(released.keys), form.constant)
    for index, weight in form.weights.items():
        if weight:
            total += weight * real(released.priced, index, released.noisy)
    return total


def _steps(priced: Priced, form: LinearForm) -> Floats:
    """The weight of one step of each statistic's noise."""
    return np.array([form.weights.get(i, 0.0) * step(priced, i) for i in range(len(priced.noised))])


def _quotient_ends(released: NoisyTable, quotient: Quotient, confidence: float) -> Ends:
    """The confidence set of θ = N/D: all θ for which N − θD is no further from 0 than its noise strays.

    **Theorem.** The set holds the true quotient with the given confidence, whatever the denominator (Fieller). Its hull
    inside the known bounds, which is what is returned, holds it at least as often.
    **Proof.** At the true θ the exact parts of N − θD cancel: what is left is its noise, whose law is known.
    θ is an angle φ here, θ = (a/b)·tan φ for the scales a, b of the two noises: then "D might be 0" is no special case,
    but an arc of angles that crosses ±90°, which is two rays of θ.
    **Requires** independent noises of the statistics, of public scales (`dpsql.answers.noise_stage`); N and D may share
    some. What bounds cut off is no noise: the set is about the quotient of the bounded totals.
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


def _size(priced: Priced, steps: Floats, form: LinearForm) -> float:
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
