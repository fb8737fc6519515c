"""Run a function unless a block ends in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer


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
