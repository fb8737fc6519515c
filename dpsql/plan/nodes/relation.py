"""Relational nodes: what every node of a plan shares, and the scans at its leaves.

Nodes are frozen, and each is unit-local by construction.

A relation is *unit-local* if every row has exactly one non-NULL owner and depends only on that owner's rows and on
public data. Every node carries the owner as a hidden column, tracked by lineage and never by name, so an analyst can
neither drop nor replace it.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction

from dpsql.bounds.domain import Domain, RowDomains
from dpsql.errors import InternalError, UnboundedColumn
from dpsql.expressions.expression import Column, Expression, Value, columns_of
from dpsql.expressions.types import DOUBLE, INT64, INT128, Kind, Type, decimal, integer
from dpsql.mechanisms import RandomizedResponse
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse

UNIT = "unit"

UniqueKeys = frozenset[frozenset[str]]

HIDDEN = "#"
"""The prefix of the label of a key whose name the analyst may not see."""


@dataclass(frozen=True, slots=True)
class Field:
    """A visible column of a relation. `attribute`: it is a function of the owner alone.

    `owner` labels how the value determines the owner: UNIT if it is the owner, `table.key` if it is a key of that
    table, whose row has the same owner (a verified foreign key), otherwise None. `padded`: an outer join may have
    replaced it by NULL, which determines no owner. `ends` are the answers of the policy to MIN and MAX. `response`
    describes the randomisation at the source, if any. `stored` is the table and column that it is read from
    unchanged, `behind` those that it is computed from; `usual` is the centre and spread of its values, if known.
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

    `at` is the requested quantile.
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
    """The common part of all nodes: the visible fields, and how many rows one unit may own.

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
        """The owner label of an expression that determines the owner on every row; only unchanged columns have one."""
        field = self.field(expression.name) if isinstance(expression, Column) else None
        return None if field is None or field.padded else field.owner

    def is_unit(self, expression: Expression) -> bool:
        """Is the expression the owner itself, unchanged?"""
        return self.owner_of(expression) == UNIT

    @property
    def public(self) -> bool:
        """Is it made of public tables only? Then its rows have no owner."""
        return False

    def row_domains(self) -> RowDomains:
        """The domains of the fields, and of expressions that the filters below restrict."""
        return RowDomains({f.name: f.domain for f in self.fields})

    def unique_keys(self) -> UniqueKeys:
        """Sets of fields that identify at most one row, ignoring NULL, on any data; the empty set: there is one row.

        **Theorem.** No two rows of the relation agree on all fields of a key with none of them NULL. **Proof.** By
        induction over the nodes, each of which has a method of this name. A table: verified. A filter, EXISTS (as a
        filter or a column) and window functions add no rows and change no field; a projection keeps a key whose
        fields it shows unchanged. A grouping has one row for each combination of its keys and owner, and one of the
        keys determines the owner. An inner join: two of its rows that agree on a key of each root come from the same
        rows of the roots, hence of the sides that are looked up. An outer join: two of its rows that agree on a key
        of the left side, not NULL there, come from one left row; they are the same row if each left row has at most
        one match, or if they also agree on a key of the right side. Unmatched rows are NULL on the other side, so a
        key with fields there does not cover them; the empty key would, so a FULL join does not have it. A union has
        no keys: both sides may contain the same row.
        **Requires** verified keys of tables (`make_catalog`), and `lookups` and `once` that hold (`looked_up`).
        **Checked by** `tests/properties/test_join_flags.py`, which looks for two such rows, and the planted bugs "a
        join believes half of a key" and "a key outlives the join that repeats it".
        """
        return frozenset()

    def stored_columns(self) -> tuple[str, Mapping[str, str]] | None:
        """For a public table under filters and projections: its name, and its column for each unchanged field."""
        return None

    def row_numbers(self) -> frozenset[str]:
        """The fields that number the rows of each unit, each number at most once."""
        return frozenset()


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
    `unowned` is the column without which a row has no owner, "" if it cannot be named here, and None if neither the
    policy nor the schema leaves room for such rows.
    """

    table: str = ""
    unit: str | None = None
    path: tuple[Step, ...] = ()
    keys: frozenset[frozenset[str]] = frozenset()
    hidden: Field | None = None
    unit_type: Type | None = None
    copy: Copy | None = None
    part: typing.Literal["within", "over"] | None = None
    capped: bool = field(default=True, compare=False, repr=False)
    unowned: str | None = field(default=None, compare=False, repr=False)

    def unique_keys(self) -> UniqueKeys:
        return self.keys


