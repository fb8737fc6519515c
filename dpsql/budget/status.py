"""The status of a budget: caps, spent and remaining in the same units, and what the remainder can still buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from math import sqrt

from dpsql.budget.accountant import Spent, limits, more_like, remaining, spent_as
from dpsql.budget.costs import DUST, Cost, share_down, share_left, share_spent
from dpsql.budget.ledger.interface import LastCharge, Standing
from dpsql.budget.shares import largest_share, share_of
from dpsql.mechanisms.exact_numbers import UNIT, Number, digits_down, digits_up, exact, float_down
from dpsql.mechanisms.zcdp_conversion import rho_for
from dpsql.notebook_html import bar, element, listed, page, text


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """What one account may spend, has spent, and has left: for ever, or in its window until the day it `renews`.

    `share` is the part that is spent, by which costs add up. `caps` is the promise. `whole`, `spent` and `remaining`
    are in the terms of one query: ε converted at one δ, the default of a query, so that their ρ add up and what
    remains can be asked for. δ is for private group keys, but in `spent` it also holds the δ of the conversion:
    everything so far is (ε, δ)-DP for it.
    """

    caps: Cost
    whole: Cost
    spent: Cost
    remaining: Cost
    every: str | None = None
    renews: date | None = None
    share: float = 0.0

    @property
    def spent_share(self) -> str:
        """The part that is spent, as a percentage: with `left_share` it adds up to 100%."""
        return share_spent(self.share)

    @property
    def left_share(self) -> str:
        """The part that is left, rounded down."""
        return share_left(self.share)

    @property
    def cap(self) -> str:
        """The promise, in words."""
        return str(Cost(self.caps.epsilon, self.caps.delta, 0.0))

    @property
    def spent_on_keys(self) -> float:
        """The δ that was spent on private group keys."""
        return self.whole.delta - self.remaining.delta

    def __str__(self) -> str:
        return f"spent {self.spent_share}, left {self.left_share} (of {self.cap})"

    @property
    def details(self) -> str:
        """In ε, δ and ρ."""
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


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """This analyst's account inside the dataset's; only the dataset's promise survives analysts who pool answers.

    `offer` is the share of the session's own account that one more query may cost, inside every account and the limit
    of one query, and `offer_keys` that with private group keys. In ε: `at` is the δ at which it is converted (0 where
    queries have Laplace noise by default), `largest` is the ε that one more query, with the default δ and mechanism,
    may ask for, and `largest_laplace` the same with Laplace noise and no private keys.
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
    offer: float = 0.0
    offer_keys: float = 0.0

    def accounts(self) -> list[tuple[str, AccountStatus]]:
        """All that a query has to fit into, by name."""
        named = [
            ("dataset (everyone)", self.dataset),
            (f"analyst {self.name}", self.analyst),
            (f"{self.name} for {self.purpose_name}", self.purpose),
        ]
        return [(name, account) for name, account in named if account is not None]

    @property
    def own(self) -> AccountStatus:
        """The account of which prices are shares: the purpose's, the analyst's, or everyone's."""
        return self.purpose or self.analyst or self.dataset

    def notes(self) -> Iterator[str]:
        """How the numbers are to be read, and what they mean for the next query."""
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
        laplace = f"with mechanism laplace, epsilon {digits_down(self.largest_laplace):.4g} or less"
        if self.offer >= DUST:
            keys = f", with private group keys up to {share_down(self.offer_keys)}" if self.offer_keys else ""
            keys = keys or ", without private group keys: their delta is spent"
            shown = keys if self.dataset.caps.delta and self.offer_keys < self.offer - DUST else ""
            return f"one more query may cost up to {share_down(self.offer)}{shown}"
        if self.largest_laplace >= DUST * self.dataset.caps.epsilon:
            return f"one more query has to be {laplace}"
        return "nothing is left except a rounding remainder" if self.offer else "nothing is left"

    @property
    def details(self) -> str:
        """The accounts in ε, δ and ρ, and how these are to be read."""
        lines = [f"{name}, {account.details}" for name, account in self.accounts()]
        if self.dataset.caps.delta:
            at = f"δ = {self.at:.3g}, the default of a query" if self.at else "half of the cap on δ"
            lines.append(
                f"costs add up in ρ; ε is what that amounts to at {at}. The caps are promised at a larger δ, half of"
                " it for this, half for private group keys"
            )
        if self.largest:
            lines.append(f"one more query may ask for epsilon {digits_down(self.largest):.4g} or less")
        if self.largest_laplace > self.largest:
            lines.append(f"with mechanism laplace, epsilon {digits_down(self.largest_laplace):.4g} or less")
        return "\n".join(lines)

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
    limit: tuple[Number, Number],
) -> BudgetStatus:
    """The accounts of everyone, of an analyst and of a purpose (None where there is none), and what is left in all."""
    held = [each for each in standings if each is not None]
    largest, laplace = (
        min(float(limit[0]), *(remaining(each.caps, each.spent, delta).epsilon for each in held)) for delta in (at, 0)
    )
    buys = None if last is None else purchase(last, held, limit[0])
    dataset, analyst, purpose = (None if each is None else account_of(each, at) for each in standings)
    assert dataset is not None
    offers = offered(held, limit)
    return BudgetStatus(dataset, analyst, names[0], purpose, names[1], float(at), largest, laplace, buys, *offers)


