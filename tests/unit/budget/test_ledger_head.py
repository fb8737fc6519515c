"""What only the second place can tell: rollback, deletion, a writer without the lock; and places that are refused."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from dpsql.budget import Caps, Cost, Request, Spent, open_ledger, pure_charge
from dpsql.budget.ledger import backend, durable_files, sqlite_file
from dpsql.budget.ledger import entries as hash_chain
from dpsql.budget.ledger.entries import ROOT, next_entry
from dpsql.budget.ledger.rollback_guard import ChainEnd, RollbackGuard, _try_lock
from dpsql.errors import LedgerError

UNITS = pure_charge(0.1).epsilon or 0


def ask(sql: str = "SELECT 1") -> Request:
    return Request("ana", pure_charge(0.1), Cost(0.1, 0.0, 0.0), Caps(1, 0), None, sql, (b"f",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "shop.ledger"
    with open_ledger(place, "shop") as ledger:
        ledger.reserve(ask())
    return place


def lasting(path: Path) -> dict[str, bytes]:
    """All files but those that SQLite makes for a connection."""
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if not each.name.endswith(("-wal", "-shm"))}


def refused(path: Path, words: str) -> None:
    """Refused with words for people and a hint, twice, and no file was changed or gone."""
    before = lasting(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match=words) as refusal:
            open_ledger(path, "shop")
        assert refusal.value.hint
    assert lasting(path) == before


def test_an_older_copy_is_refused_and_the_newer_one_put_back_goes_on(path: Path, tmp_path: Path) -> None:
    old = path.read_bytes()
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask())
    new = path.read_bytes()
    path.write_bytes(old)
    refused(path, "older copy")
    path.write_bytes(new)
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == 2 * UNITS


def test_another_ledger_of_the_same_length_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with open_ledger(other, "shop") as ledger:
        ledger.reserve(ask())
    shutil.move(other, path)
    refused(path, "replaced")


def test_a_deleted_ledger_is_never_recreated(path: Path) -> None:
    path.unlink()
    refused(path, "missing, but .* says that it had 3 entries")


def test_a_deleted_or_damaged_head_is_refused(path: Path) -> None:
    head = path.with_name("shop.ledger.head")
    whole = head.read_bytes()
    head.unlink()
    refused(path, "missing")
    for raw in (b"", whole[:50], b"x" * len(whole)):
        head.write_bytes(raw)
        refused(path, "damaged")


def test_an_older_head_is_refused_before_the_next_charge(path: Path) -> None:
    head = path.with_name("shop.ledger.head")
    old = head.read_bytes()
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask())
        ledger.reserve(ask())
    head.write_bytes(old)
    with open_ledger(path, "shop") as ledger, pytest.raises(LedgerError, match="without its lock, or the head"):
        ledger.reserve(ask())


def test_a_crash_between_the_two_places_is_charged_and_mended(path: Path) -> None:
    head = path.with_name("shop.ledger.head")
    before = head.read_bytes()
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask())
    head.write_bytes(before)
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == 2 * UNITS
        assert ledger.reserve(ask()).entry == 5
    assert RollbackGuard(str(path)).read().number == 5


def test_a_creation_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    RollbackGuard(str(tmp_path / "shop.ledger")).create()
    with open_ledger(tmp_path / "shop.ledger", "shop") as ledger:
        ledger.reserve(ask())


def test_a_torn_head_falls_back_to_the_other_slot(path: Path) -> None:
    head = RollbackGuard(str(path))
    mark = head.read()
    raw = bytearray(head.path.read_bytes())
    newest = raw.find(b'"number": 3') // 4096 * 4096
    raw[newest + 5 : newest + 30] = b"\0" * 25
    head.path.write_bytes(raw)
    assert head.read().number == mark.number - 1
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(ask())
    assert head.read().number == 4


def test_a_writer_without_the_lock_is_noticed_by_the_next(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        db = sqlite_file.connect(str(path))
        for _ in range(2):
            *_, (number, _, _, _, end) = sqlite_file.entries(db, 1)
            sqlite_file.insert(
                db, next_entry(end, number, "fact", ["t", "unique", "v"], {"at": "2026-01-01T00:00:00+00:00"})
            )
        db.close()
        with pytest.raises(LedgerError, match="without its lock"):
            ledger.reserve(ask())


def test_two_writers_who_both_followed_one_entry_are_noticed(path: Path) -> None:
    """As if no lock held: the head is already at another entry of the same number."""
    with open_ledger(path, "shop") as ledger:
        head = RollbackGuard(str(path))
        with head.locked(1):
            head.write(ChainEnd(4, b"\1" * 32))
        with pytest.raises(LedgerError, match="is refused"):
            ledger.reserve(ask())


def test_a_file_exchanged_while_it_is_open_takes_no_charge(path: Path) -> None:
    with open_ledger(path, "shop") as ledger:
        path.rename(path.with_name("away"))
        with pytest.raises(LedgerError, match="deleted or replaced"):
            ledger.reserve(ask())
        shutil.copy(path.with_name("away"), path)
        with pytest.raises(LedgerError, match="deleted or replaced"):
            ledger.spent(None)


def test_a_held_head_is_busy_not_stuck(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.05)
    with open_ledger(path, "shop") as ledger, RollbackGuard(str(path)).locked(1):
        assert ledger.spent(None).epsilon == UNITS
        with pytest.raises(LedgerError, match=r"busy.*nothing was charged"):
            ledger.reserve(ask())


def test_a_clock_set_back_is_refused_until_the_steward_accepts_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = datetime.now(UTC).replace(microsecond=0)
    with open_ledger(path, "shop") as ledger:
        monkeypatch.setattr(hash_chain, "now", lambda: real - timedelta(seconds=30))
        ledger.reserve(ask())
        monkeypatch.setattr(hash_chain, "now", lambda: real - timedelta(hours=2))
        with pytest.raises(LedgerError, match=r"the clock says .* nothing was charged"):
            ledger.reserve(ask())
        times = [line.at for line in ledger.log()]
        assert times == sorted(times)
        monkeypatch.setattr("dpsql.budget.ledger.chained_ledger.now", hash_chain.now)
        ledger.accept_clock("ste")
        ledger.reserve(ask())
        assert list(ledger.log())[-2].text == "clock; by ste"
        assert ledger.spent(None).epsilon == 3 * UNITS


MOUNTS = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /mnt/office rw - {kind} server:/x rw
31 22 0:41 / /mnt/office/local\\040disk rw - xfs /dev/b rw
"""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.rclone", "9p"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(kind=kind))
    monkeypatch.setattr(durable_files, "_MOUNTS", mounts)
    with pytest.raises(LedgerError, match=f"on a {kind} file system"):
        open_ledger("/mnt/office/shop.ledger", "shop")
    durable_files.refuse_network("/mnt/office/local disk/shop.ledger")
    durable_files.refuse_network("/mnt/officer/shop.ledger")


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 40 kB: the system's own full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_refuses_and_loses_nothing(path: Path) -> None:
    done = 1
    with open_ledger(path, "shop") as ledger, pytest.raises(LedgerError) as refusal:
        for _ in range(8):
            ledger.reserve(ask("SELECT " + "1 + " * 2000))
            done += 1
    assert refusal.value.hint
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon in (done * UNITS, (done + 1) * UNITS)
        ledger.reserve(ask())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_a_clear_error(path: Path) -> None:
    path.parent.chmod(0o500)
    with pytest.raises(LedgerError, match="cannot be read or written"), open_ledger(path, "shop") as ledger:
        ledger.reserve(ask())
    path.parent.chmod(0o700)


