"""The accounts of frames: in a file, or in memory for as long as the process or the frame lives."""

from __future__ import annotations

import os
from pathlib import Path

from dpsql.budget import Ledger, open_ledger
from dpsql.interfaces.frame.kept import NAMELESS, Kept

_ledgers: Kept[Ledger] = Kept(lambda name: open_ledger(":memory:", name))


def ledger_for(table: object, name: str | None, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """The account and its name: in a file; else as this process keeps it for the name, or for the very table."""
    if path is not None and str(path) != ":memory:":
        return open_ledger(Path(path), name or Path(path).stem), name or Path(path).stem
    return _ledgers.of(table, name), name or NAMELESS
