"""The ledger's file: durable, append-only, and refused when anything in it was changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.budget import Caps, Cost, Ledger, Request, Spent, open_ledger, pure_charge
from dpsql.budget.ledger import backend, sqlite_file
from dpsql.budget.ledger.entries import ROOT, next_entry
from dpsql.errors import BudgetExceeded, LedgerError

CAPS = Caps(1, 0)


def ask(analyst: str = "ana", epsilon: float = 0.1) -> Request:
    return Request(analyst, pure_charge(epsilon), Cost(epsilon, 0.0, 0.0), CAPS, None, "SELECT 1", (b"f",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small ledger with one entry of each kind."""
    place = tmp_path / "shop.ledger"
    with open_ledger(place, "shop") as ledger:
        entry = ledger.reserve(ask()).entry
        ledger.store(entry, b"f", b"noisy table")
        ledger.replayed(entry, "bob", None)
        ledger.record_fact("customers", "unique", "v1")
        ledger.reserve(ask())
    return place


def content(ledger: Ledger) -> tuple[object, ...]:
    return list(ledger.log()), ledger.spent(None), ledger.spent("bob"), ledger.find(b"f"), ledger.salt()


def tamper(path: Path, statement: str, *, guards: bool = False) -> None:
    """Run a statement as somebody with the file in hand would, past the triggers unless told otherwise."""
    with closing(sqlite3.connect(path)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in () if guards else triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)
        for _, sql in () if guards else triggers:
            db.execute(sql)
        db.commit()


def test_everything_survives_reopening(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        first = content(ledger)
        tenth = pure_charge(0.1)
        assert ledger.spent(None) == Spent().after(tenth).after(tenth)
        assert ledger.facts("v1") == {("customers", "unique")}
        assert not ledger.replayed(3, "bob", Caps(0.1, 0))
    with open_ledger(str(path), "shop", create=False) as ledger:
        assert content(ledger) == first
        with pytest.raises(BudgetExceeded):
            ledger.reserve(ask(epsilon=0.81))
        ledger.reserve(ask(epsilon=0.8))


def test_two_open_ledgers_see_each_other(path: Path) -> None:
    with open_ledger(path, "shop") as one, open_ledger(path, "shop") as two:
        one.reserve(ask(epsilon=0.5))
        with pytest.raises(BudgetExceeded):
            two.reserve(ask(epsilon=0.5))
        two.reserve(ask(epsilon=0.3))
        assert one.spent(None) == two.spent(None)


def test_a_renamed_file_or_a_copy_continues_the_account(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a copy?.db"
    shutil.copy(path, copy)
    shutil.copy(f"{path}.head", f"{copy}.head")
    with open_ledger(path, "shop") as one, open_ledger(copy, "shop") as two:
        assert content(one) == content(two)


def test_the_file_is_private_and_stands_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(item.name for item in path.parent.iterdir()) == ["shop.ledger", "shop.ledger.head"]


def test_creation_syncs_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(stat.S_ISDIR(os.fstat(fd).st_mode)), real(fd))[1])
    open_ledger(tmp_path / "new.ledger", "shop").close()
    assert synced == [False, True, False, True]


def test_commits_are_synced(path: Path) -> None:
    db = sqlite_file.connect(str(path))
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


@pytest.mark.parametrize("table", ["entry", "payload"])
def test_triggers_refuse_update_delete_and_replace(path: Path, table: str) -> None:
    columns = {"entry": "3, 'fact', '[]', '{}', x'00'", "payload": "3, x'00'"}[table]
    for statement in (
        f"UPDATE {table} SET number = number + 100",
        f"DELETE FROM {table}",
        f"INSERT OR REPLACE INTO {table} VALUES ({columns})",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            tamper(path, statement, guards=True)


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entry SET gist = replace(gist, '1', '2') || ' ' WHERE number = {}",
        "UPDATE entry SET kind = 'clock' WHERE number = {}",
        "UPDATE entry SET body = replace(body, '\"at\"', '\"by\"') WHERE number = {}",
        "UPDATE entry SET body = body || ' ' WHERE number = {}",
        "UPDATE entry SET hash = zeroblob(32) WHERE number = {}",
        "UPDATE entry SET number = number + 100 WHERE number = {}",
        "DELETE FROM entry WHERE number = {}",
    ],
)
def test_the_chain_shows_any_changed_field(path: Path, number: int, change: str) -> None:
    tamper(path, change.format(number))
    with pytest.raises(LedgerError, match="is refused"):
        open_ledger(path, "shop")


def test_every_changed_byte_of_a_body_is_noticed(path: Path) -> None:
    db = sqlite3.connect(path)
    rows = [row for column in ("gist", "body") for row in db.execute(f"SELECT number, {column} FROM entry")]
    db.close()
    raw = path.read_bytes()
    for _, body in rows:
        start = raw.index(body.encode())
        for offset in range(start, start + len(body), 7):
            path.write_bytes(raw[:offset] + bytes([raw[offset] ^ 1]) + raw[offset + 1 :])
            with pytest.raises(LedgerError, match="is refused"):
                open_ledger(path, "shop")


