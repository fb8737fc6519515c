"""The status of a budget: caps, spent and remaining in the same units, and what the remainder can still buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import sqrt

from dpsql.budget.accountant import Spent, more_like, remaining, spent_as
from dpsql.budget.costs import Cost
from dpsql.budget.ledger.interface import LastCharge, Standing
from dpsql.mechanisms.exact_numbers import UNIT, Number, digits_down, digits_up, exact, float_down
from dpsql.mechanisms.zcdp_conversion import rho_for
from dpsql.notebook_html import bar, element, listed, page, text


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """What one account may spend, has spent, and has left: for ever, or in its window until the day it `renews`.

    `caps` is the promise. `whole`, `spent` and `remaining` are in the terms of one query: ε converted at one δ, the
    default of a query, so that their ρ add up and what remains can be asked for. δ is for private group keys, but in
    `spent` it also holds the δ of the conversion: everything so far is (ε, δ)-DP for it.
    """

    caps: Cost
    whole: Cost
    spent: Cost
    remaining: Cost
    every: str | None = None
    renews: date | None = None

    @property
    def cap(self) -> str:
        """The promise, in words."""
        return str(Cost(self.caps.epsilon, self.caps.delta, 0.0))

    @property
    def spent_on_keys(self) -> float:
        """The δ that was spent on private group keys."""
        return self.whole.delta - self.remaining.delta

    def __str__(self) -> str:
        whole, spent = digits_down(self.whole.epsilon), digits_up(self.spent.epsilon)
        left = self.remaining
        parts = [f"left for one query: ε = {digits_down(left.epsilon):.4g}"]
        if self.caps.delta:
            parts.append(f"ρ = {digits_down(left.rho):.4g} of {digits_down(self.whole.rho):.4g}")
            parts.append(f"δ = {digits_down(left.delta, 3):.3g} for private keys")
        return f"cap {self.cap}: spent ε = {spent:.4g} of {whole:.4g}; {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Purchase:
    """How many more queries like the last are admitted, and the half width (95%) that a single one could have."""

    times: int
    of: str | None
    half: float | None

    def __str__(self) -> str:
        single = None if self.half is None else f"one with ± {digits_up(self.half, 3):,.6g} for {self.of} (95%)"
        if self.times == 0:
            none = "what is left does not pay for another query like the last"
            return none if single is None else f"{none}, but for {single}"
        many = f"about {self.times:,} more quer{'y' if self.times == 1 else 'ies'} like the last"
        return f"what is left buys {many}{'' if single is None else f', or {single}'}"


DUST = 1e-5
"""The part of a spent budget that rounding can leave: it can be asked for, and buys nothing."""


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """This analyst's account inside the dataset's; only the dataset's promise survives analysts who pool answers.

    `at` is the δ at which ε is converted; 0 where queries have Laplace noise by default. `largest` is the ε that one
    more query, with the default δ and mechanism, may ask for: inside every account and the limit of one query.
    `largest_laplace` is the same with Laplace noise and no private keys.
    """

    dataset: AccountStatus
    analyst: AccountStatus | None
    name: str | None
    purpose: AccountStatus | None = None
    purpose_name: str | None = None
    at: float = 0.0
    largest: float = 0.0
    largest_laplace: float = 0.0
    buys: Purchase | None = None

    def accounts(self) -> list[tuple[str, AccountStatus]]:
        """All that a query has to fit into, by name."""
        named = [
            ("dataset (everyone)", self.dataset),
            (f"analyst {self.name}", self.analyst),
            (f"{self.name} for {self.purpose_name}", self.purpose),
        ]
        return [(name, account) for name, account in named if account is not None]

    def notes(self) -> Iterator[str]:
        """How the numbers are to be read, and what they mean for the next query."""
        if self.dataset.caps.delta:
            at = f"δ = {self.at:.3g}, the default of a query" if self.at else "half of the cap on δ"
            yield (
                f"costs add up in ρ; ε is what that amounts to at {at}. The caps are promised at a larger δ, half of"
                " it for this, half for private group keys"
            )
        for name, account in self.accounts():
            if account.renews is not None:
                yield (
                    f"{name} refreshes on {account.renews} (every {account.every}); what the analyst learns over many"
                    " windows adds up: only the dataset's cap bounds it"
                )
        yield self._next()
        if self.buys is not None:
            yield str(self.buys)

    def _next(self) -> str:
        laplace = f"epsilon {digits_down(self.largest_laplace):.4g} or less"
        if 0 < max(self.largest, self.largest_laplace) < DUST * self.dataset.caps.epsilon:
            return "nothing is left except a rounding remainder"
        if self.largest == 0:
            return f"one more query needs mechanism laplace: {laplace}" if self.largest_laplace else "nothing is left"
        more = f", with mechanism laplace {laplace}" if self.largest_laplace > self.largest else ""
        return f"one more query may ask for epsilon {digits_down(self.largest):.4g} or less{more}"

    def _repr_html_(self) -> str:
        from dpsql.budget.status import budget_html

        return budget_html(self)

    def __str__(self) -> str:
        return "\n".join([*(f"{name}, {account}" for name, account in self.accounts()), *self.notes()])

    __repr__ = __str__


def budget_status(
    standings: Sequence[Standing | None],
    names: tuple[str | None, str | None],
    last: LastCharge | None,
    at: Number,
    limit: Number,
) -> BudgetStatus:
    """The accounts of everyone, of an analyst and of a purpose (None where there is none), and what is left in all."""
    held = [each for each in standings if each is not None]
    largest, laplace = (
        min(float(limit), *(remaining(each.caps, each.spent, delta).epsilon for each in held)) for delta in (at, 0)
    )
    buys = None if last is None else purchase(last, held, limit)
    dataset, analyst, purpose = (None if each is None else account_of(each, at) for each in standings)
    assert dataset is not None
    return BudgetStatus(dataset, analyst, names[0], purpose, names[1], float(at), largest, laplace, buys)


def account_of(standing: Standing, at: Number) -> AccountStatus:
    """An account as people see it."""
    caps, spent = standing.caps, standing.spent
    whole = remaining(caps, Spent(), at)
    cap = Cost(float(caps.epsilon), float(caps.delta), whole.rho)
    return AccountStatus(cap, whole, spent_as(caps, spent, at), remaining(caps, spent, at), caps.every, standing.renews)


def purchase(last: LastCharge, standings: Sequence[Standing], limit: Number) -> Purchase:
    """How many queries like the last one all accounts can still pay for; `limit` is the largest ε of one query."""
    times = min(more_like(each.caps, each.spent, last.charge) for each in standings)
    if last.error is None or any(_left(each).delta < float_down(last.charge.delta * UNIT) for each in standings):
        return Purchase(times, None, None)
    better = _gaussian(last, standings, limit) if last.error.noise == "gaussian" else _laplace(last, standings, limit)
    return Purchase(times, last.error.of, last.error.half / better) if better > DUST else Purchase(times, None, None)


def _gaussian(last: LastCharge, standings: Sequence[Standing], limit: Number) -> float:
    """How many times smaller the error could be: it goes with one over the root of ρ."""
    conversion = exact(last.cost.delta) - last.charge.delta * UNIT
    most = [_left(each).rho for each in standings]
    most += [float(rho_for(limit, conversion))] if conversion > 0 else []
    return sqrt(min(most) / float(last.charge.rho * UNIT))


def _laplace(last: LastCharge, standings: Sequence[Standing], limit: Number) -> float:
    """The same for Laplace noise, whose error goes with one over ε."""
    pure = last.charge.epsilon is not None
    sums = [each.spent if pure else replace(each.spent, epsilon=None) for each in standings]
    most = [remaining(each.caps, spent, 0).epsilon for each, spent in zip(standings, sums, strict=True)]
    return min(*most, float(limit)) / last.cost.epsilon


def _left(standing: Standing) -> Cost:
    return remaining(standing.caps, standing.spent, 0)


# HTML for notebooks


def budget_html(status: BudgetStatus) -> str:
    """A bar for each account, and how to read it."""
    rows = "".join(
        element(
            "tr", element("td", text(name)) + element("td", account_bar(each)) + element("td", _caps(each), "dim w")
        )
        for name, each in status.accounts()
    )
    *how, buys = status.notes()
    more = element("details", element("summary", "how to read this") + listed([text(note) for note in how]))
    return page(element("table", element("tbody", rows)) + element("p", text(buys)) + (more if how else ""))


def account_bar(account: AccountStatus) -> str:
    """The spent part of the budget as a bar, with its numbers."""
    whole, spent = digits_down(account.whole.epsilon), digits_up(account.spent.epsilon)
    used = 1 - account.remaining.rho / account.whole.rho if account.caps.delta else spent / whole if whole else 1.0
    said = f"spent ε = {spent:.4g} of {whole:.4g}"
    return bar(used, said) + text(f"{said}, left for one query: ε = {digits_down(account.remaining.epsilon):.4g}")


def _caps(account: AccountStatus) -> str:
    return text(f"cap {account.cap}" + ("" if account.renews is None else f", refreshes on {account.renews}"))
