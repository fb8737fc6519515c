"""Questions to an analyst's catalogue: over a few connections, relayed as the bytes that PostgreSQL sends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.interfaces.server.shadow import CONNECTIONS, READER
from dpsql.interfaces.server.wire import PROTOCOL, Malformed, message, read_message, zero

MOST_ANSWER = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Bound:
    """The values of a statement's parameters as the client sent them, and the formats that it wants back."""

    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    results: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What PostgreSQL said: parameters' types, the row description (None: no rows), rows, the tag, or an error."""

    parameters: tuple[int, ...] = ()
    description: bytes | None = None
    rows: tuple[bytes, ...] = ()
    tag: bytes = b""
    error: bytes | None = None


class Relay:
    """A few connections to one catalogue; each is used by one question at a time, and replaced when it breaks.

    Who asks no longer (the client left, or takes no more time) closes the connection, which ends the question there:
    PostgreSQL looks for that four times a second.
    """

    def __init__(self, socket: str, database: str) -> None:
        self._socket, self._database = socket, database
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def ask(self, sql: str, types: Sequence[int], bound: Bound | None) -> Answer:
        """Parse, describe and, with `bound`, run a statement in a transaction that is rolled back."""
        async with self._slots:
            reader, writer = self._idle.pop() if self._idle else await self._connect()
            try:
                answer = await asyncio.wait_for(self._exchange(reader, writer, sql, types, bound), 10)
            except BaseException:
                writer.close()
                raise
            self._idle.append((reader, writer))
            return answer

    async def close(self) -> None:
        """Let go of all connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        words = b"".join(zero(word) for pair in (("user", READER), ("database", self._database)) for word in pair)
        body = PROTOCOL.to_bytes(4) + words + b"\0"
        writer.write((len(body) + 4).to_bytes(4) + body)
        while (got := await read_message(reader, MOST_ANSWER)) is not None:
            if got[0] == b"E":
                raise Malformed("the catalogue is not there")
            if got[0] == b"Z":
                return reader, writer
        raise Malformed("the catalogue is not there")

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sql: str,
        types: Sequence[int],
        bound: Bound | None,
    ) -> Answer:
        parse = message(b"P", b"\0", zero(sql), len(types).to_bytes(2), *(t.to_bytes(4) for t in types))
        describe = message(b"D", b"S\0")
        steps = [message(b"Q", zero("BEGIN READ ONLY")), parse, describe]
        if bound is not None:
            steps += [_bind(bound), message(b"D", b"P\0"), message(b"E", b"\0", bytes(4))]
        steps += [message(b"S"), message(b"Q", zero("ROLLBACK")), message(b"Q", zero("DISCARD ALL"))]
        writer.write(b"".join(steps))
        await self._skip(reader)
        answer = await self._read(reader)
        await self._skip(reader)
        await self._skip(reader)
        return answer

    async def _skip(self, reader: asyncio.StreamReader) -> None:
        while (got := await read_message(reader, MOST_ANSWER)) is not None:
            if got[0] == b"Z":
                return
        raise Malformed("the catalogue went away")

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        parameters: tuple[int, ...] = ()
        description, error, tag, rows, size = None, None, b"", list[bytes](), 0
        while (got := await read_message(reader, MOST_ANSWER)) is not None:
            kind, body = got
            match kind:
                case b"t":
                    parameters = tuple(body.int32() for _ in range(body.int16()))
                case b"T":
                    description = message(kind, body.data)
                case b"D":
                    size += len(body.data)
                    if size > MOST_ANSWER:
                        raise Malformed("an answer of the catalogue is too long")
                    rows.append(message(kind, body.data))
                case b"C":
                    tag = body.data
                case b"E":
                    error = message(kind, body.data)
                case b"Z":
                    return Answer(parameters, description, tuple(rows), tag, error)
        raise Malformed("the catalogue went away")


def _bind(bound: Bound) -> bytes:
    values = [b"\xff\xff\xff\xff" if v is None else len(v).to_bytes(4) + v for v in bound.values]
    return message(
        b"B", b"\0\0", len(bound.formats).to_bytes(2), *(struct.pack("!h", f) for f in bound.formats),
        len(bound.values).to_bytes(2), *values,
        len(bound.results).to_bytes(2), *(struct.pack("!h", f) for f in bound.results),
    )  # fmt: skip
