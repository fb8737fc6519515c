"""Where and how queries run: a few threads, with connections that the users of one account share.

A client waits until its query is done, cancelled, or takes too long.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from dpsql.cancellation import ClientTask
from dpsql.errors import Error
from dpsql.interfaces.server import sqlstates
from dpsql.interfaces.server.monitoring import failed, note
from dpsql.interfaces.server.server_limits import MemoryQuota, QuotaExceeded
from dpsql.interfaces.server.sqlstates import StatementError, error_response

if TYPE_CHECKING:
    from dpsql.interfaces.server.users import User
    from dpsql.session import Connection

T = TypeVar("T")
THREADS = 8
MAX_THREADS_PER_ACCOUNT = THREADS // 2
"""Threads that one account may use at once; the others are left for everybody else."""


class SessionPool:
    """Each task has a connection of its own. Idle connections are reused by the next task of the same account."""

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
        turn = self._turns.setdefault(user.analyst, asyncio.Semaphore(MAX_THREADS_PER_ACCOUNT))
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
        """Use a new way to connect from now on. Running tasks keep their connections."""
        with self._lock:
            self._generation += 1
            self._connect = connect
            old = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for each in old:
            each.close()

    def close(self) -> None:
        """Wait for running tasks, then close all connections."""
        self._threads.shutdown(wait=True)
        for kept in self._idle.values():
            for each in kept:
                each.close()


# one client ----------------------------------------------------------------------------------------------------------


class Counters(Protocol):
    """What the metrics count."""

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""


@dataclass(slots=True)
class QueryRunner:
    """Runs the queries of one client. `work` runs a task in a thread, with a connection of the user's account."""

    user: User
    work: Callable[[User, Callable[[Connection], Any], Hashable], Any]
    room: MemoryQuota
    counters: Counters
    seconds: float
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, what: str, task: Callable[[Connection], T], start: int = 0, same: Hashable = None) -> T:
        """Do a task for a statement that begins at `start`. Nobody waits for one that goes on too long.

        One that is given up before its turn came is not begun, so it charges nothing; one that has begun ends by
        itself, and what it charged is stored for a replay; but if the client is gone (this is cancelled), the engine is
        stopped. Tasks that are the `same` wait for each other.
        """
        self.cancelled.clear()
        begun, given_up, errand = time.monotonic(), Event(), ClientTask()

        def turn(db: Connection) -> T:
            if given_up.is_set():
                raise QuotaExceeded
            self.room.check(self.user.analyst)
            with errand.underway():
                return task(db)

        working: asyncio.Future[T] = asyncio.ensure_future(self.work(self.user, turn, same))
        stopping = asyncio.ensure_future(self.cancelled.wait())
        outcome = "00000"
        try:
            waited: set[asyncio.Future[Any]] = {working, stopping}
            await asyncio.wait(waited, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise StatementError(sqlstates.CANCELLED if self.cancelled.is_set() else sqlstates.TIMED_OUT)
            return _outcome(working, start)
        except StatementError as stop:
            outcome = stop.state
            self.counters.count("dpsql_refusals_total")
            raise
        except asyncio.CancelledError:
            outcome = "left"
            self.counters.count("dpsql_abandoned_total")
            errand.leave()
            raise
        finally:
            given_up.set()
            working.add_done_callback(_forget)
            stopping.cancel()
            taken = round(1000 * (time.monotonic() - begun), 1)
            note(what, user=self.user.name, analyst=self.user.analyst, state=outcome, ms=taken)


def _outcome(working: asyncio.Future[T], start: int) -> T:
    try:
        return working.result()
    except Error as error:
        raise StatementError(error_response(error, start)) from None
    except QuotaExceeded:
        raise StatementError(sqlstates.FULL) from None
    except StatementError:
        raise
    except Exception as failure:
        failed(failure)
        raise StatementError(sqlstates.UNEXPECTED) from None


def _forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the outcome of a task that nobody waits for any more."""
    if not future.cancelled():
        future.exception()
