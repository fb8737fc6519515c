"""From the text that names a ledger to the place that it means."""

from __future__ import annotations

import re
from pathlib import Path

from dpsql.budget.file_place import MEMORY, FilePlace, MemoryPlace
from dpsql.budget.storage import Place
from dpsql.errors import LedgerError

_ADDRESS = re.compile(r"postgres(ql)?:/", re.IGNORECASE)


def place_of(named: str | Path) -> Place:
    """The place of a ledger: a file, `:memory:` for a throw-away, or `postgresql://…` for one that servers share."""
    text = str(named)
    if text == MEMORY:
        return MemoryPlace()
    if not _ADDRESS.match(text):
        return FilePlace(named)
    if isinstance(named, Path):
        raise LedgerError("the address of a ledger is a text, not a path", hint='give ledger="postgresql://…" as it is')
    from dpsql.budget.postgres.place import PostgresPlace

    return PostgresPlace(text)
