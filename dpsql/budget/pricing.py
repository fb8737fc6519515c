"""Share the price of a query among its statistics: a mechanism, a grid and a scale for each, and the charge.

Every share of the query (a statistic, a pair of statistics with a joint bound, a choice, a tree, a selection of keys)
gets an equal part of ρ (Gaussian) or ε (Laplace), unless an accuracy asks for other portions. Everything here is a
function of the query, the policy and the asked price or portions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log, prod, sqrt

from dpsql.budget.accountant import FilterLimits
from dpsql.budget.costs import FREE, Charge, Cost, pure_charge, zcdp_charge
from dpsql.budget.shares import Price, share_of
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialLaw, Noise, threshold
from dpsql.mechanisms.exact_numbers import UNIT, exact, float_down, float_up
from dpsql.mechanisms.zcdp_conversion import epsilon_for, laplace_rho, rho_for
from dpsql.sensitivity.bound import MAX_RELEASED, Bounded, settle
from dpsql.sensitivity.choice import Choice
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.clip import Vector, chosen_clip
from dpsql.sensitivity.interval_ends import EndsLaw, ends_spread
from dpsql.sensitivity.quantile_tree import BRANCHES

LAPLACE_STEPS = 2**36
GAUSSIAN_STEPS = 2**22
ROOT_BITS = 60
GHOST = 0.05
"""The most that the chance may be to take any group without units for one that exists."""
UNIT_STEPS = 2**32
"""The most steps that one unit may add, however fine the noise: totals stay below 2**62 for a billion units."""


@dataclass(frozen=True, slots=True)
class Noised:
    """How one statistic is released: floor to a grid 2**shift times as coarse, then add `noise`, scaled to `claim`."""

    noise: Noise
    shift: int
    claim: Claim
    joint: Claim


@dataclass(frozen=True, slots=True)
class PricedChoice:
    """How one choice is made: `law` over scores whose moves by one unit differ by at most `spread`.

    That is for all groups together, or for the root of the sum of squares over so many `groups`. A quantile also has
    the `ends` of its interval; `total` is the noise of the weight of a group, by which a group has too few values.
    """

    choice: Choice
    law: ExponentialLaw
    spread: int
    groups: int = 1
    ends: EndsLaw | None = None
    total: Noised | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """What a query gives to one release: ε or ρ for each of its shares, choices and trees, and last for its selection.

    `whole` is the price of the query, `tail` the δ of a threshold; `exact` where no less accurate answer will do.
    """

    mechanism: str
    whole: Fraction = Fraction(0)
    parts: tuple[Fraction, ...] = ()
    tail: Fraction = Fraction(0)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Priced:
    """A release with its noise; `threshold` is in the integers of the selection."""

    bounded: Bounded
    noised: tuple[Noised, ...]
    portion: Portion
    selection: Noised | None = None
    threshold: int | None = None
    chosen: tuple[PricedChoice, ...] = ()
    trees: tuple[Noised, ...] = ()

    @property
    def tail(self) -> Fraction:
        """The δ that the threshold takes."""
        return Fraction(0) if self.bounded.public else self.portion.tail

    @property
    def price(self) -> Fraction:
        """The sum of the ε or ρ of all shares, before scales are rounded up."""
        return sum(self.portion.parts, Fraction(0))

    @property
    def free(self) -> bool:
        """Nothing private is shown: public keys, no statistic, no choice, no tree."""
        return not (self.noised or self.selection or self.chosen or self.trees)


@dataclass(frozen=True, slots=True)
class Bill:
    """The whole query, priced."""

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    releases: tuple[Priced, ...]
    whole: FilterLimits | None = None

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


ENDS = {"laplace": Fraction(18, 100), "gaussian": Fraction(34, 100)}
"""The part of a quantile's price that its interval takes. With `TOTAL` it leaves so much (77% of ε, 60% of ρ) that the
rank of the quantile errs 1.3 times as much as it would without them."""
TOTAL = {"laplace": Fraction(5, 100), "gaussian": Fraction(6, 100)}
"""The part of the price of a choice that the noisy weight of its groups takes."""


Portions = tuple[tuple[Fraction, ...], ...]
"""For each release the price of each of its shares, and last that of its selection of keys, if it has one."""


@dataclass(frozen=True, slots=True)
class Funds:
    """What (ε, δ) buys: a price in ρ, or ε under Laplace noise; δ for thresholds, and δ for the conversion of ρ."""

    mechanism: str
    price: Fraction
    slack: Fraction
    conversion: Fraction
    whole: FilterLimits | None = None

    def epsilon(self, price: Fraction) -> Fraction:
        """The ε that a price amounts to."""
        return price if self.mechanism == "laplace" else exact(epsilon_for(price, self.conversion))

    def plus(self, one: Cost, two: Cost) -> Cost:
        """The sum of two costs out of these funds: ε adds up under Laplace noise, ρ elsewhere."""
        if FREE in (one, two):
            return two if one == FREE else one
        rho = float_up(exact(one.rho) + exact(two.rho))
        share = None if one.share is None or two.share is None else one.share + two.share
        if self.mechanism == "laplace":
            return Cost(one.epsilon + two.epsilon, one.delta + two.delta, rho, share)
        return Cost(epsilon_for(rho, self.conversion), float(self.conversion + self.slack), rho, share)


def fund(releases: Sequence[Bounded], price: Price, mechanism: str) -> Funds:
    """Thresholds take their part of δ first: half of it, or all of it under Laplace noise, which needs none itself.

    The δ of a share of the budget is the same share of δ*, of which thresholds may have half.
    """
    selections, delta = any(not r.public for r in releases), price.delta
    if selections and delta == 0:
        raise UnsupportedQuery(
            "the groups of this query are not known in advance: showing them needs delta > 0, and this query has none",
            hint="group by columns with declared values, booleans, or bounded whole numbers and dates; or ask with a "
            "delta, if the budget has one",
        )
    slack = (delta if mechanism == "laplace" and price.rho is None else delta / 2) if selections else Fraction(0)
    if mechanism == "laplace":
        return Funds(mechanism, price.epsilon, slack, Fraction(0), price.whole)
    rho = rho_for(price.epsilon, delta - slack) if price.rho is None else price.rho
    return Funds(mechanism, rho, slack, delta - slack, price.whole)


def allocate(releases: Sequence[Bounded], price: Price, mechanism: str, part: Fraction = Fraction(1)) -> Bill:
    """Split a price, or a part of it, equally over all shares of all releases."""
    funds = fund(releases, price, mechanism)
    whole = funds.price * part
    epsilon = price.epsilon if part == 1 and price.rho is None else funds.epsilon(whole)
    priced = _priced(releases, equally(releases, whole), funds, exact=False)
    return Bill(mechanism, epsilon, price.delta, priced, price.whole)


def spend(releases: Sequence[Bounded], portions: Portions, funds: Funds) -> Bill:
    """The query with these portions, whatever they add up to; thresholds take the δ of the funds."""
    epsilon = funds.epsilon(sum((p for each in portions for p in each), Fraction(0)))
    priced = _priced(releases, portions, funds, exact=True)
    return Bill(funds.mechanism, epsilon, funds.conversion + funds.slack, priced, funds.whole)


def equally(releases: Sequence[Bounded], price: Fraction) -> Portions:
    """The same part of a price for every share; for each statistic of a vector, which is one share, another."""
    each = price / max(1, sum(sum(_weights(release)) for release in releases))
    return tuple(tuple(each * weight for weight in _weights(release)) for release in releases)


def _weights(release: Bounded) -> list[int]:
    shares = [len(share) if release.vector is not None else 1 for share, _ in release.shares]
    return shares + [1] * (parts_of(release) - len(shares))


def parts_of(release: Bounded) -> int:
    """How many portions a release takes: one for each share, choice and tree, and one for a selection of keys."""
    return len(release.shares) + len(release.choices) + len(release.trees) + (release.selection is not None)


def _priced(releases: Sequence[Bounded], portions: Portions, funds: Funds, *, exact: bool) -> tuple[Priced, ...]:
    selections = sum(1 for r in releases if not r.public)
    tail = funds.slack / selections if selections else Fraction(0)
    whole = sum((part for each in portions for part in each), Fraction(0))
    none = Fraction(0)
    return tuple(
        price_release(r, Portion(funds.mechanism, whole, each, none if r.public else tail, exact))
        for r, each in zip(releases, portions, strict=True)
    )


def price_release(release: Bounded, portion: Portion) -> Priced:
    """The noise of one release, by its portion and its bounds alone: a release that was made can be priced again.

    A vector that has no clip yet gets the one with the least error at this price, by what was found of its norms.
    """
    shares = [share for share, _ in release.shares]
    for each in release.clipped:
        if each.clip is None and each.vector.ranked is not None:
            release = settle(release, chosen_clip(each.vector, each.found, _rank_noise(release, each.vector, portion)))
        elif each.clip is None:
            deviation = _unit_noise(portion.parts[shares.index(each.vector.members)], portion.mechanism)
            release = settle(release, chosen_clip(each.vector, each.found, deviation))
    noised = _noise_of(release, portion.parts, portion.mechanism)
    chosen = _chosen(release, portion.parts[len(release.shares) :], portion.mechanism)
    trees = _trees(release, portion.parts[len(release.shares) + len(release.choices) :], portion.mechanism)
    if release.selection is None:
        return Priced(release, noised, portion, chosen=chosen, trees=trees)
    claim = release.selection.claim
    noise = _noise(claim, portion.parts[-1], portion.mechanism)
    if release.public:
        keys = prod(len(key.values or ()) for key in release.keys)
        cut = max(noise.reach(2 * GHOST / keys) + 1, -(-release.selection.least(keys) // 2))
    else:
        cut = threshold(noise, release.selection.weights, float_down(portion.tail))
    return Priced(release, noised, portion, Noised(noise, 0, claim, claim), cut, chosen, trees)


def _chosen(release: Bounded, portions: tuple[Fraction, ...], mechanism: str) -> tuple[PricedChoice, ...]:
    """The laws of each choice, of its ends and of its totals.

    **Theorem.** Together they cost at most the portion. **Proof.** The value, the ends given the value, and the totals
    compose adaptively: ε and ρ add up, and each takes its part of the portion.
    **Requires** a charge for each of the three (`_losses`).
    **Checked by** `tests/unit/session/test_chosen_values.py`.
    """
    return tuple(
        _choice_law(release, choice, each, mechanism) for choice, each in zip(release.choices, portions, strict=False)
    )


def _choice_law(release: Bounded, choice: Choice, each: Fraction, mechanism: str) -> PricedChoice:
    histogram, reach = release.histograms[choice.histogram], _reach(release)
    spread, barred = choice.spread(histogram.most), choice.kind == "quantile"
    parts = ENDS[mechanism] if barred else Fraction(0), TOTAL[mechanism]
    law = _law(spread, each * (1 - sum(parts)), mechanism)
    ends = None
    if barred:
        apart = ends_spread(choice, histogram.most)
        ends = EndsLaw(_law(apart, each * parts[0], mechanism), apart)
    claim = histogram.total_claim(reach)
    noise, shift = _scale(claim, each * parts[1], mechanism)
    total = Noised(noise, shift, claim.coarser(shift), claim.coarser(shift))
    return PricedChoice(choice, law, spread, reach if histogram.clipped == "l2" else 1, ends, total)


def _law(spread: int, price: Fraction, mechanism: str) -> ExponentialLaw:
    """ε-DP for a price ε, or for ρ the ε whose price ε²/8 in zCDP that is."""
    return ExponentialLaw.for_epsilon(spread, price if mechanism == "laplace" else _root(8 * price))


def _reach(release: Bounded) -> int:
    """The number of groups that a unit may be in."""
    if all(key.attribute for key in release.keys):
        return 1
    return MAX_RELEASED if not release.public else prod(len(key.values or ()) for key in release.keys)


def _rank_noise(release: Bounded, vector: Vector, portion: Portion) -> float:
    """By how much the rank of a choice, or from a tree, is off where the clip is 1: the largest of them.

    A choice is off by the scale of its law times the logarithm of how many cells have about the same chance: on a grid
    that is wider than the data, nearly all of its cells.
    """
    of = [place for place, each in enumerate(release.histograms) if each.ranked == vector.ranked]
    parts = iter(portion.parts[len(release.shares) :])
    noises = [0.0]
    for choice, each in zip(release.choices, parts, strict=False):
        if choice.histogram in of:
            epsilon = float(each) if portion.mechanism == "laplace" else sqrt(8 * float(each))
            cells = release.histograms[choice.histogram].grid.cells
            noises.append(log(max(cells, 4)) * choice.spread(1) / (choice.parts * epsilon))
    for tree, each in zip(release.trees, portion.parts[len(release.shares) + len(release.choices) :], strict=False):
        if tree.histogram in of:
            nodes = tree.height * (BRANCHES - 1 / BRANCHES) / 6
            levels = tree.height if portion.mechanism == "laplace" else sqrt(tree.height)
            noises.append(_unit_noise(each, portion.mechanism) * levels * sqrt(nodes))
    return max(noises)


def _trees(release: Bounded, portions: tuple[Fraction, ...], mechanism: str) -> tuple[Noised, ...]:
    """The noise of every node of each tree, scaled to the joint claim of all of its levels."""
    made = []
    for tree, each in zip(release.trees, portions, strict=False):
        noise, shift = _scale(tree.claim, each, mechanism)
        made.append(Noised(noise, shift, tree.claim.coarser(shift), tree.claim.coarser(shift)))
    return tuple(made)


def _root(square: Fraction) -> Fraction:
    """The square root, rounded down."""
    return Fraction(isqrt(int(square * 4**ROOT_BITS)), 2**ROOT_BITS)


def _root_up(square: int) -> int:
    """The square root, rounded up."""
    return isqrt(square - 1) + 1


def _noise_of(release: Bounded, portions: tuple[Fraction, ...], mechanism: str) -> tuple[Noised, ...]:
    """The noise of each statistic, scaled to the claim and the portion of its share."""
    noised: dict[int, Noised] = {}
    for (share, joint), each in zip(release.shares, portions[: len(release.shares)], strict=True):
        noise, shift = _scale(joint, each, mechanism)
        for index in share:
            noised[index] = Noised(noise, shift, release.statistics[index].claim.coarser(shift), joint.coarser(shift))
    return tuple(noised[i] for i in range(len(release.statistics)))


def _scale(claim: Claim, each: Fraction, mechanism: str) -> tuple[Noise, int]:
    """The finest grid on which the sampler's integers fit, and the noise there.

    **Theorem (noise grid).** With this noise the floored totals cost at most `each` (in ε, or in ρ), and neither the
    sampler nor a total of a billion units leaves 64 bits.
    **Proof.** The grid follows from claim and price, both public. On it a unit moves the floored totals by at most
    `claim.coarser(shift)` (`dpsql.sensitivity.claim`), which is what the noise is scaled to, with a scale that is
    rounded up. The loop ends only with a scale below the sampler's limit, and with at most UNIT_STEPS steps of a unit.
    **Requires** the exact floor by this very `shift` in the emitted SQL (`dpsql.engines.sql.emit`), and a charge by the
    scale that is drawn (`charge_of`).
    **Checked by** `tests/unit/budget/test_allocate.py`, `tests/unit/sensitivity/test_claims_in_steps.py`, and the
    planted bugs "the floor to a grid costs nothing" and "noise for the claim of a grid that is not used".
    """
    limit = LAPLACE_STEPS if mechanism == "laplace" else GAUSSIAN_STEPS
    shift = max(0, _steps(claim, each, mechanism).bit_length() - limit.bit_length() - 1)
    while _steps(claim.coarser(shift), each, mechanism) >= limit or claim.coarser(shift).l1 > UNIT_STEPS:
        shift += 1
        if claim.l1 >> shift == 0:
            raise UnsupportedQuery("at this price the noise is too large to draw", hint="ask for a larger epsilon")
    return _noise(claim.coarser(shift), each, mechanism), shift


def _unit_noise(each: Fraction, mechanism: str) -> float:
    """The standard deviation of the noise where the clip is 1."""
    return sqrt(2) / float(each) if mechanism == "laplace" else 1 / sqrt(2 * float(each))


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
    losses = _losses(priced)
    if not losses:
        return None
    slack, pure = sum((p.tail for p in priced), Fraction(0)), _pure(losses)
    if slack == 0 and pure is not None:
        return pure_charge(pure, _rho(losses))
    return zcdp_charge(_rho(losses), slack)


def cost_of(bill: Bill, priced: Sequence[Priced]) -> Cost:
    """The same for people: the asked (ε, δ) for the whole query, or that of the part which is not replayed.

    ρ is that of the charge, in its whole units, rounded up; a part never has a larger ε than the whole.
    """
    losses, charge = _losses(priced), charge_of(priced)
    if charge is None:
        return FREE
    rho, pure = float_up(charge.rho * UNIT), _pure(losses)
    slack = sum((p.tail for p in priced), Fraction(0))
    share = None if bill.whole is None else float(share_of(bill.whole, charge))
    whole = len(losses) == len(_losses(bill.releases))
    if bill.mechanism == "laplace" and pure is not None:
        return Cost(float(bill.epsilon if whole else pure), float(slack), rho, share)
    part = epsilon_for(rho, bill.delta / 2)
    if whole or part > bill.epsilon:
        return Cost(float(bill.epsilon), float(bill.delta), rho, share)
    return Cost(part, float(bill.delta / 2 + slack), rho, share)


@dataclass(frozen=True, slots=True)
class _Loss:
    """What one share costs: ρ, and ε where its noise is pure."""

    rho: Fraction
    epsilon: Fraction | None


def _losses(priced: Sequence[Priced]) -> list[_Loss]:
    """Each share's noise with the joint claim that it covers, each tree's, each choice's, and each selection's."""
    noises = [p.noised[share[0]] for p in priced for share, _ in p.bounded.shares]
    noises += [noised for p in priced for noised in p.trees]
    noises += [p.selection for p in priced if p.selection is not None]
    noises += [each.total for p in priced for each in p.chosen if each.total is not None]
    chosen = [loss for p in priced for each in p.chosen for loss in _choice_losses(each)]
    return [*(_loss(noised.noise, noised.joint) for noised in noises), *chosen]


def _choice_losses(chosen: PricedChoice) -> list[_Loss]:
    """The choice and its ends: all groups together cost the ρ of one, but as much more ε as the spreads add up to."""
    laws = [(chosen.law, chosen.spread)]
    laws += [] if chosen.ends is None else [(chosen.ends.law, chosen.ends.spread)]
    return [_Loss(law.rho(spread), law.epsilon(spread * _root_up(chosen.groups))) for law, spread in laws]


def _loss(noise: Noise, claim: Claim) -> _Loss:
    if isinstance(noise, DiscreteGaussian):
        return _Loss(noise.rho(claim.l2), None)
    return _Loss(laplace_rho(claim.l1, noise.scale), Fraction(claim.l1) / noise.scale)


def _rho(losses: Sequence[_Loss]) -> Fraction:
    return sum((loss.rho for loss in losses), Fraction(0))


def _pure(losses: Sequence[_Loss]) -> Fraction | None:
    """The ε of all of them together; None if one of them is not pure."""
    known = [loss.epsilon for loss in losses if loss.epsilon is not None]
    return sum(known, Fraction(0)) if len(known) == len(losses) else None