def test_a_database_locked_by_a_stranger_is_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.05)
    stranger = sqlite3.connect(path, isolation_level=None)
    with open_ledger(path, "shop") as ledger:
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="busy"):
            ledger.reserve(ask())
        stranger.execute("ROLLBACK")
        ledger.reserve(ask())
    stranger.close()


def test_the_two_marks_lie_on_pages_of_their_own(path: Path) -> None:
    """So that a torn write of one leaves the other whole; and files that were written before are read where they are."""
    raw = path.with_name(path.name + ".head").read_bytes()
    assert len(raw) == 2 * 4096
    assert [json.loads(raw[at:].partition(b"\n")[0])["turn"] % 2 for at in (0, 4096)] == [0, 1]


@pytest.mark.parametrize("turns", range(6))
def test_each_mark_goes_to_the_older_slot_and_a_restore_to_both_all_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Whatever turn it is: the newest mark survives a torn write of the other slot, and a restore leaves no old one."""
    calls, sync = list[str](), durable_files.sync_data
    monkeypatch.setattr(
        "dpsql.budget.ledger.rollback_guard.sync_data", lambda handle: (calls.append("sync"), sync(handle))
    )
    head = RollbackGuard(str(tmp_path / "shop.ledger"))
    head.create(ChainEnd(1, b"\1" * 32))
    with head.locked(1):
        for number in range(turns):
            before = _slots(head)
            head.write(ChainEnd(number + 2, b"\2" * 32))
            assert head.read().number == number + 2
            assert [one == two for one, two in zip(before, _slots(head), strict=True)] == [
                number % 2 == 1,
                number % 2 == 0,
            ]
        head.rewrite(ChainEnd(99, b"\3" * 32))
    assert calls == ["sync"] * (turns + 2)
    for slot in _slots(head):
        head.path.write_bytes(slot.ljust(2 * 4096))
        assert head.read() == ChainEnd(99, b"\3" * 32)


def _slots(head: RollbackGuard) -> list[bytes]:
    raw = head.path.read_bytes()
    assert len(raw) == 2 * 4096
    return [raw[:4096], raw[4096:]]


def test_a_head_that_is_free_in_time_is_waited_for_and_a_missing_one_is_refused(path: Path) -> None:
    head, held = RollbackGuard(str(path)), threading.Event()

    def hold() -> None:
        with RollbackGuard(str(path)).locked(1):
            held.set()
            time.sleep(0.05)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with head.locked(10):
        assert head.read().number == 3
    holder.join()
    with pytest.raises(LedgerError, match="missing"), RollbackGuard(str(path.with_name("other"))).locked(1):
        pass


def test_a_mark_is_written_only_under_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system has no flag that closes a file with the process image."""
    head, files = RollbackGuard(str(path)), len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.delattr(os, "O_CLOEXEC")
    for number in (4, 5):
        with pytest.raises(OSError, match="Bad file descriptor"):
            head.write(ChainEnd(9))
        with head.locked(1):
            head.write(ChainEnd(number))
        assert head.read() == ChainEnd(number)
        assert len(list(Path("/proc/self/fd").iterdir())) == files
    with pytest.raises(OSError, match="Bad file descriptor"):
        head.rewrite(ChainEnd(9))


