"""A query that takes too long, or that nobody waits for, is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from dpsql.cancellation import interruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN = 0.2
"""Seconds between two attempts: between the jobs of a query there is nothing to stop."""


@contextmanager
def stopped_after(seconds: float | None, session: SparkSession) -> Iterator[None]:
    """Stop whatever dpsql's own session runs, and what follows, once so many seconds have passed; None: never.

    Queries of one engine take turns, so there is nothing else. (Tags of a thread do not reach the thread in which
    results are handed over as Arrow.) As on DuckDB, this is the one failure that data can cause: it is paid for, and
    has the constant text.
    """
    with interruptible(session.interruptAll), nullcontext() if seconds is None else _watched(seconds, session):
        yield


@contextmanager
def _watched(seconds: float, session: SparkSession) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        late = not done.wait(seconds)
        while late and not done.is_set():
            with suppress(Exception):
                session.interruptAll()
            done.wait(AGAIN)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
