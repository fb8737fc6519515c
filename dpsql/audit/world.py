"""A world: a policy, and rows of which neighbours can be made.

Two worlds are neighbours if they differ in one unit: all rows that it owns in all private tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from dpsql.budget import open_ledger
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import InterfaceError
from dpsql.policy import Policy, load_policy
from dpsql.policy.database_catalog import quote
from dpsql.policy.identifiers import Names
from dpsql.policy.model import ForeignKey
from dpsql.session import Connection

Cell = object
Row = tuple[Cell, ...]
Raw = duckdb.DuckDBPyConnection
LoadError = duckdb.Error
"""What loading tables raises where the rows do not fit."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table: columns with their types, constraints as SQL writes them, and rows in the order of the columns.

    A cell is NULL (`None`) or anything whose text the database can cast to the column's type.
    """

    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    constraints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, columns: Mapping[str, str], rows: Sequence[Mapping[str, Cell]], constraints: tuple[str, ...] = ()
    ) -> StoredTable:
        """A table from rows by name; what a row leaves out is NULL."""
        return cls(columns, tuple(tuple(row.get(name) for name in columns) for row in rows), constraints)

    def place(self, column: str) -> int:
        """The position of a column in a row."""
        folded = [name.casefold() for name in self.columns]
        return folded.index(column.casefold())

    def create(self, name: str) -> str:
        """The statement that makes the table."""
        columns = [f"{quote(column)} {type_}" for column, type_ in self.columns.items()]
        return f"CREATE TABLE {quote(name)} ({', '.join([*columns, *self.constraints])})"

    def insert(self, name: str) -> str:
        """The statement that fills it, as a person would run it; nothing for no rows."""
        rows = [f"({', '.join(_literal(cell) for cell in row)})" for row in self.rows]
        return f"INSERT INTO {quote(name)} VALUES\n  " + ",\n  ".join(rows) if rows else ""


def text_of(cell: Cell) -> str | None:
    """A cell as the text that is cast to the column's type."""
    return None if cell is None else str(cell)


def _literal(cell: Cell) -> str:
    said = text_of(cell)
    if said is None:
        return "NULL"
    quoted = "'" + said.replace("'", "''") + "'"
    return quoted if "\0" not in said else "(" + quoted.replace("\0", "' || chr(0) || '") + ")"


def load(tables: Mapping[str, StoredTable]) -> duckdb.DuckDBPyConnection:
    """The tables in a fresh database in memory, in the order in which they are given (parents first)."""
    raw = duckdb.connect(":memory:", config={"threads": 1})
    for name, table in tables.items():
        raw.execute(table.create(name))
        if table.rows:
            columns = [[text_of(row[i]) for row in table.rows] for i in range(len(table.columns))]
            listed = ", ".join(f"unnest(${i + 1}::VARCHAR[])" for i in range(len(columns)))
            raw.execute(f"INSERT INTO {quote(name)} SELECT {listed}", columns)
    return raw


