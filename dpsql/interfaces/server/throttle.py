"""Guessing passwords is slow: after a failure, the same name from the same address waits for its turn.

The wait comes before a proof is looked at, so that opening many connections at once does not help. It is the same for
names that nobody has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MOST, FORGOTTEN, SLOWEST = 10_000, 300.0, 4.0


@dataclass(slots=True)
class _Tries:
    """The failures of a name at an address, and the turn that its next tries wait for."""

    failures: int = 0
    last: float = field(default_factory=time.monotonic)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Throttle:
    """What failed lately."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._tries: dict[tuple[str, str], _Tries] = {}

    @asynccontextmanager
    async def turn(self, address: str, name: str) -> AsyncIterator[None]:
        """One try: at once where nothing failed lately, else one after the other."""
        tries = self._tries.get((address, name))
        if tries is None or time.monotonic() - tries.last > FORGOTTEN:
            yield
            return
        async with tries.turn:
            yield

    async def failed(self, address: str, name: str) -> None:
        """Wait, longer each time; called inside the turn."""
        tries = self._tries.pop((address, name), None) or _Tries()
        self._tries[address, name] = tries
        while len(self._tries) > MOST:
            self._tries.pop(next(iter(self._tries)))
        tries.failures, tries.last = tries.failures + 1, time.monotonic()
        await asyncio.sleep(min(self._wait * 2 ** min(tries.failures - 1, 10), SLOWEST))

    def succeeded(self, address: str, name: str) -> None:
        """The right password: all is forgiven."""
        self._tries.pop((address, name), None)
