"""Statements that a client prepared, portals over them, and the answers that these hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.server_limits import BufferedRows
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.statement_routing import ClientStatement
from dpsql.interfaces.server.wire import ErrorResponse

MOST = 1_000
"""Prepared statements, and portals, of one client."""


@dataclass(frozen=True, slots=True)
class BoundParameters:
    """The values of a statement's parameters as the client sent them, and the formats that it wants back."""

    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    results: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement that was parsed, with the types of its parameters."""

    statement: ClientStatement
    types: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that are kept of it."""
        return len(self.statement.text) + 4 * len(self.types)


@dataclass(frozen=True, slots=True)
class StatementReply:
    """What a statement is answered with: columns (None: it has no rows), rows, notices at the end, and the tag."""

    tag: bytes
    description: bytes | None = None
    rows: BufferedRows | None = None
    tail: bytes = b""

    def close(self) -> None:
        """Release the rows."""
        if self.rows is not None:
            self.rows.close()


@dataclass(slots=True)
class Portal:
    """A statement with values; once it ran, its reply and how many rows of it were sent."""

    prepared: PreparedStatement
    bound: BoundParameters = field(default_factory=BoundParameters)
    values: tuple[Any, ...] = ()
    reply: StatementReply | None = None
    sent: int = 0
    ended: bool = False

    @property
    def size(self) -> int:
        """Bytes that are kept of its values."""
        return sum(len(value or b"") for value in self.bound.values)

    @property
    def tag(self) -> bytes:
        """The tag at the end, which counts what was sent."""
        assert self.reply is not None
        counted = self.reply.tag.startswith(b"C") and b"SELECT " in self.reply.tag
        return wire.complete(f"SELECT {self.sent}") if counted else self.reply.tag

    def close(self) -> None:
        """Release the answer that it holds."""
        if self.reply is not None:
            self.reply.close()


@dataclass(slots=True)
class PreparedObjects:
    """The prepared statements and portals of one client, inside its limit of bytes."""

    limit: int
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    def prepare(self, name: str, prepared: PreparedStatement) -> None:
        """Keep a statement; the one without a name is replaced."""
        if name and name in self.prepared:
            raise StatementError(
                ErrorResponse("there is a prepared statement of this name", "42P05", "take another name")
            )
        self.prepared.pop(name, None)
        self._fits(len(self.prepared), prepared.size)
        self.prepared[name] = prepared

    def bind(self, name: str, portal: Portal) -> None:
        """Keep a portal; one of the same name is closed."""
        self.close_portal(name)
        self._fits(len(self.portals), portal.size)
        self.portals[name] = portal

    def _fits(self, many: int, size: int) -> None:
        kept = sum(each.size for each in self.prepared.values()) + sum(each.size for each in self.portals.values())
        if many >= MOST or kept + size > self.limit:
            raise StatementError(sqlstates.TOO_MUCH)

    def statement(self, name: str) -> PreparedStatement:
        """A prepared statement by its name."""
        if name not in self.prepared:
            raise StatementError(sqlstates.NO_STATEMENT)
        return self.prepared[name]

    def portal(self, name: str) -> Portal:
        """A portal by its name."""
        if name not in self.portals:
            raise StatementError(sqlstates.NO_PORTAL)
        return self.portals[name]

    def close_portal(self, name: str) -> None:
        """Close a portal, if it exists."""
        if name in self.portals:
            self.portals.pop(name).close()

    def close_portals(self) -> None:
        """Close all portals."""
        for name in list(self.portals):
            self.close_portal(name)
