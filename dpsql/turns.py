"""When a method runs and returns: one thread at a time (PEP 249's thread safety level 2), at padded times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class HasTurn(Protocol):
    """Something with a lock that its own thread may take again."""

    turn: threading.RLock


class HasPad(HasTurn, Protocol):
    """Something that may keep its replies back."""

    @property
    def pad(self) -> float | None:
        """Replies come at multiples of so many seconds."""


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=HasTurn)
W = TypeVar("W", bound=HasPad)


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let the method of an object run in one thread at a time, with all others that are marked so."""

    @wraps(method)
    def waited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **kwargs)

    return waited


def at_a_multiple(method: Callable[Concatenate[W, P], R]) -> Callable[Concatenate[W, P], R]:
    """Let a method return, or raise, only when a whole multiple of the pad has passed since it was called.

    **Theorem.** Who sees only when the reply comes learns in which bucket the work ended, and no more: nothing at all
    where the work on both neighbours surely ends in the same bucket. **Proof.** The reply's time is a function of the
    bucket. **Not promised**: work that ends near the edge of a bucket still shows a little; a busy machine, a shared
    cache and what other processes see are other channels; a wait ends a little late, by an amount that does not depend
    on the work.
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
