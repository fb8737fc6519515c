"""The steward's own database as a world: its tables copied into memory, of a large one the rows of some units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.audit.database import Raw, Stored, reading
from dpsql.audit.world import World
from dpsql.expressions.types import from_engine
from dpsql.policy import Policy, fold
from dpsql.policy.catalog import quote, read_catalog
from dpsql.policy.check import check_facts
from dpsql.policy.model import ForeignKey, Table

if TYPE_CHECKING:
    from dpsql.engines.duckdb.engine import Source

UNITS, ROWS, PUBLIC_ROWS = 60, 60, 10_000
"""How many units, rows that are units, and rows of a public table are copied at most."""


def copied(database: Source, policy: Policy) -> World:
    """Tables and columns of the policy; what was verified of them holds in the copy by constraints."""
    with reading(database) as raw:  # type: ignore[arg-type]
        reader = _Reader(raw, policy)
        names = reader.order()
        tables = {name: reader.table(name) for name in names}
    return World(policy.dataset, policy, tables, tuple(reader.notes))


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
            if name in self.catalog and not self.catalog[name].view:
                add(name)
        return made

    def table(self, name: str) -> Stored:
        """The columns that the policy names and those that lead to owners; of the rows those of the chosen units."""
        declared, relation = self.policy.tables[name], self.catalog[name]
        columns = {c: t for c, t in relation.columns.items() if self._wanted(declared, name, c, t)}
        listed = ", ".join(f"CAST({quote(c)} AS VARCHAR)" for c in columns)
        rows = self.raw.execute(f"SELECT {listed} FROM {quote(name)} WHERE {self._chosen(name)}").fetchall()
        return Stored(columns, tuple(rows), tuple(self._constraints(name, columns)))

    def _wanted(self, declared: Table, name: str, column: str, type_: str) -> bool:
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
        if isinstance(declared.unit, ForeignKey) and (fold(name), declared.unit.fact) in self.facts:
            link = declared.unit
            made.append(f"FOREIGN KEY ({quote(link.column)}) REFERENCES {quote(link.table)} ({quote(link.key)})")
        return made

    def _proved_unique(self, name: str, column: str) -> bool:
        declared = self.policy.tables[name]
        own = not isinstance(declared.unit, ForeignKey) and fold(column) == fold(declared.unit_column or "")
        if own and declared.unique and (fold(name), declared.unique_fact) in self.facts:
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
        declared, (many,) = (
            self.policy.tables[name],
            self.raw.execute(f"SELECT count(*) FROM {quote(name)}").fetchall()[0],
        )
        cap = PUBLIC_ROWS if declared.public else ROWS
        if declared.public or declared.by_row:
            if many <= cap:
                return "true"
            self.notes.append(f"{cap:,} of {many:,} rows of {name} were copied")
            return f"rowid IN (SELECT rowid FROM {quote(name)} ORDER BY hash(rowid) LIMIT {cap})"
        return "true" if self.units is None else self._owned(name, self.units)

    def _owned(self, name: str, units: list[str]) -> str:
        declared = self.policy.tables[name]
        if isinstance(declared.unit, ForeignKey):
            link = declared.unit
            inner = f"SELECT {quote(link.key)} FROM {quote(link.table)} WHERE {self._owned(link.table, units)}"
            return f"{quote(link.column)} IN ({inner})"
        listed = ", ".join("'" + unit.replace("'", "''") + "'" for unit in units)
        return f"CAST({quote(declared.unit_column or '')} AS VARCHAR) IN ({listed})"
