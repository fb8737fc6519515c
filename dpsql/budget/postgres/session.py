"""A session with the server: transactions that hold the account's lock, and a commit whose outcome is found out.

**Theorem.** `writing` ends without an error only if its entry is committed, and durable as the server's own promise
goes; with "nothing was charged" only if it is not and never will be. **Proof.** The transaction holds the account's
advisory lock to its end, and a commit is visible before its locks are let go. COMMIT that is confirmed is durable:
`fsync`, `full_page_writes` and `synchronous_commit` were seen to be on inside the transaction, and a warning (a standby
that was not waited for) is an error here. If the connection is lost after COMMIT was sent, a new session takes the same
lock: it gets it only when the old transaction has ended, so the entry's id, which no other entry has, is there if and
only if that transaction was committed. If the server cannot be asked, the error says that it counts as charged.
**Requires** that no client takes the lock of another's transaction away, which PostgreSQL excludes.
**Checked by** `tests/postgres/test_ledger_cut.py`, `tests/postgres/test_ledger_killed.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from dpsql.budget import storage
from dpsql.budget.postgres import faults
from dpsql.budget.postgres.faults import AT_MOST, NOTHING, explained

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import Diagnostic

    from dpsql.budget.postgres.address import Address

Answer = TypeVar("Answer")
_PAUSE = 0.2
_SAFE = ("fsync", "full_page_writes", "synchronous_commit")


class Session:
    """A connection that is made again when it was lost between transactions, and never inside one."""

    def __init__(self, address: Address, account: str) -> None:
        """Connect; `account` names whose lock it takes to write."""
        self.address, self.account, self.id = address, account, uuid4()
        self._warnings: list[str] = []
        self._inside = self._ended = False
        with explained(address, NOTHING):
            self._db = self._connect()

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; outside a transaction it is asked once more if the connection had been lost."""
        with explained(self.address, NOTHING if self._inside else AT_MOST):
            return self._again(lambda: self._db.execute(sql.encode(), values or None).fetchall())

    def tell(self, sql: str, *values: object) -> None:
        """A statement without rows, inside a transaction."""
        with explained(self.address, NOTHING):
            self._db.execute(sql.encode(), values or None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The one writer of the account; see the theorem."""
        with explained(self.address, NOTHING):
            self._again(self._begin)
            self._inside = True
            try:
                yield
            except BaseException:
                self._roll_back()
                raise
            else:
                self._commit()
            finally:
                self._inside = False

    def close(self) -> None:
        """Let go."""
        self._ended = True
        self._db.close()

    def _connect(self) -> Connection[Any]:
        db = self.address.connect()
        db.add_notice_handler(self._note)
        return db

    def _note(self, told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING":
            self._warnings.append(told.message_primary or "")

    def _again(self, work: Callable[[], Answer]) -> Answer:
        """Do it, on a new connection if there is none; once more if the old one turns out to be lost."""
        from psycopg import OperationalError

        if self._ended:
            raise faults.closed(self.address)
        if self._inside:
            return work()
        self._renew()
        try:
            return work()
        except OperationalError:
            if not self._db.closed:
                raise
        self._renew()
        return work()

    def _renew(self) -> None:
        """A connection that is neither lost nor left in the middle of something."""
        from psycopg.pq import TransactionStatus

        if self._db.closed or self._db.info.transaction_status != TransactionStatus.IDLE:
            self._db.close()
            self._db = self._connect()

    def _begin(self) -> None:
        """The lock first; what is read afterwards is all that was committed before."""
        self.id = uuid4()
        try:
            found = self._lock(self._db)
        except BaseException:
            self._roll_back()
            raise
        for setting, value in zip(_SAFE, found, strict=True):
            if value != "on":
                self._roll_back()
                raise faults.unsafe(self.address, f"{setting} = {value}")

    def _lock(self, db: Connection[Any]) -> tuple[Any, ...]:
        """In one message: a transaction, its durability, the lock of the account, and whether the server is safe."""
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

    def _commit(self) -> None:
        from psycopg import Error

        self._warnings.clear()
        try:
            done = self._db.execute("COMMIT").statusmessage
        except Error:
            if not self._db.closed:
                self._roll_back()
                raise
            if not self._arrived(self.id):
                raise faults.lost(self.address) from None
            return
        if done != "COMMIT":
            raise faults.lost(self.address)
        if self._warnings:
            raise faults.not_replicated(self.address)

    def _arrived(self, entry: UUID) -> bool:
        """Whether the entry of a transaction that is over is there: asked of the server until it answers."""
        from psycopg import Error

        deadline = time.monotonic() + storage.PATIENCE
        while True:
            try:
                self._db = self._connect()
                self._lock(self._db)
                sql = "SELECT 1 FROM dpsql_ledger.entry WHERE account = %s AND id = %s"
                found = self._db.execute(sql, (self.account, entry)).fetchall()
                self._db.execute("ROLLBACK")
                return bool(found)
            except Error:
                if time.monotonic() > deadline:
                    raise faults.unknown(self.address) from None
            time.sleep(_PAUSE)

    def _roll_back(self) -> None:
        """What fails here ends the connection, and with it the transaction."""
        from psycopg import Error

        with suppress(Error):
            if not self._db.closed:
                self._db.execute("ROLLBACK")
                return
        self._db.close()
