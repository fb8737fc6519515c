"""Clients of a shared ledger in processes of their own, and the judgement of what they were told."""

from __future__ import annotations

import os
import select
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger.maintenance import verify

PRICE = 0.001
UNITS = pure_charge(PRICE).epsilon or 0
Tell = Callable[[str], None]


def ask(analyst: str = "ana", cap: float = 1000) -> Request:
    return Request(analyst, pure_charge(PRICE), Cost(PRICE, 0.0, 0.0), Caps(cap, 0), None, "SELECT 1", (b"f",))


@dataclass
class Child:
    """A forked process that tells lines on a pipe and may wait for a word."""

    process: int
    _told: int
    _word: int
    lines: list[str] = field(default_factory=list)

    def go(self) -> None:
        os.write(self._word, b"\n")

    def wait_for(self, enough: Callable[[list[str]], bool], patience: float = 120.0) -> None:
        while not enough(self.lines):
            assert select.select([self._told], [], [], patience)[0], f"waited long: {self.lines}"
            assert self._read(), f"it ended too soon: {self.lines}"

    def end(self, *, killed: bool = False) -> list[str]:
        """All that it told, when it is over."""
        while True:
            assert select.select([self._told], [], [], 120.0)[0], f"it neither ends nor tells: {self.lines}"
            if not self._read():
                break
        _, status = os.waitpid(self.process, 0)
        assert status == (9 if killed else 0), (status, self.lines)
        os.close(self._told)
        os.close(self._word)
        return self.lines

    def _read(self) -> bool:
        raw = os.read(self._told, 65536)
        self.lines += raw.decode().split("\n")[:-1]
        return bool(raw)


def forked(work: Callable[[Tell, Callable[[], None]], None]) -> Child:
    """Do it in a child, which is given a way to tell a line and to wait for the word."""
    told, write = os.pipe()
    hear, word = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        os.close(hear)
        return Child(process, told, word)
    code = 1
    try:
        os.close(told)
        os.close(word)
        work(lambda line: (os.write(write, f"{line}\n".encode()), None)[1], lambda: (os.read(hear, 1), None)[1])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Watch:
    """What lies on the server, seen past dpsql: the numbers of all charges since one looked last."""

    def __init__(self, url: str) -> None:
        """One connection for all looks."""
        self._db = psycopg.connect(url, autocommit=True)
        self._seen: set[int] = set()
        self.new()

    def new(self) -> set[int]:
        rows = self._db.execute("SELECT number FROM dpsql_ledger.entry WHERE kind = 'charge'").fetchall()
        found = {number for (number,) in rows} - self._seen
        self._seen |= found
        return found

    def close(self) -> None:
        self._db.close()


def charged(url: str) -> set[int]:
    """The numbers of all charges, of a ledger that is whole."""
    verify(url)
    with open_ledger(url, "shop", create=False) as ledger:
        numbers = {line.number for line in ledger.log() if line.kind == "charge"}
        assert ledger.spent(None).epsilon == len(numbers) * UNITS
        return numbers
