"""The PostgreSQL protocol, version 3, as bytes: frames in, messages out. Nothing here knows about SQL."""

from __future__ import annotations

import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PROTOCOL = 196608
CANCEL_REQUEST, SSL_REQUEST, GSS_REQUEST = 80877102, 80877103, 80877104
STARTUP_LIMIT = 10_000
TEXT, BINARY = 0, 1


class ProtocolViolation(Exception):
    """Bytes that are not a message of the protocol. The connection is closed."""


@dataclass(slots=True)
class MessageReader:
    """Reads the body of a message from left to right; a body that is too short is malformed."""

    data: bytes
    at: int = 0

    def int16(self) -> int:
        """An unsigned number of two bytes."""
        return int.from_bytes(self.take(2))

    def int32(self) -> int:
        """A signed number of four bytes."""
        return int.from_bytes(self.take(4), signed=True)

    def take(self, count: int) -> bytes:
        """Read a number of bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise ProtocolViolation("a message is shorter than it says")
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        """A string that ends with a zero byte."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ProtocolViolation("a string has no end")
        raw, self.at = self.data[self.at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProtocolViolation("a string is not UTF-8") from None

    def done(self) -> None:
        """Raise unless everything has been read."""
        if self.at != len(self.data):
            raise ProtocolViolation("a message is longer than it says")


async def read_startup(reader: StreamReader) -> tuple[int, MessageReader]:
    """The first message, which has no kind: a request for TLS, a cancellation, or the start of a session."""
    try:
        length = int.from_bytes(await reader.readexactly(4))
        if not 8 <= length <= STARTUP_LIMIT:
            raise ProtocolViolation("the first message has an impossible length")
        body = MessageReader(await reader.readexactly(length - 4))
    except IncompleteReadError:
        raise ProtocolViolation("the client left") from None
    return body.int32(), body


async def read_message(reader: StreamReader, limit: int) -> tuple[bytes, MessageReader] | None:
    """The next message; None at the end. One that is longer than the limit is malformed, and never held in memory."""
    try:
        kind = await reader.readexactly(1)
    except IncompleteReadError:
        return None
    try:
        length = int.from_bytes(await reader.readexactly(4))
        if not 4 <= length <= limit + 4:
            raise ProtocolViolation(f"a message may have {limit:,} bytes")
        return kind, MessageReader(await reader.readexactly(length - 4))
    except IncompleteReadError:
        raise ProtocolViolation("the client left in the middle of a message") from None


# messages of the server ---------------------------------------------------------------------------------------------


def message(kind: bytes, *parts: bytes) -> bytes:
    """A message with its length."""
    size = 4 + sum(map(len, parts))
    return b"".join((kind, size.to_bytes(4), *parts))


def zero(text: str) -> bytes:
    """A string on the wire; it cannot hold a zero byte."""
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, data: bytes = b"") -> bytes:
    """AuthenticationOk (0), SASL (10), SASLContinue (11), SASLFinal (12)."""
    return message(b"R", code.to_bytes(4), data)


def parameter_status(name: str, value: str) -> bytes:
    """ParameterStatus: a setting that clients use."""
    return message(b"S", zero(name), zero(value))


def backend_key(process: int, secret: bytes) -> bytes:
    """BackendKeyData: the number and secret with which a client cancels its query."""
    return message(b"K", process.to_bytes(4), secret)


def ready(status: str) -> bytes:
    """Ready for the next query: I(dle), T(ransaction), E(rror)."""
    return message(b"Z", status.encode())


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column as clients see it: its name and its type."""

    name: str
    oid: int
    size: int = -1
    format: int = TEXT


def row_description(columns: Sequence[ColumnDescription]) -> bytes:
    """Names, types and formats of a result."""
    parts = [len(columns).to_bytes(2)]
    for column in columns:
        parts += [zero(column.name), struct.pack("!ihihih", 0, 0, column.oid, column.size, -1, column.format)]
    return message(b"T", *parts)


def data_row(values: Iterable[bytes | None]) -> bytes:
    """One row; None is NULL."""
    listed = list(values)
    parts = [b"\xff\xff\xff\xff" if v is None else len(v).to_bytes(4) + v for v in listed]
    return message(b"D", len(listed).to_bytes(2), *parts)


def complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", zero(tag))


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error or a notice: what, SQLSTATE, where (from 1, in characters), and what to do."""

    text: str
    state: str
    hint: str | None = None
    position: int | None = None
    severity: str = "ERROR"
    detail: str | None = field(default=None)
    kind: str | None = None

    def encode(self) -> bytes:
        """ErrorResponse, or NoticeResponse for a notice."""
        fields = {"S": self.severity, "V": self.severity, "C": self.state, "M": self.text, "D": self.detail,
                  "H": self.hint, "P": None if self.position is None else str(self.position),
                  "R": self.kind}  # fmt: skip
        parts = [key.encode() + zero(value) for key, value in fields.items() if value]
        kind = b"N" if self.severity in ("NOTICE", "WARNING", "INFO") else b"E"
        return message(kind, *parts, b"\0")


PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = (message(kind) for kind in (b"1", b"2", b"3"))
NO_DATA, EMPTY_QUERY, SUSPENDED = (message(kind) for kind in (b"n", b"I", b"s"))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", len(oids).to_bytes(2), *(oid.to_bytes(4) for oid in oids))
