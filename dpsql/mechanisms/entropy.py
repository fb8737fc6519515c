"""Random bytes from the operating system, buffered; no bit is handed out twice."""

from __future__ import annotations

import os
import threading

import numpy as np
from numpy.typing import NDArray

BUFFER = 4096
"""Requests of at least this many bytes go to the operating system directly."""


class _Buffer(threading.local):
    """Unused random bytes of one thread in one process.

    A thread sees no other thread's buffer, so there is nothing to lock. A child process starts with its
    parent's bytes in memory: the fork hook below throws them away, and the process id catches a fork
    that Python did not see.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.owner = os.getpid()
        self.unused = b""

    def take(self, count: int) -> bytes:
        if self.owner != os.getpid():
            self.clear()
        if len(self.unused) < count:
            self.unused = os.urandom(BUFFER)
        taken, self.unused = self.unused[:count], self.unused[count:]
        return taken


_buffer = _Buffer()
os.register_at_fork(after_in_child=_buffer.clear)


def random_bytes(count: int) -> bytes:
    """Fresh bytes from the operating system's generator."""
    return os.urandom(count) if count >= BUFFER else _buffer.take(count)


def random_words(count: int, bits: int) -> NDArray[np.unsignedinteger]:
    """Independent uniform words of 8, 16, 32 or 64 bits."""
    return np.frombuffer(random_bytes(count * bits // 8), dtype=f"u{bits // 8}")


def random_bits(count: int) -> NDArray[np.bool_]:
    """Independent fair coins."""
    return np.unpackbits(random_words(-(-count // 8), 8), count=count).view(np.bool_)
