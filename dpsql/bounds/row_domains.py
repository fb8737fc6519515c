"""What is known of one row: the domain of each column, and of each expression that a predicate restricts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dpsql.bounds.domain import Domain, intersect, of_type, union
from dpsql.expressions.expression import Column, Expression


@dataclass(frozen=True, slots=True)
class RowDomains:
    """An immutable environment; every change gives a new one."""

    columns: Mapping[str, Domain] = field(default_factory=dict)
    refinements: Mapping[Expression, Domain] = field(default_factory=dict)

    def column(self, node: Column) -> Domain:
        """The domain of a column; a column that was never described is known by its type only."""
        return self.columns.get(node.name, of_type(node.type))

    def with_column(self, name: str, domain: Domain) -> RowDomains:
        """The same row with other knowledge of one column."""
        return RowDomains({**self.columns, name: domain}, self.refinements)

    def refined(self, expression: Expression, domain: Domain) -> RowDomains:
        """The same row, where the expression is known to lie in the domain as well."""
        if isinstance(expression, Column):
            return self.with_column(expression.name, intersect(self.column(expression), domain))
        before = self.refinements.get(expression)
        now = domain if before is None else intersect(before, domain)
        return RowDomains(self.columns, {**self.refinements, expression: now})

    def sharpen(self, expression: Expression, domain: Domain) -> Domain:
        """The inferred domain of an expression, intersected with what predicates imply."""
        said = self.refinements.get(expression)
        return domain if said is None else intersect(domain, said)

    @property
    def impossible(self) -> bool:
        """Is there no such row?"""
        return any(d.impossible for d in (*self.columns.values(), *self.refinements.values()))


def either(before: RowDomains, one: RowDomains, two: RowDomains) -> RowDomains:
    """What holds for a row of which one of two things became known; values stay in the order they had before.

    An expression that only one of them restricts is dropped.
    """
    if one.impossible or two.impossible:
        return two if one.impossible else one
    columns = {
        name: _in_order(union((domain, two.columns[name])), before.columns.get(name))
        for name, domain in one.columns.items() if name in two.columns
    }  # fmt: skip
    spoken = [e for e in one.refinements if e in two.refinements]
    return RowDomains(columns, {e: union((one.refinements[e], two.refinements[e])) for e in spoken})


def _in_order(domain: Domain, before: Domain | None) -> Domain:
    if domain.values is None or before is None or before.values is None:
        return domain
    kept = frozenset(domain.values)
    return replace(domain, values=tuple(v for v in before.values if v in kept))
