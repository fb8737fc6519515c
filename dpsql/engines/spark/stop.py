"""A query that takes too long is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN = 0.2
"""Seconds between two attempts: between the jobs of a query there is nothing to stop."""


@contextmanager
def stopped_after(seconds: float | None, session: SparkSession) -> Iterator[None]:
    """Cancel the jobs of this thread, and those that follow, once so many seconds have passed; None: never.

    As on DuckDB, this is the one failure that data can cause: it is paid for, and has the constant text.
    """
    if seconds is None:
        yield
        return
    tag, done = f"dpsql-{uuid4()}", threading.Event()

    def watch() -> None:
        late = not done.wait(seconds)
        while late and not done.is_set():
            with suppress(Exception):
                session.interruptTag(tag)
            done.wait(AGAIN)

    watcher = threading.Thread(target=watch, daemon=True)
    session.addTag(tag)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with suppress(Exception):
            session.removeTag(tag)
