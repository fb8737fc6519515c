"""The address of a ledger: the server's, with what is dpsql's own in it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from psycopg import Connection, OperationalError
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus

from dpsql.budget.ledger import backend
from dpsql.errors import InterfaceError, LedgerError
from dpsql.server_address import HINT, ServerAddress, read_server

_OWN = ("dataset", "witness")
_QUIET = 10.0
"""Seconds that a client may be silent inside a transaction, with the lock in hand, before the server ends it."""


@dataclass(frozen=True, slots=True)
class LedgerAddress:
    """Where to connect; which account, if the address says so; and the witness of this machine, if it has one."""

    server: ServerAddress
    dataset: str | None = None
    witness: str | None = None

    @property
    def name(self) -> str:
        return self.server.name

    def connect(self) -> TimedConnection:
        """A connection on which nothing waits for ever: each statement, each lock, and each silence has its end."""
        from dpsql.budget.ledger.postgres.server_connection import TimedConnection

        own = {"connect_timeout": "10", "tcp_user_timeout": f"{backend.PATIENCE * 1000:.0f}"}
        db = TimedConnection.connect(
            **{**own, **self.server.told, "application_name": "dpsql ledger", "client_encoding": "utf8"},
            autocommit=True,
            prepare_threshold=None,
        )
        try:
            limits = {"statement_timeout": backend.PATIENCE, "lock_timeout": backend.PATIENCE}
            for name, seconds in {**limits, "idle_in_transaction_session_timeout": _QUIET}.items():
                db.execute("SELECT set_config(%s, %s, false)", (name, f"{seconds * 1000:.0f}"))
            db.execute("SET search_path = pg_catalog")
        except BaseException:
            db.close()
            raise
        return db.hear()

    def discreet(self, text: str) -> str:
        """A text of the server's or the driver's without any password of the address."""
        for secret in self.server.secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())


def read_address(text: str) -> LedgerAddress:
    """The parts of `postgresql://user@host/database?dataset=shop&witness=/var/lib/dpsql/shop`."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
        others = urlencode([each for each in query if each[0] not in _OWN], quote_via=quote)
        server = read_server(urlunsplit(parts._replace(query=others)))
    except ImportError:
        raise InterfaceError(
            "a ledger in PostgreSQL needs the package psycopg", hint="pip install 'dpsql[postgres]'"
        ) from None
    except ValueError:
        raise LedgerError("the address of the ledger cannot be read", hint=HINT) from None
    own = {key: value for key, value in query if key in _OWN}
    return LedgerAddress(server, own.get("dataset"), own.get("witness"))


# connections with a time limit

Answer = TypeVar("Answer")
GRACE = 2.0
"""Seconds after the server's own limit, so that its error, which says more, comes first."""


class TimedConnection(Connection[Any]):
    """When its patience ends it is closed, as if it had been lost. It remembers what the server warned of."""

    warnings: list[str]

    def hear(self) -> Self:
        """Begin to remember warnings."""
        self.warnings = []
        self.add_notice_handler(self._note)
        return self

    def _note(self, told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING":
            self.warnings.append(told.message_primary or "")

    @property
    def idle(self) -> bool:
        """Connected, and in no transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE

    def wait(self, gen: Generator[Any, Any, Answer], *args: Any, **kwargs: Any) -> Answer:
        """See psycopg: every statement is such a generator, which is also woken while nothing comes."""
        try:
            return super().wait(_until(gen, time.monotonic() + backend.PATIENCE + GRACE), *args, **kwargs)
        except TimeoutError:
            self.pgconn.finish()
            raise OperationalError("the server did not answer in time") from None


def _until(gen: Generator[Any, Any, Answer], deadline: float) -> Generator[Any, Any, Answer]:
    """The same steps; TimeoutError at the first one after the deadline."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if time.monotonic() > deadline:
                raise TimeoutError
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: Answer = end.value
        return answer


# the connection pool of a process

KEEP = 4
"""Idle connections that are kept."""

_lock = threading.RLock()  # a ledger that nobody closed leaves when it is collected, at any moment
_pools: dict[tuple[int, LedgerAddress], LedgerConnectionPool] = {}
"""By process too: a connection does not survive a fork."""


class LedgerConnectionPool:
    """Connections to one address. `join` one, and `leave` it once."""

    def __init__(self, address: LedgerAddress) -> None:
        """Nothing is connected yet."""
        self._address, self._process = address, os.getpid()
        self._idle: list[TimedConnection] = []
        self._users = 0

    @classmethod
    def join(cls, address: LedgerAddress) -> LedgerConnectionPool:
        """The pool of this process and address."""
        with _lock:
            return _pools.setdefault((os.getpid(), address), cls(address)).with_user()

    def with_user(self) -> LedgerConnectionPool:
        """The pool, with one user more."""
        self._users += 1
        return self

    def leave(self) -> None:
        """The last one closes what is idle."""
        with _lock:
            self._users -= 1
            over = not self._users
            if over:
                _pools.pop((self._process, self._address), None)
        if over:
            self.drop()

    def take(self) -> TimedConnection:
        """A connection that nobody else uses: the last one returned, or a new one."""
        with _lock:
            while self._idle:
                found = self._idle.pop()
                if not found.closed:
                    return found
        return self._address.connect()

    def give(self, db: TimedConnection) -> None:
        """Return a connection. One that is lost, or in a transaction, is closed, which ends the transaction."""
        with _lock:
            if db.idle and self._users and len(self._idle) < KEEP:
                self._idle.append(db)
                return
        db.close()

    def drop(self) -> None:
        """Close what is idle: the server that they led to may be gone. A fork leaves them to its parent."""
        with _lock:
            idle, self._idle = self._idle, []
        for db in idle if os.getpid() == self._process else ():
            db.close()
