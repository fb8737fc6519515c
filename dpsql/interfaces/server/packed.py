"""Values as JSON and back, unchanged: what the Python door to a server sends and gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from dpsql.options import Within

_READ: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "float": float,
    "uuid": UUID,
    "bytes": bytes.fromhex,
    "microseconds": lambda count: timedelta(microseconds=count),
    "tuple": lambda parts: tuple(map(unpack, parts)),
    "map": lambda pairs: {unpack(key): unpack(value) for key, value in pairs},
    "within": lambda parts: Within(*map(unpack, parts)),
    "text": str,
}


def pack(value: Any) -> Any:
    """The value in JSON's own types; what these have not is an object with one key, its kind."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case datetime() | date() | time():
            return {type(value).__name__.lower(): value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
        case UUID():
            return {"uuid": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case timedelta():
            return {"microseconds": value // timedelta(microseconds=1)}
        case Within():
            return {"within": [pack(value.amount), pack(value.confidence)]}
        case list():
            return [pack(each) for each in value]
        case tuple():
            return {"tuple": [pack(each) for each in value]}
        case Mapping():
            return {"map": [[pack(key), pack(each)] for key, each in value.items()]}
        case _:
            item = getattr(value, "item", None)
            return pack(item()) if callable(item) else {"text": str(value)}


def unpack(value: Any) -> Any:
    """The inverse of `pack`; ValueError for what `pack` does not write."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or (kind := next(iter(value))) not in _READ:
        raise ValueError("a value of an unknown kind")
    try:
        return _READ[kind](value[kind])
    except (TypeError, ArithmeticError, KeyError):
        raise ValueError(f"no {kind}") from None
