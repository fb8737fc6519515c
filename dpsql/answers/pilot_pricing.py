"""The least price for what depends on the answer: averages, ratios, other expressions, percentages.

A first release, a pilot or one that was made before, shows how large counts and values are; from it alone follows the
price of the main release. Pilots are a ladder: while one leaves the price open by more than the next one costs, the
next one follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import hypot
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.accuracy import Goal, least_price
from dpsql.answers.analytic_bars import count_width, half_width
from dpsql.answers.error_bars import Draw
from dpsql.answers.estimation import step
from dpsql.answers.noise_stage import RELEASE, Noisy, NoisyTable, Released
from dpsql.answers.result import Result
from dpsql.answers.serialize import serialize
from dpsql.budget.pricing import Bill, Funds, Portion, Priced, equally, parts_of, price_release, spend
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteLaplace
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.statistics import Source

_RELEASE = RELEASE.take()
DIGITS = 3
MARGIN = 1.15
"""Resampled widths are estimates: allow for their own error."""
FIRST, MAIN = 0.1, 0.8
"""How a goal's chance to miss is split: each of at most four first releases may mislead, and the main one may miss."""
RISK = 0.05
"""The chance that the rows of an answer, taken together, do not show the error that was asked for."""
PARTS = {
    "gaussian": (Fraction(1, 10**4), Fraction(1, 10**3), Fraction(1, 100), Fraction(1, 10)),
    "laplace": (Fraction(1, 100), Fraction(3, 100), Fraction(1, 10)),
}
"""The pilots' parts of the price: of ρ, or of ε under Laplace noise."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Law = Callable[[Fraction], Floats]


@dataclass(frozen=True, slots=True)
class Stages:
    """Pilots and a main release out of the same funds: together they never cost more.

    `rungs` are the prices of the pilots. Thresholds of private keys take an equal part of their δ in each stage.
    """

    releases: tuple[Bounded, ...]
    funds: Funds
    rungs: tuple[Fraction, ...] = ()

    @classmethod
    def out_of(cls, releases: tuple[Bounded, ...], funds: Funds, limit: Fraction) -> Stages:
        """Pilots that are parts of a limit: the funds, unless less is left in the account.

        Then those that are small enough stay what they are, so that the same query finds them again. One with too
        much noise to draw is left out.
        """
        bare, parts = cls(releases, funds), PARTS[funds.mechanism]
        fitting = [limit * part for part in parts if limit * part <= funds.price * parts[-1]]
        return replace(bare, rungs=tuple(filter(bare.drawable, fitting)) or (funds.price * parts[-1],))

    @property
    def pilots(self) -> tuple[Bill, ...]:
        """The first releases, each more exact than the one before."""
        return tuple(self.at(price) for price in self.rungs)

    @property
    def most(self) -> Fraction:
        """What is left for the main release, whichever pilots were needed or free: so the same query finds it again."""
        return self.funds.price - sum(self.rungs, Fraction(0))

    def at(self, price: Fraction) -> Bill:
        """One stage at a price."""
        share = replace(self.funds, slack=self.funds.slack / (len(PARTS[self.funds.mechanism]) + 1))
        return spend(self.releases, equally(self.releases, price), share)

    def worth(self, released: Iterable[Released]) -> Fraction:
        """The price at which a stage is as exact as the least exact part of these releases."""
        return min(part for table in released for part in table.priced.portion.parts) / self.part(Fraction(1))

    def part(self, price: Fraction) -> Fraction:
        """The part of a price that each share gets."""
        return next(each[0] for each in equally(self.releases, price) if each)

    def noise(self, price: Fraction) -> dict[str, Priced]:
        """Each release at a price, without the selection of keys."""
        return {
            bounded.release.name: price_release(
                replace(bounded, selection=None), Portion(self.funds.mechanism, parts=each)
            )
            for bounded, each in zip(self.releases, equally(self.releases, price), strict=True)
        }

    def drawable(self, price: Fraction) -> bool:
        """Whether the noise for this price can be drawn."""
        try:
            self.at(price)
        except UnsupportedQuery:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a first release: the price of the main one (None if it would gain nothing), and what to say.

    `low` is the least that the price could turn out to be with a more exact pilot; `open` tells that nothing is known.
    """

    price: Fraction | None
    notes: tuple[str, ...] = ()
    low: Fraction = Fraction(0)
    open: bool = False

    def leaves(self, pilot: Fraction) -> bool:
        """Could another pilot save more than it costs?"""
        return self.open or (self.price is not None and self.price - self.low > 2 * pilot)


