"""The accounts of frames: in a file, or in memory for as long as the process or the frame lives."""

from __future__ import annotations

import os
from pathlib import Path

from dpsql.budget import Ledger, open_ledger
from dpsql.budget.ledger.backend import LedgerLocation
from dpsql.budget.ledger.locations import location_of
from dpsql.budget.ledger.sqlite_backend import FileLocation
from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.kept import NAMELESS, Kept

_ledgers: Kept[Ledger] = Kept(lambda name: open_ledger(":memory:", name))


def ledger_for(table: object, name: str | None, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """The account and its name: where it was put; else as this process keeps it for the name, or for the very table."""
    if path is None or str(path) == ":memory:":
        return _ledgers.of(table, name), name or NAMELESS
    named = path if isinstance(path, str) else Path(path)
    dataset = name or _named_by(location_of(named))
    return open_ledger(named, dataset), dataset


def _named_by(place: LedgerLocation) -> str:
    """A file's own name is that of its account; at an address there may be many."""
    if not isinstance(place, FileLocation):
        raise InterfaceError(f"whose account at {place.name}?", hint="give name=, as the account was created")
    return Path(place.name).stem
