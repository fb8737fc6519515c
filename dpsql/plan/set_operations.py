"""UNION ALL of private relations as a node; the other set operations are made of it, of grouping and of EXISTS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.expressions.types import Kind, Type
from dpsql.plan.relation import Relation, Scan, require
from dpsql.plan.size import below
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


def scans(relation: Relation) -> Iterator[Scan]:
    """The private tables that a relation reads."""
    if isinstance(relation, Scan):
        yield relation
    for inner in below(relation):
        yield from scans(inner)


def owner_types(*relations: Relation) -> set[Type]:
    """The types of the owners that rows of these relations may carry."""
    return {scan.unit_type for each in relations for scan in scans(each) if scan.unit_type is not None}


def one_id_space(parts: tuple[Relation, ...]) -> bool:
    """Are the owners of all parts compared without rounding?"""
    types = owner_types(*parts)
    return len(types) == 1 or all(t.kind is Kind.INTEGER for t in types)


def shared_rows(parts: tuple[Relation, ...]) -> bool:
    """Does a table whose rows are units stand in two parts, so that one unit would be read twice?"""
    read = [{fold(scan.table) for scan in scans(part) if scan.by_row} for part in parts]
    return sum(map(len, read)) != len(set().union(*read))
