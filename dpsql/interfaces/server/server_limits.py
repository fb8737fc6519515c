"""The limits of a server, and the quota for answers that clients have not read yet.

An answer counts from when it is made until it is sent or discarded. An account that holds too much is refused before
its next query is planned, and so before anything is charged: an answer that was paid for is never discarded because of
its size.

Answers that were sent and are kept only for their error bars count as well. They take at most half of an account's
share and are evicted by newer ones, so they never prevent a query.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice

import numpy as np


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Times are in seconds, sizes in bytes."""

    connections: int = 300
    """Clients that have logged in, of all accounts together."""
    strangers: int = 512
    strangers_of_address: int = 32
    """Clients that have not logged in yet, all together and from one address: slots of their own."""
    message: int = 2**20
    login: float = 10
    idle: float = 3600
    statement: float = 120
    write: float = 60
    failures: float = 0.3
    texts: int = 8 * 2**20
    """Prepared statements and the values bound to them, of one client."""
    answers: int = 512 * 2**20
    """Answers that clients have not read yet, together; one account may hold a quarter of it."""


# the quota -----------------------------------------------------------------------------------------------------------

OVERHEAD = 48
"""Bytes that Python adds to each row."""
SAMPLED = 100


class QuotaExceeded(Exception):
    """The account or the server holds as much as it may."""


class MemoryQuota:
    """Counts the bytes that are held, in total and by account."""

    def __init__(self, total: int) -> None:
        self.total, self.share = total, total // 4
        self._held: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self, account: str) -> None:
        """Raise QuotaExceeded unless another answer, of any size, may be made."""
        with self._lock:
            if self._held[account] >= self.share or self._held.total() >= self.total:
                raise QuotaExceeded

    def rows(self, account: str, rows: Sequence[bytes]) -> BufferedRows:
        """Hold an answer."""
        size = sum(map(len, rows)) + OVERHEAD * len(rows)
        with self._lock:
            self._held[account] += size
        return BufferedRows(self, account, rows, size)

    def keep(self, account: str, size: int) -> bool:
        """Count something that may be evicted at any time, if it fits; return whether it does."""
        with self._lock:
            fits = self._kept[account] + size <= self.share // 2 and self._held.total() + size <= self.total
            if fits:
                self._kept[account] += size
                self._held[account] += size
            return fits

    def drop(self, account: str, size: int) -> None:
        """Release what `keep` counted."""
        with self._lock:
            self._kept[account] -= size
            self._held[account] -= size

    def leave(self, account: str, size: int) -> None:
        """Release what `rows` counted."""
        with self._lock:
            self._held[account] -= size

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        with self._lock:
            return self._held.total()


def size_of(part: object) -> int:
    """About how many bytes a part of an answer takes; of long lists a sample is weighed."""
    if isinstance(part, np.ndarray):
        return part.nbytes + (size_of(part.ravel().tolist()) if part.dtype == object else 0)
    if isinstance(part, Mapping):
        return OVERHEAD + sum(OVERHEAD + size_of(each) for each in part.values())
    if isinstance(part, list | tuple):
        sample = part[:: max(1, len(part) // SAMPLED)]
        return OVERHEAD + 8 * len(part) + sum(map(size_of, sample)) * len(part) // max(1, len(sample))
    if is_dataclass(part):
        return OVERHEAD + sum(size_of(getattr(part, each.name)) for each in fields(part))
    return sys.getsizeof(part)


class BufferedRows:
    """The rows of an answer as messages. They are sent in parts, and released at the end or earlier."""

    def __init__(self, room: MemoryQuota, account: str, rows: Sequence[bytes], size: int) -> None:
        self._room, self._account, self._size = room, account, size
        self._rows: Iterator[bytes] = iter(rows)

    def parts(self, most: int = 0) -> Iterator[tuple[bytes, int]]:
        """The next rows, at most so many (0: all), by the thousand with their number."""
        asked = islice(self._rows, most) if most > 0 else self._rows
        while part := list(islice(asked, 1024)):
            yield b"".join(part), len(part)
        if most <= 0:
            self.close()

    def close(self) -> None:
        """Let go."""
        self._room.leave(self._account, self._size)
        self._size, self._rows = 0, iter(())
