"""The steward's acts: caps, backup, restore, migrate; each is an entry that names who did it."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge, zcdp_charge
from dpsql.budget.ledger.maintenance import backup, migrate, restore, verify
from dpsql.errors import BudgetExceeded, LedgerError

UNITS = pure_charge(0.1).epsilon or 0


def ask(price: float = 0.1, cap: float = 1, own: float | None = None) -> Request:
    mine = None if own is None else Caps(own, 0)
    return Request("ana", pure_charge(price), Cost(price, 0.0, 0.0), Caps(cap, 0), mine, "SELECT 1", (b"f",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "shop.ledger"
    with open_ledger(place, "shop") as ledger:
        ledger.store(ledger.reserve(ask(0.1)).entry, b"f", b"noisy")
    return place


def test_a_higher_cap_waits_for_the_steward(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        with pytest.raises(BudgetExceeded, match="dpsql ledger raise-cap"):
            ledger.reserve(ask(1.0, cap=5))
        assert ledger.in_force(None, Caps(5, 0)) == Caps(1, 0)
        assert ledger.record_caps(None, Caps(5, 0), "ste")
        assert not ledger.record_caps(None, Caps(5, 0), "ste")
        ledger.reserve(ask(1.0, cap=5))
        assert "caps of the dataset: ε = 5, δ = 0; by ste" in [line.text for line in ledger.log()]


def test_a_lower_cap_applies_at_once_and_going_back_is_a_rise(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        with pytest.raises(BudgetExceeded):
            ledger.reserve(ask(0.5, cap=0.3))
        ledger.reserve(ask(0.1, cap=0.3))
        with pytest.raises(BudgetExceeded, match="raise-cap"):
            ledger.reserve(ask(0.5, cap=1))


def test_an_analysts_cap_rises_only_by_the_steward_also_for_replays(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask(0.1, own=0.2))
        for own in (0.9, None):
            with pytest.raises(BudgetExceeded):
                ledger.reserve(ask(0.1, own=own))
        ledger.record_caps("bob", Caps(0.05, 0), "ste")
        with pytest.raises(BudgetExceeded):
            ledger.replayed(3, "bob", Caps(1, 0))


def test_an_act_names_its_steward(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        for act in (
            lambda: ledger.record_caps(None, Caps(5, 0), " "),
            lambda: ledger.accept_clock(""),
            lambda: ledger.bump("v", ""),
        ):
            with pytest.raises(LedgerError, match="this command records the steward"):
                act()
        ledger.bump("2026-11", "ste")
        assert ledger.label() == "2026-11"


def test_a_backup_is_whole_and_never_replaces_a_file(path: Path, tmp_path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        assert backup(path, tmp_path / "copy") == ledger.mark()
    with pytest.raises(LedgerError, match="exists already"):
        backup(path, tmp_path / "copy")
    assert verify(path).charges == 1


@pytest.mark.parametrize("damage", ["deleted", "garbage", "rolled back"])
def test_a_restore_from_an_old_backup_keeps_what_was_spent(path: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    backup(path, copy)
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask(0.3))
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"garbage" if damage == "garbage" else copy.read_bytes())
    with pytest.raises(LedgerError, match="dpsql ledger restore"):
        open_ledger(path, "shop")
    done = restore(path, copy, "ste")
    assert done.lost == 1
    assert (done.aside is None) == (damage == "deleted")
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == 4 * UNITS
        assert ledger.find(b"f") is not None
        assert list(ledger.log())[-1].text == "restored from copy; nothing that was spent is forgotten; by ste"
        with pytest.raises(BudgetExceeded):
            ledger.reserve(ask(0.7))
        ledger.reserve(ask(0.6))


def test_a_restore_keeps_purity_lost(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop.ledger", tmp_path / "copy"
    caps = Caps(1, 1e-6)
    with open_ledger(path, "shop") as ledger:
        backup(path, copy)
        ledger.reserve(Request("ana", zcdp_charge(0.01), Cost(0.3, 1e-8, 0.01), caps, None, "SELECT 1", ()))
        spent = ledger.spent(None)
    path.unlink()
    restore(path, copy, "ste")
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None) == spent
        assert spent.epsilon is None


def test_a_loss_is_accepted_only_by_name(path: Path, tmp_path: Path) -> None:
    copy, head = tmp_path / "copy", tmp_path / "shop.ledger.head"
    backup(path, copy)
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask(0.3))
    with pytest.raises(LedgerError, match="this command records the steward"):
        restore(path, copy, "", accept_loss=True)
    path.unlink()
    head.unlink()
    with pytest.raises(LedgerError, match="accept-loss"):
        restore(path, copy, "ste")
    assert not head.exists()
    restore(path, copy, "ste", accept_loss=True)
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == UNITS
        assert "ste accepted the loss" in list(ledger.log())[-1].text


def test_a_lost_head_is_mended_by_restoring_the_ledger_from_itself(path: Path) -> None:
    path.with_name("shop.ledger.head").unlink()
    restore(path, path, "ste", accept_loss=True)
    assert verify(path).charges == 1


def test_a_connection_that_was_open_during_a_restore_is_refused(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy")
    with open_ledger(path, "shop") as ledger:
        restore(path, tmp_path / "copy", "ste")
        with pytest.raises(LedgerError, match="deleted or replaced"):
            ledger.reserve(ask())


def test_a_damaged_backup_is_refused_and_nothing_is_changed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    backup(path, copy)
    raw = copy.read_bytes()
    copy.write_bytes(raw.replace(b"SELECT 1", b"SELECT 2"))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is refused"):
        restore(path, copy, "ste")
    assert path.read_bytes() == before
    verify(path)


def first_version(path: Path) -> None:
    """A file as the first version wrote it."""
    salt = "ab" * 32
    charge = {"analyst": "ana", "charge": [str(UNITS), "0", str(UNITS)], "cost": ["0.1", "0.0", "0.0"]}
    bodies = [
        {"kind": "account", "dataset": "shop", "salt": salt},
        {"kind": "charge", **charge, "fingerprints": [b"f".hex()], "sql": "SELECT 1"},
        {"kind": "release", "entry": 2, "fingerprint": b"f".hex(), "digest": sha256(b"noisy").hexdigest()},
        {"kind": "replay", "analyst": "bob", "entry": 2},
        {"kind": "fact", "table": "t", "fact": "unique", "data_version": "v1"},
    ]
    db = sqlite3.connect(path)
    db.execute("PRAGMA application_id = 0x64707371")
    db.execute("PRAGMA user_version = 1")
    db.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT, hash BLOB)")
    db.execute("CREATE TABLE payload (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")
    head = sha256(b"dpsql ledger 1").digest()
    for number, body in enumerate(bodies, 1):
        text = json.dumps({**body, "at": "2026-01-01T00:00:00.000+00:00"})
        head = sha256(head + b"%d " % number + text.encode()).digest()
        db.execute("INSERT INTO entry VALUES (?, ?, ?)", (number, text, head))
    db.execute("INSERT INTO payload VALUES (3, ?)", (b"noisy",))
    db.commit()
    db.close()


def test_the_first_version_is_refused_with_a_hint_and_migrates(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    first_version(path)
    with pytest.raises(LedgerError, match="dpsql ledger migrate"):
        open_ledger(path, "shop")
    done = migrate(path, "ste")
    assert done is not None
    assert done.aside is not None
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == ledger.spent("bob").epsilon == UNITS
        assert ledger.facts("v1") == {("t", "unique")}
        assert ledger.salt().hex() == "ab" * 32
        found = ledger.find(b"f")
        assert found is not None
        assert found.payload == b"noisy"
        ledger.reserve(ask())
    assert migrate(path, "ste") is None


def test_a_changed_first_version_does_not_migrate(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    first_version(path)
    path.write_bytes(path.read_bytes().replace(b"SELECT 1", b"SELECT 2"))
    with pytest.raises(LedgerError, match="entry 2"):
        migrate(path, "ste")


def test_verify_walks_pages_that_no_entry_needs(path: Path) -> None:
    """A page that belongs to nothing changes no answer, so that only the steward's own check can find it."""
    raw = bytearray(path.read_bytes())
    pages = len(raw) // 4096
    raw[28:32] = (pages + 1).to_bytes(4, "big")
    path.write_bytes(bytes(raw) + b"\0" * 4096)
    open_ledger(path, "shop").close()
    with pytest.raises(LedgerError, match="damaged"):
        verify(path)


def test_a_release_is_kept_once_whoever_kept_it(path: Path) -> None:
    with open_ledger(path, "shop") as one, open_ledger(path, "shop") as two:
        entry = one.reserve(ask(0.1)).entry
        one.store(entry, b"f", b"noisy table")
        for again in (one, two):
            with pytest.raises(LedgerError, match="kept already"):
                again.store(entry, b"f", b"another table")
    with open_ledger(path, "shop") as later, pytest.raises(LedgerError, match="kept already"):
        later.store(entry, b"f", b"another table")
