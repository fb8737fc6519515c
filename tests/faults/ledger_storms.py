"""Long runs, each a command of its own; the suite runs short ones.

python tests/faults/ledger_storms.py kills 1000      # kill a charging process at random moments
python tests/faults/ledger_storms.py crowd 16 1000   # 16 processes, 1,000 charges each, one cap
"""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger import backend
from dpsql.budget.ledger.maintenance import verify
from dpsql.errors import BudgetExceeded

PRICE = 0.0001
UNITS = pure_charge(PRICE).epsilon or 0
SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 600.0
"""Seconds to wait for a child or for a lock: what is tested is who wins, not how soon."""


def ask(name: str, cap: float) -> Request:
    return Request(name, pure_charge(PRICE), Cost(PRICE, 0.0, 0.0), Caps(cap, 0), None, "SELECT 1", (b"f",))


def charge_until_killed(path: str | Path, pipe: int) -> None:
    """Open, charge and store for ever, telling each release after its charge."""
    while True:
        with open_ledger(path, "shop") as ledger:
            for _ in range(5):
                entry = ledger.reserve(ask("ana", 1000)).entry
                os.write(pipe, b"%d\n" % entry)
                ledger.store(entry, b"f", b"noisy")


def kills(path: str | Path, times: int, seed: int = 0) -> tuple[int, int]:
    """Releases told and charges kept, after so many kills; every release has its charge, one in flight at most each.

    Every second child lives until it has told its first release, so that a slow machine kills at work too.
    """
    told: set[int] = set()
    chance = random.Random(seed)
    for number in range(times):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                charge_until_killed(path, write)
            finally:
                os._exit(1)
        os.close(write)
        if number % 2:
            select.select([read], [], [], PATIENCE)
        time.sleep(chance.uniform(0.001, 0.15))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert status == signal.SIGKILL, "the child failed by itself"
        with os.fdopen(read) as pipe:
            told.update(int(line) for line in pipe)
    with open_ledger(path, "shop") as ledger:
        charged = {line.number for line in ledger.log() if line.kind == "charge"}
        assert told <= charged
        assert len(charged) <= len(told) + times
        assert ledger.spent(None).epsilon == len(charged) * UNITS
    verify(path)
    return len(told), len(charged)


def charge_many(job: tuple[str, int, int, float]) -> list[int]:
    """So many charges against one cap; the numbers of those admitted."""
    path, worker, times, cap = job
    backend.PATIENCE = PATIENCE
    entries = []
    with open_ledger(path, "shop") as ledger:
        for _ in range(times):
            try:
                entries.append(ledger.reserve(ask(f"w{worker}", cap)).entry)
            except BudgetExceeded:
                continue
    return entries


def crowd(path: str | Path, workers: int, times: int) -> int:
    """How many were admitted: exactly what fits under a cap of three quarters, every one of them present."""
    fits = workers * times * 3 // 4
    jobs = [(str(path), worker, times, fits * PRICE) for worker in range(workers)]
    with SPAWN.Pool(workers) as pool:
        admitted = pool.map(charge_many, jobs, chunksize=1)
    with open_ledger(path, "shop") as ledger:
        charged = [line.number for line in ledger.log() if line.kind == "charge"]
        assert sorted(entry for entries in admitted for entry in entries) == charged
        assert len(charged) == fits
        assert ledger.spent(None).epsilon == fits * UNITS
        for worker, entries in enumerate(admitted):
            assert ledger.spent(f"w{worker}").epsilon == len(entries) * UNITS
    verify(path)
    return fits


def main() -> None:
    """See above."""
    what, *numbers = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=os.environ.get("DPSQL_STORM_DIR")) as folder:
        began = time.perf_counter()
        done = {"kills": kills, "crowd": crowd}[what](Path(folder) / "shop.ledger", *map(int, numbers))
        print(f"{what} {' '.join(numbers)}: {done} in {time.perf_counter() - began:.0f} s; all present, none above")


if __name__ == "__main__":
    main()
