"""The private searches that come before a query: for bounds that the policy leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property, reduce
from operator import add

from dpsql.budget import FREE, Charge, Cost, Stored
from dpsql.budget.allocate import charge_of
from dpsql.errors import BudgetExceeded
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Draft, Prepared
from dpsql.flow.releasing import Releaser
from dpsql.policy.auto import Found, Subject
from dpsql.search import Searches

PAID = "the private search that came first is counted, and what it found stays known"


@contextmanager
def search_told(draft: Draft) -> Iterator[None]:
    """A refusal of what follows from a search, such as its price for an accuracy, tells that the search was made."""
    try:
        yield
    except BudgetExceeded as refusal:
        if draft.missing:
            refusal.hint = f"{refusal.hint}; {PAID}" if refusal.hint else PAID
        raise


class Searcher:
    """Searches for what a query needs, each charged as any release is."""

    def __init__(self, dataset: Dataset, accounts: Accounts, releaser: Releaser) -> None:
        self._dataset, self._accounts, self._releaser = dataset, accounts, releaser

    @cached_property
    def searches(self) -> Searches:
        """The private searches for bounds that the policy leaves open."""
        accounts, ledger = self._accounts, self._accounts.ledger
        return Searches(
            accounts.policy,
            ledger,
            Fraction(accounts.default_delta),
            self._dataset.catalog_of,
            lambda: self._dataset.whole_catalog,
            lambda: self._releaser.archive(ledger.salt()),
            accounts.owes,
            self._dataset.finisher.check,
        )

    def search_first(self, draft: Draft) -> tuple[Cost, Sequence[str]]:
        """Search for what the query needs; refused as a whole if the query cannot follow or cannot be computed.

        What somebody else searched for is shown, like any other release, only after it was counted.
        """
        new = [subject for subject in draft.missing if self.searches.read(subject) is None]
        if draft.missing:
            for priced in draft.split.bill.releases:
                self._dataset.engine.emit(priced, None)
            asked, now = (self._charges(draft, subjects) for subjects in (draft.missing, new))
            self._accounts.ledger.afford(self._accounts.request(draft.sql, *now, asked=asked))
        made = [made for subject in draft.missing if (made := self.search(subject)) is not None]
        counted = [note for _, stored in made for each in stored for note in self._accounts.counted(each)]
        return self.cost(draft, new), counted

    def _charges(self, draft: Draft, subjects: Sequence[Subject]) -> tuple[Charge, Cost]:
        """What the query and these searches before it cost together."""
        bills = [draft.split.bill, *(self.searches.search(subject)[1] for subject in subjects)]
        charges = [charge for bill in bills if (charge := charge_of(bill.releases)) is not None]
        return reduce(add, charges), draft.funds.plus(draft.split.bill.cost, self.cost(draft, subjects))

    def search(self, subject: Subject) -> tuple[Found | None, tuple[Stored, ...]] | None:
        """Search for the bounds of one subject, unless somebody did: charged as any release is."""
        if self.searches.read(subject) is None:
            plan, bill = self.searches.search(subject)
            self._releaser.release(Prepared(f"a private search: {subject}", plan, bill, ()))
        return self.searches.read(subject)

    def cost(self, draft: Draft, subjects: Sequence[Subject]) -> Cost:
        """What searches cost, in the currency of the query that they come before."""
        bills = [self.searches.search(subject)[1] for subject in subjects]
        return reduce(draft.funds.plus, (bill.cost for bill in bills), FREE)