def test_a_changed_payload_is_never_replayed(path: Path) -> None:
    tamper(path, "UPDATE payload SET bytes = x'00'")
    with open_ledger(path, "shop") as ledger, pytest.raises(LedgerError, match="was changed"):
        ledger.find(b"f")


def test_a_ledger_without_its_triggers_is_refused(path: Path) -> None:
    tamper(path, "DROP TRIGGER entry_delete", guards=True)
    with pytest.raises(LedgerError, match="triggers"):
        open_ledger(path, "shop")


def test_a_tail_lost_under_an_open_ledger_is_noticed(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        tamper(path, "DELETE FROM entry WHERE number = 7")
        with pytest.raises(LedgerError, match="missing"):
            ledger.reserve(ask())


def test_an_unknown_kind_is_refused_not_skipped(path: Path) -> None:
    db = sqlite_file.connect(str(path))
    *_, (number, _, _, _, head) = sqlite_file.entries(db, 1)
    sqlite_file.insert(db, next_entry(head, number, "refund", [], {"at": ""}))
    db.close()
    with pytest.raises(LedgerError, match="kind"):
        open_ledger(path, "shop")


def test_another_dataset_is_refused(path: Path) -> None:
    with pytest.raises(LedgerError, match="account of 'shop', not of 'bank'"):
        open_ledger(path, "bank")
    with pytest.raises(LedgerError, match="name of its dataset"):
        open_ledger(path, "")


@pytest.mark.parametrize("garbage", [b"", b"not a database", b"SQLite format 3\x00" + b"x" * 5000])
def test_garbage_is_refused_and_left_alone(tmp_path: Path, garbage: bytes) -> None:
    place = tmp_path / "notes.txt"
    place.write_bytes(garbage)
    with pytest.raises(LedgerError):
        open_ledger(place, "shop")
    assert place.read_bytes() == garbage


def test_another_sqlite_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "other.db"
    db = sqlite3.connect(place)
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = place.read_bytes()
    with pytest.raises(LedgerError, match="never recreated"):
        open_ledger(place, "shop")
    assert place.read_bytes() == before


def test_a_missing_ledger_is_created_only_when_allowed(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger"):
        open_ledger(tmp_path / "new.ledger", "shop", create=False)
    with pytest.raises(LedgerError):
        open_ledger(tmp_path / "missing" / "new.ledger", "shop")
    assert list(tmp_path.iterdir()) == []


def test_the_loser_of_a_race_to_create_leaves_the_winners_ledger_alone(path: Path) -> None:
    before = path.read_bytes()
    sqlite_file.create(str(path), [next_entry(ROOT, 0, "account", ["shop", ""], {"at": ""})])
    assert path.read_bytes() == before
    assert sorted(item.name for item in path.parent.iterdir()) == ["shop.ledger", "shop.ledger.head"]


def test_a_journal_without_its_ledger_is_not_played_into_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "shop.ledger-journal").write_bytes(b"hot")
    with pytest.raises(LedgerError, match="missing"):
        open_ledger(tmp_path / "shop.ledger", "shop")


def test_a_newer_version_is_refused(path: Path) -> None:
    tamper(path, "PRAGMA user_version = 3", guards=True)
    with pytest.raises(LedgerError, match="version 3"):
        open_ledger(path, "shop")


def test_a_held_lock_is_a_clear_error_and_nothing_is_charged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.1)
    other = sqlite3.connect(path, isolation_level=None)
    with open_ledger(path, "shop") as ledger:
        before = ledger.spent(None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="busy"):
            ledger.reserve(ask())
        other.execute("ROLLBACK")
        assert ledger.spent(None) == before
        ledger.reserve(ask())
    other.close()


def test_a_commit_is_on_disk_when_it_returns_and_no_schema_is_trusted(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "shop.ledger", "shop"):
        db = sqlite_file.connect(str(tmp_path / "shop.ledger"))
        names = ("synchronous", "fullfsync", "checkpoint_fullfsync", "wal_autocheckpoint", "trusted_schema")
        assert [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names] == [2, 1, 1, sqlite_file.LOG, 0]
        db.close()


def test_the_header_says_whose_file_it_is(tmp_path: Path) -> None:
    """Files that were written before are known by it, so it never changes."""
    with open_ledger(tmp_path / "shop.ledger", "shop"):
        assert (tmp_path / "shop.ledger").read_bytes()[68:72] == b"dpsq"


def test_a_changed_entry_is_named_even_if_the_counter_of_entries_was_set_back(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        [(last,)] = db.execute("SELECT max(number) FROM entry").fetchall()
    tamper(path, f"UPDATE entry SET body = body || ' ' WHERE number = {last}")
    tamper(path, f"UPDATE sqlite_sequence SET seq = {last - 1} WHERE name = 'entry'")
    with pytest.raises(LedgerError, match=f"entry {last} is missing or was changed"):
        open_ledger(path, "shop")
