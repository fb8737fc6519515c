"""`accuracy=`: the goals of a query, and the least price that meets them for counts and sums.

For these the price is known before any data is touched. `dpsql.answers.pilot_pricing` finds it for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import partial
from shlex import quote

from dpsql.answers.analytic_bars import foreseen_cut, half_width
from dpsql.budget.pricing import Bill, Funds, Portion, Portions, parts_of, price_release, spend
from dpsql.errors import BudgetExceeded, InterfaceError, UnsupportedQuery
from dpsql.options import Accuracy, Target, Within
from dpsql.plan.plan import Output, Plan
from dpsql.policy.identifiers import fold
from dpsql.sensitivity.bound import Bounded


@dataclass(frozen=True, slots=True)
class Goal:
    """A target for one column of the answer."""

    column: int
    name: str
    within: Within

    def __str__(self) -> str:
        return f"{self.name} {self.within}"


def reachable(plan: Plan) -> tuple[Output, ...]:
    """The columns whose error depends on the price alone, not on results that the query releases and then reads."""
    if plan.nested:
        raise InterfaceError(
            "accuracy= is not supported where one aggregate reads the result of another",
            hint="give epsilon=; or ask the inner query by itself, with accuracy=, and write its answer as a constant",
        )
    return plan.outputs


def read_goals(accuracy: Accuracy, outputs: Sequence[Output]) -> tuple[Goal, ...]:
    """The goals of a query; a name that is not a column with noise is refused, never ignored.

    One target for all columns applies to those with an error bar, not to chosen values.
    """
    noisy = [(i, output.name) for i, output in enumerate(outputs) if output.noisy and not output.chosen]
    chosen = [output.name for output in outputs if output.chosen]
    if not noisy and chosen:
        raise InterfaceError(
            f"a chosen value such as {chosen[0]} is off in its rank, not by ±", hint="leave accuracy out, give epsilon="
        )
    if not noisy:
        raise InterfaceError("no column of this query carries noise", hint="leave accuracy out")
    if not isinstance(accuracy, Mapping):
        within = _within(accuracy)
        return tuple(Goal(i, name, within) for i, name in noisy)
    wanted = {fold(str(name)): _within(target) for name, target in accuracy.items()}
    unknown = wanted.keys() - {fold(name) for _, name in noisy}
    if unknown or not wanted:
        named = f"there is no column {min(unknown)} with noise" if unknown else "no column is named"
        raise InterfaceError(f"accuracy: {named}", hint=f"columns with noise: {', '.join(name for _, name in noisy)}")
    return tuple(Goal(i, name, wanted[fold(name)]) for i, name in noisy if fold(name) in wanted)


def _within(target: Target) -> Within:
    return target if isinstance(target, Within) else Within(target)


# the least price of counts and sums -----------------------------------------------------------------------------------


DIGITS = 5
DOUBLINGS = 60
BEYOND = 2**20
"""Prices up to so many times the limit are looked at, to say what would be needed."""
Place = tuple[int, int]
"""A share: the number of its release, and its own in there."""


@dataclass(frozen=True, slots=True)
class _Need:
    """A goal on one aggregate of one release, and the shares whose noise it sees."""

    within: Within
    release: int
    aggregate: int
    shares: tuple[Place, ...]


def foreseeable(plan: Plan, goals: Sequence[Goal]) -> bool:
    """Are all goals absolute, and on counts and sums as they were released? No goal leaves nothing to foresee."""
    made = {release.name: release.aggregates for release in plan.releases}
    direct = [plan.outputs[goal.column].direct for goal in goals if not goal.within.relative]
    return len(direct) == len(goals) and all(d is not None and made[d[0]][d[1]].function != "avg" for d in direct)


def cheapest(releases: Sequence[Bounded], plan: Plan, goals: Sequence[Goal], funds: Funds) -> Bill:
    """The bill that just meets every goal; refused, before anything is charged, if the funds do not reach.

    Each share has a price of its own, so a column with a loose goal does not pay for its neighbour's tight one. Shares
    without a goal (other columns, the selection of keys) get the mean of the others.

    **Theorem.** Every goal is met, and no share with a goal could have less, up to the last of five digits.
    **Proof.** The half width of a goal falls with the price of each share that it sees and depends on no other.
    First each share gets the most that one of its goals needs; then each in turn the least that keeps all of its
    goals met while the others stay, and later cuts elsewhere only make that least larger, or leave it. What the clip
    of a vector is expected to cut off is added to the half width, and does not depend on the price: clips are settled.
    **Requires** half widths that follow from query, policy and price alone: nothing that was released is read here.
    **Checked by** tests/unit/release/test_least.py.
    """
    needs = [_need(releases, plan, goal) for goal in goals]
    prices = _least_prices(releases, needs, funds)
    portions = _filled(releases, prices)
    total = sum((p for each in portions for p in each), Fraction(0))
    if total > funds.price:
        raise _refusal(releases, goals, needs, _scaled(portions, funds.price / total), funds, total)
    return spend(releases, portions, funds)


def least_price(meets: Callable[[Fraction], bool], most: Fraction, digits: int = DIGITS) -> Fraction | None:
    """The lowest price that a monotone test accepts, to so many decimal digits; None if the highest is not enough.

    A price at which the noise cannot be drawn is not accepted.
    """

    def accepts(price: Fraction) -> bool:
        try:
            return meets(price)
        except UnsupportedQuery:
            return False

    if not accepts(most):
        return None
    low, high = -float(DOUBLINGS), 0.0
    while high - low > 0.1**digits:
        middle = (low + high) / 2
        low, high = (low, middle) if accepts(most * Fraction(2.0**middle)) else (middle, high)
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(float(most) * 2.0**high)
    return min(most, Fraction(rounded))


def _need(releases: Sequence[Bounded], plan: Plan, goal: Goal) -> _Need:
    direct = plan.outputs[goal.column].direct
    assert direct is not None
    number = next(i for i, bounded in enumerate(releases) if bounded.release.name == direct[0])
    source = releases[number].sources[direct[1]]
    seen = set(source.statistics)
    shares = tuple((number, i) for i, (share, _) in enumerate(releases[number].shares) if seen & set(share))
    return _Need(goal.within, number, direct[1], shares)


def _least_prices(releases: Sequence[Bounded], needs: Sequence[_Need], funds: Funds) -> dict[Place, Fraction]:
    most = funds.price * BEYOND
    prices: dict[Place, Fraction] = {}
    for need in needs:
        alone = least_price(partial(_meet, releases, [need], {}, need.shares, funds), most)
        for place in need.shares:
            prices[place] = max(prices.get(place, Fraction(0)), alone or most)
    for place in [p for p in prices if any(len(n.shares) > 1 and p in n.shares for n in needs)]:
        seeing = [need for need in needs if place in need.shares]
        lower = least_price(partial(_meet, releases, seeing, prices, (place,), funds), prices[place])
        prices[place] = lower or prices[place]
    return prices


def _meet(
    releases: Sequence[Bounded],
    needs: Sequence[_Need],
    others: dict[Place, Fraction],
    places: tuple[Place, ...],
    funds: Funds,
    price: Fraction,
) -> bool:
    """Whether the needs are met with this price at these places and with the other prices elsewhere."""
    prices = others | dict.fromkeys(places, price)
    return all(_meets(releases, need, prices, funds) for need in needs)


def _meets(releases: Sequence[Bounded], need: _Need, prices: dict[Place, Fraction], funds: Funds) -> bool:
    bounded = releases[need.release]
    spare = next(iter(prices.values()))
    portions = tuple(prices.get((need.release, i), spare) for i in range(parts_of(bounded)))
    return _width(bounded, need, portions, funds) <= need.within.size


def _width(bounded: Bounded, need: _Need, portions: tuple[Fraction, ...], funds: Funds) -> float:
    priced = price_release(replace(bounded, selection=None), Portion(funds.mechanism, parts=portions))
    width = half_width(priced, need.aggregate, need.within.confidence)
    assert width is not None
    return width + foreseen_cut(priced, need.aggregate)


def _filled(releases: Sequence[Bounded], prices: dict[Place, Fraction]) -> Portions:
    mean = sum(prices.values(), Fraction(0)) / len(prices)
    return tuple(tuple(prices.get((number, i), mean) for i in range(parts_of(r))) for number, r in enumerate(releases))


def _scaled(portions: Portions, factor: Fraction) -> Portions:
    return tuple(tuple(p * factor for p in each) for each in portions)


def _refusal(
    releases: Sequence[Bounded],
    goals: Sequence[Goal],
    needs: Sequence[_Need],
    portions: Portions,
    funds: Funds,
    total: Fraction,
) -> BudgetExceeded:
    """What was asked, what it would cost, and what the limit gives. A query that follows the hint is accepted."""
    up = Context(prec=3, rounding=ROUND_CEILING)
    reached = [
        float(up.create_decimal_from_float(_width(releases[n.release], n, portions[n.release], funds))) for n in needs
    ]
    limit = float(funds.epsilon(funds.price))
    asked = ", ".join(map(str, goals))
    given = ", ".join(f"{g.name} ± {width:g}" for g, width in zip(goals, reached, strict=True))
    needed = "" if total >= funds.price * BEYOND else f" takes epsilon {float(funds.epsilon(total)):.3g}, which"
    loose = [(g.name, f"{max(g.within.size, width):g}") for g, width in zip(goals, reached, strict=True)]
    keyword = ", ".join(f"{name!r}: {size}" for name, size in loose)
    option = " ".join(f"--within {quote(f'{name}={size}')}" for name, size in loose)
    return BudgetExceeded(
        f"{asked}{needed} is beyond what this query may cost: epsilon {limit:.6g} gives {given}",
        hint=f"{', '.join(f'{name} ± {size}' for name, size in loose)} would fit: accuracy={{{keyword}}},"
        f" or {option} on the command line",
    )
