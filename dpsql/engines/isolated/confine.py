"""Operating system limits of the worker process. They cannot be raised again."""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

from dpsql.engines.base import Resources

NO_NEW_PRIVILEGES, DUMPABLE = 38, 4
ROOM = 2**30
"""Memory for Python, libraries and thread stacks, beyond that of the engine."""


def confine(limits: Resources) -> None:
    """No core dumps, debugger or new privileges; no files unless there is a spill; at most twice the memory limit.

    The engine keeps its own memory limit; the limit of the system is the net below it, for what an engine does not
    count (long texts), and ends the process rather than the machine. Not limited here: the CPU time, which the system
    counts over a whole life (the other side has a clock for each query), and system calls (there is no filter).
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0 if limits.spill is None else limits.spill)
    if limits.memory is not None:
        _limit(resource.RLIMIT_AS, _mapped() + 2 * limits.memory + ROOM)
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        system.prctl(DUMPABLE, 0, 0, 0, 0)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (least, least))


def _mapped() -> int:
    """The address space that is taken already."""
    table = Path("/proc/self/statm")
    return int(table.read_text().split()[0]) * resource.getpagesize() if table.exists() else ROOM