@contextmanager
def reading(source: str | Path | duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A steward's database: a file, opened read-only, or a connection, which stays the caller's."""
    if isinstance(source, duckdb.DuckDBPyConnection):
        with source.cursor() as cursor:
            yield cursor
        return
    if not Path(source).is_file():
        raise InterfaceError(f"there is no database file {source}", hint="check the path; it is never created here")
    try:
        raw = duckdb.connect(str(source), read_only=True)
    except duckdb.Error as problem:
        raise InterfaceError(
            f"the database {source} cannot be opened read-only: {type(problem).__name__}",
            hint="close other connections that write to it",
        ) from problem
    with raw:
        yield raw


# worlds ---------------------------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    from dpsql.engines.duckdb.engine import Source

HUGE = Decimal(10) ** 12


class RowUnit(NamedTuple):
    """A row that is a unit of its own: where it stands in its table."""

    table: str
    number: int


Unit = object
"""The text of a unit column's value, or a `RowUnit`."""


def in_memory(tables: Mapping[str, StoredTable]) -> Engine:
    """DuckDB over a copy of the tables."""
    return DuckDBEngine(load(tables), still=True)


@dataclass(frozen=True)
class World:
    """A policy and its tables, parents before those that refer to them; `notes` say what was left out.

    `engine` opens a copy of the tables.
    """

    name: str
    policy: Policy
    tables: Mapping[str, StoredTable]
    notes: tuple[str, ...] = ()
    engine: Callable[[Mapping[str, StoredTable]], Engine] = in_memory

    @classmethod
    def made(cls, name: str, policy: Mapping[str, Any] | Policy, tables: Mapping[str, StoredTable]) -> World:
        """A world from a policy as the steward writes it."""
        return cls(name, load_policy(policy), tables)

    @classmethod
    def of(cls, database: Source, policy: str | Path | Mapping[str, Any] | Policy) -> World:
        """The steward's own database, copied into memory, or files; of a large one some units (a note says so)."""
        from dpsql.audit.copying import copied

        return copied(database, load_policy(policy))

    # units ------------------------------------------------------------------------------------------------------------

    @cached_property
    def owners(self) -> Mapping[str, tuple[Unit | None, ...]]:
        """For each private table the owner of each row, None where nobody is."""
        return {name: self._owners(name) for name in self.tables if self._private(name)}

    def units(self) -> Sequence[Unit]:
        """All units that own a row, those of unit columns first."""
        found = dict.fromkeys(unit for owners in self.owners.values() for unit in owners if unit is not None)
        named = sorted(unit for unit in found if isinstance(unit, str))
        return [*named, *sorted(unit for unit in found if isinstance(unit, RowUnit))]

    def rows_of(self, unit: Unit) -> dict[str, list[tuple[Cell, ...]]]:
        """The rows of a unit, by table."""
        named = _canonical(unit)
        return {
            name: [row for row, owner in zip(self.tables[name].rows, owners, strict=True) if owner == named]
            for name, owners in self.owners.items()
        }

    def without(self, unit: Unit) -> World:
        """The neighbour: all rows of one unit are gone."""
        return self.lacking([unit])

    def lacking(self, units: Iterable[Unit]) -> World:
        """All rows of some units are gone."""
        named = {_canonical(unit) for unit in units}
        return self.keeping(lambda owner: owner is None or owner not in named)

    def without_unowned(self) -> World:
        """The same without the rows that nobody owns: dpsql must not tell it from this one."""
        return self.keeping(lambda owner: owner is not None)

    def keeping(self, wanted: Callable[[Unit | None], bool]) -> World:
        """The rows of private tables whose owner is wanted, and all public ones."""
        tables = dict(self.tables)
        for name, owners in self.owners.items():
            rows = self.tables[name].rows
            kept = tuple(row for row, owner in zip(rows, owners, strict=True) if wanted(owner))
            tables[name] = replace(self.tables[name], rows=kept)
        return replace(self, tables=tables)

    def adding(self, rows: Mapping[str, Iterable[tuple[Cell, ...]]]) -> World:
        """The world with more rows."""
        tables = {name: replace(table, rows=(*table.rows, *rows.get(name, ()))) for name, table in self.tables.items()}
        return replace(self, tables=tables)

    def reordered(self, rng: random.Random) -> World:
        """The same rows in another order."""
        mixed = {n: replace(t, rows=tuple(rng.sample(t.rows, len(t.rows)))) for n, t in self.tables.items()}
        return replace(self, tables=mixed)

    def _private(self, name: str) -> bool:
        return name in self.policy.tables and self.policy.tables[name].private

    def _owners(self, name: str) -> tuple[Unit | None, ...]:
        declared, stored = self.policy.tables[name], self.tables[name]
        if declared.by_row:
            return tuple(RowUnit(name, number) for number in range(len(stored.rows)))
        assert declared.unit_column is not None
        place = stored.place(declared.unit_column)
        cells = [_canonical(row[place]) for row in stored.rows]
        if not isinstance(declared.unit, ForeignKey):
            return tuple(cells)
        parent = self.stored_name(declared.unit.table)
        key = self.tables[parent].place(declared.unit.key)
        keys = [_canonical(row[key]) for row in self.tables[parent].rows]
        owner = {k: unit for k, unit in zip(keys, self._owners(parent), strict=True) if k is not None}
        return tuple(None if cell is None else owner.get(cell) for cell in cells)

    def stored_name(self, table: str) -> str:
        """The name of a table as the world spells it."""
        return next(name for name in self.tables if name.casefold() == table.casefold())

    # doors ------------------------------------------------------------------------------------------------------------

    def open(self, *, steward: bool = False, analyst: str | None = None) -> Connection:
        """A connection to a copy of its own: a ledger in memory, a budget that never ends, replay off."""
        engine, ledger = self.engine(self.tables), open_ledger(":memory:", self.policy.dataset)
        name = None if steward else analyst or "analyst"
        return Connection(engine, self.endless, ledger, name, steward=steward)

    @cached_property
    def endless(self) -> Policy:
        """The policy without an end of the budget, and without replay; where it allows no δ there is none."""
        delta = Decimal("0.5") if self.policy.budget.delta else Decimal(0)
        caps = {"epsilon": HUGE, "delta": delta}
        analysts = {
            name: each.model_copy(update={**caps, "every": None, "purposes": Names()})
            for name, each in self.policy.budget.analysts.items()
        }
        budget = self.policy.budget.model_copy(update={**caps, "analysts": Names(analysts)})
        limits = self.policy.limits.model_copy(update=caps)
        return self.policy.model_copy(update={"budget": budget, "limits": limits, "replay": False})

    def script(self) -> str:
        """SQL that makes the tables again."""
        return ";\n".join(line for name, t in self.tables.items() for line in (t.create(name), t.insert(name)) if line)


def _canonical(unit: Unit | None) -> Unit | None:
    """One text for one value of a unit column."""
    return unit if unit is None or isinstance(unit, RowUnit) else (text_of(unit) if str(unit) != "-0.0" else "0.0")
