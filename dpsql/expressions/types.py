"""The types an expression can have below an aggregate, with the range that the physical type itself guarantees.

The range of a type is *hard*: no stored value can leave it, whatever the policy says. It decides the width in which
the emitted SQL computes, so that no data can overflow. (Declared bounds are soft: see dpsql.bounds.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

INT64 = (-(2**63), 2**63 - 1)
INT128 = (-(2**127), 2**127 - 1)
SPELLINGS = "VARCHAR COLLATE"
"""The name of a text type whose collation treats several spellings as equal, such as `Ann` and `ANN`."""


class Kind(Enum):
    """The families of types; everything else does not exist for an analyst."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Type:
    """A kind and, for exact numbers, the hard range: `lower` and `upper` count units of 10**-scale."""

    kind: Kind
    lower: int = 0
    upper: int = 0
    scale: int = 0

    @property
    def numeric(self) -> bool:
        """Can it be added?"""
        return self.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)

    @property
    def sums_whole(self) -> bool:
        """Is a sum of it a whole number of 64 bits? Sums of wider ones are DOUBLE."""
        return self.kind is Kind.INTEGER and INT64[0] <= self.lower and self.upper <= INT64[1]

    @property
    def temporal(self) -> bool:
        """Is it a date or a timestamp?"""
        return self.kind in (Kind.DATE, Kind.TIMESTAMP)

    def __str__(self) -> str:
        return self.kind.value


BOOLEAN = Type(Kind.BOOLEAN)
DOUBLE = Type(Kind.DOUBLE)
TEXT = Type(Kind.TEXT)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
INTERVAL = Type(Kind.INTERVAL)
NULL = Type(Kind.NULL)
BIGINT = Type(Kind.INTEGER, *INT64)


def integer(lower: int, upper: int) -> Type:
    """An integer in a hard range; a range beyond 128 bits is computed as DOUBLE."""
    if lower < INT128[0] or upper > INT128[1]:
        return DOUBLE
    return Type(Kind.INTEGER, lower, upper)


def decimal(lower: int, upper: int, scale: int) -> Type:
    """A decimal whose digits fit 18 places; a wider one is computed as DOUBLE."""
    if scale == 0:
        return integer(lower, upper)
    if scale > 18 or max(-lower, upper) >= 10**18:
        return DOUBLE
    return Type(Kind.DECIMAL, lower, upper, scale)


_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1), "SMALLINT": (-(2**15), 2**15 - 1), "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": INT64, "HUGEINT": INT128, "UTINYINT": (0, 2**8 - 1), "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1), "UBIGINT": (0, 2**64 - 1),
}  # fmt: skip
_OTHERS = {
    "BOOLEAN": BOOLEAN, "DOUBLE": DOUBLE, "FLOAT": DOUBLE, "VARCHAR": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMP, "TIMESTAMP_S": TIMESTAMP, "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP, "UUID": TEXT, SPELLINGS: TEXT,
}  # fmt: skip


def from_engine(name: str) -> Type | None:
    """The type of a stored column, by DuckDB's name for it; None if dpsql does not know it."""
    name = name.upper()
    if name in _INTEGERS:
        return integer(*_INTEGERS[name])
    if name.startswith("ENUM(") and name.endswith(")"):
        return TEXT
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", name):
        width, scale = int(match[1]), int(match[2])
        return decimal(-(10**width) + 1, 10**width - 1, scale)
    return _OTHERS.get(name)


def sql_type(type_: Type) -> str:
    """DuckDB's name for the type of a key, or of a column, in an answer."""
    if type_.kind is Kind.INTEGER:
        return "BIGINT" if INT64[0] <= type_.lower and type_.upper <= INT64[1] else "HUGEINT"
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL(18,{type_.scale})"
    names = {Kind.BOOLEAN: "BOOLEAN", Kind.DOUBLE: "DOUBLE", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}
    return names.get(type_.kind, "VARCHAR")