@dataclass(frozen=True, slots=True)
class PublicScan(Relation):
    """A public table: its rows have no owner, and may be joined with anybody's. `keys` are as those of a scan."""

    table: str = ""
    keys: frozenset[frozenset[str]] = field(default=frozenset(), compare=False, repr=False)

    @property
    def public(self) -> bool:
        return True

    def unique_keys(self) -> UniqueKeys:
        return self.keys

    def stored_columns(self) -> tuple[str, Mapping[str, str]] | None:
        return self.table, {f.name: f.name for f in self.fields}


def require(holds: bool, what: str) -> None:
    """An invariant of the plan: a node that violates it cannot be constructed."""
    if not holds:
        raise InternalError(f"plan invariant broken: {what}")


# Sides of a join -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A side of a join: a relation, and the names of its fields in the join."""

    relation: Relation
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(len(self.names) == len(self.relation.fields), "a name for each field")

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields as the join calls them."""
        return tuple(replace(f, name=n) for f, n in zip(self.relation.fields, self.names, strict=True))

    @property
    def private(self) -> bool:
        """Do its rows have owners?"""
        return not self.relation.public

    def own(self, names: frozenset[str]) -> frozenset[str]:
        """The relation's own names of some of the join's fields."""
        return frozenset(f.name for f, n in zip(self.relation.fields, self.names, strict=True) if n in names)

    def unique_keys(self) -> UniqueKeys:
        """The keys of the relation, as the join calls their fields."""
        names = [(f.name, n) for f, n in zip(self.relation.fields, self.names, strict=True)]
        return shown_keys(self.relation.unique_keys(), names)


def side_of(relation: Relation) -> JoinSide:
    """A relation whose fields keep their names."""
    return JoinSide(relation, tuple(f.name for f in relation.fields))


def shown_keys(keys: UniqueKeys, names: Sequence[tuple[str, str]]) -> UniqueKeys:
    """Keys under other names; a key with a field that is not shown is dropped."""
    shown = dict(names)
    return frozenset(frozenset(shown[c] for c in key) for key in keys if key <= shown.keys())


# Trees of nodes ------------------------------------------------------------------------------------------------------


def children(relation: Relation) -> Iterator[Relation]:
    """The relations that a relation is made of."""
    for each in fields(relation):
        held = getattr(relation, each.name)
        for part in held if isinstance(held, tuple) else (held,):
            inner = part.relation if isinstance(part, JoinSide) else part
            if isinstance(inner, Relation):
                yield inner


def scans_in(node: object) -> Iterator[Scan]:
    """The private tables that a relation reads, at any depth."""
    if isinstance(node, Scan):
        yield node
    elif isinstance(node, Relation | JoinSide):
        for each in fields(node):
            yield from scans_in(getattr(node, each.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from scans_in(item)


# Types of aggregates -------------------------------------------------------------------------------------------------


def aggregate_type(aggregate: Aggregate, domain: Domain) -> Type:
    """The type of a per-unit aggregate. Sums are exact: integers by type, doubles on a grid that needs bounds."""
    argument = aggregate.argument
    if aggregate.function == "count":
        return integer(0, 2**62)
    assert argument is not None
    wide = argument.type == DOUBLE or argument.type.lower < INT64[0] or argument.type.upper > INT64[1]
    if wide and aggregate.function in ("sum", "avg") and not domain.bounded:
        raise unbounded(aggregate.function, argument)
    if aggregate.function == "avg":
        return DOUBLE
    if aggregate.function == "sum" and argument.type != DOUBLE:
        if domain.lower is None or domain.upper is None:
            return integer(*INT128) if argument.type.kind is Kind.INTEGER else DOUBLE
        if wide and max(-domain.lower, domain.upper) >= 2**50:
            return DOUBLE
        scale = 10**argument.type.scale
        return decimal(int(domain.lower * scale), int(domain.upper * scale), argument.type.scale)
    return argument.type


def unbounded(function: str, argument: Expression) -> UnboundedColumn:
    """The refusal of a sum without bounds, with both remedies."""
    error = refuse(
        f"{function.upper()}({argument}) needs bounds: how much one row can add cannot be inferred for {argument}",
        argument.span,
        kind=UnboundedColumn,
        hint=f"clamp it in the query to bounds of your own, such as {function}(least(greatest({argument}, 0), 1000)), "
        f"or ask the steward to declare min and max for the column in the policy",
        reason="bounds",
    )
    assert isinstance(error, UnboundedColumn)
    return error


# Names ---------------------------------------------------------------------------------------------------------------


def unused_name(name: str, taken: set[str]) -> str:
    """The name with a suffix that makes it unused; it is added to `taken`."""
    while fold(name) in taken:
        name += "'"
    taken.add(fold(name))
    return name
