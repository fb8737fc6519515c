"""Cancellation of the work for a client that has left: each engine registers how to interrupt what it runs.

What was charged stays charged: the charge came first, and whether a client still waits does not depend on the data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Timer

AGAIN = 0.2
"""Seconds between two attempts: between the statements of a query there is nothing to interrupt."""


class ClientLeft(Exception):
    """The client has left, so the task is not started."""


class ClientTask:
    """A task that a client waits for."""

    def __init__(self) -> None:
        self._left = self._begun = False
        self._done, self._turn = threading.Event(), threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def leave(self) -> None:
        """The client has left: interrupt the work again and again until it ends; never begin it if it has not begun."""
        if self._left:
            return  # without the lock, which the thread that interrupts the work may hold
        with self._turn:
            first, self._left = not self._left, True
            if first and self._begun:
                threading.Thread(target=self._stop, name="dpsql-stop", daemon=True).start()

    def _stop(self) -> None:
        while True:
            with self._turn:
                for stop in self._stops:
                    with suppress(Exception):
                        stop()
            if self._done.wait(AGAIN):
                return

    @contextmanager
    def underway(self) -> Iterator[None]:
        """Do the work itself, in this thread; raise `Abandoned` if the client has left already."""
        with self._turn:
            if self._left:
                raise ClientLeft
            self._begun = True
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self._done.set()

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `stop` interrupt what runs inside. It is not called once that has ended.

        Raise `Abandoned` if the client has left already.
        """
        with self._turn:
            if self._left:
                raise ClientLeft
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._turn:
                self._stops.remove(stop)


_CURRENT: ContextVar[ClientTask | None] = ContextVar("errand", default=None)


@contextmanager
def interruptible(stop: Callable[[], object]) -> Iterator[None]:
    """Let `stop` interrupt what runs inside when the client for whom this thread works leaves."""
    errand = _CURRENT.get()
    if errand is None:
        yield
        return
    with errand.stopped_by(stop):
        yield


# timers ---------------------------------------------------------------------------------------------------------------
# Run a function unless a block ends in time.


@contextmanager
def run_after(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Act once so many seconds have passed inside the block; after the block it has been done, or never is."""
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
