"""A query that takes too long, or that nobody waits for, is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import duckdb

from dpsql.cancellation import interruptible
from dpsql.timer import run_after


@contextmanager
def stopped_after(seconds: float | None, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt what runs on the cursor once so many seconds have passed; None: never.

    How long a query takes depends on private data, and so, through the limit, does whether it is answered: the one
    failure that data can cause. It is paid for all the same (the charge comes first, and is kept), has the constant
    text of every failure of the engine, and tells no more than a clock would.
    """
    late = nullcontext() if seconds is None else run_after(seconds, cursor.interrupt)
    with interruptible(cursor.interrupt), late:
        yield
