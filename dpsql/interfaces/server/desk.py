"""Where blocking work is done: a few threads, with connections that the users of one account take in turn."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from dpsql.interfaces.server.users import User
    from dpsql.session import Connection

T = TypeVar("T")
THREADS = 8
MOST_PER_ACCOUNT = THREADS // 2
"""Threads that one account may keep busy: the others are for everybody else."""


class Desk:
    """Each piece of work has a connection of its own; idle ones are kept for the next of the same account."""

    def __init__(self, connect: Callable[[str, str | None], Connection], threads: int = THREADS) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dpsql")
        self._idle: dict[tuple[str, str | None], list[Connection]] = defaultdict(list)
        self._lock = threading.Lock()
        self._generation = 0
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._alike: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def work(self, user: User, task: Callable[[Connection], T], same: Hashable = None) -> T:
        """Run a task with a connection of the user's account, in a thread.

        Tasks of an account that are the `same` run one after the other: a tile that two tabs ask for at once, or that
        is asked again while a cancelled query still runs, is then charged once and replayed to the others. Accounts do
        not wait for each other: that would show what another asks, and let it keep the question to itself.
        """
        turn = self._turns.setdefault(user.analyst, asyncio.Semaphore(MOST_PER_ACCOUNT))
        asked = (user.analyst, user.purpose, same)
        alike = asyncio.Lock() if same is None else self._alike.setdefault(asked, asyncio.Lock())
        async with alike, turn:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, user, task)

    def _run(self, user: User, task: Callable[[Connection], T]) -> T:
        account = (user.analyst, user.purpose)
        with self._lock:
            generation, kept = self._generation, self._idle[account]
            connection = kept.pop() if kept else None
        connection = connection or self._connect(*account)
        try:
            done = task(connection)
        except BaseException:
            self._put(account, connection, generation)
            raise
        self._put(account, connection, generation)
        return done

    def _put(self, account: tuple[str, str | None], connection: Connection, generation: int) -> None:
        with self._lock:
            if generation == self._generation and len(self._idle[account]) < THREADS:
                self._idle[account].append(connection)
                return
        connection.close()

    def reload(self, connect: Callable[[str, str | None], Connection]) -> None:
        """Connect in a new way from now on: work under way keeps what it has."""
        with self._lock:
            self._generation += 1
            self._connect = connect
            old = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for each in old:
            each.close()

    def close(self) -> None:
        """Wait for what runs, then let go."""
        self._threads.shutdown(wait=True)
        for kept in self._idle.values():
            for each in kept:
                each.close()
