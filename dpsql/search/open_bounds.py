"""The bounds that a query needs and the policy leaves open: which are searched for, what is known, and the searches.

Whether a query needs a search is a function of its text and the policy: the bounds of a column are searched for if the
query cannot be planned without them, and rows per unit if it reads the table. What was found is read from the ledger,
where each search is a release like any other: charged once, then known for that version of the data.

Averages are centred where values usually lie. A column whose bounds do not say where that is gets searched for it, but
only out of the price of the query itself: as much of the price is set apart as these searches cost, whether or not they
were made before, so that a query costs what was asked for and a repeated one is a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.accounts import Accounts
from dpsql.answers.noise_stage import Released
from dpsql.answers.serialize import deserialize
from dpsql.bounds.domain import Domain
from dpsql.budget import StoredRelease
from dpsql.budget.pricing import Bill, allocate, choose_mechanism
from dpsql.dataset import Dataset
from dpsql.errors import UnboundedColumn
from dpsql.expressions.types import INT64, Kind, Type, integer
from dpsql.plan.builder.query import build
from dpsql.plan.catalog import Catalog, PrivateTable
from dpsql.plan.nodes.relation import Field, scans_in
from dpsql.plan.nodes.released_scan import released_in
from dpsql.plan.plan import Plan
from dpsql.plan.typical_ranges import columns_behind
from dpsql.policy import Policy, fold
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.query_draft import ParsedQuery, SearchKey
from dpsql.search.bounds_search import MOST_BUCKETS, bounds_from_histogram, search_plan
from dpsql.sensitivity.bound import Bounded, bound

ROWS = FoundBounds(None, 50)
NUMBERS = FoundBounds(-(2**20), 2**20)
NUMERIC = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
DATES = FoundBounds(date(1970, 1, 1), date(2100, 12, 31))
CENTRES = Fraction(1, 4)
"""The most of a query's price that may go into searches for where the values lie that it averages."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The catalogue with what was found, and what is still to be searched for.

    A subject that is missing has a stand-in there, so that all else that could refuse the query does so first.
    `apart` is what is set apart of the price of the query for searches that it could do without.
    """

    catalog: Catalog
    found: Mapping[Subject, FoundBounds]
    missing: tuple[Subject, ...] = ()
    apart: Fraction = Fraction(0)
    key: SearchKey = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found, as notes for the analyst."""
        return tuple(f"{subject}: {found}, found by a private search" for subject, found in self.found.items())


