"""A FROM item in SQL: its tables, its conditions, and how its columns are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.engines.sql.dialect import Dialect
from dpsql.expressions.expression import Expression


@dataclass(frozen=True, slots=True)
class From:
    """A FROM item, the conditions on its rows, and how its columns and owner are written."""

    source: str
    where: tuple[str, ...]
    columns: Mapping[str, str]
    unit: str | None
    dialect: Dialect

    def render(self, expression: Expression) -> str:
        """An expression over a row of this relation."""
        return self.dialect.sql(expression, self.columns.__getitem__)

    @property
    def conditions(self) -> str:
        """The WHERE clause, or nothing."""
        return f" WHERE {' AND '.join(self.where)}" if self.where else ""
