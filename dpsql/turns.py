"""One thread at a time: what lets threads share a connection (PEP 249's thread safety level 2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class HasTurn(Protocol):
    """Something with a lock that its own thread may take again."""

    _turn: threading.RLock


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=HasTurn)


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let the method of an object run in one thread at a time, with all others that are marked so."""

    @wraps(method)
    def waited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._turn:
            return method(self, *args, **kwargs)

    return waited
