"""The tables that exist for one analyst, as the policy declares them: nothing here comes from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.answers.number_format import plain
from dpsql.plan.catalog import PrivateTable, PublicTable, Table, UnavailableTable
from dpsql.plan.view_expansion import view_columns
from dpsql.policy import DeclaredColumn, Policy, fold
from dpsql.policy.searched_subjects import UNSEARCHED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from dpsql.plan.catalog import Catalog
    from dpsql.session import Connection


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column, its type, and what the policy says of it."""

    name: str
    type: str
    note: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table, who owns its rows, and its columns."""

    name: str
    owner: str
    columns: tuple[ColumnInfo, ...]


def visible_tables(db: Connection) -> list[TableInfo]:
    """What the analyst of this connection may name in a query."""
    schema = db.engine.schema()
    tables = [_table(each, db.policy, schema.get(fold(each.name), {})) for each in db.dataset.catalog.tables.values()]
    return tables + [_view(name, tree, db.dataset.catalog) for name, tree in db.dataset.catalog.views.items()]


def _view(name: str, tree: exp.Query, catalog: Catalog) -> TableInfo:
    columns = (ColumnInfo(column, type_ or "", "") for column, type_ in view_columns(tree, catalog))
    return TableInfo(name, "a view", tuple(columns))


def _table(known: Table, policy: Policy, stored: Mapping[str, str]) -> TableInfo:
    name = known.name
    if isinstance(known, UnavailableTable):
        return TableInfo(name, f"cannot be queried yet: {known.reason}", ())
    declared = policy.tables[name]
    seen = known.columns if isinstance(known, PublicTable) else tuple(field.name for field in known.scan.fields)
    specs, types = declared.columns or {}, {fold(column): _type(type_) for column, type_ in stored.items()}
    said = {column: specs.get(column, DeclaredColumn()) for column in seen}
    listed = [ColumnInfo(c, types.get(fold(c), "?"), _note(c, said[c], known), said[c].nulls) for c in seen]
    return TableInfo(name, _owner(known, policy), tuple(sorted(listed, key=lambda column: column.name != _unit(known))))


def _unit(known: Table) -> str | None:
    """The column that is the unit or leads to it, where the analyst may see it."""
    if not isinstance(known, PrivateTable) or known.scan.hidden is not None:
        return None
    return known.scan.path[0].column if known.scan.path else known.scan.unit


def _type(data_type: str) -> str:
    """The type without its details: those of an ENUM are values of the data."""
    return data_type.lower() if data_type.startswith("DECIMAL(") else data_type.partition("(")[0].lower()


def _owner(known: Table, policy: Policy) -> str:
    table = policy.tables[known.name]
    if table.public:
        return "public: answered exactly, free"
    if table.by_row:
        return "private: each row is its own unit"
    rows, unit = policy.rows_per_unit(known.name), _unit(known)
    far = isinstance(known, PrivateTable) and known.scan.path
    whose = "each unit has" if unit is None else f"the unit is {'found through ' if far else ''}{unit},"
    if rows == UNSEARCHED:
        return f"private: {whose} as many rows{' each' if unit else ''} as a private search finds"
    return f"private: {whose} up to {rows} row{'s' if rows > 1 else ''}{' each' if unit else ''}"


def _note(name: str, column: DeclaredColumn, table: Table) -> str:
    word = "leads to the unit" if isinstance(table, PrivateTable) and table.scan.path else "the unit"
    parts = [word] if name == _unit(table) else []
    if column.values is not None:
        parts.append(f"values {', '.join(plain(value) for value in column.values)}")
    if column.values_from is not None:
        parts.append(f"values of {column.values_from}")
    if column.min is not None or column.max is not None:
        parts.append(" to ".join("?" if each is None else plain(each) for each in (column.min, column.max)))
    if column.bounds is not None:
        parts.append("bounds found by a private search")
    return "; ".join(parts + ([] if column.nulls else ["never NULL"]))
