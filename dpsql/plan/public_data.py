"""What the planner may ask about public tables. They are public, so keys, bounds and costs may depend on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Expression
from dpsql.plan.nodes.relation import Relation


class PublicData(Protocol):
    """Answered by the engine, exactly."""

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Do the columns together (NULL apart) name at most one row, now and when the query runs?

        Rules skip enforcement on the strength of it: only a constraint counts where somebody may still write.
        """

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """The values of each column: listed if they are few, else from the least to the largest."""

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """The values that an expression takes over a public relation; None if there are more than `most`."""

    def forget(self) -> None:
        """Ask again: somebody may have written to the tables."""


class NoPublicData:
    """Knows nothing: for plans without public tables."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Unknown."""
        return False

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """Unknown."""
        return {}

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """Unknown."""
        return None
