"""The tables that exist for one analyst, as the policy declares them: nothing here comes from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.interfaces.numbers import plain
from dpsql.plan.catalog import Table, UnavailableTable
from dpsql.policy import Column, Policy, fold
from dpsql.policy import Table as Declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.session import Connection


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column, its type, and what the policy says of it."""

    name: str
    type: str
    note: str


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table, who owns its rows, and its columns."""

    name: str
    owner: str
    columns: tuple[ColumnInfo, ...]


def visible_tables(db: Connection) -> list[TableInfo]:
    """What the analyst of this connection may name in a query."""
    schema = db._engine.schema()
    return [_table(each, db.policy, schema.get(each.name.lower(), {})) for each in db._catalog.tables.values()]


def _table(known: Table, policy: Policy, stored: Mapping[str, str]) -> TableInfo:
    name = known.name
    if isinstance(known, UnavailableTable):
        return TableInfo(name, f"cannot be queried yet: {known.reason}", ())
    declared = policy.tables[name]
    columns = dict(declared.columns or {})
    if declared.public and declared.columns is None:
        columns = {column: Column() for column in stored}
    if declared.unit_column is not None and fold(declared.unit_column) not in map(fold, columns):
        columns = {declared.unit_column: Column(), **columns}
    types = {fold(column): _type(type_) for column, type_ in stored.items()}
    listed = tuple(ColumnInfo(c, types.get(fold(c), "?"), _note(c, spec, declared)) for c, spec in columns.items())
    return TableInfo(name, _owner(name, policy), listed)


def _type(data_type: str) -> str:
    """The type without its details: those of an ENUM are values of the data."""
    return data_type.lower() if data_type.startswith("DECIMAL(") else data_type.partition("(")[0].lower()


def _owner(name: str, policy: Policy) -> str:
    table = policy.tables[name]
    if table.public:
        return "public: answered exactly, free"
    if table.by_row:
        return "private: each row is its own unit"
    rows = policy.rows_per_unit(name)
    return f"private: the unit is {table.unit_column}, up to {rows} row{'s' if rows > 1 else ''} each"


def _note(name: str, column: Column, table: Declared) -> str:
    parts = ["the unit"] if table.unit_column is not None and fold(table.unit_column) == fold(name) else []
    if column.values is not None:
        parts.append(f"values {', '.join(plain(value) for value in column.values)}")
    if column.values_from is not None:
        parts.append(f"values of {column.values_from}")
    if column.min is not None or column.max is not None:
        parts.append(" to ".join("?" if each is None else plain(each) for each in (column.min, column.max)))
    return "; ".join(parts + ([] if column.nulls else ["never NULL"]))
