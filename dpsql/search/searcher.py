"""The private searches that come before a query: for bounds that the policy leaves open, and for the best clip.

Nothing is released here: a search is a prepared query that the conductor releases like any other (`dpsql.session`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import floor, log, sqrt
from operator import add
from typing import Literal

import numpy as np
from sqlglot import exp

from dpsql.accounts import Accounts
from dpsql.answers.serialize import deserialize
from dpsql.budget import FREE, Charge, Cost, StoredRelease
from dpsql.budget.pricing import Bill, Portion, Priced, charge_of, fund, price_release
from dpsql.budget.shares import Price
from dpsql.dataset import Dataset
from dpsql.errors import BudgetExceeded, UnboundedColumn
from dpsql.mechanisms import DiscreteLaplace
from dpsql.plan.catalog import Catalog
from dpsql.plan.plan import Plan
from dpsql.policy.searched_subjects import Subject
from dpsql.query_draft import Draft, PreparedQuery
from dpsql.search.fewer_conditions import with_fewer_conditions
from dpsql.search.open_bounds import BoundSearches
from dpsql.sensitivity.bound import Bounded, least_of_a_row, norm_search
from dpsql.sensitivity.clip import Vector, norms_of, read_norms
from dpsql.sensitivity.clip_choice import ClipChoice, NormHistogram, search_share, would_find

PAID = "the private search that came first is counted, and what it found stays known"
BEST_CLIP = "a private search for the best clip of: "
"""How the log names such a search, before the text of its query."""
ACCURATE = 2
"""The highest tier of the search for a query that asks for an accuracy: what it may cost at most tells little of what
it will cost."""
DEARER = 3
"""A search that is up to this many tiers dearer serves as well."""
LEFT = 0.25
"""The part of the units that a further condition is taken to leave."""
ALMOST = 1 + 1e-6
"""Edges of buckets are roots, as floats."""


@contextmanager
def naming_searches(draft: Draft) -> Iterator[None]:
    """A refusal that follows from a search, for example because it found no bounds, says that the search was made."""
    try:
        yield
    except (BudgetExceeded, UnboundedColumn) as refusal:
        if draft.missing or draft.unsearched:
            refusal.hint = f"{refusal.hint}; {PAID}" if refusal.hint else PAID
        raise


@dataclass(frozen=True, slots=True)
class Searcher:
    """The searches of one session: what is known, which are due before a query, and what they cost."""

    dataset: Dataset
    accounts: Accounts

    @property
    def bounds(self) -> BoundSearches:
        """The searches for bounds."""
        return BoundSearches(self.dataset, self.accounts)

    # norms ----------------------------------------------------------------------------------------------------------

    def with_norms(self, draft: Draft, catalog: Catalog, *, accurate: bool = False) -> Draft:
        """The draft with what is known of the norms of its vectors; of the others it says that they are unsearched.

        Where an accuracy is asked for (`accurate`), the price of the draft is the most that it may cost, and its
        search costs no more than that of a query of `ACCURATE` tiers; the most exact one that is known serves.

        A release that an earlier one answers needs no search, if the analyst has that already: another's changes no
        cost until it is counted. Nor does one for which a search of the same query with fewer conditions serves.
        """
        vectors = [(b, each.vector) for b in draft.bounded for each in b.clipped if each.vector.searched]
        if not vectors:
            return draft
        tier = self._tier(draft, len(vectors))
        tier = min(tier, ACCURATE) if accurate else tier
        tiers = range(tier, tier + DEARER + 1)[:: -1 if accurate else 1]
        searches = {_place(*each): self._norm_search(*each, draft.mechanism, tier) for each in vectors}
        found = {_place(*each): self._known_norms(*each, draft.mechanism, tiers) for each in vectors}
        price = fund(draft.bounded, draft.most, draft.mechanism).price
        set_apart = sum((search.price for search in searches.values()), Fraction(0)) / price
        draft = _with_found(replace(draft, part=draft.part - set_apart), found)
        lacking = [each for each in vectors if found[_place(*each)] is None or not _settled(draft, *each)]
        lacking = [] if draft.missing else lacking
        wider = {_place(*each): self._wider_norms(*each, draft.mechanism, tiers, catalog) for each in lacking}
        if any(wider.values()):
            tried = _with_found(draft, found | {place: each for place, each in wider.items() if each is not None})
            serving = {
                _place(*each): histogram
                for each in lacking
                if (histogram := wider[_place(*each)]) is not None
                and (found[_place(*each)] is not None or _serves(tried, each, searches[_place(*each)], histogram))
            }
            found |= serving
            draft = _with_found(draft, found) if serving else draft
        unknown = {place[0] for place, histogram in found.items() if histogram is None}
        if unknown and not draft.missing and self.accounts.policy.replay:
            archive = self.accounts.archive(self.dataset)
            priced = [p for p in draft.split.bill.releases if p.bounded.release.name in unknown]
            unknown -= {p.bounded.release.name for p in priced if archive.best(p) is not None}
        wanted = [place for place, histogram in found.items() if histogram is None and place[0] in unknown]
        return replace(draft, unsearched=tuple(searches[place] for place in wanted)) if wanted else draft

    def _tier(self, draft: Draft, vectors: int) -> int:
        """By which power of four the price of each release exceeds that of a default query; so do searches."""
        price = fund(draft.bounded, draft.most, draft.mechanism).price / vectors
        return floor(log(price / self._default(draft.mechanism), 4) + 1e-9)

    def _default(self, mechanism: str) -> Fraction:
        """The price of a query that asks for nothing special, in the currency of its noise."""
        delta = Fraction(self.accounts.default_delta) or Fraction(1, 10**9)
        return fund((), Price(Fraction(self.accounts.policy.defaults.epsilon), delta), mechanism).price

    def _norm_search(self, bounded: Bounded, vector: Vector, mechanism: str, tier: int) -> Priced:
        """The search for the norms of one vector of a release, at the price of a tier."""
        price = search_share(vector.groups) * self._default(mechanism) * Fraction(4) ** tier
        return price_release(norm_search(bounded, vector), Portion(mechanism, price, (price,), exact=True))

    def _known_norms(
        self, bounded: Bounded, vector: Vector, mechanism: str, tiers: Sequence[int]
    ) -> NormHistogram | None:
        """What an earlier search found: one of the same price first, so that a repeated query finds the same clip."""
        archive = self.accounts.archive(self.dataset)
        for each in tiers:
            search = self._norm_search(bounded, vector, mechanism, each)
            stored = self.accounts.ledger.find(archive.mark(search))
            if stored is not None and not self.accounts.owes(stored):
                return _histogram(vector, search, stored)
        return None

    def _wider_norms(
        self, bounded: Bounded, vector: Vector, mechanism: str, tiers: Sequence[int], catalog: Catalog
    ) -> NormHistogram | None:
        """What an earlier search found of the same release with fewer conditions."""
        for wider in with_fewer_conditions(bounded, vector, mechanism, catalog):
            known = self._known_norms(wider.bounded, wider.vector, mechanism, tiers)
            if known is not None:
                return known.of_fewer(wider.octaves, wider.vector.cells, vector.cells)
        return None

    def norms_query(self, draft: Draft) -> PreparedQuery:
        """All searches for norms that a query needs, as one charge."""
        plan = Plan(tuple(p.bounded.release for p in draft.unsearched), exp.Select(), (), (), None)
        return PreparedQuery(BEST_CLIP + draft.sql, plan, self._norms_bill(draft), ())

    def _norms_bill(self, draft: Draft) -> Bill:
        funds = draft.funds
        epsilon = funds.epsilon(sum((p.price for p in draft.unsearched), Fraction(0)))
        return Bill(draft.mechanism, epsilon, funds.conversion, draft.unsearched, funds.whole)

    # bounds ---------------------------------------------------------------------------------------------------------

    def require_room(self, draft: Draft) -> tuple[Subject, ...]:
        """The subjects to search for, if query and searches fit into what is left; both are refused if they do not.

        What somebody else searched for is shown, like any other release, only after it was counted.
        """
        new = tuple(subject for subject in draft.missing if self.bounds.read(subject) is None)
        for priced in draft.split.bill.releases:
            self.dataset.engine.emit(priced, None)
        asked, now = (self._charges(draft, subjects) for subjects in (draft.missing, new))
        self.accounts.ledger.afford(self.accounts.request(draft.sql, *now, asked=asked))
        return new

    def _charges(self, draft: Draft, subjects: Sequence[Subject]) -> tuple[Charge, Cost]:
        """What the query and these searches before it cost together."""
        bills = [draft.split.bill, *(self.bounds.search(subject)[1] for subject in subjects)]
        bills += [self._norms_bill(draft)] if draft.unsearched else []
        charges = [charge for bill in bills if (charge := charge_of(bill.releases)) is not None]
        cost = draft.funds.plus(self.cost(draft, subjects), self.norms_cost(draft))
        return reduce(add, charges), draft.funds.plus(draft.split.bill.cost, cost)

    def norms_cost(self, draft: Draft) -> Cost:
        """The cost of the searches for norms that are still to be made."""
        return self._norms_bill(draft).cost if draft.unsearched else FREE

    def bounds_query(self, subject: Subject) -> PreparedQuery:
        """The search for the bounds of one subject."""
        plan, bill = self.bounds.search(subject)
        return PreparedQuery(f"a private search: {subject}", plan, bill, ())

    def cost(self, draft: Draft, subjects: Sequence[Subject]) -> Cost:
        """What searches cost, in the currency of the query that they come before."""
        bills = [self.bounds.search(subject)[1] for subject in subjects]
        return reduce(draft.funds.plus, (bill.cost for bill in bills), FREE)


Place = tuple[str, tuple[int, ...], str | None]


def _place(bounded: Bounded, vector: Vector) -> Place:
    """The key that identifies a vector within its query."""
    return bounded.release.name, vector.members, vector.ranked


def _with_found(draft: Draft, found: Mapping[Place, NormHistogram | None]) -> Draft:
    """The draft with these histograms of norms."""
    bounded = tuple(
        replace(b, clipped=tuple(replace(each, found=found.get(_place(b, each.vector))) for each in b.clipped))
        for b in draft.bounded
    )
    return replace(draft, bounded=bounded)


def _chosen(draft: Draft, bounded: Bounded, vector: Vector) -> ClipChoice | None:
    """What the clip of a vector would be chosen by."""
    [priced] = (p for p in draft.split.bill.releases if p.bounded.release.name == bounded.release.name)
    clips = [each.clip for each in priced.bounded.clipped if _place(bounded, each.vector) == _place(bounded, vector)]
    return clips[0].choice if clips and clips[0] is not None else None


def _settled(draft: Draft, bounded: Bounded, vector: Vector) -> bool:
    """Did a search find enough units?"""
    choice = _chosen(draft, bounded, vector)
    return choice is not None and choice.found


def _serves(draft: Draft, of: tuple[Bounded, Vector], search: Priced, wider: NormHistogram) -> bool:
    """Would a search cost more than it buys, with the histogram of the same query with fewer conditions at hand?

    It buys nothing where that already leads to the least clip that there is, or where it would be likely to find too
    little: a condition is taken to leave a part of the units.
    """
    choice = _chosen(draft, *of)
    if choice is None or not choice.found:
        return False
    least = least_of_a_row(*of)
    mechanism: Literal["laplace", "gaussian"] = "laplace" if of[1].norm == "l1" else "gaussian"
    sd = _deviation(search) / norms_of(of[1].norm, of[1].cells).count
    return choice.clip <= least * ALMOST or not would_find(wider, mechanism, sd, LEFT)


def _deviation(search: Priced) -> float:
    """The standard deviation of a search's noise, in its integers."""
    noise, shift = search.noised[0].noise, search.noised[0].shift
    return float(noise.scale) * (sqrt(2) if isinstance(noise, DiscreteLaplace) else 1.0) * 2.0**shift


def _histogram(vector: Vector, search: Priced, stored: StoredRelease) -> NormHistogram:
    """A stored search as a histogram."""
    released = deserialize(stored.payload, search)
    counts, *spreads = (each.astype(np.float64) * 2.0 ** search.noised[0].shift for each in released.noisy)
    norms = norms_of(vector.norm, vector.cells)
    return read_norms(norms, counts, spreads[0] if spreads else None, _deviation(search))
