"""A query on its way to a price: planned and bounded, then priced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dpsql.answers.accuracy import Goal, cheapest
from dpsql.answers.pilot_pricing import Stages
from dpsql.budget import Cost
from dpsql.budget.pricing import Bill, Funds, Priced, allocate, fund
from dpsql.flow.about import about
from dpsql.plan.plan import Plan
from dpsql.policy.searched_subjects import Subject
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clipped import Check


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query up to the budget stage: planned, bounded, priced; nothing was touched or spent."""

    sql: str
    plan: Plan
    bill: Bill
    types: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    total: Cost | None = None

    @property
    def cost(self) -> Cost:
        """What it costs, with searches that come first."""
        return self.bill.cost if self.total is None else self.total


@dataclass(frozen=True)
class Draft:
    """A query before it has a price: planned and bounded, with the most that it may cost (`left`, if less).

    What it has to search for first is `missing` (bounds that the policy leaves open) or `unsearched` (the norms of its
    units, already priced); `part` of the price is left for the query itself, whether or not it has to search.
    """

    sql: str
    plan: Plan
    bounded: tuple[Bounded, ...]
    epsilon: Fraction
    delta: Fraction
    mechanism: str
    types: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    left: Fraction | None = None
    missing: tuple[Subject, ...] = ()
    notes: tuple[str, ...] = ()
    unsearched: tuple[Priced, ...] = ()
    part: Fraction = Fraction(1)

    def at(self, bill: Bill) -> Prepared:
        """The query at a price."""
        return Prepared(self.sql, self.plan, bill, self.types, self.checks)

    def within(self, epsilon: Fraction) -> Prepared:
        """The query at a price that is split equally."""
        releases = [*self.bounded, *(check.bounded for check in self.checks)]
        return self.at(allocate(releases, epsilon, self.delta, self.mechanism, self.part))

    def priced(self, goals: Sequence[Goal] = ()) -> Prepared:
        """At the least price that meets the goals; without goals, at the asked price."""
        with about(self.sql):
            if not goals:
                return self.split
            return self.at(cheapest(self.settled, self.plan, goals, self.funds))

    @cached_property
    def split(self) -> Prepared:
        """The query at the most that it may cost."""
        return self.within(self.most)

    @property
    def funds(self) -> Funds:
        """What it may cost without searches, in the currency of its noise."""
        return self._funds(self.most)

    def _funds(self, epsilon: Fraction) -> Funds:
        whole = fund(self.bounded, epsilon, self.delta, self.mechanism)
        return replace(whole, price=whole.price * self.part)

    @property
    def settled(self) -> tuple[Bounded, ...]:
        """The releases with the clips of the most that the query may cost: for an accuracy they stay, and it varies."""
        return tuple(priced.bounded for priced in self.split.bill.releases[: len(self.bounded)])

    @property
    def most(self) -> Fraction:
        """The ε that it may cost."""
        return self.epsilon if self.left is None else min(self.left, self.epsilon)

    @property
    def stages(self) -> Stages:
        """The same for pilots and a main release together."""
        return Stages.out_of(self.settled, self.funds, self._funds(self.epsilon).price)
