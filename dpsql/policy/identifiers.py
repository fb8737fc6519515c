"""SQL identifiers: names of tables and columns, compared without regard to ASCII case."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

ItemT_co = TypeVar("ItemT_co", covariant=True)

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """The form in which the engine compares names.

    Only ASCII letters are folded: to DuckDB `É` and `é` are two columns, so they must be two here.
    """
    return name.translate(_LOWER)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    spelled = {fold(each): each for each in known}
    close = difflib.get_close_matches(fold(name), spelled, n=1, cutoff=0.6)
    return spelled[close[0]] if close else None


class Names(Mapping[str, ItemT_co]):
    """An immutable mapping that keeps the spelling of its names and finds them in any case."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, ItemT_co] | None = None) -> None:
        self._items = {fold(name): (name, item) for name, item in (items or {}).items()}

    def __getitem__(self, name: str) -> ItemT_co:
        return self._items[fold(name)][1]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.values()))

    def __repr__(self) -> str:
        return f"Names({dict(self)!r})"

    def spelling(self, name: str) -> str:
        """The name as it was written first."""
        return self._items[fold(name)][0]
