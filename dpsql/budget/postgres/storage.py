"""The entries of one account in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from dpsql.budget import storage
from dpsql.budget.chain import Row
from dpsql.budget.head import Head, Mark
from dpsql.budget.postgres import faults, schema
from dpsql.budget.postgres.session import Session
from dpsql.budget.storage import Payloads, Storage
from dpsql.budget.store import explained
from dpsql.errors import LedgerError

INSERT = (
    "INSERT INTO dpsql_ledger.entry (account, number, kind, gist, body, hash, id) VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
KEEP = "INSERT INTO dpsql_ledger.payload (account, number, bytes) VALUES (%s, %s, %s)"


class PostgresStorage(Storage):
    """Entries behind a session. They are append-only, so what was read once stays true, without a transaction.

    The second place, where the address names one, is a witness on this machine: it knows how far the ledger was when
    this machine last looked, so that a server which was set back (an old backup, a standby that was behind) is refused.
    Others write too, so it may be any number of entries behind.
    """

    def __init__(self, session: Session, witness: Head | None) -> None:
        """Of the account that the session was opened for."""
        self._session, self._account, self._witness = session, session.account, witness
        self.name = session.address.name

    def check_pages(self) -> None:
        """See `Storage`."""
        settings = "current_setting('fsync'), current_setting('full_page_writes')"
        standby, *values = self._session.ask(f"SELECT pg_is_in_recovery(), {settings}")[0]
        if standby:
            raise faults.read_only(self._session.address)
        for setting, value in zip(("fsync", "full_page_writes"), values, strict=True):
            if value != "on":
                raise faults.unsafe(self._session.address, f"{setting} = {value}")
        if not schema.whole(self._session.ask):
            raise self.damaged("its tables or the triggers that guard them were changed")

    def accept(self) -> None:
        """See `Storage`."""

    def marked(self) -> Mark:
        """See `Storage`."""
        with explained(self.name):
            return Mark() if self._witness is None or not self._witness.exists() else self._witness.read()

    def settle(self, mark: Mark, previous: bytes) -> None:
        """See `Storage`."""
        if self._witness is not None and self._witness.read().number < mark.number:
            self._witness.write(mark)

    def reading(self) -> AbstractContextManager[None]:
        """See `Storage`."""
        return nullcontext()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See `Storage`. The lock that counts is the transaction's own; this one is for the witness of this machine."""
        if self._witness is None:
            yield
            return
        with explained(self.name):
            self._witness.create()
            with self._witness.locked(storage.PATIENCE):
                yield

    def writing(self) -> AbstractContextManager[None]:
        """See `Storage`."""
        return self._session.writing()

    def entries(self, start: int) -> Iterator[Row]:
        """See `Storage`."""
        return iter(
            self._session.ask(
                "SELECT number, kind, gist, body, hash FROM dpsql_ledger.entry WHERE account = %s AND number >= %s"
                " ORDER BY number",
                self._account,
                start,
            )
        )

    def ends_at(self, number: int) -> bool:
        """See `Storage`. A server keeps no other count of them than the rows."""
        return True

    def hash_of(self, number: int) -> bytes | None:
        """See `Storage`."""
        return self._one("SELECT hash FROM dpsql_ledger.entry WHERE account = %s AND number = %s", number)

    def payload_of(self, number: int) -> bytes | None:
        """See `Storage`."""
        return self._one("SELECT bytes FROM dpsql_ledger.payload WHERE account = %s AND number = %s", number)

    def payloads(self) -> Payloads:
        """See `Storage`."""
        return self._session.ask(
            "SELECT number, bytes FROM dpsql_ledger.payload WHERE account = %s ORDER BY number", self._account
        )

    def append(self, entry: Row, payload: bytes | None = None) -> None:
        """See `Storage`."""
        self._session.tell(INSERT, self._account, *entry, self._session.id)
        if payload is not None:
            self._session.tell(KEEP, self._account, entry[0], payload)

    def damaged(self, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
        """See `Storage`."""
        return damaged(self.name, what)

    def close(self) -> None:
        """See `Storage`."""
        self._session.close()

    def _one(self, sql: str, number: int) -> bytes | None:
        rows = self._session.ask(sql, self._account, number)
        return rows[0][0] if rows else None


def damaged(name: str, what: str) -> LedgerError:
    """The refusal of a ledger on a server."""
    return LedgerError(
        f"the ledger {name} is refused: {what}",
        hint="nothing was charged or changed. If the server was set back, bring its newest state back, or let the"
        " steward run `dpsql ledger restore ADDRESS --from BACKUP --by NAME` (and then delete the witness files of"
        " other machines); it is never recreated, because that would forget what was spent",
    )
