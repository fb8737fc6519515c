"""The PostgreSQL backend: the accounts of datasets as tables on a shared server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from uuid import uuid4

from dpsql.budget.ledger import backend
from dpsql.budget.ledger.account_state import end_of_chain, read_ledger
from dpsql.budget.ledger.backend import LedgerLocation, LedgerStorage, Payloads, WholeLedger
from dpsql.budget.ledger.entries import Entry, now
from dpsql.budget.ledger.postgres import ledger_schema, server_failures
from dpsql.budget.ledger.postgres.server_connection import read_address
from dpsql.budget.ledger.postgres.transactions import LedgerSession
from dpsql.budget.ledger.rollback_guard import ChainEnd, RollbackGuard
from dpsql.budget.ledger.sqlite_file import explained
from dpsql.errors import LedgerError

INSERT = (
    "INSERT INTO dpsql_ledger.entry (account, number, kind, gist, body, hash, id) VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
KEEP = "INSERT INTO dpsql_ledger.payload (account, number, bytes) VALUES (%s, %s, %s)"


class PostgresStorage(LedgerStorage):
    """Entries behind a session. They are append-only, so what was read once stays true, without a transaction.

    The second place, where the address names one, is a witness on this machine: it knows how far the ledger was when
    this machine last looked, so that a server which was set back (an old backup, a standby that was behind) is refused.
    Others write too, so it may be any number of entries behind.
    """

    def __init__(self, session: LedgerSession, witness: RollbackGuard | None) -> None:
        """Of the account that the session was opened for."""
        self._session, self._account, self._witness = session, session.account, witness
        self.name = session.address.name

    def check_pages(self) -> None:
        """See `LedgerStorage`."""
        settings = "current_setting('fsync'), current_setting('full_page_writes')"
        standby, *values = self._session.ask(f"SELECT pg_is_in_recovery(), {settings}")[0]
        if standby:
            raise server_failures.read_only(self._session.address)
        for setting, value in zip(("fsync", "full_page_writes"), values, strict=True):
            if value != "on":
                raise server_failures.unsafe(self._session.address, f"{setting} = {value}")
        if not ledger_schema.is_intact(self._session.ask):
            raise self.damaged("its tables or the triggers that guard them were changed")

    def accept(self) -> None:
        """See `LedgerStorage`."""

    def marked(self) -> ChainEnd:
        """See `LedgerStorage`."""
        with explained(self.name):
            return ChainEnd() if self._witness is None or not self._witness.exists() else self._witness.read()

    def settle(self, mark: ChainEnd, previous: bytes) -> None:
        """See `LedgerStorage`."""
        if self._witness is not None and self._witness.read().number < mark.number:
            self._witness.write(mark)

    def reading(self) -> AbstractContextManager[None]:
        """See `LedgerStorage`."""
        return nullcontext()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See `LedgerStorage`. The transaction's own lock excludes others; this one protects this machine's witness."""
        if self._witness is None:
            yield
            return
        with explained(self.name):
            self._witness.create()
            with self._witness.locked(backend.PATIENCE):
                yield

    def writing(self) -> AbstractContextManager[None]:
        """See `LedgerStorage`."""
        return self._session.writing()

    def entries(self, start: int) -> Iterator[Entry]:
        """See `LedgerStorage`."""
        return iter(
            self._session.ask(
                "SELECT number, kind, gist, body, hash FROM dpsql_ledger.entry WHERE account = %s AND number >= %s"
                " ORDER BY number",
                self._account,
                start,
            )
        )

    def ends_at(self, number: int) -> bool:
        """See `LedgerStorage`. A server keeps no other count of them than the rows."""
        return True

    def hash_of(self, number: int) -> bytes | None:
        """See `LedgerStorage`."""
        return self._one("SELECT hash FROM dpsql_ledger.entry WHERE account = %s AND number = %s", number)

    def payload_of(self, number: int) -> bytes | None:
        """See `LedgerStorage`."""
        return self._one("SELECT bytes FROM dpsql_ledger.payload WHERE account = %s AND number = %s", number)

    def payloads(self) -> Payloads:
        """See `LedgerStorage`."""
        return self._session.ask(
            "SELECT number, bytes FROM dpsql_ledger.payload WHERE account = %s ORDER BY number", self._account
        )

    def append(self, entry: Entry, payload: bytes | None = None) -> None:
        """See `LedgerStorage`."""
        self._session.tell(INSERT, self._account, *entry, self._session.id)
        if payload is not None:
            self._session.tell(KEEP, self._account, entry[0], payload)

    def damaged(self, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
        """See `LedgerStorage`."""
        return damaged(self.name, what)

    def close(self) -> None:
        """See `LedgerStorage`."""
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


# the address of a server as a ledger location


class PostgresLocation(LedgerLocation):
    """A database with the schema `dpsql_ledger`, in which each dataset has its account.

    An account is made by `dpsql ledger create` alone, never by first use: a wrong address, or a server that was made
    anew, would otherwise give everyone a whole new budget.
    """

    def __init__(self, text: str) -> None:
        """The address as it was given; only its name is ever shown."""
        self._address = read_address(text)
        self.name = self._address.name
        self._witness = None if self._address.witness is None else RollbackGuard(self._address.witness)

    def create(self, first: Entry) -> None:
        """See `LedgerLocation`."""
        dataset = read_ledger(self.name, [first]).dataset
        if (mark := self.mark()) is not None:
            raise damaged(self.name, f"a file on this machine says that it had {mark.number} entries")
        with closing(LedgerSession(self._address, dataset)) as session, session.writing():
            _make_schema(session)
            if _there(session):
                raise LedgerError(f"{self.name} already has an account of '{dataset}'", hint="it stays as it is")
            session.tell(INSERT, dataset, *first, session.id)

    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        """See `LedgerLocation`."""
        session = LedgerSession(self._address, dataset or self._address.dataset or "")
        try:
            self._check_version(session)
            session.account = session.account or self._only(session)
            opened = PostgresStorage(session, self._witness)
            opened.check_pages()
            if not _there(session):
                raise self._missing(session.account)
            return opened
        except BaseException:
            session.close()
            raise

    def _check_version(self, session: LedgerSession) -> None:
        found = ledger_schema.version(session.ask)
        if found is None:
            raise self._missing(session.account)
        if found != ledger_schema.VERSION:
            raise LedgerError(f"the ledger {self.name} has another version: {found}", hint="use a newer dpsql")

    def _only(self, session: LedgerSession) -> str:
        """The only account, where none was named."""
        rows = session.ask("SELECT account FROM dpsql_ledger.entry WHERE number = 1 AND gist::json ->> 0 = account")
        if len(rows) != 1:
            names = ", ".join(sorted(account for (account,) in rows))
            raise LedgerError(
                f"{self.name} has {len(rows)} accounts: {names}" if rows else f"there is no ledger at {self.name}",
                hint="add ?dataset=<name> to the address",
            )
        return str(rows[0][0])

    def _missing(self, account: str) -> LedgerError:
        if (mark := self.mark()) is not None:
            return damaged(
                self.name, f"it is missing, but a file on this machine says that it had {mark.number} entries"
            )
        of = f" of '{account}'" if account else ""
        return LedgerError(
            f"there is no ledger{of} at {self.name}",
            hint="the steward makes it once: `dpsql ledger create ADDRESS --dataset NAME`; or correct the address",
        )

    def mark(self) -> ChainEnd | None:
        """See `LedgerLocation`."""
        if self._witness is None or not self._witness.exists():
            return None
        mark = self._witness.read()
        return mark if mark.number else None

    def replace(self, dataset: str, made: Callable[[], WholeLedger]) -> str | None:
        """See `LedgerLocation`. One transaction of the tables' owner, who alone may rename the old one."""
        with closing(LedgerSession(self._address, dataset)) as session, session.writing():
            rows, payloads = made()
            _make_schema(session)
            aside = _put_aside(session)
            for number, row in enumerate(rows):
                session.tell(INSERT, dataset, *row, session.id if number == 0 else uuid4())
            for number, payload in payloads:
                session.tell(KEEP, dataset, number, payload)
        self._rewrite_witness(end_of_chain(self.name, rows))
        return aside

    def _rewrite_witness(self, mark: ChainEnd) -> None:
        if self._witness is not None:
            with explained(self.name):
                self._witness.create()
                with self._witness.locked(backend.PATIENCE):
                    self._witness.rewrite(mark)


def _there(session: LedgerSession) -> bool:
    return bool(session.ask("SELECT 1 FROM dpsql_ledger.entry WHERE account = %s LIMIT 1", session.account))


def _make_schema(session: LedgerSession) -> None:
    """Unless it is there; two who make it at once, for two datasets, are ordered by a lock of its own."""
    session.tell("SELECT pg_advisory_xact_lock(hashtext('dpsql_ledger'))")
    if ledger_schema.version(session.ask) is None:
        for statement in ledger_schema.CREATE:
            session.tell(statement)


def _put_aside(session: LedgerSession) -> str | None:
    """Give the account that is there another name, under which it is kept and never opened."""
    if not _there(session):
        return None
    aside = f"{session.account} (refused {now():%Y%m%dT%H%M%S%f})"
    for statement in ledger_schema.DISABLE:
        session.tell(statement)
    session.tell("UPDATE dpsql_ledger.entry SET account = %s WHERE account = %s", aside, session.account)
    for statement in ledger_schema.ENABLE:
        session.tell(statement)
    return aside
