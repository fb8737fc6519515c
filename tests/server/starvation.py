"""One analyst tries to starve another, in each way that was found: the other's waits, and the memory that it took.

It is a part of `python tests/server/abuse.py`; alone, `python tests/server/starvation.py 10` gives each way ten seconds.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from raw import Raw, query
from served import PASSWORD, Served, stop

import dpsql

GREEDY = "SELECT string_agg(a.attname || b.attname, '') FROM pg_attribute a, pg_attribute b"
SLOW = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c"
_NUMBERS = (
    "WITH v AS (SELECT a.id + 4 * b.id + 16 * c.id + 64 * d.id AS i FROM stores a, stores b, stores c, stores d) "
)
HEAVY = _NUMBERS + "SELECT count(*) FROM v a, v b, v c, v d, stores s WHERE sin(a.i + b.i * c.i) < d.i + {}"
MANY = (
    _NUMBERS
    + "SELECT a.i AS a, b.i AS b, 'some text ' || b.i AS c FROM v a, v b, stores s WHERE s.id = 1 AND a.i <> {}"
)
REFUSED = (
    "SELECT length(repeat(repeat('x', 10000), 10000))", "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT pg_advisory_lock(1)", "SELECT pg_sleep(5)",
)  # fmt: skip
ASKED = (
    "SELECT count(*) FROM stores", "SELECT region, count(*) FROM customers GROUP BY region",
    "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r'", "SELECT 1",
)  # fmt: skip


def family(process: int) -> tuple[int, int]:
    """Bytes that the server's own process holds, and those of its empty databases (shared pages in part)."""
    parents: dict[int, int] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
    below = {process}
    while grown := {child for child, parent in parents.items() if parent in below} - below:
        below |= grown
    return _held(process, "VmRSS"), sum(_own(each) for each in below - {process})


def _held(process: int, name: str) -> int:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
    return 0


def _own(process: int) -> int:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


@dataclass
class Waits:
    """How long a healthy client waited, and the most memory that was held meanwhile."""

    times: list[float] = field(default_factory=list)
    server: int = 0
    databases: int = 0
    wrong: list[str] = field(default_factory=list)

    def part(self, share: float) -> float:
        listed = sorted(self.times)
        return listed[min(len(listed) - 1, int(share * len(listed)))] if listed else float("inf")

    def __str__(self) -> str:
        return (
            f"{len(self.times):>6,} answers, p50 {1000 * self.part(0.5):>5.0f} ms, p99 {1000 * self.part(0.99):>5.0f} ms, "
            f"worst {1000 * self.part(1):>5.0f} ms; server {self.server // 2**20:>5,} MB, databases {self.databases // 2**20:>4,} MB"
        )


