"""The accounts that a session is charged on (everyone's, the analyst's, its purpose's), and the price of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add

from dpsql.answers.execute import Execution
from dpsql.answers.explain import first_error
from dpsql.answers.reuse import Archive
from dpsql.budget import (
    Caps,
    Charge,
    Cost,
    Ledger,
    Request,
    Reservation,
    Spent,
    Standing,
    StoredRelease,
    limits,
    spent_as,
)
from dpsql.budget.costs import share_down
from dpsql.budget.pricing import charge_of, cost_of
from dpsql.budget.shares import Price, largest_share, share_of, share_price
from dpsql.budget.status import BudgetStatus, budget_status
from dpsql.dataset import Dataset
from dpsql.errors import BudgetExceeded, InterfaceError, PolicyError
from dpsql.options import QueryOptions, read_share
from dpsql.policy import Policy, to_decimal
from dpsql.query_draft import Draft, PreparedQuery

REPLAYED = "released before, but not for you (or this purpose): free for the dataset, counted once against your own cap"


@dataclass(frozen=True, slots=True)
class Accounts:
    """The ledger, and for whom it is charged: an analyst and a purpose, or the steward, who has no name."""

    policy: Policy
    ledger: Ledger
    analyst: str | None
    purpose: str | None

    def request(
        self,
        sql: str,
        charge: Charge | None,
        cost: Cost,
        marks: tuple[bytes, ...] = (),
        asked: tuple[Charge, Cost] | None = None,
    ) -> Request:
        """A charge against every account that this session has."""
        everyone, own, purpose = self._caps(None), self._analyst_caps, self._purpose_caps
        return Request(self.analyst, charge, cost, everyone, own, sql, marks, self.purpose, purpose, asked=asked)

    def owes(self, stored: StoredRelease) -> bool:
        """Is another's release yet to be counted against this analyst?"""
        return self.ledger.owed(stored, self.analyst, self.purpose)

    def count(self, stored: StoredRelease) -> tuple[str, ...]:
        """Count another analyst's release against this one's cap, once, with a note that says so."""
        if not self.ledger.replayed(
            stored.entry, self.analyst, self._analyst_caps, stored.number, self.purpose, self._purpose_caps
        ):
            return ()
        return (self.replay_note(stored),)

    def replay_note(self, stored: StoredRelease) -> str:
        """The note on a release that was counted."""
        caps = self._caps(self.analyst)
        share = float(share_of(limits(self.own_caps), stored.charge))
        return f"{REPLAYED} ({replace(spent_as(caps, Spent().after(stored.charge), self._conversion()), share=share)})"

    def charge(self, prepared: PreparedQuery, execution: Execution) -> tuple[Reservation | None, tuple[str, ...]]:
        """Charge for missing releases and count those of others that are replayed, durably and in one step.

        The reservation covers what is missing (None if nothing is), and the notes say what was counted.
        """
        bill, releases = prepared.bill, list(execution.missing.values())
        owed = [(priced, stored) for priced, stored in execution.replayed if self.owes(stored)]
        whole = [*releases, *(priced for priced, _ in owed)]
        asked = charge_of(whole)
        if asked is None:
            return None, ()
        costs = charge_of(releases), cost_of(bill, releases)
        request = replace(
            self.request(prepared.sql, *costs, tuple(execution.missing), (asked, cost_of(bill, whole))),
            error=first_error(releases, bill.mechanism) if releases else None,
            version=execution.archive.version,
            replays=tuple(dict.fromkeys((stored.entry, stored.number) for _, stored in owed)),
        )
        notes = tuple(self.replay_note(stored) for _, stored in owed)
        if releases:
            return self.ledger.reserve(request), notes
        self.ledger.count(request)
        return None, notes

    def fitted(self, draft: Draft) -> Draft:
        """The draft, limited to what is left of the budget; refused before a pilot only if almost nothing is left."""
        stages = draft.stages
        charges = [charge_of(bill.releases) for bill in (*stages.pilots, stages.at(stages.most))]
        whole = reduce(add, (charge for charge in charges if charge is not None))
        try:
            self.ledger.afford(self.request(draft.sql, whole, draft.split.bill.cost))
        except BudgetExceeded as refusal:
            if refusal.fits is None:
                raise
            return draft.leaving(Fraction(str(refusal.fits)))
        return draft

    def archive(self, dataset: Dataset) -> Archive:
        """The ledger's releases of this version of the data, as the analyst may see them."""
        salt = self.ledger.salt()
        return Archive(
            self.ledger,
            lambda priced: dataset.engine.emit(priced, salt),
            self.policy.dataset,
            dataset.version(),
            dataset.catalog,
            self.analyst,
            self.policy.keep,
            self.purpose,
        )

    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        last = self.ledger.last(self.analyst, self.purpose)
        names, limit = (self.analyst, self.purpose), (self.policy.limits.epsilon, self.policy.limits.delta)
        return budget_status(self.standings(), names, last, self._conversion(), limit)

    def standings(self) -> list[Standing | None]:
        """Everyone's account, the analyst's and the purpose's; None where there is none."""
        own, purpose = self._analyst_caps, self._purpose_caps
        return [
            self.ledger.standing(None, self._caps(None)),
            None if own is None else self.ledger.standing(self.analyst, own),
            None if purpose is None else self.ledger.standing(self.analyst, purpose, self.purpose),
        ]

    @property
    def own_caps(self) -> Caps:
        """The caps in force of the account of which prices are shares: the purpose's, the analyst's, or everyone's."""
        own = next((caps for caps in (self._purpose_caps, self._analyst_caps) if caps is not None), self._caps(None))
        return self.ledger.standing(self.analyst, own, self.purpose).caps

    def of_own(self, epsilon: Fraction, delta: Fraction) -> Price:
        """A price in (ε, δ), whose cost is shown as a share of the session's own account."""
        return Price(epsilon, delta, whole=limits(self.own_caps))

    @property
    def most_epsilon(self) -> Decimal:
        """The ε that all queries together may cost the analyst, for this purpose."""
        return self.policy.caps(self.analyst, self.purpose).epsilon

    @property
    def default_delta(self) -> Decimal:
        """The policy's default δ, but no more than the analyst's own cap."""
        return min(self.policy.defaults.delta, self.policy.caps(self.analyst, self.purpose).delta)

    def _conversion(self) -> Decimal:
        """The δ at which the ε of a query without options is converted to ρ; 0 if its noise is Laplace noise."""
        delta = self.default_delta
        return Decimal(0) if self.policy.defaults.mechanism == "laplace" else delta

    def _caps(self, who: str | None, purpose: str | None = None) -> Caps:
        return Caps(*self.policy.caps(who, purpose))

    @property
    def _analyst_caps(self) -> Caps | None:
        return None if self.analyst is None else self._caps(self.analyst)

    @property
    def _purpose_caps(self) -> Caps | None:
        return None if self.purpose is None else self._caps(self.analyst, self.purpose)


