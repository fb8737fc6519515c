"""The result of planning: releases over private relations, and the finishing SQL over the released tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from dpsql.bounds.domain import Domain
from dpsql.plan.nodes.relation import Aggregate, Item, Relation


@dataclass(frozen=True, slots=True)
class Bar:
    """DP_LOW, DP_HIGH or DP_ERROR of an expression over one row of a release."""

    end: Literal["low", "high", "error"]
    expression: exp.Expr
    confidence: float


@dataclass(frozen=True, slots=True)
class Release:
    """An aggregate SELECT over a private relation: group keys and aggregates, each named once.

    `groups_per_unit` limits the groups in which a unit counts where keys are private, and also where they are public
    if the policy declares it (`groups_capped`). `listed` has the values of keys that read public tables only, by name.
    With `rates`, the query shows its aggregates only divided by one another. Where more than `existing_beyond` groups
    are possible, those of public keys are shown only if units are found in them; None: all of them are.
    In the finishing SQL it is the table `name` with the columns `_k0, _k1, …` and `_a0, _a1, …`; its error bars, which
    are computed from those, are the columns `_b0, _b1, …`.
    """

    name: str
    table: str
    source: Relation
    keys: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]
    groups_per_unit: int
    bars: tuple[Bar, ...] = ()
    listed: tuple[tuple[str, Domain], ...] = ()
    rates: bool = field(default=False, compare=False)
    groups_capped: bool = True
    existing_beyond: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One grouping set of a family: its release, and the names of the keys that it lacks."""

    release: str
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Family:
    """Releases of one SELECT with several grouping sets. In the finishing SQL it is the table `name`, their union.

    A row's `_row` there is the number of the released row times the number of members, plus the place of the member.
    """

    name: str
    members: tuple[Member, ...]

    def over(self, place: int, expression: exp.Expr) -> exp.Expr:
        """An expression over a row of the union as it is over a row of one member."""
        member = self.members[place]

        def own(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.table != self.name:
                return node
            if node.name == "_set":
                return exp.Literal.number(place)
            return exp.null() if node.name in member.missing else exp.column(node.name, table=member.release)

        return expression.copy().transform(own)


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer.

    `direct` is set if it is one aggregate of one release, unchanged; `formula` if it is an expression over one row of
    one release. `chosen`: it is a selected value, such as a median, or computed from one.
    """

    name: str
    noisy: bool
    direct: tuple[str, int] | None = None
    formula: tuple[str, exp.Expr] | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole query. `row` is the release or family whose row number the finishing SQL carries as its last column.

    `nested` are the queries whose answers its releases read. A release reads only those whose own releases come before
    it, so that they can be released in this order. `notes` are remarks on the answer that follow from the text alone.
    """

    releases: tuple[Release, ...]
    finishing: exp.Query
    public: tuple[str, ...]
    outputs: tuple[Output, ...]
    row: str | None
    families: tuple[Family, ...] = ()
    nested: tuple[NestedQuery, ...] = ()
    notes: tuple[str, ...] = ()

    def family(self, name: str) -> Family:
        """The family of that name; a release is one of its own."""
        return next((family for family in self.families if family.name == name), Family(name, (Member(name),)))


@dataclass(frozen=True, slots=True)
class NestedQuery:
    """A query whose answer is read below an aggregate, as the table `name`; without releases it is public.

    `key`, if known, are the positions of columns that name at most one row of it.
    """

    name: str
    plan: Plan
    key: tuple[int, ...] | None = None
