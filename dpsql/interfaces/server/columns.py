"""Row descriptions: the columns of an answer as clients see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from dpsql.interfaces.server import values, wire
from dpsql.interfaces.server.faults import Stop
from dpsql.interfaces.server.values import SIZES, oid_of
from dpsql.interfaces.server.wire import Body, Fault, Shown

SAMPLES: dict[int, Any] = {
    values.BOOL: True, values.INT2: 1, values.INT4: 1, values.INT8: 1, values.FLOAT4: 1.5, values.FLOAT8: 1.5,
    values.NUMERIC: Decimal("1.5"), values.DATE: date(2020, 1, 1), values.TIMESTAMP: datetime(2020, 1, 1),
    values.TIMESTAMPTZ: datetime(2020, 1, 1), values.TIME: time(),
}  # fmt: skip
"""A value of each type, to plan a statement whose values are not known yet."""


def shown(names: Sequence[str], types: Sequence[str], formats: Sequence[int]) -> list[Shown]:
    """Columns with DuckDB's types, in the formats that a client asked for."""
    oids, each = [oid_of(type_) for type_ in types], _each(formats, len(names))
    return [Shown(n, oid, SIZES.get(oid, -1), f) for n, oid, f in zip(names, oids, each, strict=True)]


def one_text(name: str) -> bytes:
    """The description of a single column of text."""
    return wire.row_description([Shown(name, values.TEXT)])


def with_formats(description: bytes, formats: Sequence[int]) -> bytes:
    """A row description of the catalogue with the formats that the client asked for."""
    body = Body(description[5:])
    each, parts = _each(formats, count := body.int16()), list[bytes]()
    for format_ in each:
        parts += [wire.zero(body.text()), body.take(16), format_.to_bytes(2)]
        body.take(2)
    return wire.message(b"T", count.to_bytes(2), *parts)


def _each(formats: Sequence[int], count: int) -> list[int]:
    """No format is text for all, one is for all, else there is one for each column."""
    each = list(formats) * count if len(formats) == 1 else list(formats) or [wire.TEXT] * count
    if len(each) != count or any(format_ not in (wire.TEXT, wire.BINARY) for format_ in each):
        raise Stop(Fault("the formats do not fit the columns", "08P01"))
    return each
