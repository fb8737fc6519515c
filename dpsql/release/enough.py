"""The least price for what depends on the answer: averages, ratios, other expressions, percentages.

A first release, a small pilot or one that was made before, shows how large counts and values are; from it alone follows
the price of the main release. A very small pilot often shows enough; where it does not, a second one follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.allocate import Bill, Funds, Portion, Priced, equally, price_release, spend
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteLaplace
from dpsql.release.bars import Draw
from dpsql.release.estimate import step
from dpsql.release.intervals import count_width, half_width
from dpsql.release.least import least
from dpsql.release.noise import Released
from dpsql.release.result import Result
from dpsql.release.stored import pack
from dpsql.release.target import Goal
from dpsql.sensitivity.bound import Bounded

DIGITS = 3
MARGIN = 1.15
"""Resampled widths are estimates: allow for their own error."""
FIRST, MAIN = 0.1, 0.8
"""How a goal's chance to miss is split: each of at most two first releases may mislead, and the main one may miss."""
PARTS = {"gaussian": (Fraction(1, 10**4), Fraction(1, 100)), "laplace": (Fraction(1, 100), Fraction(1, 10))}
"""The pilots' parts of the price: of ρ, or of ε under Laplace noise."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Law = Callable[[Fraction], Floats]


@dataclass(frozen=True, slots=True)
class Stages:
    """Pilots and a main release out of the same funds: together they never cost more.

    The pilots have about a hundred and ten times the noise that the whole funds would give. Thresholds of private keys
    take an equal part of their δ in each stage.
    """

    releases: tuple[Bounded, ...]
    funds: Funds

    @property
    def pilots(self) -> tuple[Bill, ...]:
        """The first releases, each more exact than the one before; one with too much noise to draw is left out."""
        made = []
        for part in self._parts:
            with suppress(UnsupportedQuery):
                made.append(self.at(self.funds.price * part))
        return tuple(made) or (self.at(self.funds.price * self._parts[-1]),)

    @property
    def most(self) -> Fraction:
        """What is left for the main release, whether or not a pilot was free: so the same query finds it again."""
        return self.funds.price * (1 - sum(self._parts))

    def at(self, price: Fraction) -> Bill:
        """One stage at a price."""
        share = replace(self.funds, slack=self.funds.slack / (len(self._parts) + 1))
        return spend(self.releases, equally(self.releases, price), share)

    def noise(self, price: Fraction) -> dict[str, Priced]:
        """What each release would be at a price, without the selection of keys."""
        return {
            bounded.release.name: price_release(
                replace(bounded, selection=None), Portion(self.funds.mechanism, parts=each)
            )
            for bounded, each in zip(self.releases, equally(self.releases, price), strict=True)
        }

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return PARTS[self.funds.mechanism]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a first release: the price of the main one (None if it would gain nothing), and what to say.

    `open` tells that a more exact pilot could find more rows in reach.
    """

    price: Fraction | None
    notes: tuple[str, ...] = ()
    open: bool = False


def enough(first: Result, goals: Sequence[Goal], stages: Stages) -> Verdict:
    """The least price at which the goals are met, as far as a first release can tell.

    Rows that would miss their goal at the highest price (an empty group has no percentage) do not decide. If that is
    all of them, nothing more is spent.

    **Theorem.** All stages together are as private as their charges say, and within the funds. **Proof.** Only `first`
    is read: released values and public parameters, no exact ones. So whether there is a next stage, and its price, are
    functions of the transcript, and the filter admits adaptively chosen prices (`dpsql.budget.accountant.admits`);
    each stage is charged before it runs. Pilots and `most` add up to the funds.
    **Theorem.** A count or sum that is found in reach of a relative goal misses it with probability at most
    m = 1 − confidence. **Proof.** The value of a first release lies within its half width h of the true one but for
    a probability of m/10, and there are at most two. Otherwise what is allowed, a fraction of |value| − h, is at most
    that fraction of the true value, and the main release exceeds it with probability at most 8m/10.
    **Checked by** tests/unit/session/test_accuracy.py.
    """
    if not len(first):
        return Verdict(None, ("no group was shown that could tell the price; name one with epsilon=",), open=True)
    judged = [_judge(first, goal, stages) for goal in goals]
    laws = [each.law(stages.most) for each in judged]
    reach = [law(stages.most) <= each.allowed for each, law in zip(judged, laws, strict=True)]
    hope = any(each.hopeful(law(stages.most)) for each, law in zip(judged, laws, strict=True))
    if not any(bool((r & (each.shown > each.allowed)).any()) for each, r in zip(judged, reach, strict=True)):
        reached = any(bool(r.any()) for r in reach)
        return Verdict(None, shortfall(first, goals) if reached else (_out_of_reach(judged, laws, stages),), open=hope)
    price = _least_price(judged, laws, reach, stages.most)
    if any(each.resampled for each in judged):
        price = _least_price(judged, [each.law(price) for each in judged], reach, stages.most)
    return Verdict(price, open=hope)


