"""What becomes of a query or subquery while it is planned, and the planner that its clauses call back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from sqlglot import exp

from dpsql.errors import Span
from dpsql.plan.builder.nested_queries import Nesting
from dpsql.plan.builder.size_limit import CteSize
from dpsql.plan.catalog import Catalog, PrivateTable
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.plan import Family, Output, Release


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """A unit-local query and the policy's private tables it reads."""

    relation: Relation
    tables: tuple[PrivateTable, ...]

    @property
    def name(self) -> str:
        """The tables, for messages."""
        *most, last = dict.fromkeys(table.name for table in self.tables)
        return f"{', '.join(most)} and {last}" if most else last

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [f.name for f in self.relation.fields]


@dataclass(frozen=True, slots=True)
class OpenQuery:
    """A query over released and public tables only: its rewritten tree and its columns.

    `below` gives its rows as a relation below an aggregate, if they are rows of public tables, filtered and computed,
    else None. `around` are the names that WITH gave a meaning to where it stands, `cte` the clause that gave its own.
    `key` are the places of columns that name at most one row.
    """

    node: exp.Expr
    outputs: tuple[Output, ...]
    row: str | None = None
    below: Callable[[], Relation | None] | None = None
    around: Mapping[str, Subplan] = field(default_factory=dict)
    cte: exp.CTE | None = None
    key: tuple[int, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [output.name for output in self.outputs]


Subplan = PrivateRows | OpenQuery

FromItem = tuple[Span | None, str, Subplan]
"""An item of FROM: where it stands, what it is called, and what it is."""


class Planner(Protocol):
    """One walk over a query: the tables, the names that it uses, what was collected, and the way into a query."""

    catalog: Catalog
    names: Collection[str] | None
    releases: list[Release]
    public: set[str]
    families: list[Family]
    nesting: Nesting
    shadowed: set[str]
    notes: list[str]
    used: CteSize

    def query(self, node: exp.Expr, ctes: Mapping[str, Subplan]) -> Subplan:
        """Any query."""

    def aside(self) -> Self:
        """One that knows the releases so far, and keeps its own to itself."""