def sufficient_price(first: Result, goals: Sequence[Goal], stages: Stages) -> Verdict:
    """The least price at which the goals are met, as far as a first release can tell.

    Every row is read twice. With the end of its interval nearer to zero, and as few rows below an average as may be:
    what meets its goal so is in reach. With the other end: what misses its goal even so at the highest price (an empty
    group has no percentage) is out of reach and does not decide. Where a row is neither, all that is left is spent.

    **Theorem.** All stages together are as private as their charges say, and within the funds. **Proof.** Only `first`
    is read: released values and public parameters, no exact ones. So whether there is a next stage, and its price, are
    functions of the transcript, and the filter admits adaptively chosen prices (`dpsql.budget.accountant.admits`);
    each stage is charged before it runs. Pilots and `most` add up to the funds.
    **Theorem.** A count or sum that is found in reach of a relative goal misses it with probability at most
    m = 1 − confidence. **Proof.** The value of a first release lies within its half width h of the true one but for
    a probability of m/10, and is too large with half of that; there are at most four. Otherwise the half width of the
    main release is at most the asked fraction of |value| − h, so of the true value, and its error exceeds that half
    width with probability at most 8m/10.
    **Theorem.** Under Gaussian noise, counts and sums in reach of the release that decides show the asked error, all
    k of them together, but for a probability of `RISK`; Laplace noise and averages, about. **Proof.** The two releases
    differ by the difference of their noises, whose deviation is the root of the sum of squares of theirs, h and d.
    The value of the main one is below |value| − √(h² + d²) with probability `RISK`/k, and its half width at most the
    asked fraction of that.
    **Requires** fresh noise in every stage (`dpsql.answers.noise_stage`), intervals that are right for one value
    (`dpsql.answers.analytic_bars`), and bounds that are the same in all stages.
    **Checked by** tests/unit/session/test_accuracy.py.
    """
    if not len(first):
        return Verdict(None, ("no group was shown, so the price cannot be found; give one with epsilon=",), open=True)
    judged = [_Judged(first, goal, stages, len(first) * len(goals)) for goal in goals]
    wary, hopeful = [each.law(stages.most) for each in judged], [each.hope(stages.most) for each in judged]
    sure = [law(stages.most) <= each.allowed for each, law in zip(judged, wary, strict=True)]
    maybe = [s | (law(stages.most) <= e.hoped) for e, law, s in zip(judged, hopeful, sure, strict=True)]
    if not any(bool(rows.any()) for rows in maybe):
        return Verdict(None, (_out_of_reach(judged, hopeful, stages),))
    if not any(bool((rows & each.missed).any()) for each, rows in zip(judged, maybe, strict=True)):
        return Verdict(None, shortfall(first, goals))
    low = _least_price(hopeful, [each.hoped for each in judged], maybe, stages.most, digits=1)
    if any(bool((m & ~s).any()) for m, s in zip(maybe, sure, strict=True)):
        return Verdict(stages.most, low=low)
    price = _least_price(wary, [each.allowed for each in judged], sure, stages.most)
    if any(each.resampled for each in judged):
        wary = [each.law(price) for each in judged]
        price = _least_price(wary, [each.allowed for each in judged], sure, stages.most)
    return Verdict(price, low=min(low, price))


def _least_price(
    laws: list[Law], allowed: list[Floats], rows: list[Flags], most: Fraction, digits: int = DIGITS
) -> Fraction:
    """The least price at which all of these rows are as exact as allowed."""

    def meets(price: Fraction) -> bool:
        return all(bool((law(price) <= a)[r].all()) for law, a, r in zip(laws, allowed, rows, strict=True))

    return least_price(meets, most, digits) or most


