"""A query that takes too long is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import duckdb


@contextmanager
def stopped_after(seconds: float | None, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt what runs on the cursor once so many seconds have passed; None: never.

    How long a query takes depends on private data, and so, through the limit, does whether it is answered: the one
    failure that data can cause. It is paid for all the same (the charge comes first, and is kept), has the constant
    text of every failure of the engine, and tells no more than a clock would.
    """
    if seconds is None:
        yield
        return
    timer = Timer(seconds, cursor.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
