"""What this process keeps for a frame: a cell that runs twice must not start anew."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")
NAMELESS = "df"


class Kept(Generic[T]):
    """One thing for each name, or else for each very table, for as long as it lives."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._by_name: dict[str, T] = {}
        self._by_table: dict[int, tuple[weakref.ref[Any], T]] = {}

    def of(self, table: object, name: str | None) -> T:
        """As it is kept under the name, or for the table; made at the first time."""
        with self._lock:
            if name is None:
                return self._of_table(table)
            if name not in self._by_name:
                self._by_name[name] = self._make(name)
            return self._by_name[name]

    def _of_table(self, table: object) -> T:
        known = self._by_table.get(id(table))
        if known is not None and known[0]() is table:
            return known[1]
        made, key = self._make(NAMELESS), id(table)
        with suppress(TypeError):
            self._by_table[key] = weakref.ref(table, lambda _: self._by_table.pop(key, None) and None), made
        return made
