"""A session with the server: transactions that hold the account's lock, and a commit whose outcome is found out.

**Theorem.** `writing` ends without an error only if its entry is committed, and durable as the server's own promise
goes; with "nothing was charged" only if it is not and never will be. **Proof.** The transaction holds the account's
advisory lock to its end, and a commit is visible before its locks are let go. COMMIT that is confirmed is durable:
`fsync`, `full_page_writes` and `synchronous_commit` were seen to be on inside the transaction, and a warning (a standby
that was not waited for) is an error here. If the connection is lost after COMMIT was sent, a new session takes the same
lock: it gets it only when the old transaction has ended, so the entry's id, which no other entry has, is there if and
only if that transaction was committed. If the server cannot be asked, the error says that it counts as charged.
**Requires** that no client takes the lock of another's transaction away, which PostgreSQL excludes.
**Checked by** `tests/postgres/test_ledger_cut.py`, `tests/postgres/test_ledger_shared.py`.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from dpsql.budget.ledger import backend
from dpsql.budget.ledger.postgres import server_failures
from dpsql.budget.ledger.postgres.server_connection import LedgerConnectionPool
from dpsql.budget.ledger.postgres.server_failures import AT_MOST, NOTHING, explained

if TYPE_CHECKING:
    from dpsql.budget.ledger.postgres.server_connection import LedgerAddress, TimedConnection

Answer = TypeVar("Answer")
_PAUSE = 0.2
_SAFE = ("fsync", "full_page_writes", "synchronous_commit")


class LedgerSession:
    """The transactions of one ledger with the server, one thread at a time.

    A connection that was lost is replaced between transactions, and never inside one.
    """

    def __init__(self, address: LedgerAddress, account: str) -> None:
        """`account` names whose lock it takes to write."""
        self.address, self.account, self.id = address, account, uuid4()
        self._pool = LedgerConnectionPool.join(address)
        self._leave = weakref.finalize(self, self._pool.leave)
        self._db: TimedConnection | None = None

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; outside a transaction it is asked once more if the connection had been lost."""

        def asked(db: TimedConnection) -> list[tuple[Any, ...]]:
            return db.execute(sql.encode(), values or None).fetchall()

        if self._db is not None:
            with explained(self.address, NOTHING):
                return asked(self._db)
        with explained(self.address, AT_MOST):
            db, rows = self._first(asked)
            self._pool.give(db)
            return rows

    def tell(self, sql: str, *values: object) -> None:
        """A statement without rows, inside a transaction."""
        assert self._db is not None
        with explained(self.address, NOTHING):
            self._db.execute(sql.encode(), values or None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The one writer of the account; see the theorem."""
        self.id = uuid4()
        with explained(self.address, NOTHING):
            db, settings = self._first(self._lock)
            self._db = db
            try:
                self._refuse_unsafe(settings)
                yield
                self._commit(db)
            finally:
                self._db = None
                self._end(db)

    def close(self) -> None:
        """Let go, once."""
        self._leave()

    def _first(self, work: Callable[[TimedConnection], Answer]) -> tuple[TimedConnection, Answer]:
        """Send the first statement and return the connection: a new one if an idle one turns out to be lost."""
        from psycopg import OperationalError

        if not self._leave.alive:
            raise server_failures.closed(self.address)
        db = self._pool.take()
        try:
            return db, work(db)
        except BaseException as error:
            lost = isinstance(error, OperationalError) and db.closed
            self._end(db)
            if not lost:
                raise
        self._pool.drop()
        db = self._pool.take()
        try:
            return db, work(db)
        except BaseException:
            self._end(db)
            raise

    def _lock(self, db: TimedConnection) -> tuple[Any, ...]:
        """In one message: begin a durable transaction, lock the account, and ask whether the server is safe.

        The lock comes first: what is read afterwards is all that was committed before.
        """
        key = int.from_bytes(sha256(f"dpsql ledger {self.account}".encode()).digest()[:8], signed=True)
        shown = ", ".join(f"current_setting('{setting}')" for setting in _SAFE)
        cursor = db.execute(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on;"
            f" SELECT pg_advisory_xact_lock({key}); SELECT {shown}".encode()
        )
        while cursor.nextset():
            pass
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found[0]

    def _refuse_unsafe(self, settings: tuple[Any, ...]) -> None:
        for setting, value in zip(_SAFE, settings, strict=True):
            if value != "on":
                raise server_failures.unsafe(self.address, f"{setting} = {value}")

    def _commit(self, db: TimedConnection) -> None:
        from psycopg import Error

        db.warnings.clear()
        try:
            done = db.execute("COMMIT").statusmessage
        except Error:
            if not db.closed:
                raise
            if not self._arrived():
                raise server_failures.lost(self.address) from None
            return
        if done != "COMMIT":
            raise server_failures.lost(self.address)
        if db.warnings:
            raise server_failures.not_replicated(self.address)

    def _arrived(self) -> bool:
        """Whether the entry of a transaction that is over is there: asked of the server until it answers."""
        from psycopg import Error

        deadline = time.monotonic() + backend.PATIENCE
        while True:
            self._pool.drop()
            try:
                db = self._pool.take()
                try:
                    self._lock(db)
                    sql = "SELECT 1 FROM dpsql_ledger.entry WHERE account = %s AND id = %s"
                    return bool(db.execute(sql, (self.account, self.id)).fetchall())
                finally:
                    self._end(db)
            except Error:
                if time.monotonic() > deadline:
                    raise server_failures.unknown(self.address) from None
            time.sleep(_PAUSE)

    def _end(self, db: TimedConnection) -> None:
        """Roll back what is left of a transaction and return the connection to the pool; close it if that fails."""
        from psycopg import Error

        with suppress(Error):
            if not db.closed and not db.idle:
                db.execute("ROLLBACK")
        self._pool.give(db)
