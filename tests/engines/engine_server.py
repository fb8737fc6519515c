"""The PostgreSQL that the engine's tests read: one for the process, which need not outlive a crash of the machine."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache

import postgres_server
import psycopg

PASSWORD = "p4ss:w/rd?"
_SETTINGS = {
    "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "shared_buffers": "32MB",
    "max_parallel_workers": "0", "wal_level": "minimal", "max_wal_senders": "0",
}  # fmt: skip


class Store:
    """A server with text in UTF-8, in which tests make databases."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._server = self._open.enter_context(
            postgres_server.running(password=PASSWORD, settings=_SETTINGS, locale="C.UTF-8")
        )
        self.port, self.start, self.kill = self._server.port, self._server.start, self._server.kill
        self.close = self._open.close

    def address(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return self._server.url(password=password, database=database)

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.address(database), autocommit=True)


def absent() -> str | None:
    """Why there is no server here."""
    return None if postgres_server.found() is not None else "there is no PostgreSQL on this machine"


@cache
def server() -> Store:
    """The one server of this process; it ends with it."""
    made = Store()
    atexit.register(made.close)
    return made
