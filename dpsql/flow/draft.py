"""A query on its way to a price: planned and bounded, then priced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpsql.budget import Cost
from dpsql.budget.allocate import Bill, Funds, allocate, fund
from dpsql.flow.about import about
from dpsql.plan.plan import Plan
from dpsql.policy.auto import Subject
from dpsql.release.enough import Stages
from dpsql.release.least import cheapest
from dpsql.release.target import Goal
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
    """A query before it has a price: planned and bounded, with the most that it may cost (`left`, if less)."""

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

    def at(self, bill: Bill) -> Prepared:
        """The query at a price."""
        return Prepared(self.sql, self.plan, bill, self.types, self.checks)

    def within(self, epsilon: Fraction) -> Prepared:
        """The query at a price that is split equally."""
        releases = [*self.bounded, *(check.bounded for check in self.checks)]
        return self.at(allocate(releases, epsilon, self.delta, self.mechanism))

    def priced(self, goals: Sequence[Goal] = ()) -> Prepared:
        """At the least price that meets the goals; without goals, at the asked price."""
        with about(self.sql):
            if not goals:
                return self.split
            return self.at(cheapest(self.bounded, self.plan, goals, self.funds))

    @cached_property
    def split(self) -> Prepared:
        """The query at the most that it may cost."""
        return self.within(self.most)

    @property
    def funds(self) -> Funds:
        """What it may cost, in the currency of its noise."""
        return fund(self.bounded, self.most, self.delta, self.mechanism)

    @property
    def most(self) -> Fraction:
        """The ε that it may cost."""
        return self.epsilon if self.left is None else min(self.left, self.epsilon)

    @property
    def stages(self) -> Stages:
        """The same for pilots and a main release together."""
        limit = fund(self.bounded, self.epsilon, self.delta, self.mechanism).price
        return Stages.out_of(self.bounded, self.funds, limit)
