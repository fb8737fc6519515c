"""The first messages of a client: TLS, who it is, and SCRAM-SHA-256; or a cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import secrets
import select
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpsql.interfaces.server import faults, wire
from dpsql.interfaces.server.limits import Limits
from dpsql.interfaces.server.scram import Exchange, Refused, nobody
from dpsql.interfaces.server.throttle import Throttle
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.wire import Body, Fault, Malformed

_HANGUP = getattr(select, "POLLRDHUP", select.POLLHUP)


class SentAway(Exception):
    """The client is told why, and that is all."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault


@dataclass(slots=True)
class Line:
    """Both directions of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes, seconds: float) -> None:
        """Write, and wait until the client has taken most of it."""
        self.writer.write(data)
        async with asyncio.timeout(seconds):
            await self.writer.drain()

    async def farewell(self, fault: Fault) -> None:
        """The last word."""
        with contextlib.suppress(Exception):
            await self.send(fault.encode(), 1)

    @property
    def secure(self) -> bool:
        """Is this TLS?"""
        return self.writer.get_extra_info("ssl_object") is not None

    @property
    def address(self) -> str:
        """Whose connection it is."""
        peer = self.writer.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) and peer else ""

    @property
    def left(self) -> bool:
        """Has the client closed its side, whatever it sent before?"""
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


def pepper_of(secret: bytes) -> bytes:
    """What the salts of unknown names are made of: the same after a restart, as a user's own salt is."""
    return hashlib.sha256(b"names that nobody has" + secret).digest()


@dataclass(slots=True)
class Door:
    """How a client comes in."""

    dataset: str
    users: Mapping[str, User]
    tls: ssl.SSLContext | None
    limits: Limits
    throttle: Throttle
    cancel: Callable[[int, bytes], None]
    full: Callable[[User], bool]
    refused: Callable[[str], None]
    pepper: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    async def enter(self, line: Line) -> tuple[User, dict[str, str]] | None:
        """TLS, then who it is, and what it said of itself; None for a cancellation."""
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
        raise Malformed("this server speaks version 3 of the protocol")

    async def _start_tls(self, line: Line) -> None:
        if self.tls is None:
            await line.send(b"N", self.limits.login)
            return
        if line.reader._buffer:  # type: ignore[attr-defined]
            raise Malformed("bytes before TLS")  # they would be read as if they had come through it
        line.writer.write(b"S")
        await line.writer.start_tls(self.tls)
        line.reader._transport = line.writer.transport  # type: ignore[attr-defined]

    async def _introduced(self, line: Line, body: Body, *, minor: int) -> dict[str, str]:
        """The words of the first message."""
        said: dict[str, str] = {}
        while name := body.text():
            said[name.lower()] = body.text()
        body.done()
        options = [name for name in said if name.startswith("_pq_.")]
        if minor > 0 or options:
            newest = wire.message(b"v", (0).to_bytes(4), len(options).to_bytes(4), *map(wire.zero, options))
            await line.send(newest, self.limits.login)
        return said

    async def _login(self, line: Line, said: Mapping[str, str]) -> User:
        if not (line.secure or line.local):
            raise SentAway(faults.NEEDS_TLS)
        name = said.get("user", "")
        async with self.throttle.turn(line.address, name):
            user = self.users.get(name)
            exchange = Exchange(nobody(name, self.pepper) if user is None else user.verifier, user is not None)
            try:
                await self._authenticate(line, exchange)
            except Refused:
                self.refused(line.address)
                await self.throttle.failed(line.address, name)
                raise SentAway(faults.wrong_password(name)) from None
        if user is None or self.users.get(name) != user:
            raise SentAway(faults.wrong_password(name))  # the users were changed meanwhile
        self.throttle.succeeded(line.address, name)
        if (asked := said.get("database", name)) != self.dataset:
            raise SentAway(faults.no_database(asked, self.dataset))
        if self.full(user):
            raise SentAway(faults.TOO_MANY)
        return user

    async def _authenticate(self, line: Line, exchange: Exchange) -> None:
        await line.send(wire.authentication(10, b"SCRAM-SHA-256\0\0"), self.limits.login)
        first = await self._password(line)
        if first.text() != "SCRAM-SHA-256":
            raise Refused("another mechanism")
        challenge = exchange.challenge(first.take(max(0, first.int32())))
        await line.send(wire.authentication(11, challenge), self.limits.login)
        last = await self._password(line)
        line.writer.write(wire.authentication(12, exchange.verify(last.data)))

    async def _password(self, line: Line) -> Body:
        got = await wire.read_message(line.reader, 10_000)
        if got is None or got[0] != b"p":
            raise Malformed("a password was expected")
        return got[1]