@dataclass(frozen=True, slots=True)
class _Judged:
    """A goal on a first release, whose answer has so many `values` to be right about."""

    first: Result
    goal: Goal
    stages: Stages
    values: int

    @property
    def allowed(self) -> Floats:
        """The half widths that are allowed by the values as they were shown, row by row."""
        return self._share_of(np.nan_to_num(np.abs(_values(self.first, self.goal)), nan=0.0))

    @property
    def hoped(self) -> Floats:
        """The half widths that may turn out to be allowed, by the end that is further from zero."""
        low, high = _ends(self.first, self.goal, self._sure)
        return self._share_of(np.nan_to_num(np.maximum(np.abs(low), np.abs(high)), nan=np.inf, posinf=np.inf))

    @property
    def missed(self) -> Flags:
        """The rows in which the first release may be less exact than asked.

        A value that happens to come out large must not end the search, so a percentage is taken of its near end.
        """
        widths = _half_widths(self.first, self.goal, self.goal.within.confidence)
        values = np.nan_to_num(np.abs(_values(self.first, self.goal)), nan=0.0)
        near = np.maximum(values - np.nan_to_num(self._lost(self._sure), nan=np.inf), 0.0)
        return ~(widths <= self._share_of(near))

    def law(self, base: Fraction) -> Law:
        """The half widths at a price, at worst, if the values of the answer were those of the first release.

        Counts, sums and averages have exact ones. Others are resampled once, at the price `base`, and taken as
        proportional to the noise from there. For a percentage, its part of what the value may lose to noise is added.
        """
        if self.resampled:
            measured, lost = MARGIN * self._measured(base), self._share(self._lost(self._wary))
            return lambda price: measured * (self._scale(price) / self._scale(base)) + lost
        if not self.goal.within.relative:
            return lambda price: self._widths(price, self._main, -1)
        return self._relative_law()

    def _relative_law(self) -> Law:
        misled = np.zeros(len(self.first)) if self._averaged else self._share(self._lost(self._sure))
        lost, wider = self._lost(self._wary), _normal(self._wary) / _normal(self._main)

        def law(price: Fraction) -> Floats:
            widths = self._widths(price, self._main, -1)
            own = widths * wider if self._averaged else self._widths(price, self._wary, -1)
            return widths + np.maximum(misled, self._share(np.hypot(lost, own)))

        return law

    def _lost(self, confidence: float) -> Floats:
        """How much nearer to zero than it was shown a value may be."""
        return _half_widths(self.first, self.goal, confidence)

    def hope(self, base: Fraction) -> Law:
        """The half widths at best; where a first release has too much noise, it excludes nothing."""
        clear = self._clear
        if not self.resampled:
            return lambda price: np.where(clear, self._widths(price, self._main, 1), 0.0)
        measured = np.where(clear, self._measured(base) / MARGIN, 0.0)
        return lambda price: measured * (self._scale(price) / self._scale(base))

    @property
    def _clear(self) -> Flags:
        """The rows for which the first release shows about how wide their intervals would be with other noise."""
        if self.resampled:
            low, high = _ends(self.first, self.goal, self._sure)
            return high - low < np.maximum(np.abs(low), np.abs(high)) / 2
        if not self._averaged:
            return np.ones(len(self.first), np.bool_)
        name, index = self._direct or ("", 0)
        table = self.first.released[name]
        source = table.priced.bounded.sources[index]
        clear = _counts(table, source) > 2 * count_width(table.priced, source, self._sure)
        return np.array([clear[row[-1]] for row in self.first.table.rows], np.bool_)

    @property
    def resampled(self) -> bool:
        """Has the column no exact error bars?"""
        return self._direct is None or (self._averaged and self.first.plan.row != self._direct[0])

    @property
    def _direct(self) -> tuple[str, int] | None:
        return self.first.plan.outputs[self.goal.column].direct

    @property
    def _averaged(self) -> bool:
        made = {r.release.name: r.release.aggregates for r in self.stages.releases}
        return self._direct is not None and made[self._direct[0]][self._direct[1]].function == "avg"

    @property
    def _main(self) -> float:
        """The confidence that is left for the main release."""
        within = self.goal.within
        return 1 - (1 - within.confidence) * (MAIN if within.relative else 1)

    @property
    def _sure(self) -> float:
        """The confidence of what a first release shows."""
        return 1 - min((1 - self.goal.within.confidence) * FIRST, 2 * RISK / self.values)

    @property
    def _wary(self) -> float:
        """The confidence of what a value may lose between two releases: one side only, for all values together."""
        return 1 - 2 * RISK / self.values

    def _share(self, sizes: Floats) -> Floats:
        return self.goal.within.size * sizes if self.goal.within.relative else np.zeros(len(sizes))

    def _share_of(self, values: Floats) -> Floats:
        return self.goal.within.size * (values if self.goal.within.relative else np.ones(len(values)))

    def _widths(self, price: Fraction, confidence: float, side: int) -> Floats:
        if self._averaged:
            return _half_widths(self._imagined(price, side), self.goal, confidence)
        name, index = self._direct or ("", 0)
        width = half_width(self.stages.noise(price)[name], index, confidence)
        return np.full(len(self.first), width, np.float64)

    def _measured(self, base: Fraction) -> Floats:
        low, high = _ends(self._imagined(base, -1), self.goal, self._main)
        return np.nan_to_num((high - low) / 2, nan=np.inf, posinf=np.inf)

    def _scale(self, price: Fraction) -> float:
        """The scale of the noise of one statistic; those of all shares change together."""
        priced = next(priced for priced in self.stages.noise(price).values() if priced.noised)
        return float(priced.noised[0].noise.scale) * step(priced, 0)

    def _imagined(self, price: Fraction, side: int) -> Result:
        part = self.stages.part(price)
        released = {
            name: _imagined(table, part, side, self._wary) if table.noisy else table
            for name, table in self.first.released.items()
        }
        return replace(self.first, released=released)