def _least_price(judged: list[_Judged], laws: list[Law], reach: list[Flags], most: Fraction) -> Fraction:
    """The least price at which all rows in reach are as exact as allowed."""

    def meets(price: Fraction) -> bool:
        return all(
            bool((law(price) <= each.allowed)[rows].all()) for each, law, rows in zip(judged, laws, reach, strict=True)
        )

    return least(meets, most, DIGITS) or most


@dataclass(frozen=True, slots=True)
class _Judged:
    """A goal on a first release: the half widths that it has and those that are allowed, row by row."""

    first: Result
    goal: Goal
    stages: Stages
    shown: Floats
    allowed: Floats

    def law(self, base: Fraction) -> Law:
        """The half widths that the answer would have at a price, had it come out as the first did.

        Counts, sums and averages have exact ones. Others are resampled once, at the price `base`, and taken as
        proportional to the noise from there.
        """
        direct = self._direct
        if self.resampled or direct is None:
            low, high = _ends(self._imagined(base), self.goal, self._main)
            measured = MARGIN * np.nan_to_num((high - low) / 2, nan=np.inf, posinf=np.inf)
            return lambda price: measured * (self._scale(price) / self._scale(base))
        if self._averaged:
            return lambda price: _half_widths(self._imagined(price), self.goal, self._main)
        name, index = direct
        return lambda price: np.full(
            len(self.first), half_width(self.stages.noise(price)[name], index, self._main), np.float64
        )

    @property
    def resampled(self) -> bool:
        """Has the column no exact error bars?"""
        return self._direct is None or (self._averaged and self.first._plan.row != self._direct[0])

    @property
    def _direct(self) -> tuple[str, int] | None:
        return self.first._plan.outputs[self.goal.column].direct

    @property
    def _averaged(self) -> bool:
        made = {r.release.name: r.release.aggregates for r in self.stages.releases}
        return self._direct is not None and made[self._direct[0]][self._direct[1]].function == "avg"

    def hopeful(self, widths: Floats) -> bool:
        """Could a better pilot find more in reach? Not where even the largest possible value would be too small."""
        out = ~(widths <= self.allowed)
        if self.goal.within.relative:
            largest = np.abs(_values(self.first, self.goal)) + self.shown
            out &= ~(self.goal.within.size * largest < widths)
        return bool(out.any())

    @property
    def _main(self) -> float:
        """The confidence that is left for the main release."""
        within = self.goal.within
        return 1 - (1 - within.confidence) * (MAIN if within.relative else 1)

    def _scale(self, price: Fraction) -> float:
        """The scale of the noise, that of one statistic: all shares change together."""
        priced = next(priced for priced in self.stages.noise(price).values() if priced.noised)
        return float(priced.noised[0].noise.scale) * step(priced, 0)

    def _imagined(self, price: Fraction) -> Result:
        noise = self.stages.noise(price)
        released = {
            name: _imagined(table, noise[name], _sure(self.goal)) if table.noisy else table
            for name, table in self.first._released.items()
        }
        return replace(self.first, _released=released)


