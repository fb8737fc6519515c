"""The accounts that a session is charged on: everyone's, the analyst's own, and that of its purpose."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpsql.budget import Caps, Charge, Cost, Ledger, Request, Spent, Standing, StoredRelease, spent_as
from dpsql.budget.status import BudgetStatus, budget_status
from dpsql.policy import Policy

REPLAYED = "released before, but not for you (or this purpose): free for the dataset, counted once against your own cap"


@dataclass(frozen=True, slots=True)
class Accounts:
    """Whose they are (nobody's name is the steward's), and the ledger that they stand in."""

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

    def counted(self, stored: StoredRelease) -> tuple[str, ...]:
        """Count another analyst's release against this one's cap, once, and say so."""
        if not self.ledger.replayed(
            stored.entry, self.analyst, self._analyst_caps, stored.number, self.purpose, self._purpose_caps
        ):
            return ()
        return (self.told(stored),)

    def told(self, stored: StoredRelease) -> str:
        """What is said of a release that was counted."""
        caps = self._caps(self.analyst)
        return f"{REPLAYED} ({spent_as(caps, Spent().after(stored.charge), self._conversion())})"

    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        last = self.ledger.last(self.analyst, self.purpose)
        names, limit = (self.analyst, self.purpose), self.policy.limits.epsilon
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
    def most_epsilon(self) -> Decimal:
        """The ε that all queries together may cost the analyst, for this purpose."""
        return self.policy.caps(self.analyst, self.purpose).epsilon

    @property
    def default_delta(self) -> Decimal:
        """The policy's default, but none where the analyst's own cap allows none."""
        return min(self.policy.defaults.delta, self.policy.caps(self.analyst, self.purpose).delta)

    def _conversion(self) -> Decimal:
        """The δ at which ε stands for ρ in a query that asks for nothing special; 0 where its noise is Laplace's."""
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
