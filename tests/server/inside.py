"""A server inside the test's own process, so that a test can hold a query where it likes and set small limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pytest
from served import PASSWORD, need_packages

import dpsql
from dpsql.accounts import Accounts
from dpsql.interfaces.server.listener import Server
from dpsql.interfaces.server.scram import Verifier
from dpsql.interfaces.server.server_limits import ServerLimits
from dpsql.interfaces.server.startup import ServerFiles, own_certificate, tls_context
from dpsql.interfaces.server.users import User, add_user
from dpsql.session import Connection

T = TypeVar("T")
POLICY = """
dataset: shop
search: false
budget: {epsilon: 1000, delta: 1e-6, analysts: {ana: {}, bob: {}}}
tables:
  people:
    unit: id
    columns: {age: {min: 0, max: 120}, kind: {values: [a, b, c]}, secret: {}}
  numbers: {public: true}
"""
MARK = "Zanzibar-7741"
"""Stands in the data, and nowhere else."""


def make(folder: Path, policy: str = POLICY) -> ServerFiles:
    """A small dataset with two users."""
    need_packages()
    with duckdb.connect(str(folder / "shop.duckdb")) as data:
        data.execute(
            f"CREATE TABLE people AS SELECT i AS id, 20 + i % 60 AS age, ['a', 'b', 'c'][i % 3 + 1] AS kind, "
            f"'{MARK}' || i AS secret, 774100 + i AS hidden FROM range(3000) r(i)"
        )
        data.execute("CREATE TABLE numbers AS SELECT i AS n, 'name ' || i AS name FROM range(2000) r(i)")
    (folder / "policy.yaml").write_text(policy)
    for name in ("ana", "bob"):
        add_user(folder / "users.yaml", User(name, Verifier.of(PASSWORD), name))
    return ServerFiles(folder / "shop.duckdb", folder / "policy.yaml", None, folder / "users.yaml", "127.0.0.1", 0)


@dataclass
class Inside:
    """A running server: what `Served` is for one in a process of its own."""

    place: ServerFiles
    limits: ServerLimits = field(default_factory=ServerLimits)
    port: int = 0
    steward_port: int = 0

    def __post_init__(self) -> None:
        self.folder = self.place.users.parent
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.do(self._start())

    async def _start(self) -> None:
        dataset, way, users = self.place.read()
        certificate, key = own_certificate(self.folder, "localhost")
        self.server = Server(dataset, way, users, tls_context(certificate, key), self.limits, key.read_bytes())
        self.port, steward = await self.server.start("127.0.0.1", 0, 0)
        assert steward is not None
        self.steward_port = steward

    def do(self, task: Coroutine[Any, Any, T]) -> T:
        """Run something in the server's loop."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(60)

    def begin(self, task: Coroutine[Any, Any, T]) -> Any:
        """The same, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(task, self._loop)

    def reload(self) -> None:
        _, way, users = self.place.read(self.server.dataset)
        self.do(self.server.reload(way, users))

    def spent(self) -> float:
        with dpsql.connect(self.place.database, policy=self.place.policy, steward=True) as db:
            return db.budget().dataset.spent.epsilon

    def end(self) -> None:
        if self._thread.is_alive():
            self.do(self.server.stop(5))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._loop.close()


@contextmanager
def inside(folder: Path, limits: ServerLimits | None = None, policy: str = POLICY) -> Iterator[Inside]:
    running = Inside(make(folder, policy), limits or ServerLimits())
    try:
        yield running
    finally:
        running.end()


@dataclass
class Gate:
    """Where queries wait: `arrived` is set when one is there, `many` counts them, and they go on when `leave` is set."""

    many: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        self.many += 1
        self.arrived.set()
        assert self.leave.wait(30)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, word: str, *, charged: bool) -> Iterator[Gate]:
    """Queries with this word in their text wait before they are planned, or after they were charged and answered."""
    gate, query = Gate(), Connection.query

    def waiting(self: Connection, sql: str, *args: Any, **kwargs: Any) -> Any:
        if word not in sql:
            return query(self, sql, *args, **kwargs)
        if charged:
            answer = query(self, sql, *args, **kwargs)
            gate.wait()
            return answer
        gate.wait()
        return query(self, sql, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "query", waiting)
        try:
            yield gate
        finally:
            gate.leave.set()


@contextmanager
def held_at_the_charge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Queries that are charged wait before the engine is asked: nothing is stored for a replay yet."""
    gate, reserve = Gate(), Accounts.charge

    def waiting(self: Accounts, *args: Any) -> Any:
        made = reserve(self, *args)
        gate.wait()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Accounts, "charge", waiting)
        try:
            yield gate
        finally:
            gate.leave.set()


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait for something that comes by itself."""
    waited = threading.Event()
    for _ in range(int(seconds * 50)):
        if true():
            return True
        waited.wait(0.02)
    return true()