def test_on_windows_one_byte_behind_the_marks_is_locked_without_waiting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    windows = ModuleType("msvcrt")
    windows.LK_NBLCK = 2  # type: ignore[attr-defined]

    def locking(handle: int, mode: int, count: int) -> None:
        asked.append((os.lseek(handle, 0, os.SEEK_CUR), mode, count))
        if len(asked) > 1:
            raise PermissionError

    windows.locking = locking  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    with path.with_name(path.name + ".head").open("rb") as file:
        with monkeypatch.context() as system:
            system.setattr(os, "name", "nt")
            taken = [_try_lock(file.fileno()), _try_lock(file.fileno())]
        assert taken == [True, False]
        assert {(mode, count) for _, mode, count in asked} == {(2, 1)}
        [place] = {place for place, _, _ in asked}
        assert place >= 2 * 4096
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        with path.with_name(path.name + ".head").open("rb") as other:
            assert not _try_lock(other.fileno())


def test_a_new_head_has_its_mark_in_both_slots_and_is_not_made_twice(tmp_path: Path) -> None:
    head = RollbackGuard(str(tmp_path / "shop.ledger"))
    assert not head.exists()
    head.create()
    assert head.exists() and head.read() == ChainEnd(0, ROOT, Spent())
    for slot in _slots(head):
        text, digest = slot.rstrip(b"\n").split(b"\n")
        assert json.loads(text)["number"] == 0 and digest.strip() == hashlib.sha256(text).hexdigest().encode()
    head.create(ChainEnd(7, b"\1" * 32, Spent(1, 2, None)))
    assert head.read() == ChainEnd()
    other = RollbackGuard(str(tmp_path / "other.ledger"))
    other.create(ChainEnd(7, b"\1" * 32, Spent(1, 2, None)))
    assert other.read() == ChainEnd(7, b"\1" * 32, Spent(1, 2, None))


def test_a_restore_mends_a_head_of_which_nothing_is_left(tmp_path: Path) -> None:
    head = RollbackGuard(str(tmp_path / "shop.ledger"))
    head.path.write_bytes(b"x" * 2 * 4096)
    with head.locked(1):
        head.rewrite(ChainEnd(5, b"\1" * 32))
    assert head.read() == ChainEnd(5, b"\1" * 32)
    assert sorted(json.loads(slot.partition(b"\n")[0])["turn"] for slot in _slots(head)) == [1, 2]
