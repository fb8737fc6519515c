"""Opens and creates ledgers by name: a file path, `:memory:`, or a PostgreSQL address."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dpsql.budget.ledger import entries as hash_chain
from dpsql.budget.ledger.backend import LedgerLocation
from dpsql.budget.ledger.chained_ledger import ChainedLedger
from dpsql.budget.ledger.entries import ROOT, Entry, next_entry
from dpsql.budget.ledger.sqlite_backend import MEMORY, FileLocation, MemoryLocation
from dpsql.errors import LedgerError

_ADDRESS = re.compile(r"postgres(ql)?:/", re.IGNORECASE)


def location_of(named: str | Path) -> LedgerLocation:
    """The location that a text names: a file, `:memory:` (temporary), or `postgresql://…` (shared by servers)."""
    text = str(named)
    if text == MEMORY:
        return MemoryLocation()
    if not _ADDRESS.match(text):
        return FileLocation(named)
    if isinstance(named, Path):
        raise LedgerError(
            "the address of a ledger must be a string, not a path", hint='give ledger="postgresql://…" as it is'
        )
    from dpsql.budget.ledger.postgres.postgres_backend import PostgresLocation

    return PostgresLocation(text)


def open_ledger(place: str | Path, dataset: str | None, *, create: bool = True) -> ChainedLedger:
    """Open the account of a dataset at a location (see `location_of`); ":memory:" opens a temporary one.

    A ledger that is damaged, was rolled back, or belongs to another dataset is refused. The steward's own commands
    open an existing one without naming its dataset (None). Only a file is made by its first use.
    """
    if dataset == "" or (dataset is None and create):
        raise _nameless()
    first = None if dataset is None or not create else lambda: first_entry(dataset)
    return ChainedLedger(location_of(place).open(dataset, first), dataset)


def create_ledger(place: str | Path, dataset: str) -> str:
    """Create an account for the steward and return its address. An existing account is refused."""
    if not dataset:
        raise _nameless()
    where = location_of(place)
    where.create(first_entry(dataset))
    return where.name


def _nameless() -> LedgerError:
    return LedgerError("a ledger needs the name of its dataset", hint="write `dataset: <name>` in the policy")


def first_entry(dataset: str) -> Entry:
    """The entry that opens an account: its dataset and a random salt."""
    return next_entry(ROOT, 0, "account", [dataset, os.urandom(32).hex()], {"at": hash_chain.now().isoformat()})
