"""One descriptor of each ledger file in a process, for as long as SQLite has the file open here.

POSIX drops *all* locks that a process has on a file as soon as it closes *any* descriptor of it. Were the header read
through a descriptor that is closed again, a second session of the same process would unlock the first; the next
process that closes the ledger would take itself for the last, and remove the log that the first still writes to: its
charges would be lost. **Theorem.** While a session is open, this module closes no descriptor of its file.
**Proof.** A descriptor is opened only if none is held for the file, and closed only when the last holder lets go.
**Requires** that whatever else in the process reads the file holds it too (`dpsql.budget.file_place`,
`dpsql.budget.rescue`); SQLite takes care of its own descriptors.
**Checked by** `tests/unit/budget/test_ledger_sessions.py`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

Identity = tuple[int, int]
_lock = threading.Lock()
_open: dict[Identity, tuple[int, int]] = {}
"""For each file its descriptor, and how many hold it."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A hold on a file: `release` it once, after SQLite has closed its own."""

    identity: Identity

    def read(self, count: int) -> bytes:
        """The first bytes of the file."""
        return os.pread(_open[self.identity][0], count, 0)

    def release(self) -> None:
        """Let go; the last holder closes the descriptor."""
        with _lock:
            descriptor, holders = _open.pop(self.identity)
            if holders > 1:
                _open[self.identity] = (descriptor, holders - 1)
            else:
                os.close(descriptor)


def hold(path: str) -> Handle:
    """Hold the file that has this name now."""
    with _lock:
        found = Path(path).stat()
        identity = (found.st_dev, found.st_ino)
        if identity not in _open:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            opened = os.fstat(descriptor)
            identity = (opened.st_dev, opened.st_ino)
            _open.setdefault(identity, (descriptor, 0))  # if the name was moved meanwhile, this one is never closed
        descriptor, holders = _open[identity]
        _open[identity] = (descriptor, holders + 1)
        return Handle(identity)
