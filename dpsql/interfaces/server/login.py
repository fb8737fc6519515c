"""How a client logs in: TLS, the startup message and SCRAM-SHA-256; or a cancel request.

Guessing passwords is slow. After a failure, attempts for the same name from the same address run one after another, and
each failure waits longer. The wait comes before the proof is checked, so opening many connections at once does not
help, and it is the same for names that do not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import secrets
import select
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.scram import ScramError, ScramExchange, unknown_user_verifier
from dpsql.interfaces.server.server_limits import ServerLimits
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.wire import ErrorResponse, MessageReader, ProtocolViolation

MOST, FORGOTTEN, SLOWEST = 10_000, 300.0, 4.0


@dataclass(slots=True)
class _Tries:
    """The failed attempts for a name from an address, and the lock that the next attempts wait for."""

    failures: int = 0
    last: float = field(default_factory=time.monotonic)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Throttle:
    """Slows down repeated failures."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._tries: dict[tuple[str, str], _Tries] = {}

    @asynccontextmanager
    async def turn(self, address: str, name: str) -> AsyncIterator[None]:
        """Run one attempt: at once if none failed recently, otherwise one after the other."""
        tries = self._tries.get((address, name))
        if tries is None or time.monotonic() - tries.last > FORGOTTEN:
            yield
            return
        async with tries.turn:
            yield

    async def failed(self, address: str, name: str) -> None:
        """Wait, longer each time; called inside the turn."""
        tries = self._tries.pop((address, name), None) or _Tries()
        self._tries[address, name] = tries
        while len(self._tries) > MOST:
            self._tries.pop(next(iter(self._tries)))
        tries.failures, tries.last = tries.failures + 1, time.monotonic()
        await asyncio.sleep(min(self._wait * 2 ** min(tries.failures - 1, 10), SLOWEST))

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures after a correct password."""
        self._tries.pop((address, name), None)


# authentication ------------------------------------------------------------------------------------------------------

_HANGUP = getattr(select, "POLLRDHUP", select.POLLHUP)


class Disconnect(Exception):
    """The client gets this error, and the connection is closed."""

    def __init__(self, fault: ErrorResponse) -> None:
        super().__init__()
        self.fault = fault


@dataclass(slots=True)
class ClientStream:
    """The connection to one client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes, seconds: float) -> None:
        """Write, and wait until the client has taken most of it."""
        self.writer.write(data)
        async with asyncio.timeout(seconds):
            await self.writer.drain()

    async def farewell(self, fault: ErrorResponse) -> None:
        """Send an error, if the client still listens, before the connection is closed."""
        with contextlib.suppress(Exception):
            await self.send(fault.encode(), 1)

    @property
    def secure(self) -> bool:
        """Is this TLS?"""
        return self.writer.get_extra_info("ssl_object") is not None

    @property
    def address(self) -> str:
        """The address of the client."""
        peer = self.writer.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) and peer else ""

    @property
    def left(self) -> bool:
        """Whether the client has closed its side, whatever it sent before."""
        number: int = self.writer.get_extra_info("socket").fileno()
        if number < 0:
            return True
        asked = select.poll()
        asked.register(number, _HANGUP)
        return bool(asked.poll(0))

    @property
    def local(self) -> bool:
        """From this machine?"""
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False


def derive_pepper(secret: bytes) -> bytes:
    """Derive the secret behind the salts of unknown names. Like the salt of a user, it survives a restart."""
    return hashlib.sha256(b"names that nobody has" + secret).digest()


@dataclass(slots=True)
class Authenticator:
    """Logs clients in."""

    dataset: str
    users: Mapping[str, User]
    tls: ssl.SSLContext | None
    limits: ServerLimits
    throttle: Throttle
    cancel: Callable[[int, bytes], None]
    full: Callable[[User], bool]
    refused: Callable[[str], None]
    pepper: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    async def enter(self, line: ClientStream) -> tuple[User, dict[str, str]] | None:
        """Negotiate TLS and log the client in. Return the user and the startup parameters, or None to cancel."""
        for _ in range(3):
            code, body = await wire.read_startup(line.reader)
            if code == wire.SSL_REQUEST and not line.secure:
                await self._start_tls(line)
            elif code == wire.GSS_REQUEST:
                await line.send(b"N", self.limits.login)
            elif code == wire.CANCEL_REQUEST:
                self.cancel(body.int32(), body.take(4))
                return None
            elif code >> 16 == 3:
                said = await self._introduced(line, body, minor=code & 0xFFFF)
                return await self._login(line, said), said
            else:
                break
        raise ProtocolViolation("this server speaks version 3 of the protocol")

    async def _start_tls(self, line: ClientStream) -> None:
        if self.tls is None:
            await line.send(b"N", self.limits.login)
            return
        if line.reader._buffer:  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio has no public name for it
            raise ProtocolViolation("bytes before TLS")  # they would be read as if they had come through it
        line.writer.write(b"S")
        await line.writer.start_tls(self.tls)
        line.reader._transport = line.writer.transport  # type: ignore[attr-defined]  # noqa: SLF001

    async def _introduced(self, line: ClientStream, body: MessageReader, *, minor: int) -> dict[str, str]:
        """Read the parameters of the startup message."""
        said: dict[str, str] = {}
        while name := body.text():
            said[name.lower()] = body.text()
        body.done()
        options = [name for name in said if name.startswith("_pq_.")]
        if minor > 0 or options:
            newest = wire.message(b"v", (0).to_bytes(4), len(options).to_bytes(4), *map(wire.zero, options))
            await line.send(newest, self.limits.login)
        return said

    async def _login(self, line: ClientStream, said: Mapping[str, str]) -> User:
        if not (line.secure or line.local):
            raise Disconnect(sqlstates.NEEDS_TLS)
        name = said.get("user", "")
        async with self.throttle.turn(line.address, name):
            user = self.users.get(name)
            exchange = ScramExchange(
                unknown_user_verifier(name, self.pepper) if user is None else user.verifier, user is not None
            )
            try:
                await self._authenticate(line, exchange)
            except ScramError:
                self.refused(line.address)
                await self.throttle.failed(line.address, name)
                raise Disconnect(sqlstates.wrong_password(name)) from None
        if user is None or self.users.get(name) != user:
            raise Disconnect(sqlstates.wrong_password(name))  # the users were changed meanwhile
        self.throttle.succeeded(line.address, name)
        if (asked := said.get("database", name)) != self.dataset:
            raise Disconnect(sqlstates.no_database(asked, self.dataset))
        if self.full(user):
            raise Disconnect(sqlstates.TOO_MANY)
        return user

    async def _authenticate(self, line: ClientStream, exchange: ScramExchange) -> None:
        await line.send(wire.authentication(10, b"SCRAM-SHA-256\0\0"), self.limits.login)
        first = await self._password(line)
        if first.text() != "SCRAM-SHA-256":
            raise ScramError("another mechanism")
        challenge = exchange.challenge(first.take(max(0, first.int32())))
        await line.send(wire.authentication(11, challenge), self.limits.login)
        last = await self._password(line)
        line.writer.write(wire.authentication(12, exchange.verify(last.data)))

    async def _password(self, line: ClientStream) -> MessageReader:
        got = await wire.read_message(line.reader, 10_000)
        if got is None or got[0] != b"p":
            raise ProtocolViolation("a password was expected")
        return got[1]
