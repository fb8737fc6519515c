"""An answer as an Arrow table whose columns have the types of the answer, also where it has no rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = {
    "BOOLEAN": "bool_", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64", "FLOAT": "float32",
    "DOUBLE": "float64", "VARCHAR": "string", "DATE": "date32",
}  # fmt: skip


def arrow_table(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """The rows as an Arrow table; columns of the same name stay apart."""
    try:
        import pyarrow as pa
    except ImportError:
        raise InterfaceError("Arrow tables need pyarrow", hint="pip install 'dpsql[arrow]'") from None
    columns = [pa.array([row[i] for row in rows], type=_arrow_type(pa, type_)) for i, type_ in enumerate(types)]
    return pa.Table.from_arrays(columns, names=list(names))


def _arrow_type(pa: Any, name: str) -> pa.DataType | None:
    """Arrow's type of the same values; None, so that Arrow infers it, for the few that have none of their own."""
    if name in _NAMES:
        return getattr(pa, _NAMES[name])()
    if name == "HUGEINT":
        return pa.decimal256(39, 0)
    if name.startswith("TIMESTAMP"):
        return pa.timestamp("us")
    if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    return pa.string() if name == "UUID" or name.startswith("ENUM(") else None
