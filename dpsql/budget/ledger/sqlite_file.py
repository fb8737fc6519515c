"""The ledger's SQLite file: made whole or not at all, and refused when it is not what was made.

It is in WAL mode with synchronous=FULL, so a commit appends to the log and syncs it once (and the directory when the
log is new); a log that loses its tail is a ledger that is older than its head, which is refused.

**Theorem.** If a call that charges has returned, its entry counts at every later opening, or the ledger is refused:
after a crash of the process or the machine, a torn write, a full disk, or a file that was put back. No entry is ever
changed or removed unnoticed.
**Proof.** A call returns after three steps (`ChainedLedger._writing`): the entry is committed, which syncs the log
before COMMIT returns; it is read back; the head's older slot is written in place and synced
(`dpsql.budget.ledger.rollback_guard`). After a crash SQLite takes the log up to its last whole commit, by checksums. If
that is the entry or one beyond the mark, all that was promised is there, and one beyond counts too. If the log lost
more, the ledger ends before its mark, or has another hash there, and is refused. A torn write of the head spoils the
slot that was being written: the other is the mark before, whose entry is the last but one. Each hash covers the entry
and the hash before it, so a change of any entry changes the last hash, which the head has; triggers keep SQL from
UPDATE, DELETE and REPLACE, and a file without them is refused.
**Requires** a local disk that keeps what was synced (`dpsql.budget.ledger.durable_files` refuses others), one writer at
a time (the lock of the head), and these settings on every connection that writes: all come from `connect`.
**Checked by** `tests/faults/test_ledger_faults.py` (each durable system call killed or failed, and their order),
`tests/unit/budget/test_ledger_head.py`, `tests/unit/budget/test_store.py`, and the planted bugs "the ledger does not
wait for the disk", "the head is not synced", "entries are not verified" and "a head that is far behind is brought up".
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpsql.budget.ledger import backend
from dpsql.budget.ledger.durable_files import link_new, sync_file, temporary_file
from dpsql.budget.ledger.entries import Entry
from dpsql.budget.ledger.rollback_guard import restore_hint
from dpsql.errors import LedgerError

APPLICATION = 0x64707371  # "dpsq", in the header of the file
VERSION = 2
_HEADER = b"\x10\x00\x02\x02\x00\x40\x20\x20"  # pages of 4096 bytes, with a write-ahead log
LOG = 64
"""Pages of the log after which it is brought over: a short log is soon rewritten in place, where a sync is cheapest."""

_SCHEMA = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, gist TEXT NOT NULL,"
    " body TEXT NOT NULL, hash BLOB NOT NULL) STRICT",
    "CREATE TABLE payload (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT",
    *(
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("entry", "payload")
        for verb in ("UPDATE", "DELETE")
    ),
    *(
        f"CREATE TRIGGER {table}_replace BEFORE INSERT ON {table}"
        f" WHEN NEW.number <= (SELECT max(number) FROM {table})"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("entry", "payload")
    ),
)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Every failure of SQLite or the file system as one LedgerError that says what is safe and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except UnicodeDecodeError as error:
        raise damaged(path) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise _full(path) if full else _failed(path, error.strerror or str(error)) from error


def _explain(path: str, error: sqlite3.Error) -> LedgerError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(
            f"the ledger {path} is busy: another process holds it; nothing was charged", hint="try again in a moment"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path)
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    return _failed(path, str(error))


def _full(path: str) -> LedgerError:
    return LedgerError(
        f"the disk of the ledger {path} is full; nothing was released, and what was charged before is kept",
        hint="free some space and ask again: the ledger needs no repair",
    )


def _failed(path: str, what: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} cannot be read or written: {what}; nothing was released, and at most this one query was"
        " charged",
        hint="check the disk, and that this user may write to the file and its directory; then ask again, and see"
        " `dpsql ledger verify`",
    )


def damaged(path: str, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
    """The refusal of a file that must not be trusted, and is not replaced."""
    return LedgerError(f"the ledger {path} is refused: {what}", hint=restore_hint())


def connect(path: str, *, readonly: bool = False) -> sqlite3.Connection:
    """A connection to an existing file (or ":memory:"); a commit is on disk when it returns."""
    memory = path == ":memory:"
    target = path if memory else Path(path).as_uri() + ("?mode=ro" if readonly else "?mode=rw")
    db = sqlite3.connect(
        target, uri=not memory, timeout=backend.PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        for setting in (
            "synchronous = FULL",
            "fullfsync = ON",
            "checkpoint_fullfsync = ON",
            f"wal_autocheckpoint = {LOG}",
            "trusted_schema = OFF",
        ):
            db.execute(f"PRAGMA {setting}")
    except BaseException:
        db.close()
        raise
    return db


def create(path: str, rows: Iterable[Entry], payloads: Iterable[tuple[int, bytes]] = ()) -> None:
    """Put a whole ledger at the path, unless something is there already.

    It is made beside the path and then linked to it, so no process ever sees half of one.
    """
    target = Path(path)
    _refuse_leftovers(target)
    link_new(draft(target, rows, payloads), target)


def draft(target: Path, rows: Iterable[Entry], payloads: Iterable[tuple[int, bytes]] = ()) -> Path:
    """A whole ledger beside the target, on disk, under a name of its own.

    The log comes last: were the entries in it, closing would have to bring them over, and SQLite tells nobody when
    that fails.
    """
    made = temporary_file(target)
    try:
        with closing(connect(str(made))) as db:
            db.execute("PRAGMA page_size = 4096")
            fill(db, rows, payloads)
            if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise OSError(errno.EIO, "a log could not be made")
        sync_file(made)
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-journal"):
            made.with_name(made.name + suffix).unlink(missing_ok=True)
        raise
    return made


def fill(db: sqlite3.Connection, rows: Iterable[Entry], payloads: Iterable[tuple[int, bytes]] = ()) -> None:
    """The tables, their triggers and the entries, in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _SCHEMA:
        db.execute(statement)
    for row in rows:
        insert(db, row)
    db.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
    db.execute("COMMIT")


