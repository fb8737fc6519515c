"""The catalogue that clients query: for each analyst an empty database, and a few connections to it.

It answers catalogue queries and infers the types of parameters. Its answers are forwarded as the bytes that PostgreSQL
sends.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.catalogue_allowlist import check
from dpsql.interfaces.server.catalogue_server import (
    CONNECTIONS,
    READER,
    CatalogueServer,
    CatalogueServers,
    TableDescription,
)
from dpsql.interfaces.server.portal import BoundParameters, Portal, StatementReply
from dpsql.interfaces.server.query_runner import SessionPool
from dpsql.interfaces.server.server_limits import MemoryQuota, QuotaExceeded
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.statement_routing import ClientStatement, StatementKind
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.wire import PROTOCOL, ErrorResponse, ProtocolViolation, message, read_message, zero
from dpsql.interfaces.server.wire_values import NAMES, TEXT, oid_of, with_formats
from dpsql.interfaces.visible_tables import TableInfo, visible_tables

MOST_ANSWER = 16 * 2**20


@dataclass(frozen=True, slots=True)
class CatalogueAnswer:
    """What PostgreSQL said: parameters' types, the row description (None: no rows), rows, the tag, or an error."""

    parameters: tuple[int, ...] = ()
    description: bytes | None = None
    rows: tuple[bytes, ...] = ()
    tag: bytes = b""
    error: bytes | None = None


class CatalogueConnections:
    """A few connections to one catalogue; each is used by one question at a time, and replaced when it breaks.

    Who asks no longer (the client left, or takes no more time) closes the connection, which ends the question there:
    PostgreSQL looks for that four times a second.
    """

    def __init__(self, socket: str, database: str) -> None:
        self._socket, self._database = socket, database
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def ask(self, sql: str, types: Sequence[int], bound: BoundParameters | None) -> CatalogueAnswer:
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
        """Close all connections."""
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
                raise ProtocolViolation("the catalogue is not there")
            if got[0] == b"Z":
                return reader, writer
        raise ProtocolViolation("the catalogue is not there")

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sql: str,
        types: Sequence[int],
        bound: BoundParameters | None,
    ) -> CatalogueAnswer:
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
        raise ProtocolViolation("the catalogue went away")

    async def _read(self, reader: asyncio.StreamReader) -> CatalogueAnswer:
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
                        raise ProtocolViolation("an answer of the catalogue is too long")
                    rows.append(message(kind, body.data))
                case b"C":
                    tag = body.data
                case b"E":
                    error = message(kind, body.data)
                case b"Z":
                    return CatalogueAnswer(parameters, description, tuple(rows), tag, error)
        raise ProtocolViolation("the catalogue went away")


def _bind(bound: BoundParameters) -> bytes:
    values = [b"\xff\xff\xff\xff" if v is None else len(v).to_bytes(4) + v for v in bound.values]
    return message(
        b"B", b"\0\0", len(bound.formats).to_bytes(2), *(struct.pack("!h", f) for f in bound.formats),
        len(bound.values).to_bytes(2), *values,
        len(bound.results).to_bytes(2), *(struct.pack("!h", f) for f in bound.results),
    )  # fmt: skip


# queries -------------------------------------------------------------------------------------------------------------

MOST_PARAMETERS = 1_000
_PARAMETER = re.compile(r"\$(\d{1,5})")


