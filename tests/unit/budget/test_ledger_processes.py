"""Many processes, one ledger: the cap holds, and every charge is there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from postgres_server import a_place

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger import backend
from dpsql.errors import BudgetExceeded

CAPS = Caps(3, 0)
SPAWN = multiprocessing.get_context("spawn")


def charge_fifty(job: tuple[str, int]) -> list[int]:
    """Fifty charges of 0.01; the numbers of those that were admitted."""
    path, worker = job
    backend.PATIENCE = 600.0  # what is tested is who wins, not how soon
    request = Request(f"w{worker}", pure_charge(0.01), Cost(0.01, 0.0, 0.0), CAPS, None, "SELECT 1", ())
    entries = []
    with open_ledger(path, "shop") as ledger:
        for _ in range(50):
            try:
                entries.append(ledger.reserve(request).entry)
            except BudgetExceeded:
                continue
    return entries


def die_while_charging(path: str) -> None:
    """Charge, and be killed in the middle of a second charge."""
    request = Request("ana", pure_charge(0.5), Cost(0.5, 0.0, 0.0), CAPS, None, "SELECT 1", ())
    ledger = open_ledger(path, "shop")
    ledger.reserve(request)
    with ledger._writing():  # type: ignore[attr-defined]
        ledger._append("charge", ["ana", 1, 0, None], {})  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(params=["file", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(a_place(request, tmp_path))


def test_eight_processes_never_pass_the_cap_and_lose_no_charge(path: str) -> None:
    """400 charges are asked for, 300 fit; all eight also race to create the file."""
    with SPAWN.Pool(8) as pool:
        admitted = pool.map(charge_fifty, [(path, worker) for worker in range(8)], chunksize=1)
    numbers = sorted(number for entries in admitted for number in entries)
    assert numbers == list(range(3, 303))
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == pure_charge(3).epsilon
        for worker, entries in enumerate(admitted):
            assert ledger.spent(f"w{worker}").epsilon == len(entries) * (pure_charge(0.01).epsilon or 0)
        assert [line.number for line in ledger.log() if line.kind == "charge"] == numbers


def test_a_killed_process_keeps_its_charges_and_leaves_no_half_of_one(path: str) -> None:
    process = SPAWN.Process(target=die_while_charging, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with open_ledger(path, "shop") as ledger:
        assert ledger.spent(None).epsilon == pure_charge(0.5).epsilon
