"""Decorators for methods of a connection: one thread at a time (PEP 249, thread safety 2), and padded reply times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class HasLock(Protocol):
    """An object with a reentrant lock."""

    lock: threading.RLock


class HasPad(HasLock, Protocol):
    """An object that may delay its replies."""

    @property
    def pad(self) -> float | None:
        """Replies come at multiples of this many seconds; None if they are not delayed."""


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=HasLock)
W = TypeVar("W", bound=HasPad)


def serialized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Run the method in one thread at a time, together with all other methods of the object that are marked so."""

    @wraps(method)
    def waited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return waited


def padded_reply(method: Callable[Concatenate[W, P], R]) -> Callable[Concatenate[W, P], R]:
    """Return or raise only when a whole multiple of the pad has passed since the call.

    **Theorem.** An observer of the reply's time learns in which interval of the pad the work ended, and nothing more:
    nothing at all if the work on both neighbours is sure to end in the same interval. **Proof.** The reply's time is a
    function of the interval. **Not promised**: work that ends near the edge of an interval still shows a little; a busy
    machine, a shared cache and what other processes see are other channels; a wait ends a little late, by an amount
    that does not depend on the work.
    **Requires** a pad that the policy sets and no query can change, and a method that does all of its work before it
    returns.
    **Checked by** `tests/audit/test_timing.py`.
    """

    @wraps(method)
    def padded(self: W, /, *args: P.args, **kwargs: P.kwargs) -> R:
        started = time.monotonic()
        try:
            return method(self, *args, **kwargs)
        finally:
            if self.pad:
                time.sleep((started - time.monotonic()) % self.pad)

    return padded
