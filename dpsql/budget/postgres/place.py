"""The address of a PostgreSQL database as the place of an account."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from uuid import uuid4

from dpsql.budget import storage
from dpsql.budget.chain import Row
from dpsql.budget.clock import now
from dpsql.budget.head import Head, Mark
from dpsql.budget.postgres import schema
from dpsql.budget.postgres.address import read_address
from dpsql.budget.postgres.session import Session
from dpsql.budget.postgres.storage import INSERT, KEEP, PostgresStorage, damaged
from dpsql.budget.storage import Place, Storage, Whole
from dpsql.budget.store import explained
from dpsql.budget.whole import end_of, read_whole
from dpsql.errors import LedgerError


class PostgresPlace(Place):
    """A database with the schema `dpsql_ledger`, in which each dataset has its account.

    An account is made by `dpsql ledger create` alone, never by first use: a wrong address, or a server that was made
    anew, would otherwise give everyone a whole new budget.
    """

    def __init__(self, text: str) -> None:
        """The address as it was given; only its name is ever shown."""
        self._address = read_address(text)
        self.name = self._address.name
        self._witness = None if self._address.witness is None else Head(self._address.witness)

    def create(self, first: Row) -> None:
        """See `Place`."""
        dataset = read_whole(self.name, [first]).dataset
        if (mark := self.mark()) is not None:
            raise damaged(self.name, f"a file on this machine says that it had {mark.number} entries")
        with closing(Session(self._address, dataset)) as session, session.writing():
            _make_schema(session)
            if _there(session):
                raise LedgerError(f"{self.name} has an account of '{dataset}' already", hint="it goes on as it is")
            session.tell(INSERT, dataset, *first, session.id)

    def open(self, dataset: str | None, first: Callable[[], Row] | None) -> Storage:
        """See `Place`."""
        session = Session(self._address, dataset or self._address.dataset or "")
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

    def _check_version(self, session: Session) -> None:
        found = schema.version(session.ask)
        if found is None:
            raise self._missing(session.account)
        if found != schema.VERSION:
            raise LedgerError(f"the ledger {self.name} has another version: {found}", hint="use a newer dpsql")

    def _only(self, session: Session) -> str:
        """The account that is meant where none was named."""
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

    def mark(self) -> Mark | None:
        """See `Place`."""
        if self._witness is None or not self._witness.exists():
            return None
        mark = self._witness.read()
        return mark if mark.number else None

    def replace(self, dataset: str, made: Callable[[], Whole]) -> str | None:
        """See `Place`. One transaction of the tables' owner, who alone may open the guards to rename the old one."""
        with closing(Session(self._address, dataset)) as session, session.writing():
            rows, payloads = made()
            _make_schema(session)
            aside = _put_aside(session)
            for number, row in enumerate(rows):
                session.tell(INSERT, dataset, *row, session.id if number == 0 else uuid4())
            for number, payload in payloads:
                session.tell(KEEP, dataset, number, payload)
        self._rewrite_witness(end_of(self.name, rows))
        return aside

    def _rewrite_witness(self, mark: Mark) -> None:
        if self._witness is not None:
            with explained(self.name):
                self._witness.create()
                with self._witness.locked(storage.PATIENCE):
                    self._witness.rewrite(mark)


def _there(session: Session) -> bool:
    return bool(session.ask("SELECT 1 FROM dpsql_ledger.entry WHERE account = %s LIMIT 1", session.account))


def _make_schema(session: Session) -> None:
    """Unless it is there; two who make it at once, for two datasets, are ordered by a lock of its own."""
    session.tell("SELECT pg_advisory_xact_lock(hashtext('dpsql_ledger'))")
    if schema.version(session.ask) is None:
        for statement in schema.CREATE:
            session.tell(statement)


def _put_aside(session: Session) -> str | None:
    """Give the account that is there another name, under which it is kept and never opened."""
    if not _there(session):
        return None
    aside = f"{session.account} (refused {now():%Y%m%dT%H%M%S%f})"
    for statement in schema.DISABLE:
        session.tell(statement)
    session.tell("UPDATE dpsql_ledger.entry SET account = %s WHERE account = %s", aside, session.account)
    for statement in schema.ENABLE:
        session.tell(statement)
    return aside
