"""The privacy accountant: two filters for each account (pure epsilon and zCDP), and the admission of requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpsql.budget.calendar_windows import check_window
from dpsql.budget.costs import DUST, FREE, Charge, Cost, share_down
from dpsql.errors import BudgetExceeded
from dpsql.mechanisms.exact_numbers import (
    UNIT,
    Number,
    digits_down,
    exact,
    float_down,
    float_up,
    positive,
    probability,
    units_down,
)
from dpsql.mechanisms.zcdp_conversion import epsilon_for, pure_rho, rho_for


@dataclass(frozen=True, slots=True)
class Caps:
    """The promise of one account: everything it ever releases is (ε*, δ*)-DP.

    With `every`, a calendar window, that is promised of each window by itself: weaker, as windows add up.
    """

    epsilon: Number
    delta: Number = 0
    every: str | None = None

    def __post_init__(self) -> None:
        check_window(self.every)
        positive(self.epsilon, "the cap on epsilon")
        if exact(self.delta, "the cap on delta") != 0:
            probability(self.delta, "the cap on delta")


@dataclass(frozen=True, slots=True)
class Spent:
    """The running sums of an account, in UNITs; `epsilon` is None once an event was not pure."""

    rho: int = 0
    delta: int = 0
    epsilon: int | None = 0

    def after(self, charge: Charge) -> Spent:
        """The sums with one more event."""
        pure = None if self.epsilon is None or charge.epsilon is None else self.epsilon + charge.epsilon
        return Spent(self.rho + charge.rho, self.delta + charge.delta, pure)


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """What the sums of an account may reach, in UNITs; `rho` is None where δ* = 0 allows pure events only."""

    epsilon: int
    rho: int | None
    delta: int

    def pure_holds(self, spent: Spent) -> bool:
        """Whether all events were pure and their ε add up to at most ε*."""
        return spent.epsilon is not None and spent.epsilon <= self.epsilon

    def zcdp_holds(self, spent: Spent) -> bool:
        """Whether Σρ ≤ ρ* and Σδ ≤ δ*/2."""
        return self.rho is not None and spent.rho <= self.rho and spent.delta <= self.delta


@lru_cache(maxsize=1024)
def limits(caps: Caps) -> FilterLimits:
    """The caps in the filters' terms, rounded down: half of δ* is for the conversion, half for thresholds."""
    epsilon, half = units_down(exact(caps.epsilon)), exact(caps.delta) / 2
    if half == 0:
        return FilterLimits(epsilon, None, 0)
    return FilterLimits(epsilon, units_down(rho_for(caps.epsilon, half)), units_down(half))


def admits(caps: Caps, spent: Spent, charge: Charge) -> bool:
    """Whether the account may spend this much more: one of its two filters must still hold afterwards.

    **Theorem.** If each event is admitted by this rule before it runs, all events together are (ε*, δ*)-DP,
    also when each event and its cost are chosen after seeing all earlier answers.

    **Proof.** Write P, P' for the law of the whole transcript on neighbouring databases. A cost is a function
    of the transcript so far. All sums only grow and purity is only lost, so a filter that fails once fails
    for ever. Let A be the transcripts at whose end the pure filter holds, B the others; on B the last
    admitted event was admitted by the zCDP filter, which therefore held after every event.
    On A, every event was εᵢ-DP given the past and Σεᵢ ≤ ε*, so the densities satisfy p ≤ exp(ε*)·p'.
    On B, compare with the interaction that stops before the first event that would break the zCDP filter.
    That is fully adaptive composition under a filter Σρ ≤ ρ*, Σδ ≤ δ*/2, hence δ*/2-approximate ρ*-zCDP
    (Whitehouse, Ramdas, Rogers and Wu 2023), hence (ε*, δ*)-DP, as ρ* = ρ(ε*, δ*/2). It never stops early on
    B, so it gives every E ∩ B the same probabilities as P and P' do.
    Together P(E) = P(E∩A) + P(E∩B) ≤ exp(ε*)·P'(E∩A) + exp(ε*)·P'(E∩B) + δ*. ∎

    **Requires** costs that are rounded up and do not depend on the data; one serial order of admissions (the
    ledger's part).
    **Checked by** tests/unit/budget/test_accountant.py.

    Caps nest: an analyst's account admits as well as the dataset's. Only the dataset's promise survives
    analysts who pool their answers.
    """
    after, limit = spent.after(charge), limits(caps)
    return limit.pure_holds(after) or limit.zcdp_holds(after)