@dataclass
class Starvation:
    """A server on which ana does her worst, and somebody else their work."""

    served: Served
    other: str = "bob"
    ended: threading.Event = field(default_factory=threading.Event)

    def measured(self, way: Callable[[], None] | None, seconds: float) -> Waits:
        """What the other sees while ana goes on in this way."""
        self.ended.clear()
        waits = Waits()
        threads = [threading.Thread(target=self._watch, args=(waits,))]
        threads += [threading.Thread(target=self._guarded, args=(way,))] if way is not None else []
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                self._work(waits)
        except psycopg.Error as error:
            waits.wrong.append(f"{self.other} was refused: {error}")
        self.ended.set()
        for thread in threads:
            thread.join(60)
        return waits

    def while_it_lasts(self, way: Callable[[], None]) -> Waits:
        """The same, until `way` sets `ended`."""
        self.ended.clear()
        waits, failures = Waits(), list[BaseException]()

        def attempt() -> None:
            try:
                way()
            except BaseException as failure:
                failures.append(failure)
            self.ended.set()

        threads = [threading.Thread(target=self._watch, args=(waits,)), threading.Thread(target=attempt)]
        for thread in threads:
            thread.start()
        while not self.ended.is_set():
            try:
                self._work(waits)
            except psycopg.Error as error:
                waits.wrong.append(f"{self.other} was refused: {error}")
        for thread in threads:
            thread.join()
        waits.wrong += [f"{type(failure).__name__}: {failure}" for failure in failures]
        return waits

    def _work(self, waits: Waits) -> None:
        """A login, and a handful of questions."""
        began = time.monotonic()
        with psycopg.connect(self.served.dsn(self.other), autocommit=True, connect_timeout=30) as db:
            waits.times.append(time.monotonic() - began)
            for _ in range(5):
                for sql in ASKED:
                    began = time.monotonic()
                    db.execute(sql.encode())
                    waits.times.append(time.monotonic() - began)
                    time.sleep(0.005)

    def _watch(self, waits: Waits) -> None:
        while not self.ended.wait(0.1):
            server, databases = family(self.served.process.pid)
            waits.server, waits.databases = max(waits.server, server), max(waits.databases, databases)

    def _guarded(self, way: Callable[[], None]) -> None:
        while not self.ended.is_set():
            with suppress(OSError, AssertionError, psycopg.Error, dpsql.Error):
                way()
            time.sleep(0.01)

    def ways(self) -> dict[str, Callable[[], None] | None]:
        """All of them, the calm first."""
        return {
            "nothing": None,
            "memory in the catalogue": lambda: self._crowd(GREEDY),
            "slow questions to the catalogue": lambda: self._crowd(SLOW),
            "functions that are refused": self._refused,
            "slow queries": lambda: self._crowd(HEAVY),
            "slow queries, then gone": lambda: self._crowd(HEAVY, leaves=0.3),
            "slow questions, then gone": lambda: self._crowd(SLOW, leaves=0.3),
            "silent sockets": self._silent,
            "connections": self._connections,
            "answers that are kept": self._kept,
            "answers that are not read": self._unread,
        }

    def _raw(self) -> Raw:
        client = Raw(self.served)
        client.login()
        return client

    def _crowd(self, sql: str, leaves: float | None = None) -> None:
        clients = [self._raw() for _ in range(12)]
        for number, client in enumerate(clients):
            client.send(query(sql.format(time.time_ns() % 10**6 * 100 + number)))
        if leaves is None:
            for client in clients:
                while not self.ended.is_set():
                    client.socket.settimeout(0.5)
                    with suppress(TimeoutError):
                        client.until_ready()
                        break
        else:
            time.sleep(leaves)
        for client in clients:
            client.close()

    def _refused(self) -> None:
        client = self._raw()
        for _ in range(20):
            for sql in REFUSED:
                client.ask(query(sql))
        client.close()

    def _silent(self) -> None:
        lines = [socket.create_connection(("127.0.0.1", self.served.port), timeout=10) for _ in range(310)]
        self.ended.wait(3)
        for line in lines:
            line.close()

    def _connections(self) -> None:
        clients: list[Raw] = []
        try:
            for _ in range(310):
                if self.ended.is_set():
                    break
                clients.append(self._raw())
        finally:
            self.ended.wait(1)
            for client in clients:
                client.close()

    def _kept(self) -> None:
        address, certificate = f"dpsql://ana@127.0.0.1:{self.served.port}/shop", self.served.folder / "server.crt"
        with ExitStack() as stack:
            doors = [
                stack.enter_context(dpsql.connect(address, password=PASSWORD, certificate=certificate))
                for _ in range(6)
            ]
            for number in range(10):
                for door in doors:
                    if not self.ended.is_set():
                        door.query(MANY.format(time.time_ns() % 10**6 * 100 + number))

    def _unread(self) -> None:
        clients = [self._raw() for _ in range(6)]
        for client in clients:
            client.socket.settimeout(1)
            with suppress(OSError):
                client.send(query(MANY.format(1)) * 5)
        self.ended.wait(2)
        for client in clients:
            client.close()


def starve(served: Served, seconds: float, most: float | None = 1.0) -> tuple[dict[str, Waits], list[str]]:
    """Each way for so many seconds; what the other saw, and what was wrong with it."""
    found: dict[str, Waits] = {}
    wrong: list[str] = []
    starvation = Starvation(served)
    for name, way in starvation.ways().items():
        waits = found[name] = starvation.measured(way, seconds)
        wrong += [f"{name}: {each}" for each in waits.wrong]
        if most is not None and waits.part(0.99) >= most:
            wrong.append(f"{name}: p99 {waits.part(0.99):.2f} s")
    if served.process.poll() is not None:
        wrong.append("the server ended")
    return found, wrong


def main() -> None:
    """On a server of its own."""
    from abuse import prepared

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with prepared() as served:
        found, wrong = starve(served, seconds)
        status = stop(served)
    print("\n".join(f"{name:<32}{waits}" for name, waits in found.items()))
    print("\n".join(wrong) or "nothing went wrong")
    sys.exit(bool(wrong) or status != 0)


if __name__ == "__main__":
    main()
