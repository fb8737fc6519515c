"""Hostile clients against a real server: `python tests/server/abuse.py 100000` (the number of messages).

Mutated and random messages in every state of the protocol, bytes before TLS, wrong passwords, 65,535 parameters, 100,000
statements in one message, pipelines, slow writers, clients that never read, cancellations while a query is charged, and as many
connections as the server takes. It asserts that the server lives, keeps its memory, serves a healthy client all the time, and
that no answer came without its charge. Then one analyst tries to starve another (`starvation.py`).
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from raw import SYNC, Raw, bind, describe, execute, faults, frame, parse, query, startup
from served import PASSWORD, Served, run, start, stop
from starvation import Starvation, starve

import dpsql
from dpsql.interfaces.cli.demo import make_shop

TEXTS = [
    "SELECT 1", "SELECT count(*) FROM stores", "SELECT * FROM orders LIMIT 0", "SELECT * FROM customers", "BEGIN", "COMMIT", "ROLLBACK",
    "SHOW server_version", "SET dpsql.epsilon = 0.1", "SET a.b = 'c'", "SELECT $1::int", "SELECT nope FROM orders", "", ";", "--", "'",
    "SELECT relname FROM pg_catalog.pg_class", "COPY orders TO STDOUT", "SELECT 'a", "DISCARD ALL", "EXPLAIN SELECT count(*) FROM orders",
    "SELECT dpsql.query('{}')", "SELECT dpsql.budget('{}')", "SELECT dpsql.query('{\"sql\": 1, \"asked\": {\"tuple\": [[], {}]}}')",
    "((((((((((((((((((((", "SELECT " + "(" * 3000, "SELECT 1 " + "UNION ALL SELECT 1 " * 200, "\u0000", "SELECT " + "a," * 5000 + "a FROM orders",
]  # fmt: skip
STATES = {b"R", b"S", b"K", b"Z", b"E", b"N", b"T", b"D", b"C", b"1", b"2", b"3", b"n", b"t", b"s", b"I", b"v"}
MOST_GROWTH = 300 * 2**20


def memory(served: Served) -> int:
    """Bytes that the server's own process holds."""
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def one_message(draw: random.Random) -> bytes:
    """A message that may be right, with something wrong about it, or noise."""
    text = draw.choice(TEXTS)
    made = draw.choice([
        query(text), parse(text, draw.choice(["", "s", "t"])), bind(draw.choice(["", "p"]), draw.choice(["", "s", "x"])),
        bind(values=tuple(draw.randbytes(draw.randrange(9)) if draw.random() < 0.8 else None for _ in range(draw.randrange(5)))),
        describe(draw.choice("SPX"), draw.choice(["", "s", "p", "x"])), execute(draw.choice([0, 1, -1, 2**31 - 1])), SYNC,
        frame(b"C", draw.choice(b"SPX").to_bytes() + b"s\0"), frame(b"H"), frame(b"F", draw.randbytes(20)), frame(b"d", b"x"),
        frame(draw.randbytes(1), draw.randbytes(draw.randrange(60))), frame(b"p", draw.randbytes(30)),
    ])  # fmt: skip
    match draw.randrange(12):
        case 0:
            at = draw.randrange(len(made))
            return made[:at] + draw.randbytes(1) + made[at + 1 :]
        case 1:
            return made[: draw.randrange(1, len(made) + 1)]
        case 2:
            return made[:1] + struct.pack("!i", draw.choice([-1, 0, 3, 4, 2**20 + 5, 2**31 - 1])) + made[5:]
        case 3:
            return made + draw.randbytes(draw.randrange(8))
        case _:
            return made


