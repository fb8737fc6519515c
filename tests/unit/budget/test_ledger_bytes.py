"""Every byte of a small ledger flipped, every length cut: refused, or the content and the spent budget are the same.

In the suite every 31st byte; all of them with DPSQL_ALL_BYTES=1.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.errors import LedgerError

STEP = 1 if os.environ.get("DPSQL_ALL_BYTES") else 31
FILES = ("shop.ledger", "shop.ledger.head", "shop.ledger-wal")


def ask(analyst: str) -> Request:
    cost = Cost(0.1, 0.0, 0.0)
    return Request(analyst, pure_charge(0.1), cost, Caps(1, 0), Caps(0.5, 0), "SELECT count(*) FROM t", (b"f",))


@pytest.fixture(params=["closed", "crashed"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A ledger with every common kind of entry; "crashed" leaves the last ones in the log of SQLite."""
    made = tmp_path / "made"
    made.mkdir()
    ledger = open_ledger(made / "shop.ledger", "shop")
    entry = ledger.reserve(ask("ana")).entry
    ledger.store(entry, b"f", b"noisy table")
    ledger.replayed(entry, "bob", None)
    if request.param == "crashed":
        ledger.close()
        ledger = open_ledger(made / "shop.ledger", "shop")
    ledger.record_fact("customers", "unique", "v1")
    ledger.reserve(ask("ana"))
    if request.param == "closed":
        ledger.close()
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in FILES:
        if (made / name).exists():
            shutil.copy(made / name, kept / name)
    ledger.close()
    return kept


def content(folder: Path) -> object:
    """All that the ledger says."""
    with open_ledger(folder / "shop.ledger", "shop", create=False) as ledger:
        return list(ledger.log()), ledger.spent(None), ledger.spent("ana"), ledger.spent("bob"), ledger.find(b"f")


def lay_out(files: dict[str, bytes], target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, raw in files.items():
        (target / name).write_bytes(raw)
    return target


def test_the_crashed_ledger_has_a_log(folder: Path) -> None:
    assert content(folder)


def check(files: dict[str, bytes], name: str, changed: bytes, target: Path, expected: object) -> bool:
    """Whether the change was refused, on opening (then all files are as they were) or when the release is read.

    If it was not, everything must be as before.
    """
    laid = {**files, name: changed}
    lay_out(laid, target)
    try:
        open_ledger(target / "shop.ledger", "shop", create=False).close()
    except LedgerError as refusal:
        assert refusal.hint
        assert all((target / each).read_bytes() == raw for each, raw in laid.items())
        return True
    try:
        found = content(target)
    except LedgerError as refusal:
        assert "the release kept in entry" in refusal.message or "damaged" in refusal.message
        return True
    assert found == expected
    return False


def fast(tmp_path: Path) -> Path:
    """Memory where the system has some: no test of durability is made here."""
    shared = Path("/dev/shm")
    return shared / f"dpsql-{os.getpid()}" if shared.is_dir() else tmp_path / "scratch"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("flip", [0x01, 0xD5])
def test_every_flipped_byte_is_refused_or_changes_nothing(folder: Path, tmp_path: Path, name: str, flip: int) -> None:
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    if name not in files:
        pytest.skip("closed cleanly: there is no log")
    target = fast(tmp_path)
    expected = content(lay_out(files, target))
    raw, refused = files[name], 0
    for offset in range(0, len(raw), STEP):
        changed = raw[:offset] + bytes([raw[offset] ^ flip]) + raw[offset + 1 :]
        refused += check(files, name, changed, target, expected)
    shutil.rmtree(target)
    assert refused or name.endswith("head")


@pytest.mark.parametrize("name", FILES)
def test_every_shorter_file_is_refused_or_changes_nothing(folder: Path, tmp_path: Path, name: str) -> None:
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    if name not in files:
        pytest.skip("closed cleanly: there is no log")
    target = fast(tmp_path)
    expected = content(lay_out(files, target))
    refused = [check(files, name, files[name][:size], target, expected) for size in range(0, len(files[name]), STEP)]
    shutil.rmtree(target)
    assert refused[0]
