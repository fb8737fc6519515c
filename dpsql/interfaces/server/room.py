"""How many bytes of answers the server holds for clients that have not read them yet.

An answer is held from when it is made until it is sent, or let go of. Whoever holds too much is refused before the next
query is planned, so before anything is charged: what was paid for is never thrown away for its size.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

OVERHEAD = 48
"""Bytes that Python adds to each row."""


class Full(Exception):
    """The account, or the server, holds as much as it may."""


class Room:
    """What is held, together and by account; counted in the threads that make answers."""

    def __init__(self, total: int) -> None:
        self.total, self.share = total, total // 4
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self, account: str) -> None:
        """Is there room for one more answer, of whatever size?"""
        with self._lock:
            if self._held[account] >= self.share or self._held.total() >= self.total:
                raise Full

    def rows(self, account: str, rows: Sequence[bytes]) -> Rows:
        """Hold an answer."""
        size = sum(map(len, rows)) + OVERHEAD * len(rows)
        with self._lock:
            self._held[account] += size
        return Rows(self, account, rows, size)

    def leave(self, account: str, size: int) -> None:
        """So much is held no longer."""
        with self._lock:
            self._held[account] -= size

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        with self._lock:
            return self._held.total()


class Rows:
    """The rows of an answer, as messages; they are sent in parts, and let go of at the end or before."""

    def __init__(self, room: Room, account: str, rows: Sequence[bytes], size: int) -> None:
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
