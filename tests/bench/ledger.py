"""The ledger's speed: `python tests/bench/ledger.py [folder]`. Compare ratios within one run: disks differ."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

import dpsql
from dpsql.budget import Caps, ChainedLedger, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger import sqlite_file
from dpsql.budget.ledger.account_state import end_of_chain
from dpsql.budget.ledger.entries import ROOT, next_entry
from dpsql.budget.ledger.rollback_guard import RollbackGuard

PRICE = 1e-5


def ask(mark: bytes) -> Request:
    sql = "SELECT region, count(*) AS n, avg(amount) FROM orders GROUP BY region ORDER BY n DESC"
    return Request("ana", pure_charge(PRICE), Cost(PRICE, 0.0, 0.0), Caps(10, 0), Caps(9, 0), sql, (mark,))


def timed(times: int, work: Callable[[int], object]) -> list[float]:
    """Sorted seconds of each call."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - began)
    return sorted(taken)


def tell(what: str, taken: list[float]) -> None:
    middle, late = taken[len(taken) // 2] * 1e3, taken[len(taken) * 99 // 100] * 1e3
    print(f"{what:44} p50 {middle:8.2f} ms   p99 {late:8.2f} ms   {len(taken) / sum(taken):8.0f}/s")


def two_syncs(folder: Path) -> Callable[[int], None]:
    """The least that two durable places can cost here: two writes in place, each with its sync."""
    handles = [os.open(folder / name, os.O_RDWR | os.O_CREAT) for name in ("one", "two")]
    for handle in handles:
        os.pwrite(handle, b"\0" * 8192, 0)
        os.fsync(handle)

    def work(number: int) -> None:
        for handle in handles:
            os.pwrite(handle, b"%d" % number, 0)
            os.fdatasync(handle)

    return work


def session(ledger: str | Path) -> dpsql.Connection:
    """A connection whose queries are cheap, so that the ledger shows; it may ask for ever."""
    frame = pd.DataFrame({"minutes": range(1000)})
    policy = {
        "dataset": "shop",
        "budget": {"epsilon": 1e6, "analysts": {"ana": {"epsilon": 1e6, "every": "month"}}},
        "tables": {"visits": {"unit": "row", "columns": {"minutes": {"min": 0, "max": 60}}}},
    }
    return dpsql.connect({"visits": frame}, policy=policy, ledger=ledger, analyst="ana")


def through_sessions(folder: Path, times: int) -> None:
    """The same queries with the durable ledger and with one in memory, in turn; then replays of one of them."""
    with session(folder / "session.ledger") as durable, session(":memory:") as volatile:
        for db in (durable, volatile):
            db.query("SELECT count(*) FROM visits")
        taken: dict[str, list[float]] = {"durable": [], "in memory": []}
        for number in range(times):
            sql = f"SELECT count(*) FROM visits WHERE minutes < {number}"
            for name, db in (("durable", durable), ("in memory", volatile)):
                taken[name] += timed(1, lambda _, db=db, sql=sql: db.query(sql))
        for name, each in taken.items():
            tell(f"a new query, ledger {name}", sorted(each))
        middle = {name: sorted(each)[times // 2] * 1e3 for name, each in taken.items()}
        print(f"{'latency added to a query by durability':44} p50 {middle['durable'] - middle['in memory']:8.2f} ms")
        tell("a replay through a session", timed(times, lambda _: durable.query("SELECT count(*) FROM visits")))


def replays_by_two(path: Path, times: int) -> float:
    """Replays per second by two threads, each with its own connection."""

    def work() -> None:
        with open_ledger(path, "shop") as ledger:
            for _ in range(times):
                assert ledger.find(b"mark") is not None

    threads = [threading.Thread(target=work) for _ in range(2)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 2 * times / (time.perf_counter() - began)


def large(path: Path, entries: int) -> None:
    """A ledger of so many entries, half of them releases, written at once."""
    rows = [next_entry(ROOT, 0, "account", ["shop", "00" * 32], {"at": "2026-01-01T00:00:00+00:00"})]
    charge = pure_charge(PRICE)
    while len(rows) < entries:
        mark, request = os.urandom(32).hex(), ask(b"")
        body = {
            "at": "2026-01-01T00:00:00+00:00",
            "cost": ["0.1", "0.0", "0.0"],
            "fingerprints": [mark],
            "sql": request.sql,
        }
        gist = ["ana", charge.rho, charge.delta, charge.epsilon]
        rows.append(next_entry(rows[-1][4], len(rows), "charge", gist, body))
        rows.append(next_entry(rows[-1][4], len(rows), "release", [len(rows), mark, mark], {"at": body["at"]}))
    sqlite_file.create(str(path), rows)
    RollbackGuard(str(path)).create(end_of_chain(str(path), rows))


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        path = folder / "shop.ledger"
        with open_ledger(path, "shop") as ledger:
            assert isinstance(ledger, ChainedLedger)
            syncs = two_syncs(folder)
            ledger.store(ledger.reserve(ask(b"mark")).entry, b"mark", b"x" * 2000)
            tell("two bare syncs", timed(300, syncs))
            tell(
                "reserve: a charge, durable in both places", timed(300, lambda n: ledger.reserve(ask(b"%d" % n)).entry)
            )
            tell("two bare syncs, again", timed(300, syncs))
            tell("find: a replay", timed(3000, lambda _: ledger.find(b"mark")))
        through_sessions(folder, 200)
        print(f"{'find, two threads':44} {replays_by_two(path, 1500):38.0f}/s")
        large(folder / "large", 10_000)
        tell("open a ledger of 10,000 entries", timed(20, lambda _: open_ledger(folder / "large", "shop").close()))


if __name__ == "__main__":
    main()
