"""How dpsql is asked: in a thread, until it is done, cancelled, or takes too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpsql.abandoned import Errand
from dpsql.errors import Error
from dpsql.interfaces.server import faults
from dpsql.interfaces.server.faults import Stop, fault_of
from dpsql.interfaces.server.journal import failed, note
from dpsql.interfaces.server.room import Full, Room

if TYPE_CHECKING:
    from dpsql.interfaces.server.users import User
    from dpsql.session import Connection

T = TypeVar("T")


class Counters(Protocol):
    """What the metrics count."""

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""


@dataclass(slots=True)
class Asking:
    """The way from one client to dpsql. `work` runs a task in a thread, with a connection of the user's account."""

    user: User
    work: Callable[[User, Callable[[Connection], Any], Hashable], Any]
    room: Room
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
        begun, given_up, errand = time.monotonic(), Event(), Errand()

        def turn(db: Connection) -> T:
            if given_up.is_set():
                raise Full
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
                raise Stop(faults.CANCELLED if self.cancelled.is_set() else faults.TIMED_OUT)
            return _outcome(working, start)
        except Stop as stop:
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
        raise Stop(fault_of(error, start)) from None
    except Full:
        raise Stop(faults.FULL) from None
    except Stop:
        raise
    except Exception as failure:
        failed(failure)
        raise Stop(faults.UNEXPECTED) from None


def _forget(future: asyncio.Future[Any]) -> None:
    """The outcome of work that nobody waits for any more."""
    if not future.cancelled():
        future.exception()