def _judge(first: Result, goal: Goal, stages: Stages) -> _Judged:
    """For a percentage, what is allowed is that of the end of the value's interval which is nearer to zero."""
    within, values = goal.within, _values(first, goal)
    if not within.relative:
        shown = _half_widths(first, goal, within.confidence)
        return _Judged(first, goal, stages, shown, np.full(len(values), within.size))
    shown = _half_widths(first, goal, _sure(goal))
    allowed = within.size * np.nan_to_num(np.maximum(np.abs(values) - shown, 0.0), nan=0.0)
    return _Judged(first, goal, stages, shown, allowed)


def shortfall(result: Result, goals: Sequence[Goal]) -> tuple[str, ...]:
    """What an answer did not reach, in words."""
    notes = []
    for goal in goals:
        widths = _half_widths(result, goal, goal.within.confidence)
        wide = ~(_sizes(result, goal, widths) <= goal.within.size)
        if wide.any():
            worst = _said(float(_sizes(result, goal, widths)[wide].max()), goal.within.relative)
            notes.append(f"{goal} is missed in {int(wide.sum())} of {len(wide)} rows; the widest has {worst}")
    return tuple(notes)


def _out_of_reach(judged: Sequence[_Judged], laws: Sequence[Law], stages: Stages) -> str:
    """What the whole funds would give, for the row that fares best."""
    said = []
    for each, law in zip(judged, laws, strict=True):
        best = float(_sizes(each.first, each.goal, law(stages.most)).min())
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


def _imagined(table: Released, priced: Priced, sure: float) -> Released:
    """The same values on another noise grid; averages stand on as few rows as the first release leaves possible."""
    reals = [values * step(table.priced, i) for i, values in enumerate(table.noisy)]
    for source in {s for s in table.priced.bounded.sources if s.form in ("pair", "centred")}:
        width = count_width(table.priced, source, sure)
        both = slice(source.first, source.first + 2)
        argument = table.priced.bounded.arguments[table.priced.bounded.statistics[source.first].part.argument]
        one, two = reals[both]
        count = one if source.form == "centred" else (one + two) / float(argument.width * argument.grid)
        kept = np.maximum(0.0, 1 - width / np.maximum(count, 1e-300))
        reals[both] = [one * kept, two * kept]
    steps = tuple(np.rint(values / step(priced, i)).astype(np.int64) for i, values in enumerate(reals))
    return Released(priced, table.keys, steps)


def _half_widths(result: Result, goal: Goal, confidence: float) -> Floats:
    """From the value shown to the farther end of its interval; infinite where there is none."""
    (low, high), values = _ends(result, goal, confidence), _values(result, goal)
    return np.nan_to_num(np.maximum(high - values, values - low), nan=np.inf, posinf=np.inf)


def _ends(result: Result, goal: Goal, confidence: float) -> tuple[Floats, Floats]:
    return result.ends([goal.column], confidence, _steady(result))[goal.column]


def _values(result: Result, goal: Goal) -> Floats:
    shown = (row[goal.column] for row in result.fetchall())
    return np.array([np.nan if value is None else float(value) for value in shown])


def _sure(goal: Goal) -> float:
    return 1 - (1 - goal.within.confidence) * FIRST


def _steady(first: Result) -> Draw:
    """Draws that are a function of the released values: the same price comes out again, and the same replay.

    They only estimate widths. No noise that protects anything is drawn here.
    """
    digest = hashlib.sha256(b"".join(pack(first._released[name]) for name in sorted(first._released)))

    def draw(table: Released, times: int) -> tuple[NDArray[np.int64], ...]:
        random = np.random.default_rng(int.from_bytes(digest.digest()))
        drawn = []
        for values, noised in zip(table.noisy, table.priced.noised, strict=True):
            law: Callable[..., Floats] = random.laplace if isinstance(noised.noise, DiscreteLaplace) else random.normal
            noise = law(0.0, float(noised.noise.scale), (times, len(values)))
            drawn.append(values + np.rint(noise).astype(np.int64))
        return tuple(drawn)

    return draw
