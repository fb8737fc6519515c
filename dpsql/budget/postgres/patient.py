"""A connection that waits for its server so long and no longer.

The server has its own time-outs, but none for a commit (which may wait for a standby), and a server that is frozen
keeps none of them.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Self, TypeVar

from psycopg import Connection, OperationalError
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus

from dpsql.budget import storage

Answer = TypeVar("Answer")
GRACE = 2.0
"""Seconds after the server's own limit, so that its error, which says more, comes first."""


class PatientConnection(Connection[Any]):
    """When its patience ends it is closed, as if it had been lost. It remembers what the server warned of."""

    warnings: list[str]

    def hear(self) -> Self:
        """Begin to remember warnings."""
        self.warnings = []
        self.add_notice_handler(self._note)
        return self

    def _note(self, told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING":
            self.warnings.append(told.message_primary or "")

    @property
    def idle(self) -> bool:
        """Connected, and in no transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE

    def wait(self, gen: Generator[Any, Any, Answer], *args: Any, **kwargs: Any) -> Answer:
        """See psycopg: every statement is such a generator, which is also woken while nothing comes."""
        try:
            return super().wait(_until(gen, time.monotonic() + storage.PATIENCE + GRACE), *args, **kwargs)
        except TimeoutError:
            self.pgconn.finish()
            raise OperationalError("the server did not answer in time") from None


def _until(gen: Generator[Any, Any, Answer], deadline: float) -> Generator[Any, Any, Answer]:
    """The same steps; TimeoutError at the first one after the deadline."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if time.monotonic() > deadline:
                raise TimeoutError
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
