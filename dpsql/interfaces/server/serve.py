"""`dpsql serve`: the listener, TLS, authentication, limits, cancellation, and the end of it all."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import secrets
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.interfaces.server import faults, wire
from dpsql.interfaces.server.conversation import Conversation
from dpsql.interfaces.server.desk import Desk
from dpsql.interfaces.server.relay import Relay
from dpsql.interfaces.server.scram import Exchange, Refused, nobody
from dpsql.interfaces.server.shadow import Described, Shadow, view_of
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.values import NAMES, oid_of
from dpsql.interfaces.server.wire import Body, Fault, Malformed
from dpsql.interfaces.tables import TableInfo, visible_tables
from dpsql.steward_log import places

if TYPE_CHECKING:
    from dpsql.session import Connection

log = logging.getLogger("dpsql.server")
Connect = Callable[[str, str | None], "Connection"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server puts up with; times are in seconds."""

    connections: int = 300
    message: int = 2**20
    login: float = 10
    idle: float = 3600
    statement: float = 120
    write: float = 60
    failures: float = 0.3


@dataclass(slots=True)
class Metrics:
    """Counters for Prometheus; none of them is about data."""

    counters: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.time)

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] += amount  # type: ignore[assignment]

    def text(self, connections: int) -> str:
        """All of them in Prometheus' form."""
        lines = [f"# TYPE {name} counter\n{name} {value:g}" for name, value in sorted(self.counters.items())]
        lines.append(f"# TYPE dpsql_connections gauge\ndpsql_connections {connections}")
        lines.append(f"# TYPE dpsql_start_time_seconds gauge\ndpsql_start_time_seconds {self.started:.0f}")
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Seat:
    """A client that is connected."""

    number: int
    secret: bytes
    task: asyncio.Task[None]
    conversation: Conversation | None = None
    busy: bool = False


