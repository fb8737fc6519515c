"""Values and columns on the wire: PostgreSQL types, as text and in the binary format."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from dpsql.interfaces.server import wire
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.wire import (
    BINARY,
    ColumnDescription,
    ErrorResponse,
    MessageReader,
    ProtocolViolation,
    data_row,
)

BOOL, INT8, INT2, INT4, TEXT, FLOAT4, FLOAT8 = 16, 20, 21, 23, 25, 700, 701
VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC, BPCHAR, UNKNOWN = 1043, 1082, 1083, 1114, 1184, 1700, 1042, 705
EPOCH = datetime(2000, 1, 1)
NULL = b"\xff\xff\xff\xff"
_REST = re.compile(r"(\d\d:\d\d(:\d\d(\.\d{1,6})?)?)? ?([+-]\d\d(:?\d\d)?|Z)?")
SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8, TIMESTAMP: 8, TIMESTAMPTZ: 8}
_DUCKDB = {
    "BOOLEAN": BOOL, "TINYINT": INT2, "UTINYINT": INT2, "SMALLINT": INT2, "USMALLINT": INT4, "INTEGER": INT4,
    "UINTEGER": INT8, "BIGINT": INT8, "UBIGINT": NUMERIC, "HUGEINT": NUMERIC, "UHUGEINT": NUMERIC, "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8, "DATE": DATE, "TIME": TIME, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP, "TIMESTAMP_NS": TIMESTAMP, "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ, "VARCHAR": TEXT,
}  # fmt: skip
NAMES = {BOOL: "boolean", INT2: "smallint", INT4: "integer", INT8: "bigint", FLOAT4: "real", NUMERIC: "numeric",
         FLOAT8: "double precision", DATE: "date", TIME: "time", TIMESTAMP: "timestamp", TEXT: "text",
         TIMESTAMPTZ: "timestamp with time zone"}  # fmt: skip


def oid_of(type_: str) -> int:
    """The type under which a column of the answer is sent; what PostgreSQL has not is text."""
    return NUMERIC if type_.startswith("DECIMAL") else _DUCKDB.get(type_, TEXT)


def encoded(values: Iterable[Any], oid: int, format_: int) -> list[bytes]:
    """The values of one column as they stand in rows: each with its length before it."""
    if format_ == BINARY and oid in _FIXED:
        pack, size = struct.Struct(f"!i{_FIXED[oid]}").pack, SIZES[oid]
        return [NULL if value is None else pack(size, value) for value in values]
    if format_ == BINARY and oid in _BINARY:
        written = [None if value is None else _BINARY[oid](value) for value in values]
    else:
        written = _AS_TEXT.get(oid, _texts)(values)
    few = _LENGTHS
    return [
        NULL if data is None else (few[len(data)] if len(data) < 256 else len(data).to_bytes(4)) + data
        for data in written
    ]


def data_rows(rows: Sequence[Sequence[Any]], types: Sequence[tuple[int, int]]) -> list[bytes]:
    """Rows as messages, column by column: of each the type and the format."""
    if not rows or not types:
        return [data_row(())] * len(rows)
    columns = [encoded(column, *type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    head = len(types).to_bytes(2)
    bodies = list(map(b"".join, zip(*columns, strict=True)))
    heads = {size: b"D" + (size + 6).to_bytes(4) + head for size in set(map(len, bodies))}
    return [heads[len(body)] + body for body in bodies]


def _text(value: Any) -> bytes:
    match value:
        case bool():
            return b"t" if value else b"f"
        case float():
            special = {float("inf"): b"Infinity", float("-inf"): b"-Infinity"}
            return b"NaN" if value != value else special.get(value) or repr(value).encode()
        case datetime():
            return value.isoformat(" ").encode()
        case _:
            return str(value).replace("\0", "").encode("utf-8", "replace")


def _texts(values: Iterable[Any]) -> list[bytes | None]:
    return [
        None if v is None else v.encode("utf-8", "replace") if type(v) is str and "\0" not in v else _text(v)
        for v in values
    ]


def _whole(values: Iterable[Any]) -> list[bytes | None]:
    return [None if v is None else str(v).encode() for v in values]


def _floats(values: Iterable[Any]) -> list[bytes | None]:
    return [None if v is None else repr(v).encode() if isfinite(v) else _text(v) for v in values]


def _days(values: Iterable[Any]) -> list[bytes | None]:
    """Dates repeat, so each is written once."""
    listed = list(values)
    written = {day: None if day is None else day.isoformat().encode() for day in set(listed)}
    return [written[day] for day in listed]


_AS_TEXT = {INT2: _whole, INT4: _whole, INT8: _whole, FLOAT4: _floats, FLOAT8: _floats, DATE: _days}
_LENGTHS = [size.to_bytes(4) for size in range(256)]
_FIXED = {INT2: "h", INT4: "i", INT8: "q", FLOAT4: "f", FLOAT8: "d"}


def _numeric(value: Any) -> bytes:
    """Base 10,000 digits, weight, sign and scale."""
    number = Decimal(value)
    if not number.is_finite():
        return struct.pack("!HhHH", 0, 0, 0xC000, 0)
    sign, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(0, int(exponent))
    pad = -scale % 4
    groups, rest = [], whole * 10**pad
    while rest:
        rest, group = divmod(rest, 10_000)
        groups.append(group)
    groups.reverse()
    weight = len(groups) - (scale + pad) // 4 - 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f"!HhHH{len(groups)}H", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _microseconds(value: datetime) -> int:
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return (plain - EPOCH) // timedelta(microseconds=1)


_BINARY: dict[int, Callable[[Any], bytes]] = {
    BOOL: lambda v: b"\1" if v else b"\0",
    NUMERIC: _numeric,
    DATE: lambda v: struct.pack("!i", (v - EPOCH.date()).days),
    TIME: lambda v: struct.pack("!q", (datetime.combine(date(2000, 1, 1), v) - EPOCH) // timedelta(microseconds=1)),
    TIMESTAMP: lambda v: struct.pack("!q", _microseconds(v)),
    TIMESTAMPTZ: lambda v: struct.pack("!q", _microseconds(v)),
}


# parameters ---------------------------------------------------------------------------------------------------------

Parameter = bool | int | float | Decimal | str | date | datetime | time | None


def decode(oid: int, format_: int, data: bytes | None) -> Parameter:
    """The value of a parameter; one that its type cannot hold is malformed."""
    if data is None:
        return None
    try:
        if format_ == BINARY:
            read = _READ_BINARY.get(oid)
            if read is None:
                raise ProtocolViolation(f"a parameter of type {oid} is sent as text here")
            return read(data)
        text = data.decode()
        return _READ_TEXT.get(oid, str)(text)
    except (ValueError, struct.error, ArithmeticError, UnicodeDecodeError):
        raise ProtocolViolation(f"a parameter is no {NAMES.get(oid, 'value of its type')}") from None


def _read_bool(text: str) -> bool:
    folded = text.strip().lower()
    if folded in ("t", "true", "y", "yes", "on", "1"):
        return True
    if folded in ("f", "false", "n", "no", "off", "0"):
        return False
    raise ValueError(text)


def _read_numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack("!HhHH", data[:8])
    if sign not in (0, 0x4000) or len(data) != 8 + 2 * count:
        raise ValueError("not a finite number")
    groups = struct.unpack(f"!{count}H", data[8:])
    parts = (Decimal(group).scaleb(4 * (weight - i)) for i, group in enumerate(groups))
    total = sum(parts, Decimal(0)).quantize(Decimal(1).scaleb(-scale))
    return -total if sign else total


def _day(text: str) -> date:
    """A date; a time or an offset behind it is left out, as PostgreSQL does (pgjdbc sends `2024-06-01 +00`)."""
    day, _, rest = text.strip().replace("T", " ").partition(" ")
    if rest and _REST.fullmatch(rest) is None:
        raise ValueError(text)
    return date.fromisoformat(day)


def _moment(text: str) -> datetime:
    """A timestamp without a zone: an offset is left out."""
    return datetime.fromisoformat(text.strip().replace("T", " ")).replace(tzinfo=None)


def _moment_in_utc(text: str) -> datetime:
    """A timestamp with a zone, read in UTC."""
    moment = datetime.fromisoformat(text.strip().replace("T", " "))
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


_READ_TEXT: dict[int, Callable[[str], Parameter]] = {
    BOOL: _read_bool, INT2: int, INT4: int, INT8: int, FLOAT4: float, FLOAT8: float, NUMERIC: Decimal,
    DATE: _day, TIME: time.fromisoformat, TIMESTAMP: _moment, TIMESTAMPTZ: _moment_in_utc,
}  # fmt: skip
_READ_BINARY: dict[int, Callable[[bytes], Parameter]] = {
    BOOL: lambda d: struct.unpack("!?", d)[0],
    INT2: lambda d: int(struct.unpack("!h", d)[0]),
    INT4: lambda d: int(struct.unpack("!i", d)[0]),
    INT8: lambda d: int(struct.unpack("!q", d)[0]),
    FLOAT4: lambda d: float(struct.unpack("!f", d)[0]),
    FLOAT8: lambda d: float(struct.unpack("!d", d)[0]),
    NUMERIC: _read_numeric,
    DATE: lambda d: EPOCH.date() + timedelta(days=struct.unpack("!i", d)[0]),
    TIME: lambda d: (EPOCH + timedelta(microseconds=struct.unpack("!q", d)[0])).time(),
    TIMESTAMP: lambda d: EPOCH + timedelta(microseconds=struct.unpack("!q", d)[0]),
    TIMESTAMPTZ: lambda d: EPOCH + timedelta(microseconds=struct.unpack("!q", d)[0]),
    TEXT: lambda d: d.decode(),
    VARCHAR: lambda d: d.decode(),
    BPCHAR: lambda d: d.decode(),
    UNKNOWN: lambda d: d.decode(),
}


# row descriptions ----------------------------------------------------------------------------------------------------

SAMPLES: dict[int, Any] = {
    BOOL: True, INT2: 1, INT4: 1, INT8: 1, FLOAT4: 1.5, FLOAT8: 1.5,
    NUMERIC: Decimal("1.5"), DATE: date(2020, 1, 1), TIMESTAMP: datetime(2020, 1, 1),
    TIMESTAMPTZ: datetime(2020, 1, 1), TIME: time(),
}  # fmt: skip
"""A value of each type, to plan a statement whose values are not known yet."""


def shown(names: Sequence[str], types: Sequence[str], formats: Sequence[int]) -> list[ColumnDescription]:
    """Columns with DuckDB's types, in the formats that a client asked for."""
    oids, each = [oid_of(type_) for type_ in types], _each(formats, len(names))
    return [ColumnDescription(n, oid, SIZES.get(oid, -1), f) for n, oid, f in zip(names, oids, each, strict=True)]


def one_text(name: str) -> bytes:
    """The description of a single column of text."""
    return wire.row_description([ColumnDescription(name, TEXT)])


def with_formats(description: bytes, formats: Sequence[int]) -> bytes:
    """A row description of the catalogue with the formats that the client asked for."""
    body = MessageReader(description[5:])
    each, parts = _each(formats, count := body.int16()), list[bytes]()
    for format_ in each:
        parts += [wire.zero(body.text()), body.take(16), format_.to_bytes(2)]
        body.take(2)
    return wire.message(b"T", count.to_bytes(2), *parts)


def _each(formats: Sequence[int], count: int) -> list[int]:
    """No format is text for all, one is for all, else there is one for each column."""
    each = list(formats) * count if len(formats) == 1 else list(formats) or [wire.TEXT] * count
    if len(each) != count or any(format_ not in (wire.TEXT, wire.BINARY) for format_ in each):
        raise StatementError(ErrorResponse("the formats do not fit the columns", "08P01"))
    return each
