"""The small worlds of a search: a few of the steward's units, one that exceeds every bound, and their neighbours."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from dpsql.audit.column_values import values_of
from dpsql.audit.world import Cell, Row, RowUnit, StoredTable, Unit, World, text_of
from dpsql.expressions.types import Kind, from_engine
from dpsql.policy.identifiers import Names
from dpsql.policy.model import DeclaredColumn, ForeignKey
from dpsql.policy.searched_subjects import FoundBounds, Subject

FEW_UNITS, FEW_ROWS = 6, 8


def part_of(world: World, rng: random.Random) -> World:
    """A few units of a world, with the rows of nobody; and a unit that goes too far, where one can be made."""
    units = world.units()
    own = [unit for unit in units if not isinstance(unit, RowUnit)]
    rows = [unit for unit in units if isinstance(unit, RowUnit)]
    chosen = {*rng.sample(own, min(len(own), FEW_UNITS)), *rng.sample(rows, min(len(rows), FEW_ROWS))}
    small = world.keeping(lambda owner: owner is None or owner in chosen)
    return with_extreme(small, rng) or small


def settled(world: World, rng: random.Random) -> World:
    """The world with something found wherever the policy leaves bounds to a search: the search itself is apart."""
    subjects = world.policy.searched()
    if not subjects:
        return world
    policy = world.policy.with_found({subject: _found(world, subject, rng) for subject in subjects})
    tables = {
        name: table
        if table.columns is None
        else table.model_copy(update={"columns": Names({c: _declared(s) for c, s in table.columns.items()})})
        for name, table in policy.tables.items()
    }
    return replace(world, policy=policy.model_copy(update={"tables": Names(tables)}))


def _declared(column: DeclaredColumn) -> DeclaredColumn:
    return column.model_copy(update={"bounds": None}) if column.bounds else column


def _found(world: World, subject: Subject, rng: random.Random) -> FoundBounds:
    if subject.column is None:
        return FoundBounds(None, rng.choice((1, 2, 5)))
    stored = next(t for name, t in world.tables.items() if name.casefold() == subject.table.casefold())
    known = from_engine(list(stored.columns.values())[stored.place(subject.column)])
    if known is not None and known.temporal:
        values = values_of("DATE", DeclaredColumn())
        return FoundBounds(*values.edges[:2])  # type: ignore[arg-type]
    return FoundBounds(rng.choice((-5, 0)), rng.choice((1, 10)))


# a unit that goes too far ---------------------------------------------------------------------------------------------


def with_extreme(world: World, rng: random.Random) -> World | None:
    """The world with one more unit: too many rows, at the bounds and beyond, in the groups of others."""
    try:
        return world.adding(_Extreme(world, rng).rows())
    except _CannotBeMade:
        return None


class _CannotBeMade(Exception):
    """A key of a type for which no fresh value is known."""


class _Extreme:
    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.made: dict[str, list[Row]] = {}

    def rows(self) -> dict[str, list[Row]]:
        for name, stored in self.world.tables.items():
            declared = self.world.policy.tables.get(name)
            if declared is not None and declared.unit_column is not None:
                self.made[name] = self._rows(name, stored)
        return self.made

    def _rows(self, name: str, stored: StoredTable) -> list[Row]:
        declared = self.world.policy.tables[name]
        place = stored.place(declared.unit_column or "")
        if isinstance(declared.unit, ForeignKey):
            parent = self.world._spelled(declared.unit.table)
            key = self.world.tables[parent].place(declared.unit.key)
            links: list[Cell] = [row[key] for row in self.made.get(parent, ()) if row[key] is not None]
        else:
            links = [self._fresh_unit()]
        if not links:
            return []
        unique = _unique(stored)
        many = 1 if place in unique else self.rng.choice((3, 6, 12))
        rows = [self._row(name, stored, place, self.rng.choice(links), unique, i) for i in range(many)]
        for places in _keys(stored):
            rows = _without_duplicates(rows, places)
        return rows

    def _row(self, name: str, stored: StoredTable, place: int, link: Cell, unique: set[int], number: int) -> Row:
        declared = self.world.policy.tables[name]
        row: list[Cell] = []
        for i, (column, type_) in enumerate(stored.columns.items()):
            others = [each[i] for each in stored.rows[:20]]
            spec = (declared.columns or {}).get(column) or DeclaredColumn()
            if i == place:
                row.append(link)
            elif i in unique:
                row.append(_fresh(type_, [each[i] for each in stored.rows], number))
            elif others and self.rng.random() < 0.4:
                row.append(self.rng.choice(others))
            else:
                row.append(values_of(type_, spec).extreme(self.rng))
        return tuple(row)

    def _fresh_unit(self) -> Cell:
        """A new unit that all unit columns can hold: of another type than text if there is one: text holds it too."""
        types = []
        for name, stored in self.world.tables.items():
            declared = self.world.policy.tables.get(name)
            if declared is not None and declared.unit_column and not isinstance(declared.unit, ForeignKey):
                types.append(list(stored.columns.values())[stored.place(declared.unit_column)])
        if not types:
            raise _CannotBeMade
        taken: list[Cell] = [u for u in self.world.units() if isinstance(u, str)]
        return _fresh(min(types, key=lambda type_: type_.upper() == "VARCHAR"), taken, 0)


_NAME = re.compile(r'"((?:[^"]|"")+)"|([^",\s]+)')


def _keys(stored: StoredTable) -> list[list[int]]:
    """The places of the columns of each unique constraint."""
    found = [re.fullmatch(r"(?:UNIQUE|PRIMARY KEY) \((.+)\)", each) for each in stored.constraints]
    listed = [_NAME.findall(each[1]) for each in found if each]
    return [[stored.place(quoted.replace('""', '"') or plain) for quoted, plain in names] for names in listed]


def _unique(stored: StoredTable) -> set[int]:
    """The places of the columns that are unique by themselves."""
    return {key[0] for key in _keys(stored) if len(key) == 1}


def _without_duplicates(rows: Sequence[Row], key: Sequence[int]) -> list[Row]:
    """The rows without those that repeat a key; a key with a NULL is never repeated."""
    kept: dict[object, Row] = {}
    for number, row in enumerate(rows):
        cells = tuple(text_of(row[place]) for place in key)
        kept.setdefault(number if None in cells else cells, row)
    return list(kept.values())


def _fresh(type_: str, taken: Sequence[Cell], number: int) -> Cell:
    known = from_engine(type_)
    if known is not None and known.kind is Kind.INTEGER:
        return str(max([0, *(int(str(each)) for each in taken if each is not None)]) + 1 + number)
    if type_.upper() == "VARCHAR":
        return f"~{len(taken) + number}"
    raise _CannotBeMade


def neighbours_of(world: World, rng: random.Random, many: int) -> list[tuple[tuple[Unit, ...], World]]:
    """Worlds without one unit, and without one row of each table whose rows are units: such tables never meet."""
    units = world.units()
    own = [unit for unit in units if not isinstance(unit, RowUnit)]
    by_table: dict[str, list[RowUnit]] = {}
    for unit in units:
        if isinstance(unit, RowUnit):
            by_table.setdefault(unit.table, []).append(unit)
    made = []
    for unit in rng.sample(own, min(len(own), many)) if own else [None] * many:
        gone: list[Unit] = [rng.choice(rows) for rows in by_table.values()] + ([unit] if unit is not None else [])
        if gone:
            made.append((tuple(gone), world.lacking(gone).reordered(rng)))
    return made
