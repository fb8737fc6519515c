"""`dpsql serve`: the listener, its clients, and the shutdown."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.errors import Error
from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.client_catalogue import AnalystCatalogue, AnalystCatalogues, CatalogueQueries
from dpsql.interfaces.server.execution import StatementExecutor
from dpsql.interfaces.server.login import Authenticator, ClientStream, Disconnect, Throttle, derive_pepper
from dpsql.interfaces.server.monitoring import Metrics, failed, note
from dpsql.interfaces.server.portal import PreparedObjects
from dpsql.interfaces.server.protocol import ProtocolHandler
from dpsql.interfaces.server.query_runner import QueryRunner, SessionPool
from dpsql.interfaces.server.remote_calls import RecentResults
from dpsql.interfaces.server.server_limits import MemoryQuota, ServerLimits
from dpsql.interfaces.server.session_commands import TRACKED, ClientSession, SessionCommands
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.wire import ErrorResponse, ProtocolViolation
from dpsql.interfaces.visible_tables import visible_tables

if TYPE_CHECKING:
    from dpsql.session import Connection

LOOK = 0.25
"""Seconds between two looks whether a client that waits is still there."""
PATIENCE = 2.0
"""Seconds that a stranger surely has, if there are not too many altogether."""
Connect = Callable[[str, str | None], "Connection"]


@dataclass(slots=True)
class ConnectedClient:
    """A connected client; `reason` is the error that it gets when it is disconnected."""

    number: int
    secret: bytes
    task: asyncio.Task[None]
    address: str
    since: float = field(default_factory=time.monotonic)
    conversation: ProtocolHandler | None = None
    busy: bool = False
    reason: ErrorResponse = sqlstates.SHUTTING_DOWN

    @property
    def user(self) -> User | None:
        """The user, once the client has logged in."""
        return None if self.conversation is None else self.conversation.asking.user


class Server:
    """The server behind `dpsql serve`."""

    def __init__(
        self,
        dataset: str,
        connect: Connect,
        users: Mapping[str, User],
        tls: ssl.SSLContext | None,
        limits: ServerLimits | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.dataset, self.limits = dataset, limits or ServerLimits()
        self._desk, self._room = SessionPool(connect), MemoryQuota(self.limits.answers)
        self._views = AnalystCatalogues(dataset, self._desk)
        self._seats: dict[int, ConnectedClient] = {}
        gauges: dict[str, Callable[[], float]] = {
            "dpsql_connections": lambda: len(self._seats), "dpsql_held_bytes": lambda: self._room.held,
            "dpsql_strangers": lambda: len(self._strangers()),
        }  # fmt: skip
        self.metrics = Metrics(gauges)
        self._door = Authenticator(
            dataset, dict(users), tls, self.limits, Throttle(self.limits.failures), self._cancel, self._full,
            self._refused,
        )  # fmt: skip
        if secret is not None:
            self._door.pepper = derive_pepper(secret)
        self._listeners: list[asyncio.Server] = []
        self._closing = False

    # life -----------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int, steward_port: int | None = None) -> tuple[int, int | None]:
        """Prepare the catalogues, then listen; the ports that were taken."""
        await self._views.open()
        listener = await asyncio.start_server(self._meet, host, port, limit=2**16, backlog=512)
        self._listeners.append(listener)
        if steward_port is None:
            return _port(listener), None
        steward = await asyncio.start_server(self.metrics.answer, "127.0.0.1", steward_port)
        self._listeners.append(steward)
        return _port(listener), _port(steward)

    async def reload(self, connect: Connect, users: Mapping[str, User]) -> None:
        """Take in a changed policy and changed users.

        Queries under way end under the policy that they began with. A user whose entry was changed is sent away.
        """
        self._desk.reload(connect)
        await self._views.renew(users.values())
        self._door.users = dict(users)
        for seat in self._seats.values():
            if seat.user is not None and seat.user != users.get(seat.user.name):
                seat.reason = sqlstates.CHANGED
                seat.task.cancel()
        for seat in list(self._seats.values()):
            if seat.conversation is not None and seat.user == users.get(seat.conversation.asking.user.name):
                view = await self._views.of(seat.conversation.asking.user)
                seat.conversation.look_at(view.tables, view.relay)

    async def stop(self, patience: float = 30) -> None:
        """Accept no new clients, disconnect idle ones, and let running queries finish."""
        self._closing, self.metrics.healthy = True, False
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
        await self._views.close()
        await asyncio.to_thread(self._desk.close)

    # a client -------------------------------------------------------------------------------------------------------

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, line = asyncio.current_task(), ClientStream(reader, writer)
        assert task is not None
        seat = ConnectedClient(secrets.randbelow(2**31 - 1) + 1, secrets.token_bytes(4), task, line.address)
        self._seats[seat.number] = seat
        self.metrics.count("dpsql_connections_total")
        lost = False
        try:
            self._evict(line.address)
            await self._serve(seat, line)
        except asyncio.CancelledError:
            await line.farewell(seat.reason)
        except Disconnect as away:
            await line.farewell(away.fault)
        except ProtocolViolation as problem:
            self.metrics.count("dpsql_malformed_total")
            await line.farewell(ErrorResponse(f"protocol violation: {problem}", "08P01", severity="FATAL"))
        except (TimeoutError, ConnectionError, ssl.SSLError, OSError):
            self.metrics.count("dpsql_lost_total")
            lost = True
        except Exception as failure:
            failed(failure)
            await line.farewell(sqlstates.UNEXPECTED)
        finally:
            self._leave(seat, line, lost)

    def _leave(self, seat: ConnectedClient, line: ClientStream, lost: bool) -> None:
        """Release everything of a client that has left, with what it did not read."""
        self._seats.pop(seat.number, None)
        if seat.conversation is not None:
            seat.conversation.close()
        if lost:
            line.writer.transport.abort()
        else:
            line.writer.close()

    async def _serve(self, seat: ConnectedClient, line: ClientStream) -> None:
        async with asyncio.timeout(self.limits.login):
            entered = await self._door.enter(line)
            if entered is None:
                return
            user, said = entered
            view = await self._views.of(user)
            if self._door.users.get(user.name) != user:
                raise Disconnect(
                    sqlstates.CHANGED
                )  # there was a reload meanwhile, which did not know whose seat this is
            conversation = seat.conversation = self._conversation(user, view, line)
            conversation.session.set("application_name", said.get("application_name", "")[:200], local=False)
            await line.send(_greeting(seat, view, conversation.session.news()), self.limits.login)
        note("login", user=user.name, analyst=user.analyst)
        while True:
            seat.busy = False
            if self._closing:
                raise Disconnect(sqlstates.SHUTTING_DOWN)
            try:
                async with asyncio.timeout(self.limits.idle):
                    got = await wire.read_message(line.reader, self.limits.message)
            except TimeoutError:
                raise Disconnect(sqlstates.IDLE) from None
            seat.busy = True
            if got is None or not await _unless_left(line, conversation.handle(*got)):
                return

    def _conversation(self, user: User, view: AnalystCatalogue, line: ClientStream) -> ProtocolHandler:
        async def send(data: bytes) -> None:
            await line.send(data, self.limits.write)

        asking = QueryRunner(user, self._desk.work, self._room, self.metrics, self.limits.statement)
        catalogue, session, shelf = (
            CatalogueQueries(view.relay, self._room, user.analyst),
            ClientSession(),
            PreparedObjects(self.limits.texts),
        )
        results = RecentResults(self._room, user.analyst)
        answers = StatementExecutor(asking, catalogue, SessionCommands(session, shelf, asking, catalogue), results)
        return ProtocolHandler(view.tables, session, shelf, answers, send)

    def _cancel(self, number: int, secret: bytes) -> None:
        seat = self._seats.get(number)
        if seat is not None and secrets.compare_digest(seat.secret, secret) and seat.conversation is not None:
            seat.conversation.asking.cancelled.set()

    def _refused(self, address: str) -> None:
        """A wrong password: the name is not written down, as people type passwords for names."""
        self.metrics.count("dpsql_wrong_passwords_total")
        note("login refused", address=address)

    def _strangers(self) -> list[ConnectedClient]:
        """The clients that have not logged in yet, the oldest first."""
        return [seat for seat in self._seats.values() if seat.conversation is None]

    def _evict(self, address: str) -> None:
        """Make room for a stranger: where too many are, those go who had time to log in, and did not.

        So silent sockets push each other out, and somebody who logs in at once is not among them.
        """
        strangers = [seat for seat in self._strangers() if seat.reason is not sqlstates.EVICTED]
        near = [seat for seat in strangers if seat.address == address]
        late = time.monotonic() - PATIENCE
        slow = [seat for seat in near[: -self.limits.strangers_of_address] if seat.since < late]
        for seat in slow or strangers[: -self.limits.strangers]:
            seat.reason = sqlstates.EVICTED
            seat.task.cancel()
            self.metrics.count("dpsql_evicted_total")

    def _full(self, user: User) -> bool:
        """May the account take one more connection? It may while it holds no more than are free.

        One account alone gets half of them, two a third each: there is always one left for somebody new.
        """
        known = [seat.user for seat in self._seats.values() if seat.user is not None]
        held = sum(each.analyst == user.analyst for each in known)
        return held >= self.limits.connections - len(known)


def _greeting(seat: ConnectedClient, view: AnalystCatalogue, news: bytes) -> bytes:
    statuses = {
        **view.shadow.settings, **dict(TRACKED.values()), "server_encoding": "UTF8", "client_encoding": "UTF8",
        "integer_datetimes": "on", "standard_conforming_strings": "on", "IntervalStyle": "postgres",
        "is_superuser": "off", "session_authorization": "analyst", "in_hot_standby": "off",
        "default_transaction_read_only": "on",
    }  # fmt: skip
    told = b"".join(wire.parameter_status(name, value) for name, value in statuses.items())
    return wire.authentication(0) + told + news + wire.backend_key(seat.number, seat.secret) + wire.ready("I")


async def _unless_left(line: ClientStream, work: Coroutine[Any, Any, bool]) -> bool:
    """Do what a client asked for; it is stopped if the client goes before it has the answer."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK))[0]:
            if line.left:
                raise ConnectionResetError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _port(listener: asyncio.Server) -> int:
    return int(listener.sockets[0].getsockname()[1])


def checked(users: Mapping[str, User], connect: Connect) -> None:
    """Check, before the first client connects, that every user has an account in the policy whose tables exist."""
    for user in users.values():
        try:
            with connect(user.analyst, user.purpose) as db:
                visible_tables(db)
        except Error as problem:
            raise type(problem)(f"the user {user.name}: {problem.message}", hint=problem.hint) from None


def folder_of(users: Path) -> Path:
    """Where the server keeps its certificate: beside the users."""
    return users.resolve().parent
