"""The decision on one request, and the refusal that says what is left and what to do."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_FLOOR, Context

from dpsql.budget.accountant import Caps, Spent, admits, limits, remaining
from dpsql.budget.event import Charge, Cost
from dpsql.budget.exact import UNIT, exact
from dpsql.errors import BudgetExceeded

Account = tuple[str, Caps, Spent]
"""Whose it is, its caps and its sums."""


def admit(charge: Charge, cost: Cost, accounts: list[Account]) -> None:
    """Raise BudgetExceeded unless every account admits the charge."""
    refusing = [account for account in accounts if not admits(account[1], account[2], charge)]
    if not refusing:
        return
    left = "; ".join(f"left for {name}: {_left(caps, spent)}" for name, caps, spent in accounts)
    raise BudgetExceeded(f"this query costs {cost}; {left}", hint=_hint(charge, cost, refusing))


def raise_hint(hint: str | None) -> str:
    """The hint where the policy's caps are higher than those in force."""
    return (
        f"{hint}. The policy has higher caps than the ledger: the steward puts them in force with"
        " `dpsql ledger raise-cap`"
    )


def _left(caps: Caps, spent: Spent) -> str:
    cost = remaining(caps, spent)
    return str(cost) if cost.epsilon else "nothing"


def _hint(charge: Charge, cost: Cost, refusing: list[Account]) -> str:
    """The first thing that would help; what is left is shown rounded down, so that asking for it succeeds."""
    if charge.epsilon is None and any(limits(caps).rho is None for _, caps, _ in refusing):
        return "this budget has delta 0: use mechanism='laplace' and group by columns whose values are declared"
    if any(_short_of_delta(charge, caps, spent) for _, caps, spent in refusing):
        return "the delta for private group keys is spent: ask for a smaller delta, or group by declared values"
    epsilon = min(_within_reach(charge, cost, caps, spent) for _, caps, spent in refusing)
    if epsilon < 0.001:
        return "repeat a query of your own (it is free), or ask the steward to raise the cap"
    return f"ask for epsilon {_three_digits_down(epsilon)} or less, or repeat a query of your own (it is free)"


def _within_reach(charge: Charge, cost: Cost, caps: Caps, spent: Spent) -> float:
    """An ε at which the same query would be admitted.

    Gaussian noise is converted at the δ that thresholds leave. For Laplace noise ρ/ε grows with ε, so cutting
    ε in proportion to what is left of ρ is enough; the pure filter may allow more.
    """
    conversion = exact(cost.delta) - charge.delta * UNIT
    if charge.epsilon is None and conversion > 0:
        return remaining(caps, replace(spent, epsilon=None), conversion).epsilon
    left = max(0, (limits(caps).rho or 0) - spent.rho)
    pure = 0.0 if charge.epsilon is None else remaining(Caps(caps.epsilon, 0), spent).epsilon
    return max(pure, cost.epsilon * left / charge.rho)


def _short_of_delta(charge: Charge, caps: Caps, spent: Spent) -> bool:
    limit = limits(caps)
    return limit.rho is not None and spent.rho + charge.rho <= limit.rho


def _three_digits_down(value: float) -> str:
    return f"{float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal_from_float(value)):g}"
