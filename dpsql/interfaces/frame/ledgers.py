"""The accounts of frames that live in memory: a cell that runs twice must not get its budget twice."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpsql.budget import Ledger, open_ledger

NAMELESS = "df"
_lock = threading.Lock()
_by_name: dict[str, Ledger] = {}
_by_table: dict[int, tuple[weakref.ref[Any], Ledger]] = {}


def ledger_for(table: object, name: str | None, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """The account and its name: in a file; else as this process keeps it for the name, or for the very table."""
    if path is not None and str(path) != ":memory:":
        return open_ledger(Path(path), name or Path(path).stem), name or Path(path).stem
    with _lock:
        if name is not None:
            if name not in _by_name:
                _by_name[name] = open_ledger(":memory:", name)
            return _by_name[name], name
        return _of_table(table), NAMELESS


def _of_table(table: object) -> Ledger:
    known = _by_table.get(id(table))
    if known is not None and known[0]() is table:
        return known[1]
    ledger = open_ledger(":memory:", NAMELESS)
    key = id(table)
    with suppress(TypeError):
        _by_table[key] = weakref.ref(table, lambda _: _by_table.pop(key, None) and None), ledger
    return ledger
