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
    """A unit-local query, and the private tables that it reads."""

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

    `below` returns its rows as a relation below an aggregate if it only filters and projects public tables, otherwise
    None. `around` are the CTEs in scope, `cte` is its own. `key`: the positions of columns that identify one row at
    most.
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
"""An item of FROM: its span, its name and its subplan."""


class Planner(Protocol):
    """One pass over a query: the catalogue, the names used, what was collected, and how to plan a subquery."""

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
        """A copy that knows the releases so far, and does not add its own to them."""
