"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.bounds.casts import widened
from dpsql.bounds.domain import union
from dpsql.expressions.expression import Column
from dpsql.expressions.types import Kind, Type
from dpsql.expressions.typing import common
from dpsql.plan.nodes.relation import (
    Field,
    Relation,
    require,
    same_owner,
    scans_in,
)
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class UnionAll(Relation):
    """All rows of the parts, each with its own owner; columns are matched by place.

    **Theorem.** The union is unit-local, with at most as many rows per unit as its parts have together. Where rows
    are units, each gives at most one row.
    **Proof.** Each row is a row of one part, with that part's owner, whose rows alone it depends on. Owners are
    compared across the parts without rounding: their types are equal, or all whole numbers, so no two units become
    one and none becomes two. A row that is a unit stands in one table, and the tables of the parts are disjoint, so it
    is read by one part only, which makes at most one row of it.
    **Requires** no public part (its rows have no owner), parts whose units are all rows or all not, and one id space.
    **Checked by** the neighbour test of set operations, and the planted bugs "the owner of one side dropped" and "a
    row that is a unit read twice".
    """

    parts: tuple[Relation, ...] = ()

    def __post_init__(self) -> None:
        parts = self.parts
        require(len(parts) > 1 and len({len(p.fields) for p in (self, *parts)}) == 1, "a union of unequal parts")
        require(not any(p.public for p in parts), "rows without owner in a union")
        require(len({p.by_row for p in (self, *parts)}) == 1, "a union of rows that are units with others")
        require(one_id_space(parts) and not shared_rows(parts), "a union across owners")
        require(self.by_row or not self.single, "a union with one row per unit")
        require(all(not f.attribute or f.unit or self.by_row for f in self.fields), "a union's column as an attribute")


def owner_types(*relations: Relation) -> set[Type]:
    """The types of the owners that rows of these relations may carry."""
    return {scan.unit_type for each in relations for scan in scans_in(each) if scan.unit_type is not None}


def one_id_space(parts: tuple[Relation, ...]) -> bool:
    """Are the owners of all parts compared without rounding?"""
    types = owner_types(*parts)
    return len(types) == 1 or all(t.kind is Kind.INTEGER for t in types)


def shared_rows(parts: tuple[Relation, ...]) -> bool:
    """Is a table whose rows are units read by two parts, so that one unit would be read twice?"""
    read = [{fold(scan.table) for scan in scans_in(part) if scan.by_row} for part in parts]
    return sum(map(len, read)) != len(set().union(*read))


def union_all(parts: Sequence[Relation]) -> UnionAll:
    """UNION ALL: only the unit itself remains an attribute, since every part contributes to every other column."""
    by_row = parts[0].by_row
    fields = tuple(_merged(column, by_row) for column in zip(*(p.fields for p in parts), strict=True))
    rows = 1 if by_row else sum(p.rows_per_unit for p in parts)
    flat = [each for p in parts for each in (p.parts if isinstance(p, UnionAll) and _alike(p, fields) else (p,))]
    return UnionAll(fields, by_row, rows, by_row, tuple(flat))


def _alike(part: UnionAll, fields: Sequence[Field]) -> bool:
    """Are its columns already of the union's types? Then its parts can be read one by one."""
    return all(a.type == b.type for a, b in zip(part.fields, fields, strict=True))


def _merged(column: Sequence[Field], by_row: bool) -> Field:
    type_, _ = common([Column(f.type, name=f.name) for f in column])
    first = column[0]
    owner = first.owner if all(same_owner(first, f) for f in column) else None
    padded = any(f.padded for f in column)
    domain = union(widened(f.domain, f.type, type_) for f in column)
    made = Field(first.name, type_, domain, owner=owner, padded=padded)
    return replace(made, attribute=made.unit or by_row)