@dataclass(slots=True)
class CatalogueQueries:
    """The empty database of one account."""

    relay: CatalogueConnections
    room: MemoryQuota
    account: str

    async def answer(self, sql: str, portal: Portal) -> StatementReply:
        """Run a statement there."""
        check(sql)
        answer = await self._ask(sql, portal.prepared.types, portal.bound)
        tag = wire.message(b"C", answer.tag) if answer.tag else wire.EMPTY_QUERY
        return StatementReply(tag, answer.description, self.room.rows(self.account, answer.rows))

    async def columns(self, sql: str, types: Sequence[int], bound: BoundParameters) -> bytes | None:
        """The columns of a statement that is not run."""
        check(sql)
        answer = await self._ask(sql, types, None)
        return None if answer.description is None else with_formats(answer.description, bound.results)

    async def types(self, statement: ClientStatement, declared: Sequence[int]) -> tuple[int, ...]:
        """The types of the parameters: as declared, or as PostgreSQL infers them, else text. Nothing is run."""
        wanted = max((int(number) for number in _PARAMETER.findall(statement.text)), default=0)
        if wanted == 0 or statement.kind is StatementKind.SESSION:
            return tuple(declared)
        listed = [declared[i] if i < len(declared) else 0 for i in range(limit_count(max(wanted, len(declared))))]
        if all(listed):
            return tuple(listed)
        if statement.kind is StatementKind.CATALOGUE:
            check(statement.text)
        try:
            return (await self._ask(statement.text, listed, None)).parameters
        except StatementError:
            if statement.kind is StatementKind.CATALOGUE:
                raise
            return tuple(each or TEXT for each in listed)

    async def _ask(self, sql: str, types: Sequence[int], bound: BoundParameters | None) -> CatalogueAnswer:
        try:
            self.room.check(self.account)
            answer = await self.relay.ask(sql, types, bound)
        except QuotaExceeded:
            raise StatementError(sqlstates.FULL) from None
        except (TimeoutError, OSError, ProtocolViolation):
            raise StatementError(ErrorResponse("the catalogue did not answer", "58000", "ask again")) from None
        if answer.error is not None:
            raise StatementError(answer.error)
        return answer


def limit_count(count: int) -> int:
    """A number of parameters or columns that one statement may have."""
    if count > MOST_PARAMETERS:
        raise StatementError(
            ErrorResponse(f"a statement may have {MOST_PARAMETERS} parameters and columns", "54000", "send fewer")
        )
    return count


# the catalogues of all analysts --------------------------------------------------------------------------------------


class AnalystCatalogue(NamedTuple):
    """The tables that exist for an analyst, and the empty database that describes them."""

    tables: frozenset[str]
    described: tuple[TableDescription, ...]
    relay: CatalogueConnections
    shadow: CatalogueServer


class AnalystCatalogues:
    """The catalogues of all analysts: each is made at the first login, and again after the policy changes."""

    def __init__(self, dataset: str, desk: SessionPool) -> None:
        self._dataset, self._desk = dataset, desk
        self._shadows: CatalogueServers | None = None
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._views: dict[str, AnalystCatalogue] = {}

    async def open(self) -> None:
        """Make what all of them are copied from."""
        self._shadows = await asyncio.to_thread(CatalogueServers, self._dataset)

    async def of(self, user: User) -> AnalystCatalogue:
        """What a user sees."""
        async with self._turns[user.analyst]:
            if user.analyst not in self._views:
                self._views[user.analyst] = await self._made(user, None)
            return self._views[user.analyst]

    async def _made(self, user: User, old: AnalystCatalogue | None) -> AnalystCatalogue:
        assert self._shadows is not None
        listed = await self._desk.work(user, visible_tables)
        described = tuple(_described(table) for table in listed if table.columns)
        tables = frozenset(table.name.lower() for table in listed)
        if old is not None and old.described == described:
            return old._replace(tables=tables)
        shadow = await asyncio.to_thread(self._shadows.make, described)
        return AnalystCatalogue(tables, described, CatalogueConnections(shadow.socket, shadow.database), shadow)

    async def renew(self, users: Collection[User]) -> None:
        """Reload the policy for these users, and remove catalogues that nobody uses any more."""
        fresh = {user.analyst: user for user in users}
        for analyst in list(self._views):
            async with self._turns[analyst]:
                old = self._views[analyst]
                if analyst not in fresh:
                    del self._views[analyst]
                else:
                    self._views[analyst] = await self._made(fresh[analyst], old)
                if analyst not in fresh or self._views[analyst].shadow is not old.shadow:
                    await self._end(old)

    async def _end(self, view: AnalystCatalogue) -> None:
        assert self._shadows is not None
        await view.relay.close()
        await asyncio.to_thread(self._shadows.end, view.shadow)

    async def close(self) -> None:
        """Stop all of them."""
        for view in self._views.values():
            await view.relay.close()
        self._views.clear()
        if self._shadows is not None:
            await asyncio.to_thread(self._shadows.close)


def _described(table: TableInfo) -> TableDescription:
    columns = tuple((c.name, NAMES[oid_of(c.type.upper())], c.note) for c in table.columns)
    return TableDescription(table.name, columns, table.owner)
