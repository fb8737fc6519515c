"""A query on its way to a price: a question, then a draft that is planned and bounded, then a prepared query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property

from sqlglot import exp

from dpsql.answers.accuracy import Goal, cheapest
from dpsql.answers.finish import Finisher
from dpsql.answers.pilot_pricing import Stages
from dpsql.budget import Caps, Cost
from dpsql.budget.pricing import Bill, Funds, Priced, allocate, fund
from dpsql.budget.shares import Price
from dpsql.options import QueryOptions
from dpsql.plan.builder.query import build
from dpsql.plan.catalog import Catalog
from dpsql.plan.clock import now
from dpsql.plan.plan import Plan
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.sensitivity.bound import Bounded, bound
from dpsql.sensitivity.clip_checks import ClipCheck
from dpsql.sql import Parameters, meaning
from dpsql.steward_log import error_boundary

SearchKey = tuple[tuple[Subject, FoundBounds, tuple[float, float] | None], ...]
"""What is known from searches, and what stands in for what is not; empty for the analyst's own catalogue."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text, its parameters and its options; `settings` and `dialect` are those of the session.

    `moment` is what the clock means in it, however often it is planned.
    """

    sql: str
    parameters: Parameters | None
    options: QueryOptions
    settings: QueryOptions
    dialect: str
    moment: datetime = field(default_factory=now, compare=False)

    def by(self, mechanism: str) -> Question:
        """The same question with another mechanism."""
        return replace(self, options=replace(self.options, mechanism=mechanism))

    @property
    def key(self) -> str:
        """Questions with the same key have the same answer, unless they name an accuracy."""
        return repr((self.sql, meaning(self.parameters), self.options, self.settings, self.dialect))

    def plan_key(self, version: str, caps: Caps) -> str:
        """Questions with the same key have the same plan for a version of the data, unless they name an accuracy.

        A price that is a share of the budget is another one under other caps.
        """
        shown = replace(self, options=replace(self.options, nonnegative=False))
        return repr((shown.key, version, caps))


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as a syntax tree with its views expanded; `text` is what the log shows, `options` are those that hold.

    It is `timed` if it read the clock, and its `notes` say what follows of that.

    It is planned once over each catalogue and bounded once by each mechanism. A catalogue is the analyst's own with
    what is `known` from searches, which names it here.
    """

    text: str
    tree: exp.Query
    options: QueryOptions
    catalog: Catalog
    finisher: Finisher
    timed: bool = False
    notes: tuple[str, ...] = ()
    plans: dict[SearchKey, Plan] = field(default_factory=dict, compare=False, repr=False)
    bounds: dict[tuple[SearchKey, str], tuple[Bounded, ...]] = field(default_factory=dict, compare=False, repr=False)
    columns: dict[SearchKey, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    def planned(self, known: SearchKey, catalog: Catalog) -> Plan:
        """The plan over a catalogue."""
        if known not in self.plans:
            self.plans[known] = build(self.tree, catalog, self.finisher.check)
        return self.plans[known]

    def types(self, known: SearchKey, catalog: Catalog) -> tuple[str, ...]:
        """The types of the answer's columns."""
        if known not in self.columns:
            self.columns[known] = self.finisher.check(self.planned(known, catalog))
        return self.columns[known]

    def bounded(self, known: SearchKey, catalog: Catalog, mechanism: str) -> tuple[Bounded, ...]:
        """The releases of the plan over a catalogue, each with its bounds for a mechanism."""
        if (known, mechanism) not in self.bounds:
            plan = self.planned(known, catalog)
            self.bounds[known, mechanism] = tuple(bound(release, mechanism, catalog) for release in plan.releases)
        return self.bounds[known, mechanism]


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that is planned, bounded and priced. Nothing was read, and nothing was charged."""

    sql: str
    plan: Plan
    bill: Bill
    types: tuple[str, ...]
    checks: tuple[ClipCheck, ...] = ()
    total: Cost | None = None

    @property
    def cost(self) -> Cost:
        """What it costs, including the searches that come first."""
        return self.bill.cost if self.total is None else self.total


@dataclass(frozen=True)
class Draft:
    """A query that is planned and bounded but has no price yet, with the most that it may cost (`left`, if less).

    What has to be searched for first is `missing` (bounds that the policy leaves open) or `unsearched` (the norms of
    what its units add, already priced). `part` of the price is left for the query itself, whether or not it searches.
    """

    sql: str
    plan: Plan
    bounded: tuple[Bounded, ...]
    price: Price
    mechanism: str
    types: tuple[str, ...]
    checks: tuple[ClipCheck, ...] = ()
    left: Price | None = None
    missing: tuple[Subject, ...] = ()
    notes: tuple[str, ...] = ()
    unsearched: tuple[Priced, ...] = ()
    part: Fraction = Fraction(1)
    parsed: ParsedQuery | None = field(default=None, repr=False, compare=False)

    @property
    def timed(self) -> bool:
        """Whether the query read the clock."""
        return self.parsed is not None and self.parsed.timed

    def at(self, bill: Bill) -> PreparedQuery:
        """The query at a price."""
        return PreparedQuery(self.sql, self.plan, bill, self.types, self.checks)

    def within(self, price: Price) -> PreparedQuery:
        """The query at a price that is split equally."""
        releases = [*self.bounded, *(check.bounded for check in self.checks)]
        return self.at(allocate(releases, price, self.mechanism, self.part))

    def priced(self, goals: Sequence[Goal] = ()) -> PreparedQuery:
        """At the least price that meets the goals; without goals, at the price that was asked for."""
        with error_boundary(self.sql):
            if not goals:
                return self.split
            return self.at(cheapest(self.settled, self.plan, goals, self.funds))

    @cached_property
    def split(self) -> PreparedQuery:
        """The query at the most that it may cost."""
        return self.within(self.most)

    @property
    def funds(self) -> Funds:
        """What it may cost without searches, in the currency of its noise."""
        return self._funds(self.most)

    def _funds(self, price: Price) -> Funds:
        whole = fund(self.bounded, price, self.mechanism)
        return replace(whole, price=whole.price * self.part)

    @property
    def settled(self) -> tuple[Bounded, ...]:
        """The releases with the clips of the highest price: for an accuracy the clips stay and the price varies."""
        return tuple(priced.bounded for priced in self.split.bill.releases[: len(self.bounded)])

    @property
    def most(self) -> Price:
        """The most that it may cost."""
        return self.price if self.left is None else self.left

    def leaving(self, epsilon: Fraction) -> Draft:
        """The draft where no more than this ε is left."""
        return replace(self, left=self.price.within(epsilon, self._funds(self.price).conversion))

    @property
    def stages(self) -> Stages:
        """The price divided into pilots and a main release."""
        return Stages.out_of(self.settled, self.funds, self._funds(self.price).price)