@dataclass(frozen=True, slots=True)
class Needs:
    """The subjects that a query cannot do without, and the columns that it averages, whose centre would help."""

    needed: tuple[Subject, ...] = ()
    averaged: tuple[Subject, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundSearches:
    """The searches for bounds of one session, over its dataset and accounts.

    What another analyst's search found is unknown here until it is counted against this analyst's cap.
    """

    dataset: Dataset
    accounts: Accounts

    @property
    def _policy(self) -> Policy:
        return self.accounts.policy

    def knowledge(self, needs: Needs, catalog: Catalog, mechanism: str, price: Fraction) -> Knowledge:
        """What is known of everything that a query with these needs has searched for at this price."""
        centres = self._affordable(needs.averaged, mechanism, price * CENTRES)
        sought = (*needs.needed, *centres)
        if not sought:
            return Knowledge(catalog, {})
        read = {subject: self.read(subject) for subject in sought}
        known = {s: made for s, made in read.items() if made is not None and not any(map(self.accounts.owes, made[1]))}
        found = {s: what for s, (what, _) in known.items() if what is not None}
        for subject in needs.needed:
            if subject in known and subject not in found:
                raise _not_found(subject)
        missing = tuple(subject for subject in sought if subject not in known)
        standing_in = {subject: self._stand_in(subject) for subject in missing}
        used = found | standing_in
        key = tuple((subject, what, what.usual) for subject, what in used.items())
        catalog = self.dataset.catalog_of(self._policy.with_found(used))
        return Knowledge(catalog, found, missing, sum(centres.values(), Fraction(0)), key)

    def _affordable(self, subjects: Iterable[Subject], mechanism: str, most: Fraction) -> dict[Subject, Fraction]:
        """The subjects whose searches together cost at most this much, with the price of each."""
        chosen: dict[Subject, Fraction] = {}
        for subject in subjects:
            _, bill = self.search(subject)
            price = sum((each.price for each in bill.releases), Fraction(0))
            if bill.mechanism == mechanism and price <= most - sum(chosen.values()):
                chosen[subject] = price
        return chosen

    def search(self, subject: Subject) -> tuple[Plan, Bill]:
        """The search as a plan at the policy's price for one; the same for every query and every analyst."""
        delta = Fraction(self.accounts.default_delta)
        mechanism = choose_mechanism(self._policy.defaults.mechanism, delta)
        plan, bounded = self._bounded_search(subject, mechanism)
        return plan, allocate(bounded, self.accounts.of_own(Fraction(self._policy.defaults.search), delta), mechanism)

    def _bounded_search(self, subject: Subject, mechanism: str) -> tuple[Plan, tuple[Bounded, ...]]:
        """The plan of a search with its bounds, made once for each state of the catalogue."""
        plans, catalog = self.dataset.search_plans, self.dataset.whole_catalog
        if (subject, mechanism) not in plans:
            plan = search_plan(subject, catalog)
            listed = replace(catalog, max_public_keys=max(catalog.max_public_keys, MOST_BUCKETS))
            plans[subject, mechanism] = plan, tuple(bound(release, mechanism, listed) for release in plan.releases)
        return plans[subject, mechanism]

    def read(self, subject: Subject) -> tuple[FoundBounds | None, tuple[StoredRelease, ...]] | None:
        """What an earlier search found, and its releases; None if there was none for this version of the data."""
        _, bill = self.search(subject)
        archive, stored = self.accounts.archive(self.dataset), list[StoredRelease]()
        released: dict[str, Released] = {}
        for priced in bill.releases:
            kept = self.accounts.ledger.find(archive.mark(priced))
            if kept is None:
                return None
            stored.append(kept)
            released[priced.bounded.release.name] = deserialize(kept.payload, priced)
        return bounds_from_histogram(subject, self._type(subject), released), tuple(stored)

    def needs(self, parsed: ParsedQuery, mechanism: str) -> Needs:
        """What a query needs: the columns that it cannot do without, and the rows per unit of each table that it reads.

        The plan is bounded to see what is missing; the mechanism makes no difference to that.
        """
        tree, catalog = parsed.tree, parsed.catalog
        explicit = [s for s in self._policy.searched() if _visible(s, catalog)]
        named = {column.name.casefold() for column in tree.find_all(exp.Column)}
        every = any(tree.find_all(exp.Star))
        implied = [s for s in self._left_open(catalog) if every or (s.column or "").casefold() in named]
        subjects = list(dict.fromkeys((*explicit, *implied)))
        if not subjects and not catalog.searches:
            return Needs()
        columns = [s for s in subjects if s.column is not None]
        needed: list[Subject] = []
        try:
            plan = parsed.planned((), catalog)
            parsed.bounded((), catalog, mechanism)
        except UnboundedColumn:
            if not columns:
                raise
            plan = self._planned(tree, self._standing_in(columns), mechanism)
            needed = columns
            for each in columns:
                others = [s for s in needed if s != each]
                with suppress(UnboundedColumn):
                    self._planned(tree, self._standing_in(others), mechanism)
                    needed = others
        scans = {fold(scan.table) for release in plan.releases for scan in scans_in(release.source)}
        kept = [s for s in subjects if s in needed or (s.column is None and fold(s.table) in scans)]
        averaged = dict.fromkeys(s for s in (self._centred(plan) if catalog.searches else ()) if s not in kept)
        return Needs(tuple(kept), tuple(averaged))

    def numbers(self) -> tuple[Subject, ...]:
        """All columns of numbers that a query may have searched, where the policy allows it."""
        return tuple(self._numbers(self.dataset.whole_catalog))

    def _numbers(self, catalog: Catalog) -> Iterator[Subject]:
        for table in catalog.tables.values() if catalog.searches else ():
            if isinstance(table, PrivateTable):
                declared = self._policy.tables[table.name].columns or {}
                for field in table.scan.fields:
                    known = field.stored is not None and field.stored[1] in declared
                    if known and field.type.kind in NUMERIC and field.domain.values is None:
                        yield Subject(*field.stored)  # type: ignore[misc]

    def _left_open(self, catalog: Catalog) -> Iterator[Subject]:
        """The numbers whose bounds the policy leaves open, without saying so, where it allows searches."""
        return (subject for subject in self._numbers(catalog) if self.bounds_needed(subject))

    def _centred(self, plan: Plan) -> Iterator[Subject]:
        """The columns that are averaged: an average is centred around where their values lie."""
        for release in plan.releases:
            if any(released_in(release.source)):
                continue
            sums = [a for a in release.aggregates if a.function in ("sum", "avg") and a.argument is not None]
            several = len({a.argument for a in sums}) > 1 or any(a.function == "count" for a in release.aggregates)
            for aggregate in sums:
                for stored in columns_behind(aggregate.argument, release.source):  # type: ignore[arg-type]
                    field = self._field(Subject(*stored))
                    numeric = field.type.kind in NUMERIC and field.domain.values is None
                    if numeric and _loose(field.domain) and (several or aggregate.function == "avg"):
                        yield Subject(*stored)

    def _standing_in(self, subjects: Iterable[Subject]) -> Catalog:
        return self.dataset.catalog_of(self._policy.with_found({s: self._stand_in(s) for s in subjects}))

    def _planned(self, tree: exp.Query, catalog: Catalog, mechanism: str) -> Plan:
        plan = build(tree, catalog, self.dataset.finisher.check)
        for release in plan.releases:
            bound(release, mechanism, catalog)
        return plan

    def _type(self, subject: Subject) -> Type:
        if subject.column is None:
            return integer(*INT64)
        return self._field(subject).type

    def _field(self, subject: Subject) -> Field:
        table = self.dataset.whole_catalog.find(subject.table)
        assert isinstance(table, PrivateTable)
        return next(f for f in table.scan.fields if fold(f.name) == fold(subject.column or ""))

    def bounds_needed(self, subject: Subject) -> bool:
        """Must it be searched for before it can be used? Of a column with declared bounds only the centre is sought."""
        return subject.column is None or (self._policy.tables[subject.table].columns or {})[subject.column].open

    def _stand_in(self, subject: Subject) -> FoundBounds:
        if subject.column is None:
            return ROWS
        return DATES if self._type(subject).kind in (Kind.DATE, Kind.TIMESTAMP) else NUMBERS


def _not_found(subject: Subject) -> UnboundedColumn:
    return UnboundedColumn(
        f"a private search saw too few units to tell {_of(subject)}",
        hint="ask the steward to declare them in the policy; a number can be clamped in the query: "
        "sum(least(greatest(x, 0), 1000))",
    )


def _of(subject: Subject) -> str:
    return f"the bounds of {subject}" if subject.column else str(subject)


def before(missing: Iterable[Subject], price: object, *, norms: bool = False) -> str:
    """What comes before a query whose bounds, or whose best clip, are not known yet."""
    sought = [*map(_of, missing), *(["how much one unit adds"] if norms else [])]
    return (
        f"first a private search for {' and '.join(sought)} ({price} together), charged once and then "
        "remembered: until it is made, a stand-in is shown in their place, and errors are not known"
    )


def _loose(domain: Domain) -> bool:
    """Whether the bounds do not show where the values lie: one is missing, or they lie around zero."""
    if domain.lower is None or domain.upper is None:
        return True
    low, high = float(domain.lower), float(domain.upper)
    return abs(low + high) <= 2 * (high - low)


def _visible(subject: Subject, catalog: Catalog) -> bool:
    table = catalog.find(subject.table)
    if not isinstance(table, PrivateTable):
        return False
    return subject.column is None or any(fold(f.name) == fold(subject.column) for f in table.scan.fields)
