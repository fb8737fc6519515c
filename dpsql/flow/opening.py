"""Open what a session stands on: the database, and the ledger beside the policy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dpsql.budget import Ledger, open_ledger
from dpsql.engines.base import Engine, Resources
from dpsql.engines.duckdb.table_files import is_lake, is_path, tables_in
from dpsql.engines.isolated.engine import IsolatedEngine
from dpsql.engines.open_engine import Source, is_address, open_engine
from dpsql.errors import InterfaceError, PolicyError
from dpsql.policy import Policy, ledger_location


def open_data(source: Source, policy: Policy, place: str | Path, *, isolate: bool) -> tuple[Engine, Ledger]:
    """The database and the ledger of a dataset: both, or neither stays open."""
    if isolate and is_address(source):
        raise InterfaceError(
            "only files can be opened in a process of their own: this is the address of a server",
            hint="leave isolate=True (or --isolate) out: its data is in other processes already",
        )
    limits = Resources(policy.limits.memory, policy.limits.spill)
    source = tables_in(Path(source), policy.tables) if is_lake(source) else source
    copies = copies_path(policy, place, source)
    engine = IsolatedEngine(source, limits, policy, copies) if isolate else open_engine(source, limits, policy, copies)
    try:
        return engine, open_ledger(place, policy.dataset)
    except BaseException:
        engine.close()
        raise


def name_in(policy: Policy, analyst: str | None, purpose: str | None, *, steward: bool) -> str | None:
    """The name under which somebody may ask for a purpose; None is the steward's."""
    if analyst is None and not steward and policy.budget.analysts and "analyst" not in tuple(policy.budget.analysts):
        raise PolicyError(
            f"the policy of {policy.dataset} lists who may ask, and no name was given",
            hint="give a name listed in budget.analysts: analyst=… in Python, --analyst on the command line",
        )
    name = None if steward else analyst or "analyst"
    policy.check_purpose(name, purpose)
    return name


def ledger_at(policy: object, loaded: Policy, ledger: str | os.PathLike[str] | None) -> str | Path:
    """Where the ledger is: where it is said to be, else beside the policy's file."""
    place = ledger_location(loaded, policy if isinstance(policy, str | os.PathLike) else None, ledger)
    if place is None:
        raise InterfaceError(
            "where should the ledger be?",
            hint='name a file, ledger="shop.ledger", or ledger=":memory:" for a throw-away',
        )
    return place


def copies_path(policy: Policy, ledger: str | Path, source: object) -> Path | None:
    """The file of the prepared copies of a policy: beside the ledger that knows them. Only files are copied."""
    files = all(map(is_path, source.values())) if isinstance(source, Mapping) else is_path(source)
    stored = str(ledger) != ":memory:" and "://" not in f"{ledger} {source}"
    return Path(ledger).with_name(f"{policy.dataset}.prepared") if policy.prepared and files and stored else None
