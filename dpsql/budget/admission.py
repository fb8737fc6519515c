"""The decision on one request, and the refusal that says what is left and what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from dpsql.budget.accountant import Caps, Spent, admits, limits, remaining
from dpsql.budget.event import Charge, Cost
from dpsql.errors import BudgetExceeded
from dpsql.mechanisms.exact import UNIT, digits_down, exact


class Account(NamedTuple):
    """Whose it is, its caps, its sums, and when it starts afresh if it ever does."""

    name: str
    caps: Caps
    spent: Spent
    renews: date | None = None


def admit(charge: Charge, cost: Cost, accounts: list[Account]) -> None:
    """Raise BudgetExceeded unless every account admits the charge."""
    if not all(admits(account.caps, account.spent, charge) for account in accounts):
        raise refusal_of(charge, cost, accounts)


def refusal_of(charge: Charge, cost: Cost, accounts: list[Account]) -> BudgetExceeded:
    """What is left in all accounts, and what would help those that do not admit the charge."""
    refusing = [account for account in accounts if not admits(account.caps, account.spent, charge)] or accounts
    left = "; ".join(f"left for {account.name}: {_left(charge, cost, account)}" for account in accounts)
    refusal = BudgetExceeded(
        f"over the privacy budget: this query costs {cost}; {left}", hint=_hint(charge, cost, refusing)
    )
    refusal.fits = _fits(charge, cost, refusing)
    return refusal


def raise_hint(hint: str | None) -> str:
    """The hint where the policy's caps are higher than those in force."""
    return (
        f"{hint}. The policy has higher caps than the ledger: the steward puts them in force with"
        " `dpsql ledger raise-cap`"
    )


def _left(charge: Charge, cost: Cost, account: Account) -> str:
    """In the terms of this query: the ε at which it would be admitted, and the δ if it has private keys."""
    epsilon = digits_down(_within_reach(charge, cost, account))
    slack = remaining(account.caps, account.spent, 0).delta
    delta = f", δ = {digits_down(slack, 3):.3g} for private keys" if charge.delta and slack else ""
    return f"ε = {epsilon:.4g}{delta}" if epsilon else "nothing"


def _hint(charge: Charge, cost: Cost, refusing: list[Account]) -> str:
    """The first thing that would help; what is left is shown rounded down, so that asking for it succeeds."""
    if charge.epsilon is None and any(limits(account.caps).rho is None for account in refusing):
        return "this budget has delta 0: use mechanism='laplace' and group by columns whose values are declared"
    wait = _wait(refusing)
    if any(_short_of_delta(charge, account) for account in refusing):
        return f"the delta for private group keys is spent: ask for a smaller delta, or group by declared values{wait}"
    epsilon = _fits(charge, cost, refusing)
    if epsilon is None:
        return f"repeat a query of your own (it is free), or ask the steward to raise the cap{wait}"
    return f"ask for epsilon {epsilon:g} or less, or repeat a query of your own (it is free){wait}"


def _fits(charge: Charge, cost: Cost, refusing: list[Account]) -> float | None:
    """The ε at which all would admit the query, in three digits; None if that is next to nothing, or δ is short."""
    if any(_short_of_delta(charge, account) for account in refusing):
        return None
    epsilon = digits_down(min(_within_reach(charge, cost, account) for account in refusing), 3)
    return epsilon if epsilon >= 0.001 else None


def _wait(refusing: list[Account]) -> str:
    """Where all that refuses starts afresh some day, the day."""
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
