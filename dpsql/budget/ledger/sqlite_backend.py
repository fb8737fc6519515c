"""The SQLite backend: a ledger in one file with its rollback guard (`.head`) beside it, or in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from dpsql.budget.ledger import backend, sqlite_file
from dpsql.budget.ledger.account_state import end_of_chain
from dpsql.budget.ledger.backend import LedgerLocation, LedgerStorage, Payloads, WholeLedger
from dpsql.budget.ledger.durable_files import refuse_network, sync_file
from dpsql.budget.ledger.entries import Entry, now
from dpsql.budget.ledger.rollback_guard import ChainEnd, RollbackGuard
from dpsql.budget.ledger.sqlite_file import FileHold, damaged, explained, hold_file
from dpsql.errors import LedgerError

MEMORY = ":memory:"


class SqliteStorage(LedgerStorage):
    """Entries in SQLite: the lock of the head orders the processes."""

    def __init__(
        self, db: sqlite3.Connection, name: str, head: RollbackGuard | None = None, held: FileHold | None = None
    ) -> None:
        """A file comes with its head, and with a hold on its descriptor that ends with the storage."""
        self.name = name
        self._db, self._head, self._held, self._listed = db, head, held, False
        self._file = None if head is None else sqlite_file.identity(name)

    def checked(self) -> SqliteStorage:
        """Itself; closed and refused if it has lost its tables or the triggers that guard them."""
        try:
            with self.reading():
                sqlite_file.check(self._db, self.name)
        except BaseException:
            self.close()
            raise
        return self

    def check_pages(self) -> None:
        """See `LedgerStorage`."""
        sqlite_file.check_pages(self._db, self.name)

    def accept(self) -> None:
        """See `LedgerStorage`. Not before: SQLite tidies up what a connection that can write was opened on."""
        if self._head is not None:
            with explained(self.name):
                verified, self._db = self._db, sqlite_file.connect(self.name)
                verified.close()

    def marked(self) -> ChainEnd:
        """See `LedgerStorage`."""
        with explained(self.name):
            return ChainEnd() if self._head is None else self._head.read()

    def settle(self, mark: ChainEnd, previous: bytes) -> None:
        """See `LedgerStorage`. Only the last entry may be missing from the head (`rollback_guard`)."""
        if self._head is None:
            return
        marked = self.marked()
        if (marked.number, marked.hash) == (mark.number, mark.hash):
            return
        if (marked.number, marked.hash) != (mark.number - 1, previous):
            raise self.damaged(
                f"it has {mark.number} entries, but its head knows {marked.number}: something writes to the ledger"
                " without its lock, or the head is an older copy"
            )
        self._head.write(mark)

    def reading(self) -> AbstractContextManager[None]:
        """See `LedgerStorage`."""
        return self._transaction("BEGIN")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See `LedgerStorage`."""
        with explained(self.name), nullcontext() if self._head is None else self._head.locked(backend.PATIENCE):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """See `LedgerStorage`."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield
        self._sync_directory()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        """Commit, or roll back and raise."""
        with explained(self.name):
            self._refuse_exchange()
            self._db.execute(begin)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _sync_directory(self) -> None:
        """The name of the log that the first commit made, on disk: SQLite syncs it too, but ignores a failure."""
        if self._head is not None and not self._listed:
            sync_file(self._head.path.parent)
            self._listed = True

    def _refuse_exchange(self) -> None:
        """A file that was deleted or replaced under an open connection would take charges with it."""
        try:
            same = self._file is None or sqlite_file.identity(self.name) == self._file
        except FileNotFoundError:
            same = False
        if not same:
            raise self.damaged("the file was deleted or replaced while it was open")

    def entries(self, start: int) -> Iterator[Entry]:
        """See `LedgerStorage`."""
        return sqlite_file.entries(self._db, start)

    def ends_at(self, number: int) -> bool:
        """See `LedgerStorage`."""
        return sqlite_file.last_number(self._db) == number

    def hash_of(self, number: int) -> bytes | None:
        """See `LedgerStorage`."""
        return sqlite_file.hash_of(self._db, number)

    def payload_of(self, number: int) -> bytes | None:
        """See `LedgerStorage`."""
        return sqlite_file.payload_of(self._db, number)

    def payloads(self) -> Payloads:
        """See `LedgerStorage`."""
        return list(sqlite_file.payloads(self._db))

    def append(self, entry: Entry, payload: bytes | None = None) -> None:
        """See `LedgerStorage`."""
        sqlite_file.insert(self._db, entry)
        if payload is not None:
            self._db.execute("INSERT INTO payload VALUES (?, ?)", (entry[0], payload))

    def damaged(self, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
        """See `LedgerStorage`."""
        return damaged(self.name, what)

    def close(self) -> None:
        """See `LedgerStorage`."""
        self._db.close()
        held, self._held = self._held, None
        if held is not None:
            held.release()


class MemoryLocation(LedgerLocation):
    """A temporary account, lost when the process ends."""

    name = MEMORY

    def create(self, first: Entry) -> None:
        """See `LedgerLocation`."""
        raise LedgerError("a ledger in memory is created when it is opened", hint="name a file")

    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        """See `LedgerLocation`."""
        if first is None:
            raise LedgerError("there is no ledger in memory to open", hint="name its file")
        db = sqlite_file.connect(MEMORY)
        sqlite_file.fill(db, [first()])
        return SqliteStorage(db, MEMORY)

    def mark(self) -> ChainEnd | None:
        """See `LedgerLocation`."""
        return None

    def replace(self, dataset: str, made: Callable[[], WholeLedger]) -> str | None:
        """See `LedgerLocation`."""
        raise LedgerError("a ledger in memory cannot be restored", hint="name a file")


class FileLocation(LedgerLocation):
    """The path of a file on a local disk."""

    def __init__(self, path: str | Path) -> None:
        """Any way to write the path; the file need not be there."""
        self.name = str(Path(path).expanduser().resolve())
        self._head = RollbackGuard(self.name)

    def create(self, first: Entry) -> None:
        """See `LedgerLocation`."""
        with explained(self.name):
            refuse_network(self.name)
            if os.path.lexists(self.name):
                raise LedgerError(f"something already exists at {self.name}", hint="name a new file")
            self._create(lambda: first)

    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        """See `LedgerLocation`."""
        with explained(self.name):
            refuse_network(self.name)
            if not os.path.lexists(self.name):
                self._create(first)
            held = hold_file(self.name)
            try:
                sqlite_file.check_header(self.name, held.read(100))
                opened = SqliteStorage(sqlite_file.connect(self.name, readonly=True), self.name, self._head, held)
            except BaseException:
                held.release()
                raise
            return opened.checked()

    def _create(self, first: Callable[[], Entry] | None) -> None:
        """A new account, unless something shows that there was one: then it is refused, never recreated."""
        head = self._head
        if head.exists() and (mark := head.read()).number:
            raise damaged(self.name, f"the file is missing, but {head.path} says that it had {mark.number} entries")
        if first is None:
            raise LedgerError(f"there is no ledger at {self.name}", hint="the steward creates it, or corrects the path")
        head.create()
        with head.locked(backend.PATIENCE):
            if head.read().number == 0 and not os.path.lexists(self.name):
                sqlite_file.create(self.name, [first()])

    def mark(self) -> ChainEnd | None:
        """See `LedgerLocation`."""
        return self._head.read() if self._head.exists() else None

    def replace(self, dataset: str, made: Callable[[], WholeLedger]) -> str | None:
        """See `LedgerLocation`. The head is written last: what was cut short is a refused ledger, and can be run again.

        Without a head there is nothing to lock yet, so another restore may come first: then this one is made anew.
        """
        with explained(self.name):
            refuse_network(self.name)
            whole = None if self._head.exists() else made()
            mark = None if whole is None else end_of_chain(self.name, whole[0])
            if mark is not None:
                self._head.create(mark)
            with self._head.locked(backend.PATIENCE):
                if whole is None or self._head.read() != mark:
                    whole = made()
                return replace_ledger(self.name, self._head, *whole)


def replace_ledger(place: str, head: RollbackGuard, rows: list[Entry], payloads: Payloads) -> str | None:
    """Exchange the file at the place for a new one, then the head, whose lock is held."""
    mark = end_of_chain(place, rows)
    aside = _exchange(Path(place), sqlite_file.draft(Path(place), rows, payloads))
    head.rewrite(mark)
    return aside


def _exchange(place: Path, draft: Path) -> str | None:
    """Put the draft in the place of what is there, in one step; that keeps its content under another name."""
    aside = place.with_name(f"{place.name}.refused-{now():%Y%m%dT%H%M%S%f}")
    there = os.path.lexists(place)
    if there:
        os.link(place, aside)
    for suffix in ("-wal", "-journal", "-shm"):
        old = place.with_name(place.name + suffix)
        if os.path.lexists(old):
            old.rename(aside.with_name(aside.name + suffix))
    draft.replace(place)
    sync_file(place.parent)
    return str(aside) if there else None
