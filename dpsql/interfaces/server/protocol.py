"""The PostgreSQL protocol for one client, from its first message to its last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.client_catalogue import CatalogueConnections, limit_count
from dpsql.interfaces.server.execution import StatementExecutor
from dpsql.interfaces.server.portal import BoundParameters, Portal, PreparedObjects, PreparedStatement
from dpsql.interfaces.server.query_runner import QueryRunner
from dpsql.interfaces.server.session_commands import ClientSession
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.statement_routing import (
    ClientStatement,
    StatementKind,
    TooManyStatements,
    split_statements,
)
from dpsql.interfaces.server.wire import ErrorResponse, MessageReader, ProtocolViolation
from dpsql.interfaces.server.wire_values import SAMPLES, decode


@dataclass(slots=True)
class ProtocolHandler:
    """The state of one client's session, and what each message does to it."""

    tables: frozenset[str]
    session: ClientSession
    shelf: PreparedObjects
    answers: StatementExecutor
    send: Callable[[bytes], Awaitable[None]]
    _skipping: bool = False

    @property
    def asking(self) -> QueryRunner:
        """The client's way to dpsql."""
        return self.answers.asking

    def look_at(self, tables: frozenset[str], relay: CatalogueConnections) -> None:
        """Switch to the tables and the catalogue of a reloaded policy."""
        self.tables, self.answers.catalogue.relay = tables, relay

    def close(self) -> None:
        """Release everything that the client holds."""
        self.shelf.close_portals()
        self.answers.results.close()

    async def handle(self, kind: bytes, body: MessageReader) -> bool:
        """Handle one message; return False at the end of the session."""
        if kind == b"X":
            return False
        if kind in b"SQ":
            self._skipping = False
            await (self._simple(body) if kind == b"Q" else self._sync())
            await self.send(self.session.news() + wire.ready(self.session.status))
            return True
        if self._skipping or kind == b"H":
            return True
        try:
            await self._extended(kind, body)
        except StatementError as stop:
            self._skipping = True
            self.session.failed()
            await self.send(stop.encoded)
        return True

    async def _sync(self) -> None:
        """Outside a transaction, portals end with it."""
        if self.session.status == "I":
            self.session.end()
            self.shelf.close_portals()

    # simple queries -------------------------------------------------------------------------------------------------

    async def _simple(self, body: MessageReader) -> None:
        text = body.text()
        body.done()
        try:
            for statement in self._statements(text):
                self.session.begin()
                await self._send_all(Portal(PreparedStatement(statement)))
        except StatementError as stop:
            self.session.failed()
            await self.send(stop.encoded)
        else:
            await self._sync()

    def _statements(self, text: str) -> list[ClientStatement]:
        try:
            return split_statements(text, self.tables)
        except TooManyStatements:
            raise StatementError(sqlstates.STATEMENTS) from None

    async def _send_all(self, portal: Portal) -> None:
        reply = await self.answers.answer(portal)
        try:
            if reply.description is not None:
                await self.send(reply.description)
            if reply.rows is not None:
                for part, _ in reply.rows.parts():
                    await self.send(part)
            await self.send(reply.tail + reply.tag)
        finally:
            reply.close()

    # extended queries -----------------------------------------------------------------------------------------------

    async def _extended(self, kind: bytes, body: MessageReader) -> None:
        match kind:
            case b"P":
                await self._parse(body)
            case b"B":
                await self._bind(body)
            case b"D":
                await self._describe(body)
            case b"E":
                await self._execute(body)
            case b"C":
                await self._close(body)
            case b"F":
                raise StatementError(ErrorResponse("function calls are not supported", "0A000", "write a SELECT"))
            case b"d" | b"c" | b"f":
                raise StatementError(sqlstates.COPY)
            case _:
                raise ProtocolViolation("a message of an unknown kind")

    async def _parse(self, body: MessageReader) -> None:
        name, text = body.text(), body.text()
        types = [body.int32() for _ in range(limit_count(body.int16()))]
        body.done()
        statements = self._statements(text)
        if len(statements) > 1:
            raise StatementError(
                ErrorResponse("a prepared statement is one statement", "42601", "prepare them one by one")
            )
        known = await self.answers.catalogue.types(statements[0], types)
        self.shelf.prepare(name, PreparedStatement(statements[0], known))
        await self.send(wire.PARSE_COMPLETE)

    async def _bind(self, body: MessageReader) -> None:
        name, source = body.text(), body.text()
        formats = [body.int16() for _ in range(limit_count(body.int16()))]
        given = [_value(body) for _ in range(limit_count(body.int16()))]
        results = [body.int16() for _ in range(limit_count(body.int16()))]
        body.done()
        prepared = self.shelf.statement(source)
        bound = BoundParameters(tuple(formats), tuple(given), tuple(results))
        self.shelf.bind(name, Portal(prepared, bound, _decoded(prepared, bound)))
        await self.send(wire.BIND_COMPLETE)

    async def _describe(self, body: MessageReader) -> None:
        what, name = body.take(1), body.text()
        body.done()
        if what == b"S":
            prepared = self.shelf.statement(name)
            samples = tuple(SAMPLES.get(oid, "") for oid in prepared.types)
            described = await self.answers.describe(prepared, samples, BoundParameters())
            await self.send(wire.parameter_description(prepared.types) + (described or wire.NO_DATA))
            return
        if what != b"P":
            raise ProtocolViolation("neither a statement nor a portal")
        portal = self.shelf.portal(name)
        if portal.reply is not None:
            described = portal.reply.description
        else:
            described = await self.answers.describe(portal.prepared, portal.values, portal.bound)
        await self.send(described or wire.NO_DATA)

    async def _execute(self, body: MessageReader) -> None:
        """Send the rows of a portal, at most as many as the client asked for. Its query runs once."""
        name, limit = body.text(), body.int32()
        body.done()
        portal = self.shelf.portal(name)
        if portal.reply is None:
            self.session.begin()
            portal.reply = await self.answers.answer(portal)
        reply, count = portal.reply, 0
        if reply.rows is not None:
            for part, size in reply.rows.parts(limit):
                await self.send(part)
                count += size
        portal.sent += count
        if 0 < limit == count:
            await self.send(wire.SUSPENDED)
            return
        reply.close()
        await self.send((b"" if portal.ended else reply.tail) + portal.tag)
        portal.ended = True

    async def _close(self, body: MessageReader) -> None:
        what, name = body.take(1), body.text()
        body.done()
        if what == b"S":
            self.shelf.prepared.pop(name, None)
        elif what == b"P":
            self.shelf.close_portal(name)
        else:
            raise ProtocolViolation("neither a statement nor a portal")
        await self.send(wire.CLOSE_COMPLETE)


def _value(body: MessageReader) -> bytes | None:
    size = body.int32()
    return None if size == -1 else body.take(size)


def _decoded(prepared: PreparedStatement, bound: BoundParameters) -> tuple[Any, ...]:
    """The values of a query for dpsql; the catalogue reads its own."""
    types, given, formats = prepared.types, bound.values, bound.formats
    if len(given) != len(types) or len(formats) not in (0, 1, len(given)):
        raise StatementError(ErrorResponse(f"{len(types)} values are needed, {len(given)} were given", "08P01"))
    if prepared.statement.kind is not StatementKind.QUERY:
        return ()
    each = formats * len(given) if len(formats) == 1 else formats or (wire.TEXT,) * len(given)
    try:
        return tuple(decode(t, f, v) for t, f, v in zip(types, each, given, strict=True))
    except ProtocolViolation as problem:
        raise StatementError(ErrorResponse(str(problem), "22P02", "send a value of the parameter's type")) from None