def shortfall(result: Result, goals: Sequence[Goal]) -> tuple[str, ...]:
    """How an answer misses its goals, in words."""
    notes = []
    for goal in goals:
        wide = _missed(result, goal)
        if wide.any():
            sizes = _sizes(result, goal, _half_widths(result, goal, goal.within.confidence))
            worst = _said(float(sizes[wide].max()), goal.within.relative)
            notes.append(f"{goal} is missed in {int(wide.sum())} of {len(wide)} rows; the widest has {worst}")
    return tuple(notes)


def _missed(result: Result, goal: Goal) -> Flags:
    return ~(_sizes(result, goal, _half_widths(result, goal, goal.within.confidence)) <= goal.within.size)


def _out_of_reach(judged: Sequence[_Judged], laws: Sequence[Law], stages: Stages) -> str:
    """The accuracy that all the funds would buy at best, for the row with the smallest error."""
    said = []
    for each, law in zip(judged, laws, strict=True):
        best = float((law(stages.most) / each.hoped).min()) * each.goal.within.size
        said.append(f"{each.goal.name} {_said(best, each.goal.within.relative)}")
    limit = float(stages.funds.epsilon(stages.funds.price))
    asked = ", ".join(str(each.goal) for each in judged)
    return f"{asked} is out of reach, so no more was spent: epsilon {limit:.4g} would give {', '.join(said)} at best"


def _sizes(result: Result, goal: Goal, widths: Floats) -> Floats:
    """Half widths in the unit of the goal: as they are, or as fractions of the values; infinite where unknown."""
    values = np.maximum(np.abs(_values(result, goal)), 1e-300) if goal.within.relative else np.ones(len(widths))
    return np.nan_to_num(widths / values, nan=np.inf, posinf=np.inf)


def _said(size: float, relative: bool) -> str:
    if size > (3 if relative else 1e300):
        return "no useful error bar"
    return f"± {size * 100:.3g}%" if relative else f"± {size:.4g}"


def _imagined(table: Released, part: Fraction, side: int, confidence: float) -> Released:
    """The same values with so much for each share; averages stand on as few (−1) or many (1) rows as may be."""
    bounded = replace(table.priced.bounded, selection=None)
    priced = price_release(bounded, Portion(table.priced.portion.mechanism, parts=(part,) * parts_of(bounded)))
    reals = [values * step(table.priced, i) for i, values in enumerate(table.noisy)]
    for source in {s for s in bounded.sources if s.form in ("pair", "centred")}:
        width = hypot(*(count_width(each, source, confidence) for each in (table.priced, priced)))
        kept = np.maximum(0.0, 1 + side * width / np.maximum(_counts(table, source), 1.0))
        for index in (source.first, source.first + 1):
            reals[index] = reals[index] * kept
    steps = tuple(np.rint(values / step(priced, i)).astype(np.int64) for i, values in enumerate(reals))
    return Released(
        priced,
        table.keys,
        steps,
        chosen=table.chosen,
        trees=table.trees,
        ends=table.ends,
        totals=table.totals,
        by=_RELEASE,
    )


def _counts(table: Released, source: Source) -> Floats:
    """The released number of rows of an average."""
    bounded = table.priced.bounded
    argument = bounded.arguments[bounded.statistics[source.first].part.argument]
    one, two = (table.noisy[i].astype(np.float64) * step(table.priced, i) for i in (source.first, source.first + 1))
    return one if source.form == "centred" else (one + two) / float(argument.width * argument.grid)


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _half_widths(result: Result, goal: Goal, confidence: float) -> Floats:
    """The distance from the value shown to the further end of its interval; infinite without an interval."""
    (low, high), values = _ends(result, goal, confidence), _values(result, goal)
    return np.nan_to_num(np.maximum(high - values, values - low), nan=np.inf, posinf=np.inf)


def _ends(result: Result, goal: Goal, confidence: float) -> tuple[Floats, Floats]:
    return result.ends([goal.column], confidence, _steady(result))[goal.column]


def _values(result: Result, goal: Goal) -> Floats:
    shown = (row[goal.column] for row in result.fetchall())
    return np.array([np.nan if value is None else float(value) for value in shown])


def _steady(first: Result) -> Draw:
    """Draws that are a function of the released values: the same price comes out again, and the same replay.

    They only estimate widths. No noise that protects anything is drawn here.
    """
    digest = hashlib.sha256(b"".join(serialize(first.released[name]) for name in sorted(first.released)))

    def draw(table: NoisyTable, times: int) -> tuple[Noisy, ...]:
        random = np.random.default_rng(int.from_bytes(digest.digest()))
        drawn = []
        for values, noised in zip(table.noisy, table.priced.noised, strict=True):
            law: Callable[..., Floats] = random.laplace if isinstance(noised.noise, DiscreteLaplace) else random.normal
            noise = law(0.0, float(noised.noise.scale), (times, len(values)))
            drawn.append(values + np.rint(noise).astype(np.int64))
        return tuple(drawn)

    return draw
