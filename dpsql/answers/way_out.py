"""What to do about an answer that is mostly noise: the cheapest way to ±10% that works here, in one line.

It is computed from what was released, from public laws of noise and from the account: no new access to data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from dpsql.answers.analytic_bars import foreseen_cut, half_width
from dpsql.answers.error_bars import number
from dpsql.answers.quality import RELIABLE, SMALLEST_SHARE, Qualities
from dpsql.budget.pricing import Priced, charge_of, price_release
from dpsql.mechanisms.exact_numbers import UNIT, digits_up
from dpsql.sensitivity.clip import ClippedVector

if TYPE_CHECKING:
    from dpsql.answers.result import Result

CONFIDENCE = 0.95
PEOPLE = "ask about more people: coarser groups, a longer period, fewer conditions"


@dataclass(frozen=True, slots=True)
class WayOut:
    """A way to an answer that is mostly reliable: so many `groups` at the same price, or a `price`; None if neither is.

    `cut`: most of the error is what the limit for each unit cuts off, which a larger price lessens only slowly.
    """

    groups: int | None = None
    price: str | None = None
    cut: bool = False

    def __str__(self) -> str:
        ways = []
        if self.groups is not None:
            fewer = "a single total" if self.groups == 1 else f"at most about {self.groups:,} groups"
            ways.append(f"{fewer} in place of these, at the same price")
        if self.price is not None:
            ways.append(f'these at price="{self.price}"')
        if ways:
            return f"mostly noise; for numbers within about {RELIABLE:.0%} ask for {', or '.join(ways)}"
        why = ": most of it is what the limit for each unit cuts off" if self.cut else ""
        return f"mostly noise{why}, and no price that is left changes that: {PEOPLE}"


def way_out(result: Result) -> WayOut | None:
    """None where at least half of the numbers are more than noise, or nothing has an error bar."""
    judged = result.qualities
    if not _mostly_noise([each for column in judged for each in column or ()]):
        return None
    columns = [_NoisyColumn.of(result, place) for place, each in enumerate(judged) if each and _mostly_noise(each)]
    times = max(column.times for column in columns)
    sizes = [len(table.keys) for table in result.released.values()]
    merged = max(column.merged for column in columns)
    groups = int(max(sizes) / merged) if len(sizes) == 1 and sizes[0] > 1 else 0
    return WayOut(groups or None, _price(result, times), any(column.cut > column.noise for column in columns))


def _mostly_noise(column: Qualities) -> bool:
    known = [each for each in column if each is not None]
    return 2 * known.count("noise") > len(known)


@dataclass(frozen=True, slots=True)
class _NoisyColumn:
    """The typical size of the numbers of a column, and the noise and the cut-off in their error bars.

    The size of counts and sums (`summed`: aggregates of a release) is their mean, in which noise averages out.
    """

    size: float
    noise: float
    cut: float
    summed: tuple[Priced, int] | None

    @classmethod
    def of(cls, result: Result, place: int) -> _NoisyColumn:
        """What is known of a column; of infinite noise where an interval is open."""
        values = np.array([number(row[place]) for row in result.fetchall()])
        ends = np.array(result.shown_bars[place], dtype=float)
        errors = np.maximum(ends[:, 1] - values, values - ends[:, 0])[~np.isnan(values)]
        values, direct = values[~np.isnan(values)], result.plan.outputs[place].direct
        error = float(np.median(errors)) if len(errors) and np.isfinite(errors).all() else inf
        priced = None if direct is None else result.released[direct[0]].priced
        width = None if priced is None or direct is None else half_width(priced, direct[1], CONFIDENCE)
        if priced is None or direct is None or width is None:
            whole = SMALLEST_SHARE * result.wholes[place]
            return cls(max(float(np.median(np.abs(values))), whole) if len(values) else 0.0, error, 0.0, None)
        return cls(abs(float(values.mean())), width, max(0.0, error - width), (priced, direct[1]))

    @property
    def times(self) -> float:
        """By how much ρ has to grow until the typical number is reliable."""
        allowed = RELIABLE * self.size
        if self.summed is None or not allowed:
            return (self.noise / allowed) ** 2 if allowed else inf
        return next((times for times in _TIMES if _error(*self.summed, times) <= allowed), inf)

    @property
    def merged(self) -> float:
        """How many groups have to become one until that is reliable: values grow by that factor, noise by its root."""
        if self.summed is None:
            return inf
        allowed = RELIABLE * self.size - max(0.0, _error(*self.summed, 1.0) - self.noise)
        return inf if allowed <= 0 else max(1.0, (self.noise / allowed) ** 2)


_TIMES = [2.0 ** (each / 4) for each in range(60)]


def _error(priced: Priced, index: int, times: float) -> float:
    """The expected error of a count or sum if its release had so many times the ρ, with the clip that is best then.

    Of what that clip cuts off the best estimate counts: a search at such a price leaves little room for a cautious one.
    """
    portion, bounded = priced.portion, priced.bounded
    factor = Fraction(sqrt(times) if portion.mechanism == "laplace" else times).limit_denominator(10**6)
    clipped = tuple(replace(each, clip=None) if each.found is not None else each for each in bounded.clipped)
    parts = tuple(part * factor for part in portion.parts)
    dearer = price_release(replace(bounded, clipped=clipped, selection=None), replace(portion, parts=parts))
    likely = replace(dearer, bounded=replace(dearer.bounded, clipped=tuple(map(_likely, dearer.bounded.clipped))))
    return (half_width(likely, index, CONFIDENCE) or 0.0) + foreseen_cut(likely, index)


def _likely(clipped: ClippedVector) -> ClippedVector:
    if clipped.clip is None or clipped.clip.choice is None:
        return clipped
    choice = clipped.clip.choice
    return replace(clipped, clip=replace(clipped.clip, choice=replace(choice, cut_upper=choice.cut)))


# the price ------------------------------------------------------------------------------------------------------------


def _price(result: Result, times: float) -> str | None:
    """So many times the price of the answer, as a share of the account that pays, if it can be asked for."""
    priced = [table.priced for table in result.released.values()]
    charge, status = charge_of(priced), result.budget()
    if status is None or charge is None or not isfinite(times):
        return None
    offer = status.offer if all(each.bounded.public for each in priced) else status.offer_keys
    if not offer:
        return None
    if status.own.caps.delta:
        share = times * float(charge.rho * UNIT) / status.own.whole.rho
    else:
        share = sqrt(times) * float((charge.epsilon or 0) * UNIT) / status.own.whole.epsilon
    percent = digits_up(100 * share, 2)
    return f"{percent:g}%" if 0 < percent <= 100 * offer else None
