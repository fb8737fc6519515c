"""The connections of this process to one server, each lent for one question or one transaction.

A process that serves many analysts has a ledger open for each, and few of them ask at the same moment: it has as many
connections as there were at most at once, and some idle ones, until the last of these ledgers is closed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.budget.postgres.address import Address
    from dpsql.budget.postgres.patient import PatientConnection

KEEP = 4
"""Idle connections that are kept."""

_lock = threading.Lock()
_pools: dict[tuple[int, Address], Pool] = {}
"""By process too: a connection does not survive a fork."""


class Pool:
    """Connections to one address. `join` one, and `leave` it once."""

    def __init__(self, address: Address) -> None:
        """Nothing is connected yet."""
        self._address, self._process = address, os.getpid()
        self._idle: list[PatientConnection] = []
        self._users = 0

    @classmethod
    def join(cls, address: Address) -> Pool:
        """That of this process and address."""
        with _lock:
            pool = _pools.setdefault((os.getpid(), address), cls(address))
            pool._users += 1
            return pool

    def leave(self) -> None:
        """The last one closes what is idle."""
        with _lock:
            self._users -= 1
            over = not self._users
            if over:
                _pools.pop((self._process, self._address), None)
        if over:
            self.drop()

    def take(self) -> PatientConnection:
        """One that nobody else has: the last that was given back, or a new one."""
        with _lock:
            while self._idle:
                found = self._idle.pop()
                if not found.closed:
                    return found
        return self._address.connect()

    def give(self, db: PatientConnection) -> None:
        """Back; one that is lost, or left in the middle of something, ends here, and with it its transaction."""
        with _lock:
            if db.idle and self._users and len(self._idle) < KEEP:
                self._idle.append(db)
                return
        db.close()

    def drop(self) -> None:
        """Close what is idle: the server that they led to may be gone. A fork leaves them to its parent."""
        with _lock:
            idle, self._idle = self._idle, []
        for db in idle if os.getpid() == self._process else ():
            db.close()