@dataclass
class Abuse:
    """What was done to the server, and what came of it."""

    served: Served
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def healthy(self) -> None:
        """An honest client gets its answer."""
        with psycopg.connect(self.served.dsn(), connect_timeout=30) as db:
            assert db.execute("SELECT count(*) FROM stores").fetchone() is not None
        self.seen["healthy clients served"] += 1

    def raw(self) -> Raw:
        client = Raw(self.served)
        client.login()
        return client

    def mutated(self, seed: int, count: int) -> None:
        """Messages after the login, some in one write; every answer is one of the protocol's."""
        draw, sent = random.Random(seed), 0
        while sent < count:
            client = self.raw()
            client.socket.settimeout(0.5)
            with suppress(OSError):
                for _ in range(draw.randrange(1, 6)):
                    batch = [one_message(draw) for _ in range(draw.randrange(1, 9))]
                    sent += len(batch)
                    client.send(b"".join(batch) + (SYNC if draw.random() < 0.8 else b""))
                client.send(frame(b"X"))
                try:
                    while (got := client.message()) is not None:
                        if got[0] not in STATES:
                            self.wrong.append(f"the server sent {got[0]!r}")
                        self.seen["answers"] += 1
                except TimeoutError:
                    self.seen["waited for the rest of a message"] += 1
            client.close()
            self.seen["connections with mutated messages"] += 1
        self.seen["mutated messages"] += sent

    def before_login(self, seed: int, count: int) -> None:
        """Bytes of all kinds to a server that knows nobody yet."""
        draw = random.Random(seed)
        for _ in range(count):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.served.port), timeout=10) as line:
                first = draw.choice([
                    draw.randbytes(draw.randrange(200)), struct.pack("!ii", 8, 80877103) + draw.randbytes(50),
                    startup(user="ana", database="shop") + frame(b"p", draw.randbytes(40)), b"GET / HTTP/1.0\r\n\r\n",
                    struct.pack("!ii", 8, 80877104) + startup(user="x" * draw.randrange(2000)), startup(user="ana")[: draw.randrange(20)],
                    struct.pack("!iii", 16, 80877102, draw.randrange(2**31)) + draw.randbytes(4),
                ])  # fmt: skip
                line.sendall(first)
                line.shutdown(socket.SHUT_WR)
                while line.recv(4096):
                    pass
            self.seen["messages before a login"] += 1

    def large(self) -> None:
        """Too many parameters, statements, bytes, names."""
        many = struct.pack("!H", 65535)
        for data in (
            frame(b"P", b"\0SELECT 1\0" + many + b"\0\0\0\x17" * 65535),
            frame(b"B", b"\0\0" + many + b"\0\0" * 65535 + many + b"\xff\xff\xff\xff" * 65535 + b"\0\0"),
            query("SELECT 1;" * 100_000),
            query("SELECT " + "+".join(["1"] * 100_000)),
            query("x" * (2**20 - 10)),
            frame(b"Q", b"x" * 2**21),
        ):
            client = self.raw()
            client.socket.settimeout(60)
            with suppress(OSError):
                if not faults(client.ask(data, SYNC)):
                    self.wrong.append("a message that is too large was taken")
            client.close()
            self.seen["messages that are too large"] += 1

    def pipelined(self) -> None:
        """A thousand queries before the first answer is read."""
        client = self.raw()
        client.send(query("SELECT 1") * 1000)  # by this thread: a TLS socket is not for two at once
        if sum(kind == b"Z" for _ in range(1000) for kind, _ in client.until_ready()) != 1000:
            self.wrong.append("a pipeline lost answers")
        client.close()
        self.seen["pipelined queries"] += 1000

    def crowd(self, count: int) -> None:
        """Many connections at once; half of them send a message that never ends, and some are wrong about the password."""
        clients: list[Raw] = []
        for number in range(count):
            with suppress(OSError, AssertionError):
                client = self.raw()
                clients.append(client)
                if number % 2:
                    client.send(b"Q\0\0\4\0SELECT ")
        self.seen["connections at once"] = len(clients)
        self.healthy()
        for client in clients:
            client.close()
        for _ in range(3):
            client = Raw(self.served)
            if "28P01" not in faults(client.login(password="wrong")):
                self.wrong.append("a wrong password was taken")
            client.close()

    def never_reads(self, count: int) -> None:
        """Clients that ask for much and read nothing."""
        clients = [self.raw() for _ in range(count)]
        asked = query("SELECT * FROM pg_catalog.pg_attribute") * 50
        for client in clients:
            client.socket.settimeout(1)
            with suppress(OSError):
                client.send(asked)
        self.healthy()
        time.sleep(1)
        self.healthy()
        for client in clients:
            client.close()
        self.seen["clients that never read"] += count

    def cancelled(self, count: int, tag: str) -> None:
        """Queries that are cancelled while they are charged: asked again, they cost at most what they would have."""
        folder = self.served.folder
        for number in range(count):
            sql = f"SELECT count(*) AS n FROM orders WHERE amount > {number + 1}.{tag}"
            client = self.raw()
            client.send(query(sql))
            time.sleep(0.004 * (number % 8))
            with socket.create_connection(("127.0.0.1", self.served.port), timeout=10) as line:
                line.sendall(struct.pack("!ii", 16, 80877102) + client.key)
                assert line.recv(1) == b""  # as libpq does: else the next query may be the one that is cancelled
            first = client.until_ready()
            self.seen["cancelled" if "57014" in faults(first) else "too late to cancel"] += 1
            answers = [[body for kind, body in client.ask(query(sql)) if kind == b"D"] for _ in range(2)]
            shown = {body for kind, body in first if kind == b"D"}.union(*answers)
            if not all(answers):
                self.wrong.append("a cancelled query is not answered when it is asked again")
            with dpsql.connect(folder / "shop.duckdb", policy=folder / "policy.yaml", steward=True) as db:
                charges = sum(entry.text == sql and entry.cost is not None for entry in db.ledger.log())
            if charges < len(shown):
                self.wrong.append(f"{charges} charges for {len(shown)} answers")
            if charges > 1:
                self.wrong.append("a query that was cancelled and asked again was charged twice")
            client.close()


