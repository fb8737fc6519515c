"""PostgreSQL syntax: names of types, quoted names, constants and casts."""

from __future__ import annotations

import math
from decimal import Decimal

from dpsql.errors import UnsupportedQuery

DOUBLE = "double precision"
_TYPES = {
    "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer", "BIGINT": "bigint", "HUGEINT": "numeric",
    "DOUBLE": DOUBLE, "VARCHAR": "text", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp",
}  # fmt: skip


def type_name(name: str) -> str:
    """PostgreSQL's name for a type; `numeric` holds whole numbers of any length."""
    return _TYPES.get(name) or name.replace("DECIMAL", "numeric")


def quoted(name: str) -> str:
    """A name, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A constant text, compared byte by byte. Backslashes are plain: `standard_conforming_strings` is on."""
    if "\x00" in value:
        raise UnsupportedQuery("no text of this database holds the character NUL", hint="leave it out")
    return "CAST('" + value.replace("'", "''") + '\' AS text) COLLATE "C"'


def double(value: float | Decimal) -> str:
    """A constant of type DOUBLE, which may be infinite or NaN."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return f"CAST('{number!r}' AS {DOUBLE})"


def cast(value: str, wanted: str) -> str:
    """A cast that cannot fail on what stands there. A text that was none has no collation yet, and gets this one."""
    return f"CAST({value} AS {type_name(wanted)})"


def called(name: str, *args: str) -> str:
    """A call of one of the session's own functions (`dpsql.engines.postgres.server_session`)."""
    return f"pg_temp.dpsql_{name}({', '.join(args)})"


def decimal_parts(wanted: str) -> tuple[int, int]:
    """The digits of a decimal type, and how many of them stand behind the point."""
    width, scale = wanted[8:-1].split(",")
    return int(width), int(scale)
