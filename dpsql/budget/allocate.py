"""Share the price of a query among its statistics: a mechanism, a grid and a scale for each, and the charge.

Every share of the query (a statistic, a pair of statistics with a joint bound, a selection of keys) gets an equal part
of ρ (Gaussian) or ε (Laplace). Everything here is a function of the query, the policy and the asked price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from dpsql.budget.convert import epsilon_for, rho_for
from dpsql.budget.event import FREE, Charge, Cost, pure_charge, zcdp_charge
from dpsql.budget.exact import float_down
from dpsql.budget.price import laplace_rho
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, Noise, threshold
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.claim import Claim

LAPLACE_STEPS = 2**36
GAUSSIAN_STEPS = 2**22


@dataclass(frozen=True, slots=True)
class Noised:
    """How one statistic is released: floor to a grid 2**shift times as coarse, then add `noise`, scaled to `claim`."""

    noise: Noise
    shift: int
    claim: Claim
    joint: Claim


@dataclass(frozen=True, slots=True)
class Portion:
    """What a query gives to one release: `each` share gets so much ε or ρ of the `whole`, its threshold `tail` of δ."""

    mechanism: str
    whole: Fraction
    each: Fraction
    tail: Fraction


@dataclass(frozen=True, slots=True)
class Priced:
    """A release with its noise; `threshold` is in the integers of the selection."""

    bounded: Bounded
    noised: tuple[Noised, ...]
    portion: Portion
    selection: Noised | None = None
    threshold: int | None = None

    @property
    def tail(self) -> Fraction:
        """The δ that the threshold takes."""
        return Fraction(0) if self.selection is None else self.portion.tail

    @property
    def price(self) -> Fraction:
        """The ε or ρ of all shares together, before scales are rounded up."""
        return self.portion.each * (len(self.bounded.shares) + (self.selection is not None))

    @property
    def free(self) -> bool:
        """Nothing private is shown: public keys, no statistic."""
        return not self.noised and self.selection is None


@dataclass(frozen=True, slots=True)
class Bill:
    """The whole query, priced."""

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    releases: tuple[Priced, ...]

    @property
    def cost(self) -> Cost:
        """What the query costs if none of it was released before."""
        return cost_of(self, self.releases)


def choose_mechanism(asked: str, delta: Fraction) -> str:
    """`auto` is Gaussian, which has the least error for a price in zCDP, wherever a δ is allowed."""
    if asked == "gaussian" and delta == 0:
        raise UnsupportedQuery(
            "Gaussian noise needs delta > 0, and this budget has none", hint='use mechanism="laplace"'
        )
    return ("gaussian" if delta > 0 else "laplace") if asked == "auto" else asked


def allocate(releases: Sequence[Bounded], epsilon: Fraction, delta: Fraction, mechanism: str) -> Bill:
    """Split (ε, δ) over all shares of all releases.

    Thresholds take their part of δ first: all of it under Laplace noise (which needs none), half under Gaussian.
    """
    selections = sum(1 for r in releases if r.selection is not None)
    portions = selections + sum(len(r.shares) for r in releases)
    if portions == 0:
        nothing = Portion(mechanism, Fraction(0), Fraction(0), Fraction(0))
        return Bill(mechanism, epsilon, delta, tuple(Priced(r, (), nothing) for r in releases))
    if selections and delta == 0:
        raise UnsupportedQuery(
            "the groups of this query are not known in advance: showing them needs delta > 0, and the budget has none",
            hint="group by columns with declared values, booleans, or bounded whole numbers and dates",
        )
    slack = (delta if mechanism == "laplace" else delta / 2) if selections else Fraction(0)
    price = epsilon if mechanism == "laplace" else rho_for(epsilon, delta - slack)
    portion = Portion(mechanism, price, price / portions, slack / selections if selections else Fraction(0))
    return Bill(mechanism, epsilon, delta, tuple(price_release(r, portion) for r in releases))


def price_release(release: Bounded, portion: Portion) -> Priced:
    """The noise of one release, by its portion and its bounds alone: a release that was made can be priced again."""
    each, mechanism = portion.each, portion.mechanism
    noised: dict[int, Noised] = {}
    for share, joint in release.shares:
        noise, shift = _scale(joint, each, mechanism)
        for index in share:
            noised[index] = Noised(noise, shift, release.statistics[index].claim.coarser(shift), joint.coarser(shift))
    ordered = tuple(noised[i] for i in range(len(release.statistics)))
    if release.selection is None:
        return Priced(release, ordered, portion)
    claim = release.selection.claim
    noise = _noise(claim, each, mechanism)
    cut = threshold(noise, release.selection.weights, float_down(portion.tail))
    return Priced(release, ordered, portion, Noised(noise, 0, claim, claim), cut)


def _scale(claim: Claim, each: Fraction, mechanism: str) -> tuple[Noise, int]:
    """The finest grid on which the sampler's integers fit, and the noise there."""
    limit = LAPLACE_STEPS if mechanism == "laplace" else GAUSSIAN_STEPS
    shift = max(0, _steps(claim, each, mechanism).bit_length() - limit.bit_length() - 1)
    while _steps(claim.coarser(shift), each, mechanism) >= limit:
        shift += 1
        if claim.l1 >> shift == 0:
            raise UnsupportedQuery("at this price the noise is too large to draw", hint="ask for a larger epsilon")
    return _noise(claim.coarser(shift), each, mechanism), shift


