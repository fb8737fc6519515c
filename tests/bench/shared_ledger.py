"""Charges and replays per second in PostgreSQL against the file: `python tests/bench/shared_ledger.py [folder]`.

The server is started here, its data in a folder beside the file's, so that both wait for the same disk.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import postgres_server
from ledger import ask, tell, timed

from dpsql.budget import open_ledger

TIMES = 400


def one(place: str | Path, what: str) -> None:
    """One client: each charge, and each replay."""
    with open_ledger(place, "shop") as ledger:
        ledger.store(ledger.reserve(ask(b"mark")).entry, b"mark", b"x" * 2000)
        tell(f"{what}: a charge", timed(TIMES, lambda n: ledger.reserve(ask(b"%d" % n)).entry))
        tell(f"{what}: a replay", timed(3 * TIMES, lambda _: ledger.find(b"mark")))


def charge(job: tuple[str, int]) -> None:
    """So many charges by one of several processes."""
    with open_ledger(job[0], "shop") as ledger:
        for number in range(job[1]):
            ledger.reserve(ask(b"%d" % number))


def crowd(place: str | Path, what: str, processes: int = 4) -> None:
    """Charges per second by several processes together, with their start."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        began = time.perf_counter()
        pool.map(charge, [(str(place), TIMES // processes)] * processes, chunksize=1)
        print(f"{what}: {processes} processes together {TIMES / (time.perf_counter() - began):24.0f} charges/s")


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        Path(name).chmod(0o755)
        with postgres_server.running(Path(name)) as server:
            address = postgres_server.fresh_ledger(server)
            for work in (one, crowd):
                work(Path(name) / "shop.ledger", "file")
                work(address, "PostgreSQL")
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
