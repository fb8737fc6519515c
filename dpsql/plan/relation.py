"""Private relations as frozen nodes; each is unit-local by construction.

A relation is *unit-local* if every row has exactly one non-NULL owner and depends only on that owner's rows and on
public data. Every node keeps its owner as a hidden column, by lineage and never by name: an analyst can neither drop
nor replace it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.bounds.domain import Domain
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.expressions.types import BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Field:
    """A column that a relation offers. `attribute`: a function of the owner alone; `unit`: the owner itself."""

    name: str
    type: Type
    domain: Domain
    attribute: bool = False
    unit: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A named expression of a projection or a grouping."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate call; FILTER has already become a CASE inside `argument`. None is COUNT(*)."""

    function: str
    argument: Expression | None
    distinct: bool = False

    def __str__(self) -> str:
        inside = "*" if self.argument is None else str(self.argument)
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{inside})"


@dataclass(frozen=True, slots=True)
class Relation:
    """What all nodes share: the visible fields, and how many rows one unit may own.

    `rows_per_unit` is declared (the emitted SQL enforces it where it matters); `single` is *proved*: at most one row
    per unit on any data (verified uniqueness, or GROUP BY the unit).
    """

    fields: tuple[Field, ...]
    by_row: bool
    rows_per_unit: int
    single: bool

    def field(self, name: str) -> Field:
        """The field of that exact name."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise InternalError(f"plan invariant broken: no field {name}")

    def offers(self, expression: Expression) -> bool:
        """Can the expression be computed from a row of this relation?"""
        return columns_of(expression) <= {field.name for field in self.fields}

    def is_attribute(self, expression: Expression) -> bool:
        """Is the expression a function of the owner alone?

        **Theorem.** If `single` or if every column read is an attribute, all rows of one owner agree on the value.
        **Proof.** One row agrees with itself; expressions are deterministic, so equal operands give equal values.
        **Checked by** the neighbour test's `one_group` rule (l0 = 1).
        """
        return self.single or self.by_row or all(self.field(name).attribute for name in columns_of(expression))

    def is_unit(self, expression: Expression) -> bool:
        """Is the expression the owner itself, unchanged?"""
        return isinstance(expression, Column) and self.field(expression.name).unit


@dataclass(frozen=True, slots=True)
class Scan(Relation):
    """A private table. Rows without owner are dropped here; `unit` is None where each row is its own unit.

    `hidden` is the unit's column where the analyst may not name it: rows keep their owner, and it is no field.
    """

    table: str = ""
    unit: str | None = None
    hidden: Field | None = None

    @property
    def owner(self) -> Field | None:
        """The column that names the owner of a row."""
        return self.hidden if self.hidden is not None or self.unit is None else self.field(self.unit)


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows on which a condition is true."""

    source: Relation | None = None
    condition: Expression | None = None

    def __post_init__(self) -> None:
        _require(self.source is not None and self.condition is not None and self.condition.type == BOOLEAN, "filter")
        _require(self.source.offers(self.condition), "filter reads what is not there")  # type: ignore[union-attr, arg-type]


@dataclass(frozen=True, slots=True)
class Project(Relation):
    """New columns computed from each row; the owner stays."""

    source: Relation | None = None
    items: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        _require(self.source is not None and len(self.fields) == len(self.items), "projection")
        _require(all(self.source.offers(i.expression) for i in self.items), "projection reads what is not there")  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class UnitGroup(Relation):
    """GROUP BY owner and `keys`: the aggregates read one unit's rows only, so the result is unit-local again."""

    source: Relation | None = None
    keys: tuple[Item, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        _require(self.source is not None and not self.source.by_row, "per-unit grouping")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InternalError(f"plan invariant broken: {what}")