def offered(held: Sequence[Standing], limit: tuple[Number, Number]) -> tuple[float, float]:
    """The share of the last account, the session's own, that one more query may cost: at all, and with private keys.

    **Theorem.** A query at this share is admitted by all of these accounts. **Proof.** By that of
    `dpsql.budget.shares` a query at a share p of the own limits R and D is charged ρ ≤ pR and δ ≤ pD, and pR and pD are
    at most what is left in each account. Where the own δ* is 0 it is charged ε ≤ pE, and each account admits Laplace
    noise of that ε, by its pure filter or by its zCDP filter (`dpsql.budget.accountant.remaining`).
    **Requires** that nobody else spends in between, and no search that comes on top of the price.
    **Checked by** `tests/unit/budget/test_shares.py`.
    """
    whole, most = limits(held[-1].caps), largest_share(held[-1].caps, *map(exact, limit))
    if whole.rho is None:
        left = min(exact(remaining(each.caps, each.spent, 0).epsilon) for each in held) / (whole.epsilon * UNIT)
        return float_down(min(left, most)), 0.0
    each_left = [(limits(each.caps), each.spent) for each in held]
    rho = min((limit.rho or 0) - spent.rho for limit, spent in each_left)
    delta = min(limit.delta - spent.delta for limit, spent in each_left)
    if rho <= 0 or delta < 0:
        return 0.0, 0.0
    share = min(Fraction(rho, whole.rho), most)
    return float_down(share), float_down(min(share, Fraction(delta, whole.delta)))


def account_of(standing: Standing, at: Number) -> AccountStatus:
    """An account as people see it."""
    caps, spent = standing.caps, standing.spent
    whole = remaining(caps, Spent(), at)
    cap = Cost(float(caps.epsilon), float(caps.delta), whole.rho)
    share, left = float(share_of(limits(caps), spent)), remaining(caps, spent, at)
    return AccountStatus(cap, whole, spent_as(caps, spent, at), left, caps.every, standing.renews, share)


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
    notes = "".join(element("p", text(note)) for note in status.notes())
    details = listed([text(line) for line in status.details.splitlines()])
    more = element("details", element("summary", "in ε, δ and ρ") + details)
    return page(element("table", element("tbody", rows)) + notes + more)


def account_bar(account: AccountStatus) -> str:
    """The spent part of the budget as a bar, with its numbers."""
    said = f"spent {account.spent_share}, left {account.left_share}"
    return bar(min(account.share, 1.0), said) + text(said)


def _caps(account: AccountStatus) -> str:
    return text(f"cap {account.cap}" + ("" if account.renews is None else f", refreshes on {account.renews}"))
