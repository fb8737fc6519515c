"""Private relations as frozen nodes; each is unit-local by construction.

A relation is *unit-local* if every row has exactly one non-NULL owner and depends only on that owner's rows and on
public data. Every node keeps its owner as a hidden column, by lineage and never by name: an analyst can neither drop
nor replace it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dpsql.bounds.domain import Domain
from dpsql.bounds.known import Known
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column, Expression, Value, columns_of
from dpsql.expressions.types import BOOLEAN, Kind, Type
from dpsql.mechanisms import RandomizedResponse

UNIT = "unit"
HIDDEN = "#"
"""How the label of a key begins whose name the analyst may not see."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column that a relation offers. `attribute`: a function of the owner alone.

    `owner` labels how the value determines the owner: UNIT if it is the owner, `table.key` if it is a key of that
    table, whose row has the same owner (a verified foreign key); None if it tells nothing. `padded`: an outer join
    may have put NULL in its place, which tells nothing either. `ends` are what the policy answers to MIN and MAX.
    `response` says how the value was randomised before it was stored, where it was. `stored` names the table and column
    that it is read from, unchanged, and `behind` those that it is computed from; `usual` is around where its values
    lie, and how far around, if that was found.
    """

    name: str
    type: Type
    domain: Domain
    attribute: bool = False
    owner: str | None = None
    padded: bool = False
    ends: tuple[Value, Value] | None = field(default=None, compare=False, repr=False)
    stored: tuple[str, str] | None = field(default=None, compare=False, repr=False)
    behind: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    usual: tuple[float, float] | None = field(default=None, compare=False, repr=False)
    response: RandomizedResponse | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> bool:
        """Is it the owner itself, on every row?"""
        return self.owner == UNIT and not self.padded


def same_owner(one: Field, two: Field) -> bool:
    """Do two rows have the same owner wherever these columns are equal?

    **Theorem.** Two columns with one label and one type are equal only on rows of one owner.
    **Proof.** A label stands for one function f from values to owners, and the owner of a row is f(value) wherever
    the value is not NULL: for UNIT, f is the identity; for `table.key`, f gives the owner of the one row of `table`
    with that key. Equality is TRUE on values that are not NULL only, and it compares them without rounding (equal
    types, or whole numbers of any width); so f is taken at one point.
    **Requires** verified facts behind each label (`make_catalog`). **Checked by** the neighbour test of joins, and
    the planted bug "joined on another column".
    """
    whole = one.type.kind is Kind.INTEGER and two.type.kind is Kind.INTEGER
    return one.owner is not None and one.owner == two.owner and (one.type == two.type or whole)


@dataclass(frozen=True, slots=True)
class Item:
    """A named expression of a projection or a grouping."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate call; FILTER has already become a CASE inside `argument`. None is COUNT(*).

    `at` is the quantile that is asked for.
    """

    function: str
    argument: Expression | None
    distinct: bool = False
    at: Fraction | None = None

    def __str__(self) -> str:
        inside = "*" if self.argument is None else str(self.argument)
        if (self.function, self.at) == ("quantile_cont", Fraction(1, 2)):
            return f"median({inside})"
        place = "" if self.at is None else f", {float(self.at):g}"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{inside}{place})"


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
        **Requires** that `single` and the attributes of fields are what `dpsql.plan.invariants` recomputes from the
        tables, and functions that are deterministic (the allow-list of `dpsql.expressions`).
        **Checked by** the neighbour test's `one_group` rule (l0 = 1).
        """
        return self.single or self.by_row or all(self.field(name).attribute for name in columns_of(expression))

    def owner_of(self, expression: Expression) -> str | None:
        """The label of an expression that determines the owner on every row: only a column, unchanged, does."""
        field = self.field(expression.name) if isinstance(expression, Column) else None
        return None if field is None or field.padded else field.owner

    def is_unit(self, expression: Expression) -> bool:
        """Is the expression the owner itself, unchanged?"""
        return self.owner_of(expression) == UNIT

    @property
    def public(self) -> bool:
        """Is it made of public tables only? Then its rows have no owner."""
        return False


@dataclass(frozen=True, slots=True)
class Step:
    """One foreign key on the way to the owner: `column` names the row of `table` that has this `key`."""

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a table that is bounded at rest, as `dpsql prepare` wrote it (see `dpsql.plan.at_rest`).

    In its part `within` no unit has more than `rows` rows. With `over` all rows of units that have more are in its
    other part; without it they keep `rows` of them, and the rest was left out.
    """

    rows: int
    over: bool


@dataclass(frozen=True, slots=True)
class Scan(Relation):
    """A private table. Rows without owner are dropped here; `unit` is None where each row is its own unit.

    **Theorem.** With a `path`, the owner of a row is the `unit` of the row at its end, and there is at most one.
    **Proof.** Each step's key is verified to be unique, so each step leads to at most one row.
    **Requires** the verified foreign key of each step; `keys` are sets of columns that are verified to name at most one
    row each, NULL apart. **Checked by** the neighbour test of joins, and the planted bug "owner taken from another
    table".

    `hidden` is the unit's column where the analyst may not name it: rows keep their owner, and it is no field.
    `unit_type` is the owner's type, None where each row is its own unit. `copy` is a copy that is there too; with
    `part` that part of it is read, in place of the table. `capped`: the policy declares how many rows of a unit count.
    """

    table: str = ""
    unit: str | None = None
    path: tuple[Step, ...] = ()
    keys: frozenset[frozenset[str]] = frozenset()
    hidden: Field | None = None
    unit_type: Type | None = None
    copy: Copy | None = None
    part: Literal["within", "over"] | None = None
    capped: bool = field(default=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PublicScan(Relation):
    """A public table: its rows have no owner, and may be joined with anybody's. `keys` are as those of a scan."""

    table: str = ""
    keys: frozenset[frozenset[str]] = field(default=frozenset(), compare=False, repr=False)

    @property
    def public(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows on which a condition is true, and what is known of them."""

    source: Relation | None = None
    condition: Expression | None = None
    known: Known = field(default_factory=Known, compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.source is not None and self.condition is not None and self.condition.type == BOOLEAN, "filter")
        require(self.source.offers(self.condition), "filter reads what is not there")  # type: ignore[union-attr, arg-type]

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public


@dataclass(frozen=True, slots=True)
class Project(Relation):
    """New columns computed from each row; the owner stays."""

    source: Relation | None = None
    items: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        require(self.source is not None and len(self.fields) == len(self.items), "projection")
        require(all(self.source.offers(i.expression) for i in self.items), "projection reads what is not there")  # type: ignore[union-attr]

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public


@dataclass(frozen=True, slots=True)
class UnitGroup(Relation):
    """GROUP BY owner and `keys`: the aggregates read one unit's rows only, so the result is unit-local again."""

    source: Relation | None = None
    keys: tuple[Item, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        require(self.source is not None and not self.source.by_row, "per-unit grouping")
        require(not self.source.public, "public rows have no unit to group by")  # type: ignore[union-attr]


def require(holds: bool, what: str) -> None:
    """An invariant of the plan: a node that breaks it is never made."""
    if not holds:
        raise InternalError(f"plan invariant broken: {what}")
