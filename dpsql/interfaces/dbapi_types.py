"""PEP 249's type objects and constructors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time


@dataclass(frozen=True)
class TypeObject:
    """A family of column types: equal to the type code of every column of the family."""

    name: str
    types: frozenset[str] | None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.name == other.name
        return isinstance(other, str) and family(other) is self

    def __hash__(self) -> int:
        return hash(self.name)


NUMBER = TypeObject("NUMBER", frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL", "BIGNUM", "BOOLEAN",
}))  # fmt: skip
DATETIME = TypeObject("DATETIME", frozenset({
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
    "TIME WITH TIME ZONE", "INTERVAL",
}))  # fmt: skip
BINARY = TypeObject("BINARY", frozenset({"BLOB", "BIT"}))
ROWID = TypeObject("ROWID", frozenset())
STRING = TypeObject("STRING", None)
"""Text, and whatever else is shown as text."""


def family(code: str) -> TypeObject:
    """The type object of a type code, which is DuckDB's name of the type."""
    name = code.partition("(")[0].upper()
    if not name.endswith("]"):
        for each in (NUMBER, DATETIME, BINARY):
            if each.types is not None and name in each.types:
                return each
    return STRING


def digits(code: str) -> tuple[int | None, int | None]:
    """Precision and scale of a DECIMAL."""
    name, _, rest = code.partition("(")
    if name != "DECIMAL" or not rest.endswith(")"):
        return None, None
    width, _, scale = rest[:-1].partition(",")
    return int(width), int(scale)


Date, Time, Timestamp, Binary = date, time, datetime, bytes
"""`Binary` exists since PEP 249 asks for it; there are no columns of bytes, and as a parameter it is refused."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name is PEP 249's
    """The local date of a number of seconds since 1970."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The local time of day of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The local date and time of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks)