def remaining(caps: Caps, spent: Spent, delta: Number) -> Cost:
    """The most that a single further query could ask for, rounded down.

    ε is that of Gaussian noise whose ρ is converted at `delta`, or with delta = 0 that of Laplace noise. ρ and δ (for
    private keys) are what is left of the two sums.
    """
    limit = limits(caps)
    if limit.rho is None or not limit.zcdp_holds(spent):
        rho, slack = Fraction(0), Fraction(0)
    else:
        rho, slack = (limit.rho - spent.rho) * UNIT, (limit.delta - spent.delta) * UNIT
    if exact(delta, "delta"):
        epsilon = _affordable(rho, probability(delta))
    else:
        epsilon = max(_pure_left(limit, spent), laplace_within(rho))
    return Cost(epsilon, float_down(slack), float_down(rho))


def more_like(caps: Caps, spent: Spent, charge: Charge) -> int:
    """How many more events of this cost would be admitted, one after the other."""
    limit, pure, zcdp = limits(caps), 0, 0
    if spent.epsilon is not None and charge.epsilon is not None:
        pure = (limit.epsilon - spent.epsilon) // charge.epsilon
    if limit.rho is not None:
        zcdp = (limit.rho - spent.rho) // charge.rho
        zcdp = min(zcdp, (limit.delta - spent.delta) // charge.delta) if charge.delta else zcdp
        zcdp = zcdp if spent.delta <= limit.delta else 0
    return max(pure, zcdp, 0)


def spent_as(caps: Caps, spent: Spent, delta: Number) -> Cost:
    """What the account has spent: the (ε, δ) that it amounts to by the better of the two filters, rounded up.

    ρ is converted at `delta`, the same as in `remaining`, as far as the cap on δ allows (0: at half of that cap). The
    smaller that is against the cap on δ, the larger ε: a spent account has more than its cap on ε, at less than its
    cap on δ. ε is infinite where neither filter applies: an impure event, and caps since lowered to δ* = 0.
    """
    if spent == Spent():
        return FREE
    half, rho = exact(caps.delta) / 2, spent.rho * UNIT
    costs = [Cost(float("inf"), 1.0, float_up(rho))]
    if half:
        slack = min(exact(delta, "delta") or half, half)
        costs.append(Cost(epsilon_for(rho, slack), float_up(slack + spent.delta * UNIT), float_up(rho)))
    if spent.epsilon is not None:
        costs.append(Cost(float_up(spent.epsilon * UNIT), 0.0, float_up(rho)))
    return min(costs, key=lambda cost: cost.epsilon)


def _pure_left(limit: FilterLimits, spent: Spent) -> float:
    if spent.epsilon is None:
        return 0.0
    return float_down(max(0, limit.epsilon - spent.epsilon) * UNIT)


def _affordable(rho: Fraction, delta: Fraction) -> float:
    """About the largest ε whose ρ at this δ fits."""
    return _shaved(epsilon_for(rho, delta), lambda epsilon: rho_for(epsilon, delta) <= rho)


def laplace_within(rho: Fraction) -> float:
    """About the largest ε whose price as any ε-DP event is within ρ."""
    low, high = 0.0, float(rho) + 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.tanh(middle / 2) <= rho else (low, middle)
    return _shaved(low, lambda epsilon: pure_rho(epsilon) <= rho)


def _shaved(epsilon: float, fits: Callable[[float], bool]) -> float:
    """An ε that may be a little too large, made smaller until it fits; below 1e-9 it is nothing."""
    smaller = (epsilon * part for part in (1.0, 0.999999999999, 0.999999))
    return next((each for each in smaller if each > 1e-9 and fits(each)), 0.0)


# admission of requests, and refusals that say what is left


class Account(NamedTuple):
    """An account: whose it is, its caps, its sums, and when it is reset, if ever."""

    name: str
    caps: Caps
    spent: Spent
    renews: date | None = None


def admit(charge: Charge, cost: Cost, accounts: list[Account]) -> None:
    """Raise BudgetExceeded unless every account admits the charge."""
    if not all(admits(account.caps, account.spent, charge) for account in accounts):
        raise refusal_of(charge, cost, accounts)


def refusal_of(charge: Charge, cost: Cost, accounts: list[Account]) -> BudgetExceeded:
    """What is left in all accounts, and what would help those that do not admit the charge.

    A cost that is a share is one of the first account, and so is what is left.
    """
    refusing = [account for account in accounts if not admits(account.caps, account.spent, charge)] or accounts
    left = "; ".join(f"left for {account.name}: {_left(charge, cost, account, accounts[0])}" for account in accounts)
    refusal = BudgetExceeded(
        f"over the privacy budget: this query costs {cost}; {left}", hint=_hint(charge, cost, refusing, accounts[0])
    )
    refusal.fits = _fits(charge, cost, refusing)
    return refusal


def raise_hint(hint: str | None) -> str:
    """The hint where the policy's caps are higher than those in force."""
    return (
        f"{hint}. The policy has higher caps than the ledger: the steward puts them in force with"
        " `dpsql ledger raise-cap`"
    )


def _share_left(account: Account, own: Account) -> Fraction | None:
    """What is left of an account, as a share of the own one; None where one promises by δ and the other does not."""
    limit, whole = limits(account.caps), limits(own.caps)
    if limit.rho is None and whole.rho is None:
        left = Fraction(limit.epsilon - (account.spent.epsilon or 0), whole.epsilon)
    elif limit.rho is None or whole.rho is None:
        return None
    else:
        left = Fraction(limit.rho - account.spent.rho, whole.rho)
    return min(Fraction(1), max(Fraction(0), left))


def _left(charge: Charge, cost: Cost, account: Account, own: Account) -> str:
    """As a share of the own account, else in the terms of this query: the ε at which it would be admitted, and the δ if
    it has private keys.
    """
    share = None if cost.share is None else _share_left(account, own)
    if share is not None:
        return share_down(share) if share >= DUST else "nothing"
    epsilon = digits_down(_within_reach(charge, cost, account))
    slack = remaining(account.caps, account.spent, 0).delta
    delta = f", δ = {digits_down(slack, 3):.3g} for private keys" if charge.delta and slack else ""
    return f"ε = {epsilon:.4g}{delta}" if epsilon else "nothing"


def _hint(charge: Charge, cost: Cost, refusing: list[Account], own: Account) -> str:
    """The first thing that would help; what is left is shown rounded down, so that asking for it succeeds."""
    if charge.epsilon is None and any(limits(account.caps).rho is None for account in refusing):
        return "this budget has delta 0: use mechanism='laplace' and group by columns whose values are declared"
    wait = _wait(refusing)
    if any(_short_of_delta(charge, account) for account in refusing):
        return f"the delta for private group keys is spent: ask for a smaller delta, or group by declared values{wait}"
    shares = [None if cost.share is None else _share_left(account, own) for account in refusing]
    least = min((share for share in shares if share is not None), default=Fraction(0))
    if least >= DUST and None not in shares:
        return f'ask for price="{share_down(least)}" or less, or repeat a query of your own (it is free){wait}'
    epsilon = _fits(charge, cost, refusing)
    if epsilon is None:
        return f"repeat a query of your own (it is free), or ask the steward to raise the cap{wait}"
    return f"ask for epsilon {epsilon:g} or less, or repeat a query of your own (it is free){wait}"


def _fits(charge: Charge, cost: Cost, refusing: list[Account]) -> float | None:
    """The ε at which all accounts would admit the query, to three digits; None if it is tiny or δ is too small."""
    if any(_short_of_delta(charge, account) for account in refusing):
        return None
    epsilon = digits_down(min(_within_reach(charge, cost, account) for account in refusing), 3)
    return epsilon if epsilon >= 0.001 else None


def _wait(refusing: list[Account]) -> str:
    """The end of the hint if all accounts that refuse are reset some day: that day."""
    days = [account.renews for account in refusing]
    return f"; or wait until {max(day for day in days if day)}" if all(days) else ""


def _within_reach(charge: Charge, cost: Cost, account: Account) -> float:
    """An ε at which the same query would be admitted.

    Gaussian noise is converted at the δ that thresholds leave. For Laplace noise ρ/ε grows with ε, so cutting
    ε in proportion to what is left of ρ is enough; the pure filter may allow more.
    """
    caps, spent = account.caps, account.spent
    conversion = exact(cost.delta) - charge.delta * UNIT
    seen = spent if charge.epsilon is not None else replace(spent, epsilon=None)
    if charge.epsilon is None and conversion > 0:
        return remaining(caps, seen, conversion).epsilon
    limit = limits(caps)
    left = limit.rho - spent.rho if limit.rho is not None and limit.zcdp_holds(spent) else 0
    in_proportion = cost.epsilon * min(Fraction(1), Fraction(left, charge.rho))
    return max(remaining(caps, seen, 0).epsilon, float(in_proportion))


def _short_of_delta(charge: Charge, account: Account) -> bool:
    limit = limits(account.caps)
    return limit.rho is not None and account.spent.rho + charge.rho <= limit.rho
