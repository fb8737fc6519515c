"""The private searches that come before a query: for bounds that the policy leaves open, and for the best clip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, reduce
from math import floor, log, sqrt
from operator import add

import numpy as np
from sqlglot import exp

from dpsql.answers.reuse import Archive
from dpsql.answers.serialize import deserialize
from dpsql.budget import FREE, Charge, Cost, StoredRelease
from dpsql.budget.pricing import Bill, Portion, Priced, charge_of, fund, price_release
from dpsql.errors import BudgetExceeded, UnboundedColumn
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Draft, Prepared
from dpsql.flow.releasing import Releaser
from dpsql.mechanisms import DiscreteLaplace
from dpsql.plan.plan import Plan
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.search import Searches
from dpsql.sensitivity.bound import Bounded, norm_search
from dpsql.sensitivity.clip import Vector, norms_of, read_norms
from dpsql.sensitivity.clip_choice import search_share
from dpsql.sensitivity.norm_histogram import NormHistogram

PAID = "the private search that came first is counted, and what it found stays known"
BEST_CLIP = "a private search for the best clip of: "
"""What the log says of such a search, before its query."""
DEARER = 3
"""A search of up to so many tiers above serves as well."""


@contextmanager
def search_told(draft: Draft) -> Iterator[None]:
    """A refusal of what follows from a search, such as of bounds that it did not find, tells that it was made."""
    try:
        yield
    except (BudgetExceeded, UnboundedColumn) as refusal:
        if draft.missing or draft.unsearched:
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
            self._archive,
            accounts.owes,
            self._dataset.finisher.check,
        )

    def _archive(self) -> Archive:
        return self._releaser.archive(self._accounts.ledger.salt())

    # norms ----------------------------------------------------------------------------------------------------------

    def with_norms(self, draft: Draft) -> Draft:
        """The draft with what is known of the norms of its vectors; of the others it says that they are unsearched.

        A release that an earlier one answers needs no search, if the analyst has that already: another's changes no
        cost until it is counted.
        """
        vectors = [(b, each.vector) for b in draft.bounded for each in b.clipped if each.vector.searched]
        if not vectors:
            return draft
        tier = self._tier(draft, len(vectors))
        searches = {_place(*each): self._norm_search(*each, draft.mechanism, tier) for each in vectors}
        found = {_place(*each): self._known_norms(*each, draft.mechanism, tier) for each in vectors}
        bounded = tuple(
            replace(b, clipped=tuple(replace(each, found=found.get(_place(b, each.vector))) for each in b.clipped))
            for b in draft.bounded
        )
        price = fund(draft.bounded, draft.most, draft.delta, draft.mechanism).price
        set_apart = sum((search.price for search in searches.values()), Fraction(0)) / price
        draft = replace(draft, bounded=bounded, part=draft.part - set_apart)
        unknown = {place[0] for place, histogram in found.items() if histogram is None}
        if unknown and not draft.missing and self._accounts.policy.replay:
            archive = self._archive()
            priced = [p for p in draft.split.bill.releases if p.bounded.release.name in unknown]
            unknown -= {p.bounded.release.name for p in priced if archive.best(p) is not None}
        wanted = [place for place, histogram in found.items() if histogram is None and place[0] in unknown]
        return replace(draft, unsearched=tuple(searches[place] for place in wanted))

    def _tier(self, draft: Draft, vectors: int) -> int:
        """How many times four the price of each release is that of a default query: searches have these prices."""
        price = fund(draft.bounded, draft.most, draft.delta, draft.mechanism).price / vectors
        return floor(log(price / self._default(draft.mechanism), 4) + 1e-9)

    def _default(self, mechanism: str) -> Fraction:
        """The price of a query that asks for nothing special, in the currency of its noise."""
        defaults = self._accounts.policy.defaults
        delta = Fraction(self._accounts.default_delta) or Fraction(1, 10**9)
        return fund((), Fraction(defaults.epsilon), delta, mechanism).price

    def _norm_search(self, bounded: Bounded, vector: Vector, mechanism: str, tier: int) -> Priced:
        """The search for the norms of one vector of a release, at the price of a tier."""
        price = search_share(vector.groups) * self._default(mechanism) * Fraction(4) ** tier
        return price_release(norm_search(bounded, vector), Portion(mechanism, price, (price,), exact=True))

    def _known_norms(self, bounded: Bounded, vector: Vector, mechanism: str, tier: int) -> NormHistogram | None:
        """What an earlier search found: one of the same price first, so that a repeated query finds the same clip."""
        archive = self._archive()
        for each in range(tier, tier + DEARER + 1):
            search = self._norm_search(bounded, vector, mechanism, each)
            stored = self._accounts.ledger.find(archive.mark(search))
            if stored is not None and not self._accounts.owes(stored):
                return _histogram(vector, search, stored)
        return None

    def _search_norms(self, draft: Draft) -> tuple[Cost, Sequence[str]]:
        """Make all searches for norms that a query needs, as one charge."""
        bill = self._norms_bill(draft)
        plan = Plan(tuple(p.bounded.release for p in draft.unsearched), exp.Select(), (), (), None)
        made = self._releaser.release(Prepared(BEST_CLIP + draft.sql, plan, bill, ()))
        return made.cost, made.counted

    def _norms_bill(self, draft: Draft) -> Bill:
        funds = draft.funds
        epsilon = funds.epsilon(sum((p.price for p in draft.unsearched), Fraction(0)))
        return Bill(draft.mechanism, epsilon, funds.conversion, draft.unsearched)

    # bounds ---------------------------------------------------------------------------------------------------------

    def search_first(self, draft: Draft) -> tuple[Cost, Sequence[str]]:
        """Search for what the query needs; refused as a whole if the query cannot follow or cannot be computed.

        What somebody else searched for is shown, like any other release, only after it was counted. Bounds come first:
        the norms are those of rows within them.
        """
        if not (draft.missing or draft.unsearched):
            return FREE, ()
        new = [subject for subject in draft.missing if self.searches.read(subject) is None]
        for priced in draft.split.bill.releases:
            self._dataset.engine.emit(priced, None)
        asked, now = (self._charges(draft, subjects) for subjects in (draft.missing, new))
        self._accounts.ledger.afford(self._accounts.request(draft.sql, *now, asked=asked))
        if not draft.missing:
            return self._search_norms(draft)
        made = [made for subject in draft.missing if (made := self.search(subject)) is not None]
        counted = [note for _, stored in made for each in stored for note in self._accounts.counted(each)]
        return self.cost(draft, new), counted

    def _charges(self, draft: Draft, subjects: Sequence[Subject]) -> tuple[Charge, Cost]:
        """What the query and these searches before it cost together."""
        bills = [draft.split.bill, *(self.searches.search(subject)[1] for subject in subjects)]
        bills += [self._norms_bill(draft)] if draft.unsearched else []
        charges = [charge for bill in bills if (charge := charge_of(bill.releases)) is not None]
        cost = draft.funds.plus(self.cost(draft, subjects), self.norms_cost(draft))
        return reduce(add, charges), draft.funds.plus(draft.split.bill.cost, cost)

    def norms_cost(self, draft: Draft) -> Cost:
        """What searches for norms cost that are still to be made."""
        return self._norms_bill(draft).cost if draft.unsearched else FREE

    def search(self, subject: Subject) -> tuple[FoundBounds | None, tuple[StoredRelease, ...]] | None:
        """Search for the bounds of one subject, unless somebody did: charged as any release is."""
        if self.searches.read(subject) is None:
            plan, bill = self.searches.search(subject)
            self._releaser.release(Prepared(f"a private search: {subject}", plan, bill, ()))
        return self.searches.read(subject)

    def cost(self, draft: Draft, subjects: Sequence[Subject]) -> Cost:
        """What searches cost, in the currency of the query that they come before."""
        bills = [self.searches.search(subject)[1] for subject in subjects]
        return reduce(draft.funds.plus, (bill.cost for bill in bills), FREE)


def _place(bounded: Bounded, vector: Vector) -> tuple[str, tuple[int, ...], str | None]:
    """Which vector of a query this is."""
    return bounded.release.name, vector.members, vector.ranked


def _histogram(vector: Vector, search: Priced, stored: StoredRelease) -> NormHistogram:
    """A stored search as a histogram."""
    released = deserialize(stored.payload, search)
    noise, shift = search.noised[0].noise, search.noised[0].shift
    deviation = float(noise.scale) * (sqrt(2) if isinstance(noise, DiscreteLaplace) else 1.0) * 2.0**shift
    counts, *spreads = (each.astype(np.float64) * 2.0**shift for each in released.noisy)
    norms = norms_of(vector.norm, vector.cells)
    return read_norms(norms, counts, spreads[0] if spreads else None, deviation)
