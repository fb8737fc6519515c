"""The ledger's file: each failure in words, a header of which every byte that matters is looked at, and its tables."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpsql.budget.ledger import sqlite_file
from dpsql.budget.ledger.entries import ROOT, Entry, next_entry
from dpsql.errors import LedgerError

FIRST = next_entry(ROOT, 0, "account", ["shop", "00" * 32], {"at": "2026-01-02T00:00:00+00:00"})
SECOND = next_entry(FIRST[4], 1, "version", ["v2"], {"at": "2026-01-02T00:00:00+00:00", "by": "ste"})
PAYLOADS = [(1, b"noisy"), (2, b"table")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "shop.ledger"
    sqlite_file.create(str(place), [FIRST, SECOND], PAYLOADS)
    return place


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite_file.connect(str(path))) as opened:
        yield opened


def said(error: BaseException) -> str:
    with pytest.raises(LedgerError) as refusal, sqlite_file.explained("/x.ledger"):
        raise error
    assert refusal.value.hint and refusal.value.__cause__ is error
    return refusal.value.message


BUSY, DAMAGED, FULL, FAILED = "is busy", "is refused", "is full", "cannot be read or written"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_BUSY, BUSY),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, BUSY),
        (sqlite3.SQLITE_LOCKED, BUSY),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, BUSY),
        (sqlite3.SQLITE_CORRUPT, DAMAGED),
        (sqlite3.SQLITE_CORRUPT_INDEX, DAMAGED),
        (sqlite3.SQLITE_NOTADB, DAMAGED),
        (sqlite3.SQLITE_FULL, FULL),
        (sqlite3.SQLITE_IOERR, FAILED),
        (sqlite3.SQLITE_IOERR_FSYNC, FAILED),
        (sqlite3.SQLITE_READONLY, FAILED),
        (sqlite3.SQLITE_CANTOPEN, FAILED),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, FAILED),
        (None, FAILED),
    ],
)
def test_each_failure_of_sqlite_is_told_for_what_it_is(code: int | None, words: str) -> None:
    error = sqlite3.OperationalError("the engine's words")
    if code is not None:
        error.sqlite_errorcode = code
    told = said(error)
    assert words in told and "/x.ledger" in told
    assert ("the engine's words" in told) == (words == FAILED)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EIO])
def test_a_full_disk_is_told_from_other_failures(code: int) -> None:
    full = code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    told = said(OSError(code, os.strerror(code)))
    assert (FULL if full else f"{FAILED}: {os.strerror(code)}") in told


def test_a_failure_without_a_number_is_told_in_its_own_words_and_text_that_is_none_is_damage() -> None:
    assert f"{FAILED}: the drive is gone" in said(OSError("the drive is gone"))
    assert DAMAGED in said(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"))


def test_every_byte_of_the_header_that_tells_what_the_file_is_must_be_as_it_was_made(path: Path) -> None:
    header = path.read_bytes()[:100]
    sqlite_file.check_header("x", header)
    told = {*range(24), *range(44, 48), *range(56, 64), *range(68, 72)}
    for place in range(100):
        for change in (1, 0x80):
            changed = bytearray(header)
            changed[place] ^= change
            if place not in told:
                sqlite_file.check_header("x", bytes(changed))
                continue
            with pytest.raises(LedgerError, match="has version" if 60 <= place < 64 else "is refused"):
                sqlite_file.check_header("x", bytes(changed))


@pytest.mark.parametrize("length", [0, 15, 16, 60, 64, 71])
def test_a_header_that_is_cut_short_is_refused(path: Path, length: int) -> None:
    with pytest.raises(LedgerError, match="is refused"):
        sqlite_file.check_header("x", path.read_bytes()[:length])


@pytest.mark.parametrize(("version", "hint"), [(0, "newer"), (1, "migrate"), (3, "newer"), (2**31, "newer")])
def test_another_version_says_what_to_do_about_it(path: Path, version: int, hint: str) -> None:
    header = bytearray(path.read_bytes()[:100])
    header[60:64] = version.to_bytes(4, "big")
    with pytest.raises(LedgerError, match=f"has version {version}; this dpsql knows version 2") as refusal:
        sqlite_file.check_header("x", bytes(header))
    assert hint in (refusal.value.hint or "")


def test_entries_and_payloads_are_read_as_they_were_written(db: sqlite3.Connection) -> None:
    assert list(sqlite_file.entries(db, 1)) == [FIRST, SECOND] and list(sqlite_file.entries(db, 2)) == [SECOND]
    assert [sqlite_file.hash_of(db, number) for number in (0, 1, 2, 3)] == [None, FIRST[4], SECOND[4], None]
    assert [sqlite_file.payload_of(db, number) for number in (0, 1, 2, 3)] == [None, b"noisy", b"table", None]
    assert list(sqlite_file.payloads(db)) == PAYLOADS
    assert sqlite_file.last_number(db) == 2


def test_a_value_of_another_type_is_no_hash_and_an_empty_file_has_no_number() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY AUTOINCREMENT, hash)")
        assert sqlite_file.last_number(db) == 0
        db.execute("INSERT INTO entry VALUES (1, 'text'), (2, 3), (3, NULL), (4, x'00')")
        assert [sqlite_file.hash_of(db, number) for number in (1, 2, 3, 4)] == [None, None, None, b"\0"]


def test_the_tables_and_their_guards_are_those_that_were_made_and_nothing_else(db: sqlite3.Connection) -> None:
    sqlite_file.check(db, "x")
    sqlite_file.check_pages(db, "x")
    db.execute("CREATE TABLE more (x)")
    with pytest.raises(LedgerError, match="triggers that guard them were changed"):
        sqlite_file.check(db, "x")
    db.execute("DROP TABLE more")
    with pytest.raises(LedgerError, match="its header was changed"):
        sqlite_file.check(db, "x")


def test_a_reader_cannot_write(path: Path) -> None:
    with (
        closing(sqlite_file.connect(str(path), readonly=True)) as db,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        sqlite_file.insert(db, next_entry(SECOND[4], 2, "clock", [], {}))


def test_no_number_is_given_twice(db: sqlite3.Connection) -> None:
    for statement in ("REPLACE INTO payload VALUES (2, x'00')", "INSERT INTO payload VALUES (1, x'00')"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.execute("INSERT INTO payload VALUES (3, x'00')")


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_log_without_its_file_shows_that_a_ledger_was_here(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"new.ledger{suffix}").write_bytes(b"hot")
    with pytest.raises(LedgerError, match=f"the file is missing, but its {suffix[1:]} is there"):
        sqlite_file.create(str(tmp_path / "new.ledger"), [FIRST])
    assert [each.name for each in tmp_path.iterdir()] == [f"new.ledger{suffix}"]


def test_a_ledger_that_could_not_be_made_whole_is_not_there_at_all(tmp_path: Path) -> None:
    def rows() -> Iterator[Entry]:
        yield FIRST
        raise KeyError

    with pytest.raises(KeyError):
        sqlite_file.create(str(tmp_path / "new.ledger"), rows())
    assert list(tmp_path.iterdir()) == []


def test_the_same_file_has_the_same_identity_under_any_name(path: Path) -> None:
    other, copy = path.with_name("other"), path.with_name("copy")
    os.link(path, other)
    copy.write_bytes(path.read_bytes())
    assert (
        sqlite_file.identity(str(path)) == sqlite_file.identity(str(other)) == (path.stat().st_dev, path.stat().st_ino)
    )
    assert sqlite_file.identity(str(copy)) != sqlite_file.identity(str(path))


def test_the_content_of_a_new_ledger_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, synced = tmp_path / "new.ledger", list[Path]()
    monkeypatch.setattr(sqlite_file, "sync_file", lambda path: synced.append(path) if not target.exists() else None)
    made = sqlite_file.draft(target, [FIRST])
    assert synced == [made] and made.parent == tmp_path
    assert made.read_bytes()[:16] == b"SQLite format 3\0" and len(list(tmp_path.iterdir())) == 1


def test_only_the_path_of_a_file_is_a_uri_whatever_sqlite_was_built_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, connect = list[tuple[str, bool]](), sqlite3.connect

    def spy(target: str, *, uri: bool, **rest: Any) -> sqlite3.Connection:
        told.append((target, uri))
        return connect(target, uri=uri, **rest)

    monkeypatch.setattr(sqlite3, "connect", spy)
    for place in (":memory:", str(path)):
        sqlite_file.connect(place).close()
    sqlite_file.connect(str(path), readonly=True).close()
    assert told == [(":memory:", False), (f"{path.as_uri()}?mode=rw", True), (f"{path.as_uri()}?mode=ro", True)]


def test_a_connection_that_cannot_be_set_up_is_closed_and_not_given_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    class Failing(sqlite3.Connection):
        def execute(self, *_: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no")

        def close(self) -> None:
            closed.append(True)
            super().close()

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Failing))
    with pytest.raises(sqlite3.OperationalError, match="no"):
        sqlite_file.connect(str(path))
    assert closed == [True]


def test_a_new_ledger_has_its_mark_and_pages_of_one_size_whatever_sqlite_was_built_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite_file.connect

    def otherwise(path: str) -> sqlite3.Connection:
        db = connect(path)
        db.execute("PRAGMA page_size = 8192")
        return db

    monkeypatch.setattr(sqlite_file, "connect", otherwise)
    sqlite_file.create(str(tmp_path / "new.ledger"), [FIRST])
    header = (tmp_path / "new.ledger").read_bytes()[:100]
    assert (header[16:18], header[68:72]) == (b"\x10\0", b"dpsq")
    sqlite_file.check_header("x", header)


def test_where_there_can_be_no_log_there_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own file system without locks: it has no memory that processes could share, which a log needs."""

    def without_locks(path: str) -> sqlite3.Connection:
        return sqlite3.connect(f"{Path(path).as_uri()}?vfs=unix-none", uri=True, isolation_level=None)

    monkeypatch.setattr(sqlite_file, "connect", without_locks)
    with pytest.raises(OSError, match="a log could not be made"):
        sqlite_file.create(str(tmp_path / "new.ledger"), [FIRST])
    assert list(tmp_path.iterdir()) == []


def test_pages_that_break_the_rules_of_their_table_are_damage(tmp_path: Path) -> None:
    place = tmp_path / "odd.db"
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (NULL)")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE t (x NOT NULL)'")
    with closing(sqlite3.connect(place)) as db, pytest.raises(LedgerError, match="is damaged"):
        sqlite_file.check_pages(db, "x")


def test_threads_share_a_connection(db: sqlite3.Connection) -> None:
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: list(sqlite_file.entries(db, 2))).result() == [SECOND]
