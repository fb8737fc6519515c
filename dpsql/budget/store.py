"""The ledger's SQLite file: made whole or not at all, and refused when it is not what was made."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dpsql.budget.chain import Row
from dpsql.errors import LedgerError

APPLICATION = 0x64707371  # "dpsq", in the header of the file
VERSION = 1
PATIENCE = 30.0
"""Seconds to wait for other processes before giving up."""

_SCHEMA = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, hash BLOB NOT NULL) STRICT",
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
    """Every failure of SQLite or the file system as one LedgerError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except UnicodeDecodeError as error:
        raise damaged(path) from error
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be used: {error.strerror or error}") from error


def _explain(path: str, error: sqlite3.Error) -> LedgerError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(f"the ledger {path} is busy: another process holds it", hint="try again in a moment")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path)
    return LedgerError(f"the ledger {path} cannot be read or written: {error}")


def damaged(path: str, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
    """The refusal of a file that must not be trusted, and is not replaced."""
    return LedgerError(
        f"the ledger {path} is refused: {what}",
        hint="restore it from a backup; it is never recreated, because that would forget what was spent",
    )


def connect(path: str) -> sqlite3.Connection:
    """A connection to an existing file (or ":memory:"); a commit syncs the file and its directory."""
    memory = path == ":memory:"
    target = path if memory else Path(path).as_uri() + "?mode=rw"
    db = sqlite3.connect(target, uri=not memory, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        for setting in (
            "journal_mode = DELETE",
            "synchronous = EXTRA",
            "fullfsync = ON",
            "trusted_schema = OFF",
        ):
            db.execute(f"PRAGMA {setting}")
    except BaseException:
        db.close()
        raise
    return db


def create(path: str, first: Row) -> None:
    """Put a whole ledger with its first entry at the path, unless something is there already.

    It is made beside the path and then linked to it, so no process ever sees half of one; a race has one
    winner.
    """
    target = Path(path)
    _refuse_leftovers(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        with closing(connect(name)) as db:
            fill(db, first)
        os.link(draft, target)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
        _sync_directory(target.parent)


def fill(db: sqlite3.Connection, first: Row) -> None:
    """The tables, their triggers and the first entry, in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _SCHEMA:
        db.execute(statement)
    insert(db, first)
    db.execute("COMMIT")


def insert(db: sqlite3.Connection, entry: Row) -> None:
    """Append a row; the caller commits."""
    db.execute("INSERT INTO entry VALUES (?, ?, ?)", entry)


def entries(db: sqlite3.Connection, start: int) -> Iterator[Row]:
    """The rows from a number on, in order."""
    return db.execute("SELECT number, body, hash FROM entry WHERE number >= ? ORDER BY number", (start,))


def check(db: sqlite3.Connection, path: str) -> None:
    """Refuse a file that is no ledger of this version, is broken, or has lost the triggers that guard it."""
    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        raise damaged(path)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise LedgerError(f"the ledger {path} has version {version}; this dpsql knows version {VERSION}")
    if _truncated(db, path) or db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise damaged(path)
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'")}
    if found != set(_SCHEMA):
        raise damaged(path, "its tables or the triggers that guard them were changed")


def _truncated(db: sqlite3.Connection, path: str) -> bool:
    """SQLite reads the missing end of a last page as zeros."""
    (pages,), (size,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    return path != ":memory:" and Path(path).stat().st_size < pages * size


def last_number(db: sqlite3.Connection) -> int:
    """The highest number ever given out, which SQLite keeps apart from the rows: a lost tail shows."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    return int(row[0]) if row else 0


def _refuse_leftovers(target: Path) -> None:
    """A journal without its file means that a ledger was here; SQLite would play it into a new one."""
    for suffix in ("-journal", "-wal"):
        if target.with_name(target.name + suffix).exists():
            raise damaged(str(target), f"the file is missing, but its {suffix[1:]} is there")


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
