"""What the parts of the planner ask of the walk over a query that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, Self

from sqlglot import exp

from dpsql.plan.catalog import Catalog
from dpsql.plan.made import Made
from dpsql.plan.nested import Nesting
from dpsql.plan.plan import Family, Release
from dpsql.plan.size import Used


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
    used: Used

    def query(self, node: exp.Expr, ctes: Mapping[str, Made]) -> Made:
        """Any query."""

    def aside(self) -> Self:
        """One that knows the releases so far, and keeps its own to itself."""
