"""Filters, projections and grouping by the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpsql.bounds import infer, narrow
from dpsql.bounds.domain import RowDomains
from dpsql.bounds.infer import aggregate_domain
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.types import BOOLEAN
from dpsql.plan.nodes.relation import Aggregate, Field, Item, Relation, UniqueKeys, aggregate_type, require, shown_keys
from dpsql.plan.normal_form import conjuncts, normal
from dpsql.plan.typical_ranges import columns_behind, typical_range, typical_range_of_unit

# Nodes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows on which a condition is true, and what is known of them."""

    source: Relation | None = None
    condition: Expression | None = None
    known: RowDomains = field(default_factory=RowDomains, compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.source is not None and self.condition is not None and self.condition.type == BOOLEAN, "filter")
        require(self.source.offers(self.condition), "filter reads what is not there")  # type: ignore[union-attr, arg-type]

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public

    def row_domains(self) -> RowDomains:
        return self.known

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        return self.source.unique_keys()

    def stored_columns(self) -> tuple[str, Mapping[str, str]] | None:
        assert self.source is not None
        return self.source.stored_columns()

    def row_numbers(self) -> frozenset[str]:
        assert self.source is not None
        return self.source.row_numbers()


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

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        return shown_keys(self.source.unique_keys(), [(column, name) for name, column in self._columns()])

    def stored_columns(self) -> tuple[str, Mapping[str, str]] | None:
        below = None if self.source is None else self.source.stored_columns()
        return None if below is None else (below[0], {n: below[1][c] for n, c in self._columns() if c in below[1]})

    def row_numbers(self) -> frozenset[str]:
        numbers = frozenset[str]() if self.source is None else self.source.row_numbers()
        return frozenset(name for name, column in self._columns() if column in numbers)

    def _columns(self) -> list[tuple[str, str]]:
        """The items that are columns of the source, unchanged, and the name of that column."""
        return [(i.name, i.expression.name) for i in self.items if isinstance(i.expression, Column)]


@dataclass(frozen=True, slots=True)
class UnitGroup(Relation):
    """GROUP BY owner and `keys`: the aggregates read one unit's rows only, so the result is unit-local again."""

    source: Relation | None = None
    keys: tuple[Item, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        require(self.source is not None and not self.source.by_row, "per-unit grouping")
        require(not self.source.public, "public rows have no unit to group by")  # type: ignore[union-attr]

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        owned = any(self.source.owner_of(k.expression) is not None for k in self.keys)
        return frozenset({frozenset(k.name for k in self.keys)} if owned else ())


# Construction from a source ------------------------------------------------------------------------------------------


def filtered(source: Relation, condition: Expression) -> Relation:
    """A filter in its normal spelling, with the fields' domains narrowed by it."""
    condition = normal(condition)
    known = narrow(source.row_domains(), condition)
    fields = tuple(replace(f, domain=infer(Column(f.type, name=f.name), known)) for f in source.fields)
    left = rows_left(source, conjuncts(condition))
    rows = source.rows_per_unit if left is None else min(left, source.rows_per_unit)
    return Filter(fields, source.by_row, rows, source.single or left == 1, source, condition, known)


def _offered(source: Relation, item: Item, known: RowDomains) -> Field:
    """A named expression as a field; an unchanged column keeps its owner label."""
    expression = item.expression
    before = source.field(expression.name) if isinstance(expression, Column) else None
    owner, padded = (None, False) if before is None else (before.owner, before.padded)
    response = None if before is None else before.response
    attribute = source.is_attribute(expression)
    made = Field(item.name, expression.type, infer(expression, known), attribute, owner, padded, response=response)
    behind, usual = columns_behind(expression, source), typical_range(expression, source)
    return replace(made, stored=None if before is None else before.stored, behind=behind, usual=usual)


def projected(source: Relation, items: Sequence[Item]) -> Relation:
    """A projection, with the domain of each item inferred."""
    known = source.row_domains()
    fields = tuple(_offered(source, i, known) for i in items)
    return Project(fields, source.by_row, source.rows_per_unit, source.single, source, tuple(items))


def unit_grouped(source: Relation, keys: Sequence[Item], aggregates: Sequence[tuple[str, Aggregate]]) -> Relation:
    """GROUP BY the owner and `keys`; at most one row per unit if all keys are attributes of the unit.

    Where a key determines the owner this is GROUP BY `keys`: rows that agree on it have one owner.
    """
    known = source.row_domains()
    single = all(source.is_attribute(k.expression) for k in keys)
    rows = 1 if single else source.rows_per_unit
    fields = [_offered(source, k, known) for k in keys]
    for name, aggregate in aggregates:
        argument = None if aggregate.argument is None else infer(aggregate.argument, known)
        domain = aggregate_domain(aggregate.function, argument, source.rows_per_unit)
        made = Field(name, aggregate_type(aggregate, domain), domain, attribute=single)
        read = () if aggregate.argument is None else columns_behind(aggregate.argument, source)
        fields.append(replace(made, behind=read, usual=typical_range_of_unit(aggregate, source)))
    return UnitGroup(tuple(fields), False, rows, single, source, tuple(keys), tuple(aggregates))


# Conditions on row numbers -------------------------------------------------------------------------------------------


def rows_left(source: Relation, conditions: Sequence[Expression]) -> int | None:
    """At most how many rows of one unit satisfy all conditions; None if no condition on a row number limits them.

    **Theorem.** Where a column numbers a unit's rows, `column = c` leaves one row per unit, `column <= c` at most c.
    **Proof.** row_number() over a partition whose keys are all attributes has one partition per unit, and gives its
    rows the numbers 1, 2, …, each once. Filters leave out rows, projections and further columns keep them; so each
    number stands in at most one row of a unit.
    **Requires** attributes that are proved. **Checked by** the neighbour test of windows (rule `single_row`), and the
    planted bug "numbered within groups".
    """
    columns = source.row_numbers()
    return min((n for c in conditions if (n := _most(c, columns)) is not None), default=None)


def _most(condition: Expression, columns: frozenset[str]) -> int | None:
    if not isinstance(condition, Call) or not isinstance(condition.args[0], Column):
        return None
    column, *others = condition.args
    values = [o.value for o in others if isinstance(o, Literal) and type(o.value) is int]
    if column.name not in columns or len(values) != len(others):  # type: ignore[attr-defined]
        return None
    match condition.op:
        case "eq" | "in":
            return len(values)
        case "le":
            return max(1, values[0])
        case "lt":
            return max(1, values[0] - 1)
    return None
