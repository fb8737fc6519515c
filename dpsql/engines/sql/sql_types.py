"""The DuckDB type that holds every value in the range of a type, so that no data can overflow it."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.expressions.types import DATE, DOUBLE, INT64, TIMESTAMP, Kind, Type

INT32 = (-(2**31), 2**31 - 1)
_NAMES = {
    Kind.BOOLEAN: "BOOLEAN", Kind.DOUBLE: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP", Kind.NULL: "INTEGER",
}  # fmt: skip


def physical(type_: Type) -> str:
    """The type in which the emitted SQL gives a value of `type_`."""
    if type_.kind is Kind.INTEGER:
        return whole(type_.lower, type_.upper)
    return as_decimal(type_) if type_.kind is Kind.DECIMAL else _NAMES[type_.kind]


def whole(*ends: int) -> str:
    """The narrowest signed type of at least 32 bits that holds all of them."""
    low, high = min(ends), max(ends)
    if INT32[0] <= low and high <= INT32[1]:
        return "INTEGER"
    return "BIGINT" if INT64[0] <= low and high <= INT64[1] else "HUGEINT"


def as_decimal(type_: Type) -> str:
    """The narrowest decimal for an exact number; DOUBLE beyond 38 digits."""
    width = max(_digits(type_.lower, type_.upper), type_.scale, 1)
    return f"DECIMAL({width},{type_.scale})" if width <= 38 else "DOUBLE"


def shared(types: Sequence[Type]) -> str:
    """The type in which values of these types are compared: no cast to it can fail or (among exact types) round.

    Beyond 38 digits an exact comparison is not possible, and both sides are read as DOUBLE. A DATE beside a TIMESTAMP
    is the one exception: a date outside the range of timestamps becomes NULL.
    """
    known = [t for t in types if t.kind is not Kind.NULL]
    if not known:
        return "INTEGER"
    if TIMESTAMP in known or DATE in known:
        return "TIMESTAMP" if TIMESTAMP in known else "DATE"
    if DOUBLE in known:
        return "DOUBLE"
    if all(t.kind is Kind.INTEGER for t in known):
        return whole(*(end for t in known for end in (t.lower, t.upper)))
    if all(t.kind in (Kind.INTEGER, Kind.DECIMAL) for t in known):
        return _shared_decimal(known)
    return physical(known[0])


def _shared_decimal(types: Sequence[Type]) -> str:
    scale = max(t.scale for t in types)
    ends = [end * 10 ** (scale - t.scale) for t in types for end in (t.lower, t.upper)]
    return as_decimal(Type(Kind.DECIMAL, min(ends), max(ends), scale))


def _digits(*ends: int) -> int:
    return max(len(str(abs(end))) for end in ends)
