"""What a statement gave, as NumPy and Python have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of a result, handed over in columns."""

    table: pa.Table

    def fetchnumpy(self) -> Mapping[str, Any]:
        """All rows: an array for each column, by its name."""
        names = self.table.column_names
        return {name: self.table.column(i).to_numpy() for i, name in enumerate(names)}

    def fetchall(self) -> list[Any]:
        """All rows; a decimal without places is a whole number."""
        return list(zip(*map(_values, self.table.columns), strict=True)) if self.table.num_columns else []


def _values(column: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if v is None else int(v) for v in values]
    return values


def ask(session: SparkSession, text: str) -> Table:
    """Run a statement and fetch what it gives."""
    return Table(session.sql(text).toArrow())