def insert(db: sqlite3.Connection, entry: Entry) -> None:
    """Append a row; the caller commits."""
    db.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", entry)


def entries(db: sqlite3.Connection, start: int) -> Iterator[Entry]:
    """The rows from a number on, in order."""
    return db.execute("SELECT number, kind, gist, body, hash FROM entry WHERE number >= ? ORDER BY number", (start,))


def hash_of(db: sqlite3.Connection, number: int) -> bytes | None:
    """The hash of one entry."""
    return _bytes(db.execute("SELECT hash FROM entry WHERE number = ?", (number,)).fetchone())


def payload_of(db: sqlite3.Connection, number: int) -> bytes | None:
    """The noisy table that was kept with an entry."""
    return _bytes(db.execute("SELECT bytes FROM payload WHERE number = ?", (number,)).fetchone())


def _bytes(row: tuple[object] | None) -> bytes | None:
    """The one value, if it is what was stored: a damaged page may hold anything."""
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def payloads(db: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    """All noisy tables, with the numbers of their entries."""
    return db.execute("SELECT number, bytes FROM payload ORDER BY number")


def check_header(path: str, header: bytes) -> None:
    """Refuse a file that is no ledger of this version, before SQLite sees it.

    SQLite tidies up as it opens: it throws the log of a database away that looks empty, or not like one with a log.
    """
    if header[:16] != b"SQLite format 3\0" or header[68:72] != APPLICATION.to_bytes(4, "big"):
        raise damaged(path)
    version = int.from_bytes(header[60:64], "big")
    if version != VERSION:
        older = version in range(1, VERSION)
        raise LedgerError(
            f"the ledger {path} has version {version}; this dpsql knows version {VERSION}",
            hint=f"the steward runs `dpsql ledger migrate {path} --by NAME`" if older else "use a newer dpsql",
        )
    if header[16:24] != _HEADER or header[44:48] != b"\0\0\0\4" or header[56:60] != b"\0\0\0\1":
        raise damaged(path, "its header was changed")


def check(db: sqlite3.Connection, path: str) -> None:
    """Refuse a file that has lost its tables or the triggers that guard them.

    The entries are checked by their chain and a payload when it is read, so the pages are not walked here.
    """
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'")}
    if found != set(_SCHEMA):
        raise damaged(path, "its tables or the triggers that guard them were changed")
    if db.execute("PRAGMA freelist_count").fetchone() != (0,):
        raise damaged(path, "its header was changed")


def check_pages(db: sqlite3.Connection, path: str) -> None:
    """Walk every page: for the steward's `verify`."""
    if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise damaged(path)


def last_number(db: sqlite3.Connection) -> int:
    """The highest number ever given out, which SQLite keeps apart from the rows: a lost tail shows."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    return int(row[0]) if row else 0


def identity(path: str) -> tuple[int, int]:
    """What identifies the file that has this name now."""
    found = Path(path).stat()
    return found.st_dev, found.st_ino


def _refuse_leftovers(target: Path) -> None:
    """A journal without its file means that a ledger was here; SQLite would play it into a new one."""
    for suffix in ("-journal", "-wal"):
        if target.with_name(target.name + suffix).exists():
            raise damaged(str(target), f"the file is missing, but its {suffix[1:]} is there")


# one file descriptor for each ledger in a process

Identity = tuple[int, int]
_lock = threading.Lock()
_open: dict[Identity, tuple[int, int]] = {}
"""For each file its descriptor, and how many hold it."""


@dataclass(frozen=True, slots=True)
class FileHold:
    """Keeps a descriptor of a file open. Call `release` once, after SQLite has closed its descriptors."""

    identity: Identity

    def read(self, count: int) -> bytes:
        """The first bytes of the file."""
        return os.pread(_open[self.identity][0], count, 0)

    def release(self) -> None:
        """Release the file; the last holder closes the descriptor."""
        with _lock:
            descriptor, holders = _open.pop(self.identity)
            if holders > 1:
                _open[self.identity] = (descriptor, holders - 1)
            else:
                os.close(descriptor)


def hold_file(path: str) -> FileHold:
    """Hold the file that has this name now."""
    with _lock:
        found = Path(path).stat()
        identity = (found.st_dev, found.st_ino)
        if identity not in _open:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            opened = os.fstat(descriptor)
            identity = (opened.st_dev, opened.st_ino)
            _open.setdefault(identity, (descriptor, 0))  # if the name was moved meanwhile, this one is never closed
        descriptor, holders = _open[identity]
        _open[identity] = (descriptor, holders + 1)
        return FileHold(identity)
