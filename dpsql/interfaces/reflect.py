"""The keys of a table as the policy declares them, for tools that draw or join by them. Nothing is read from rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsql.interfaces.tables import TableInfo
from dpsql.policy import fold
from dpsql.policy.model import ForeignKey

if TYPE_CHECKING:
    from dpsql.session import Connection


def primary_key(db: Connection, table: TableInfo) -> list[str]:
    """The unit column, where the policy declares one row for each unit and the analyst may see it."""
    declared = db.policy.tables[table.name]
    return _seen(table, declared.unit_column) if declared.one_row and not isinstance(declared.unit, ForeignKey) else []


def foreign_keys(db: Connection, table: TableInfo, tables: Sequence[TableInfo]) -> list[tuple[str, str, str]]:
    """Columns that refer to a column of another table, where the analyst may see both: (column, table, column)."""
    declared = db.policy.tables[table.name]
    refers = [(c, spec.values_from) for c, spec in (declared.columns or {}).items() if spec.values_from is not None]
    if isinstance(declared.unit, ForeignKey):
        refers.insert(0, (declared.unit.column, declared.unit.references))
    found = []
    for column, to in refers:
        parent, _, key = to.rpartition(".")
        other = next((each for each in tables if fold(each.name) == fold(parent)), None)
        if other is not None and (pair := _seen(table, column) + _seen(other, key))[1:]:
            found.append((pair[0], other.name, pair[1]))
    return found


def _seen(table: TableInfo, column: str | None) -> list[str]:
    return [each.name for each in table.columns if column is not None and fold(each.name) == fold(column)]