# the price of one query -----------------------------------------------------------------------------------------------


def price_of(keywords: QueryOptions, accounts: Accounts, *, accurate: bool = False) -> Price:
    """The price of a query, within the limits of the policy; with an accuracy, the most that it may cost."""
    allowed, defaults = accounts.policy.limits, accounts.policy.defaults
    epsilon, delta = keywords.epsilon, keywords.delta
    if keywords.price is not None:
        return _share_price(keywords, accounts)
    most = min(allowed.epsilon, accounts.most_epsilon) if accurate else defaults.epsilon
    asked = Fraction(_number(epsilon, "epsilon")) if epsilon is not None else Fraction(most)
    slack = Fraction(_number(delta, "delta")) if delta is not None else Fraction(accounts.default_delta)
    if asked <= 0 or not 0 <= slack < 1:
        wrong = f"epsilon must be positive, got {epsilon}" if asked <= 0 else f"delta must be in [0, 1), got {delta}"
        raise PolicyError(wrong, hint="ask for epsilon=0.5, for example; a delta is far below 1, such as 1e-8")
    for name, value, limit in (("epsilon", asked, allowed.epsilon), ("delta", slack, allowed.delta)):
        if value > Fraction(limit):
            raise PolicyError(
                f"one query may ask for {name} up to {limit}, not {float(value):g}",
                hint=f"ask for {name}={limit} or less" if limit else f"leave {name} out: the budget has none",
            )
    return accounts.of_own(asked, slack)


def _share_price(keywords: QueryOptions, accounts: Accounts) -> Price:
    """A share of the budget; δ is the same share of the account's unless it is named."""
    if keywords.epsilon is not None:
        raise InterfaceError("price and epsilon are two prices", hint='give one of them: price="2%", or epsilon=0.5')
    share, caps = read_share(keywords.price), accounts.own_caps
    epsilon, delta = (Fraction(each) for each in (accounts.policy.limits.epsilon, accounts.policy.limits.delta))
    most = largest_share(caps, epsilon, delta)
    if share > most:
        raise PolicyError(
            f"one query may cost up to {share_down(most)} of the budget, not {keywords.price}",
            hint=f'ask for price="{share_down(most)}" or less',
        )
    price = share_price(caps, share)
    if keywords.delta is None:
        return replace(price, delta=min(price.delta, delta))
    return replace(price, delta=price_of(QueryOptions(delta=keywords.delta), accounts).delta)


def known_mechanism(name: str) -> str:
    """The name of a mechanism that exists."""
    if name not in ("auto", "laplace", "gaussian"):
        raise InterfaceError(f"there is no mechanism {name!r}", hint="use laplace, gaussian or auto")
    return name


def _number(value: float | Decimal, name: str) -> Decimal:
    try:
        return to_decimal(value)
    except ValueError as problem:
        raise PolicyError(
            f"{name} = {value!r} is not a valid price: {problem}", hint=f"write {name}=0.5, for example"
        ) from None
