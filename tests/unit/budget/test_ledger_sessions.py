"""Several sessions in one process beside other processes: none unlocks another, and no charge is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger import sqlite_file
from dpsql.budget.ledger.maintenance import load_copy

REQUEST = Request("ana", pure_charge(0.5), Cost(0.5, 0.0, 0.0), Caps(100, 0), None, "SELECT 1", ())
LOOK = "import sys; from dpsql.budget import open_ledger\nwith open_ledger(sys.argv[1], 'shop') as l: print(l.spent(None).epsilon)"


def spent_elsewhere(path: Path) -> int:
    """What another process sees; it closes the ledger when it has looked."""
    done = subprocess.run([sys.executable, "-c", LOOK, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_second_session_does_not_unlock_the_first(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    one = pure_charge(0.5).epsilon or 0
    with open_ledger(path, "shop") as first:
        first.reserve(REQUEST)
        open_ledger(path, "shop").close()
        assert spent_elsewhere(path) == one
        first.reserve(REQUEST)
        with open_ledger(path, "shop") as second:
            second.reserve(REQUEST)
            assert spent_elsewhere(path) == 3 * one
        first.reserve(REQUEST)
        assert spent_elsewhere(path) == 4 * one
    assert spent_elsewhere(path) == 4 * one


def test_the_log_of_an_open_ledger_is_not_removed_by_others(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as first:
        first.reserve(REQUEST)
        open_ledger(path, "shop").close()
        before = (tmp_path / "shop.ledger-wal").stat().st_ino
        spent_elsewhere(path)
        assert (tmp_path / "shop.ledger-wal").stat().st_ino == before


def test_a_ledger_that_is_read_as_a_copy_stays_locked(tmp_path: Path) -> None:
    """A steward may restore from a ledger that is open in the same process."""
    path = tmp_path / "shop.ledger"
    one = pure_charge(0.5).epsilon or 0
    with open_ledger(path, "shop") as first:
        first.reserve(REQUEST)
        load_copy(path)
        before = (tmp_path / "shop.ledger-wal").stat().st_ino
        spent_elsewhere(path)
        assert (tmp_path / "shop.ledger-wal").stat().st_ino == before
        first.reserve(REQUEST)
        assert spent_elsewhere(path) == 2 * one


def test_every_descriptor_is_closed_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    before = len(list(Path("/dev/fd").iterdir())), dict(sqlite_file._open)
    for _ in range(5):
        with open_ledger(path, "shop"), open_ledger(path, "shop"):
            pass
    assert (len(list(Path("/dev/fd").iterdir())), dict(sqlite_file._open)) == before
