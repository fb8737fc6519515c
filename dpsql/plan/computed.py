"""Places in the syntax tree that stand for a column that the plan computes: a window function, or whether IN holds.

The mark is an object that no SQL text can make, so that no name an analyst writes is taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

_MARK = "computed"


@dataclass(frozen=True, slots=True)
class Computed:
    """The field that holds the value."""

    field: str


def computed(field: str, instead_of: exp.Expr) -> exp.Column:
    """A column for a computed field, at the place of what it computes."""
    made = exp.column(field, quoted=True)
    made.meta.update({key: value for key, value in instead_of.meta.items() if key != _MARK})
    made.meta[_MARK] = Computed(field)
    return made


def computed_field(node: exp.Expr) -> str | None:
    """The computed field that a column stands for, None for an ordinary name."""
    mark = node.meta.get(_MARK)
    return mark.field if isinstance(mark, Computed) else None


def outermost(root: exp.Expr, kind: type[exp.Expr] | tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """The nodes of a kind that stand in no other of them, and in no subquery."""
    found = []
    for node in root.walk(prune=lambda n: isinstance(n, kind) or (isinstance(n, exp.Query) and n is not root)):
        if isinstance(node, kind):
            found.append(node)
    return found