class Server:
    """Everything that runs while `dpsql serve` does."""

    def __init__(
        self,
        dataset: str,
        connect: Connect,
        users: Mapping[str, User],
        tls: ssl.SSLContext | None,
        limits: Limits | None = None,
    ) -> None:
        self.dataset, self.users, self.tls, self.limits = dataset, dict(users), tls, limits or Limits()
        self.metrics = Metrics()
        self._connect, self._desk = connect, Desk(connect)
        self._seats: dict[int, Seat] = {}
        self._shadows: dict[str, tuple[Shadow, Relay]] = {}
        self._views: dict[str, tuple[str, frozenset[str]]] = {}
        self._viewing = asyncio.Lock()
        self._pepper = secrets.token_bytes(32)
        self._listeners: list[asyncio.Server] = []
        self._closing = False

    # life -----------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int, steward_port: int | None = None) -> tuple[int, int | None]:
        """Make the catalogues, then listen; the ports that were taken."""
        for analyst in {user.analyst for user in self.users.values()}:
            await self._view(next(u for u in self.users.values() if u.analyst == analyst))
        listener = await asyncio.start_server(self._meet, host, port, limit=2**16, backlog=512)
        self._listeners.append(listener)
        if steward_port is None:
            return _port(listener), None
        steward = await asyncio.start_server(self._steward, "127.0.0.1", steward_port)
        self._listeners.append(steward)
        return _port(listener), _port(steward)

    def reload(self, connect: Connect, users: Mapping[str, User]) -> None:
        """Take in a changed policy and changed users; those who are connected and gone from the file are sent away."""
        self.users = dict(users)
        self._connect = connect
        self._desk.reload(connect)
        self._views.clear()
        for seat in self._seats.values():
            known = seat.conversation is not None and seat.conversation.user == self.users.get(
                seat.conversation.user.name
            )
            if seat.conversation is not None and not known:
                seat.task.cancel()

    async def stop(self, patience: float = 30) -> None:
        """No new clients; those at rest are sent away, those that wait for an answer get it."""
        self._closing = True
        for listener in self._listeners:
            listener.close()
        for seat in list(self._seats.values()):
            if not seat.busy:
                seat.task.cancel()
        tasks = [seat.task for seat in self._seats.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for shadow, relay in self._shadows.values():
            await relay.close()
            await asyncio.to_thread(shadow.close)
        await asyncio.to_thread(self._desk.close)

    # the catalogue of a user ----------------------------------------------------------------------------------------

    async def _view(self, user: User) -> tuple[frozenset[str], Relay, Shadow]:
        """The tables that exist for a user, and the empty database that describes them."""
        async with self._viewing:
            if user.analyst not in self._views:
                listed = await self._desk.work(user, visible_tables)
                described = [_described(table) for table in listed if table.columns]
                view = view_of(described)
                if view not in self._shadows:
                    shadow = await asyncio.to_thread(Shadow, self.dataset, described)
                    self._shadows[view] = (shadow, Relay(shadow.socket, shadow.database))
                self._views[user.analyst] = (view, frozenset(table.name.lower() for table in listed))
            view, names = self._views[user.analyst]
        shadow, relay = self._shadows[view]
        return names, relay, shadow

    # a client -------------------------------------------------------------------------------------------------------

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        number = secrets.randbelow(2**31 - 1) + 1
        seat = Seat(number, secrets.token_bytes(4), task)
        self._seats[number] = seat
        self.metrics.count("dpsql_connections_total")
        try:
            if len(self._seats) > 2 * self.limits.connections:
                return  # more strangers than could ever log in: not even a word to them
            await self._serve(seat, reader, writer)
        except asyncio.CancelledError:
            await self._farewell(writer, faults.SHUTTING_DOWN)
        except Malformed as problem:
            self.metrics.count("dpsql_malformed_total")
            await self._farewell(writer, Fault(f"protocol violation: {problem}", "08P01", severity="FATAL"))
        except (TimeoutError, ConnectionError, ssl.SSLError, OSError):
            self.metrics.count("dpsql_lost_total")
        except Exception as failure:
            log.error(json.dumps({"event": "failure", "kind": type(failure).__name__}))
            log.debug("at %s", places(failure))
            await self._farewell(writer, faults.UNEXPECTED)
        finally:
            self._seats.pop(number, None)
            writer.close()

    async def _farewell(self, writer: asyncio.StreamWriter, fault: Fault) -> None:
        with contextlib.suppress(Exception):
            writer.write(fault.encode())
            await asyncio.wait_for(writer.drain(), 1)

    async def _serve(self, seat: Seat, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self.limits.login):
            begun = await self._begin(seat, reader, writer)
            if begun is None:
                return
            user, said = begun
            names, relay, shadow = await self._view(user)
            conversation = self._conversation(user, names, relay, writer)
            conversation.settings.update({k: v for k, v in said.items() if k == "application_name"})
            seat.conversation = conversation
            writer.write(self._greeting(seat, shadow, said))
            await writer.drain()
        log.info(json.dumps({"event": "login", "user": user.name, "analyst": user.analyst}))
        while True:
            seat.busy = False
            if self._closing:
                await self._farewell(writer, faults.SHUTTING_DOWN)
                return
            try:
                async with asyncio.timeout(self.limits.idle):
                    got = await wire.read_message(reader, self.limits.message)
            except TimeoutError:
                await self._farewell(writer, faults.IDLE)
                return
            if got is None:
                return
            seat.busy = True
            if not await conversation.handle(*got):
                return

    def _conversation(
        self, user: User, names: frozenset[str], relay: Relay, writer: asyncio.StreamWriter
    ) -> Conversation:
        async def send(data: bytes) -> None:
            writer.write(data)
            async with asyncio.timeout(self.limits.write):
                await writer.drain()

        return Conversation(user, names, relay, self._desk.work, send, self.metrics, self.limits.statement)

    def _greeting(self, seat: Seat, shadow: Shadow, said: Mapping[str, str]) -> bytes:
        statuses = {
            **shadow.settings, "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY",
            "TimeZone": "UTC", "integer_datetimes": "on", "standard_conforming_strings": "on",
            "IntervalStyle": "postgres", "is_superuser": "off", "session_authorization": "analyst",
            "in_hot_standby": "off", "default_transaction_read_only": "on",
            "application_name": said.get("application_name", ""),
        }  # fmt: skip
        told = b"".join(wire.parameter_status(name, value) for name, value in statuses.items())
        return wire.authentication(0) + told + wire.backend_key(seat.number, seat.secret) + wire.ready("I")

    # the first messages ---------------------------------------------------------------------------------------------

    async def _begin(
        self, seat: Seat, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[User, dict[str, str]] | None:
        """TLS, then who it is; None for a cancellation, or where there is nothing more to say."""
        for _ in range(3):
            code, body = await wire.read_startup(reader)
            if code == wire.SSL_REQUEST and not _secure(writer):
                await self._start_tls(reader, writer)
            elif code == wire.GSS_REQUEST:
                writer.write(b"N")
                await writer.drain()
            elif code == wire.CANCEL_REQUEST:
                self._cancel(body)
                return None
            elif code >> 16 == 3:
                return await self._login(seat, body, reader, writer, minor=code & 0xFFFF)
            else:
                break
        raise Malformed("this server speaks version 3 of the protocol")

    async def _start_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.tls is None:
            writer.write(b"N")
            await writer.drain()
            return
        if reader._buffer:  # type: ignore[attr-defined]
            raise Malformed("bytes before TLS")  # they would be read as if they had come through it
        writer.write(b"S")
        await writer.start_tls(self.tls)
        reader._transport = writer.transport  # type: ignore[attr-defined]

    def _cancel(self, body: Body) -> None:
        seat = self._seats.get(body.int32())
        if seat is not None and secrets.compare_digest(seat.secret, body.take(4)) and seat.conversation is not None:
            seat.conversation.cancelled.set()

    async def _login(
        self, seat: Seat, body: Body, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, minor: int
    ) -> tuple[User, dict[str, str]] | None:
        said: dict[str, str] = {}
        while name := body.text():
            said[name.lower()] = body.text()
        body.done()
        options = [name for name in said if name.startswith("_pq_.")]
        if minor > 0 or options:
            writer.write(wire.message(b"v", (0).to_bytes(4), len(options).to_bytes(4), *map(wire.zero, options)))
        if len(self._seats) > self.limits.connections:
            await self._farewell(writer, faults.TOO_MANY)
            return None
        if not (_secure(writer) or _local(writer)):
            await self._farewell(writer, faults.NEEDS_TLS)
            return None
        name = said.get("user", "")
        user = self.users.get(name)
        exchange = Exchange(nobody(name, self._pepper) if user is None else user.verifier, user is not None)
        try:
            await self._authenticate(exchange, reader, writer)
        except Refused:
            self.metrics.count("dpsql_wrong_passwords_total")
            await asyncio.sleep(self.limits.failures)
            await self._farewell(writer, faults.wrong_password(name))
            return None
        assert user is not None
        if said.get("database", name) != self.dataset:
            await self._farewell(writer, faults.no_database(said.get("database", name), self.dataset))
            return None
        return user, said

    async def _authenticate(
        self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(wire.authentication(10, b"SCRAM-SHA-256\0\0"))
        await writer.drain()
        first = await self._password(reader)
        if first.text() != "SCRAM-SHA-256":
            raise Refused("another mechanism")
        writer.write(wire.authentication(11, exchange.challenge(first.take(max(0, first.int32())))))
        await writer.drain()
        last = await self._password(reader)
        writer.write(wire.authentication(12, exchange.verify(last.data)))

    async def _password(self, reader: asyncio.StreamReader) -> Body:
        got = await wire.read_message(reader, 10_000)
        if got is None or got[0] != b"p":
            raise Malformed("a password was expected")
        return got[1]

    # for the steward ------------------------------------------------------------------------------------------------

    async def _steward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`/healthz` and `/metrics`, in the plainest HTTP."""
        try:
            async with asyncio.timeout(5):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
            path = line[1] if len(line) > 1 and line[0] == "GET" else ""
            pages = {"/healthz": "ok\n", "/metrics": self.metrics.text(len(self._seats))}
            status, text = ("200 OK", pages[path]) if path in pages else ("404 Not Found", "not found\n")
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n{text}".encode())
            await asyncio.wait_for(writer.drain(), 5)
        except (TimeoutError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()


def _port(listener: asyncio.Server) -> int:
    return int(listener.sockets[0].getsockname()[1])


def _secure(writer: asyncio.StreamWriter) -> bool:
    return writer.get_extra_info("ssl_object") is not None


def _local(writer: asyncio.StreamWriter) -> bool:
    peer = writer.get_extra_info("peername")
    try:
        return bool(ipaddress.ip_address(peer[0]).is_loopback)
    except (ValueError, TypeError, IndexError):
        return False


def _described(table: TableInfo) -> Described:
    columns = tuple((c.name, NAMES[oid_of(c.type.upper())], c.note) for c in table.columns)
    return Described(table.name, columns, table.owner)


def checked(users: Mapping[str, User], connect: Connect) -> None:
    """Every user has an account in the policy: looked at before the first of them is there."""
    for user in users.values():
        try:
            connect(user.analyst, user.purpose).close()
        except Error as problem:
            raise type(problem)(f"the user {user.name}: {problem.message}", hint=problem.hint) from None


def folder_of(users: Path) -> Path:
    """Where the server keeps its certificate: beside the users."""
    return users.resolve().parent