def abuse(served: Served, count: int, crowd: int, seed: int = 1) -> Abuse:
    """All of it, with so many messages and connections."""
    done = Abuse(served)
    done.healthy()
    before = memory(served)
    tasks: list[Callable[[], None]] = [
        lambda: done.mutated(seed, count // 3),
        lambda: done.mutated(seed + 1, count // 3),
        lambda: done.before_login(seed + 2, count // 3),
    ]
    failures: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        done.healthy()
        time.sleep(0.5)
    for step in (
        done.large,
        done.pipelined,
        lambda: done.crowd(crowd),
        lambda: done.never_reads(5),
        lambda: done.cancelled(8, str(seed)),
    ):
        guarded(step)
        guarded(done.healthy)
    grown = memory(served) - before
    done.seen["megabytes that memory grew by"] = grown // 2**20
    if served.process.poll() is not None:
        done.wrong.append("the server ended")
    if grown > MOST_GROWTH:
        done.wrong.append(f"memory grew by {grown:,} bytes")
    done.wrong += [f"{type(failure).__name__}: {failure}" for failure in failures]
    return done


@contextmanager
def prepared() -> Iterator[Served]:
    """A server of its own, with two analysts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shop(folder)
        policy = folder / "policy.yaml"
        text = policy.read_text().replace(
            "analysts: {demo: {epsilon: 5}, ana: {epsilon: 5}}", "analysts: {ana: {}, bob: {}}"
        )
        policy.write_text(text.replace("epsilon: 10 ", "epsilon: 10000 "))
        for user in ("ana", "bob"):
            run(folder, "user", "add", user, "--password-stdin", stdin=PASSWORD + "\n")
        served = start(folder, "--max-connections", "700")
        try:
            yield served
        finally:
            if served.process.poll() is None:
                stop(served)


def main() -> None:
    """The whole of it, on a server of its own."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with prepared() as served:
        begun = time.time()
        starvation = Starvation(served)
        abused: list[Abuse] = []

        def way() -> None:
            abused.append(abuse(served, count, crowd=300))
            starvation.ended.set()

        calm = starvation.measured(None, 5)
        waits = starvation.while_it_lasts(way)
        found, wrong = starve(served, float(sys.argv[2]) if len(sys.argv) > 2 else 10)
        status = stop(served)
    done = abused[0]
    done.wrong += [*waits.wrong, *wrong]
    print("\n".join(f"{value:>9,}  {what}" for what, value in done.seen.items()))
    print(f"{time.time() - begun:,.0f} s; the server ended with {status}; load {os.getloadavg()[0]:.1f}")
    shown = {"before": calm, "while the messages come": waits, **found}
    print("\n".join(f"{name:<32}{each}" for name, each in shown.items()))
    print("\n".join(dict.fromkeys(done.wrong)) or "nothing went wrong")
    sys.exit(bool(done.wrong) or status != 0)


if __name__ == "__main__":
    main()
