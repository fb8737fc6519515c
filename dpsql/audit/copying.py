"""The steward's own data as a world: the tables of a database, or the rows of some units of a large one, in memory.

A folder of files, or a single file, becomes a world on files: the copied rows are written again for each neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.audit.file_writers import FileTables, installed_writers, unable
from dpsql.audit.world import Raw, StoredTable, World, reading
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.open import open_tables
from dpsql.engines.duckdb.table_files import Files, is_lake, tables_in
from dpsql.errors import InterfaceError, PolicyError
from dpsql.expressions.types import from_engine
from dpsql.policy import Policy, fold
from dpsql.policy.check import check_facts
from dpsql.policy.database_catalog import quote, read_catalog
from dpsql.policy.model import DeclaredTable, ForeignKey, key_fact

if TYPE_CHECKING:
    from dpsql.engines.duckdb.engine import Source

UNITS, ROWS, PUBLIC_ROWS = 60, 60, 10_000
"""How many units, rows that are units, and rows of a public table are copied at most."""


def copied(database: Source, policy: Policy) -> World:
    """Tables and columns of the policy; what was verified of them holds in the copy by constraints."""
    if is_lake(database):
        return _copied_files(Path(database), policy)
    with reading(database) as raw:  # type: ignore[arg-type]
        return _read(raw, policy)


def _read(raw: Raw, policy: Policy) -> World:
    reader = _Reader(raw, policy)
    tables = {name: reader.table(name) for name in reader.order()}
    return World(policy.dataset, policy, tables, tuple(reader.notes))


# files ----------------------------------------------------------------------------------------------------------------


def _copied_files(where: Path, policy: Policy) -> World:
    """Open the files as for a query and copy their rows; a note says what the copies do not keep."""
    found = tables_in(where, policy.tables)
    if not found:
        raise InterfaceError(
            f"{where} has no files of the policy's tables",
            hint=f"a table is a file or a folder of its name: {', '.join(policy.tables)}",
        )
    placed = open_tables(found, Resources(policy.limits.memory, policy.limits.spill), policy)
    with placed.connection as raw:
        world = _read(raw, policy)
    files = {each.table: each for each, _ in placed.files}
    return _on_files(world, {name: files[name] for name in world.tables})


def _on_files(world: World, files: Mapping[str, Files]) -> World:
    """The world with its tables in their own formats; Parquet by every writer that keeps the types of the columns."""
    notes, able = list(world.notes), list[str]()
    for format_ in sorted({each.format for each in files.values()}):
        tables = {name: world.tables[name] for name, each in files.items() if each.format == format_}
        wrong = {writer: unable(tables, world.policy, writer) for writer in installed_writers(format_)}
        able += (good := [writer for writer, reason in wrong.items() if not reason])
        notes += [f"{writer} changes the types of {reason}: not tried" for writer, reason in wrong.items() if reason]
        if not good:
            raise InterfaceError(
                f"none of the installed writers can write {', '.join(tables)}", hint="pip install 'dpsql[arrow,polars]'"
            )
        notes.append(f"{_listed(tables)}: copies are written as {_listed(good)}")
    for name, each in files.items():
        if each.partitions:
            notes.append(f"{name}: partitions ({_listed(each.partitions)}) are columns of the copies, not folders")
    first = {name: next(iter(installed_writers(each.format, able))) for name, each in files.items()}
    return replace(world, notes=tuple(notes), engine=FileTables(world.policy, first, able=tuple(able)))


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(names)


# rows -----------------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads one database."""

    def __init__(self, raw: Raw, policy: Policy) -> None:
        self.raw, self.policy, self.catalog = raw, policy, read_catalog(raw)
        self.facts = {
            (fold(each.table), each.fact) for each in check_facts(raw, policy) if each.kind == "verified" and each.ok
        }
        self.notes: list[str] = []
        self.units = self._units()

    def order(self) -> list[str]:
        """Parents before children."""
        made: list[str] = []

        def add(name: str) -> None:
            declared = self.policy.tables[name]
            if isinstance(declared.unit, ForeignKey):
                add(self.catalog[declared.unit.table].name)
            if self.catalog[name].name not in made:
                made.append(self.catalog[name].name)

        for name in self.policy.tables:
            if name not in self.catalog or self.catalog[name].view:
                there = ", ".join(self.catalog)
                raise PolicyError(
                    f"there is no table {name} to audit", hint=f"tables: {there}; views cannot be audited"
                )
            add(name)
        return made

    def table(self, name: str) -> StoredTable:
        """The columns that the policy names and those that lead to owners; of the rows those of the chosen units."""
        declared, relation = self.policy.tables[name], self.catalog[name]
        columns = {c: t for c, t in relation.columns.items() if self._wanted(declared, name, c, t)}
        listed = ", ".join(f"CAST({quote(c)} AS VARCHAR)" for c in columns)
        rows = self.raw.execute(f"SELECT {listed} FROM {quote(name)} AS t {self._chosen(name)}").fetchall()
        return StoredTable(columns, tuple(rows), tuple(self._constraints(name, columns)))

    def _wanted(self, declared: DeclaredTable, name: str, column: str, type_: str) -> bool:
        if fold(column) == fold(declared.unit_column or "") or fold(column) in self._keys(name):
            return True
        if declared.columns is None:
            return declared.public and from_engine(type_) is not None
        return column in declared.columns

    def _keys(self, name: str) -> set[str]:
        """The columns of a table to which paths of others lead."""
        units = [table.unit for table in self.policy.tables.values()]
        return {fold(u.key) for u in units if isinstance(u, ForeignKey) and fold(u.table) == fold(name)}

    def _constraints(self, name: str, columns: dict[str, str]) -> list[str]:
        """Unique columns and the foreign key of the path, as the database has them or as they were verified."""
        relation, declared = self.catalog[name], self.policy.tables[name]
        unique = {column for column in columns if relation.is_key(column) or self._proved_unique(name, column)}
        made = [f"UNIQUE ({quote(column)})" for column in columns if column in unique]
        for key in (key for key in declared.keys if (fold(name), key_fact(key)) in self.facts):
            made.append(f"UNIQUE ({', '.join(map(quote, key))})")
        if isinstance(declared.unit, ForeignKey) and (fold(name), declared.unit.fact) in self.facts:
            link = declared.unit
            made.append(f"FOREIGN KEY ({quote(link.column)}) REFERENCES {quote(link.table)} ({quote(link.key)})")
        return made

    def _proved_unique(self, name: str, column: str) -> bool:
        declared = self.policy.tables[name]
        own = not isinstance(declared.unit, ForeignKey) and fold(column) == fold(declared.unit_column or "")
        if own and declared.one_row and (fold(name), self.policy.unique_fact(name)) in self.facts:
            return True
        links = [(n, t.unit) for n, t in self.policy.tables.items() if isinstance(t.unit, ForeignKey)]
        return any(
            fold(link.table) == fold(name) and fold(link.key) == fold(column) and (fold(child), link.fact) in self.facts
            for child, link in links
        )

    # which rows -------------------------------------------------------------------------------------------------------

    def _units(self) -> list[str] | None:
        """The units that are copied; None: all."""
        owned = [n for n, t in self.policy.tables.items() if t.unit_column and not isinstance(t.unit, ForeignKey)]
        ids = [
            f"SELECT CAST({quote(self.policy.tables[n].unit_column or '')} AS VARCHAR) AS u FROM {quote(n)}"
            for n in owned
            if n in self.catalog
        ]
        if not ids:
            return None
        both = " UNION ".join(ids)
        (many,) = self.raw.execute(f"SELECT count(*) FROM ({both}) WHERE u IS NOT NULL").fetchall()[0]
        if many <= UNITS:
            return None
        self.notes.append(f"{UNITS} of {many:,} units were copied, with all their rows")
        chosen = self.raw.execute(f"SELECT u FROM ({both}) WHERE u IS NOT NULL ORDER BY hash(u) LIMIT {UNITS}")
        return [u for (u,) in chosen.fetchall()]

    def _chosen(self, name: str) -> str:
        """The clauses that choose the rows to copy: by a hash of their values, since rows of files have no number."""
        declared, (many,) = (
            self.policy.tables[name],
            self.raw.execute(f"SELECT count(*) FROM {quote(name)}").fetchall()[0],
        )
        cap = PUBLIC_ROWS if declared.public else ROWS
        if declared.public or declared.by_row:
            if many <= cap:
                return ""
            self.notes.append(f"{cap:,} of {many:,} rows of {name} were copied")
            return f"ORDER BY hash(t) LIMIT {cap}"
        return "" if self.units is None else f"WHERE {self._owned(name, self.units)}"

    def _owned(self, name: str, units: list[str]) -> str:
        declared = self.policy.tables[name]
        if isinstance(declared.unit, ForeignKey):
            link = declared.unit
            inner = f"SELECT {quote(link.key)} FROM {quote(link.table)} WHERE {self._owned(link.table, units)}"
            return f"{quote(link.column)} IN ({inner})"
        listed = ", ".join("'" + unit.replace("'", "''") + "'" for unit in units)
        return f"CAST({quote(declared.unit_column or '')} AS VARCHAR) IN ({listed})"
