"""Work whose asker has left is stopped, wherever it is: each engine says how what it runs is interrupted.

What was charged stays charged: the charge came first, and whether anybody still waits is no secret of the data's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

AGAIN = 0.2
"""Seconds between two attempts: between the statements of a query there is nothing to interrupt."""


class Abandoned(Exception):
    """Nobody waits for this any more."""


class Errand:
    """A piece of work that somebody waits for, until they leave."""

    def __init__(self) -> None:
        self._left, self._done = threading.Event(), threading.Event()
        self._turn = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def leave(self) -> None:
        """Nobody waits any more: stop what runs, again and again until the work is over."""
        if not self._left.is_set():
            self._left.set()
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
        """The work itself, in one thread."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self._done.set()

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """What runs inside is stopped so. It is not begun if nobody waits, and never stopped once it has ended."""
        if self._left.is_set():
            raise Abandoned
        with self._turn:
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._turn:
                self._stops.remove(stop)


_CURRENT: ContextVar[Errand | None] = ContextVar("errand", default=None)


@contextmanager
def stopped_when_abandoned(stop: Callable[[], object]) -> Iterator[None]:
    """Run something that `stop` interrupts, for whoever this thread works for."""
    errand = _CURRENT.get()
    if errand is None:
        yield
        return
    with errand.stopped_by(stop):
        yield