def _steps(claim: Claim, each: Fraction, mechanism: str) -> int:
    """The scale in whole steps, rounded up."""
    if mechanism == "laplace":
        return -(-claim.l1 // each)
    return isqrt(int(claim.l2**2 / (2 * each))) + 1


def _noise(claim: Claim, each: Fraction, mechanism: str) -> Noise:
    if mechanism == "laplace":
        return DiscreteLaplace.for_epsilon(claim.l1, each)
    return DiscreteGaussian.for_rho(claim.l2, each)


def charge_of(priced: Sequence[Priced]) -> Charge | None:
    """What these releases cost the ledger: the sums over their shares, each by its own rounded scale."""
    pairs = _pairs(priced)
    if not pairs:
        return None
    rho = sum((_rho(noise, claim) for noise, claim in pairs), Fraction(0))
    slack = sum((p.tail for p in priced), Fraction(0))
    if slack == 0 and all(isinstance(noise, DiscreteLaplace) for noise, _ in pairs):
        return pure_charge(_pure(pairs), rho)
    return zcdp_charge(rho, slack)


def cost_of(bill: Bill, priced: Sequence[Priced]) -> Cost:
    """The same for people: the asked (ε, δ) for the whole query, or that of the part which is not replayed."""
    pairs = _pairs(priced)
    if not pairs:
        return FREE
    rho = float(sum((_rho(noise, claim) for noise, claim in pairs), Fraction(0)))
    slack = sum((p.tail for p in priced), Fraction(0))
    whole = len(pairs) == len(_pairs(bill.releases))
    if bill.mechanism == "laplace":
        return Cost(float(bill.epsilon if whole else _pure(pairs)), float(slack), rho)
    if whole:
        return Cost(float(bill.epsilon), float(bill.delta), rho)
    return Cost(epsilon_for(rho, bill.delta / 2), float(bill.delta / 2 + slack), rho)


def _pairs(priced: Sequence[Priced]) -> list[tuple[Noise, Claim]]:
    """Each share's noise with the joint claim that it covers, and each selection's."""
    pairs = [(p.noised[share[0]].noise, p.noised[share[0]].joint) for p in priced for share, _ in p.bounded.shares]
    return pairs + [(p.selection.noise, p.selection.claim) for p in priced if p.selection is not None]


def _rho(noise: Noise, claim: Claim) -> Fraction:
    if isinstance(noise, DiscreteGaussian):
        return noise.rho(claim.l2)
    return laplace_rho(claim.l1, noise.scale)


def _pure(pairs: Sequence[tuple[Noise, Claim]]) -> Fraction:
    return sum((Fraction(claim.l1) / noise.scale for noise, claim in pairs), Fraction(0))
