"""The data behind a session: its version, the tables that exist for the analyst, and the sealed database beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from dpsql.answers.finish import Finisher
from dpsql.budget import Ledger, open_ledger
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.duckdb.table_files import is_lake, is_path, tables_in
from dpsql.engines.isolated.engine import IsolatedEngine
from dpsql.engines.open_engine import Source, is_address, open_engine
from dpsql.errors import InterfaceError, PolicyError
from dpsql.plan.at_rest import copies_of
from dpsql.plan.catalog import Catalog, Copies, PublicTable, make_catalog
from dpsql.plan.plan import Plan
from dpsql.plan.view_expansion import with_visible_views
from dpsql.policy import Policy, fold, ledger_location
from dpsql.policy.searched_subjects import Subject
from dpsql.sensitivity.bound import Bounded


class Dataset:
    """What is known of the data without reading private rows, for one version of the data at a time."""

    def __init__(self, engine: Engine, policy: Policy, ledger: Ledger, analyst: str | None) -> None:
        self.engine, self.policy = engine, policy
        self._ledger, self._analyst = ledger, analyst
        self._seen: str | None = None
        self.search_plans: dict[tuple[Subject, str], tuple[Plan, tuple[Bounded, ...]]] = {}

    def version(self) -> str:
        """The public label of the data: the engine's, and the steward's own where `dpsql data bump` gave one."""
        return " ".join(part for part in (self.engine.version(), self._ledger.label()) if part)

    def look_again(self) -> str:
        """Read tables and constraints again for each query if others may write to them.

        Facts and copies belong to a version of the data, which is returned; they are looked up again after a bump.
        """
        version = self.version()
        if self.engine.live:
            self.engine.look_again()
            self.finisher.forget()
        if self.engine.live or version != self._seen:
            for known in ("catalog", "whole_catalog", "facts"):
                self.__dict__.pop(known, None)
            self.search_plans.clear()
            self._seen = version
        return version

    def close(self) -> None:
        """Close the database and the sealed one."""
        if "finisher" in self.__dict__:
            self.finisher.close()
        self.engine.close()

    # tables ---------------------------------------------------------------------------------------------------------

    @cached_property
    def catalog(self) -> Catalog:
        """The analyst's catalogue."""
        return self.catalog_of(self.policy)

    @cached_property
    def whole_catalog(self) -> Catalog:
        """The steward's catalogue."""
        return self._catalog_of(self.policy, None)

    def catalog_of(self, policy: Policy) -> Catalog:
        """The analyst's catalogue under another policy."""
        return self._catalog_of(policy, self._analyst)

    def uncopied_catalog(self) -> Catalog:
        """The steward's catalogue without prepared copies, from which copies are made."""
        return make_catalog(self.policy, self.engine.schema(), self._facts(), None, self.engine.public)

    def _catalog_of(self, policy: Policy, analyst: str | None) -> Catalog:
        copies = self._copies(self.facts)
        catalog = make_catalog(policy, self.engine.schema(), self.facts, analyst, self.engine.public, copies)
        return with_visible_views(catalog, policy.view_queries)

    @cached_property
    def facts(self) -> frozenset[tuple[str, str]]:
        """The facts that catalogues rely on, until `look_again`."""
        return self._facts()

    def _facts(self) -> frozenset[tuple[str, str]]:
        """What may be relied on: by constraints, or verified for this version of the data.

        **Theorem.** A rule relies on a fact only if a constraint of the database guarantees it, or the steward's check
        verified it of the rows that are open here.
        **Proof.** The ledger gives the facts of one label, that of the data that were opened and of the last bump.
        `dpsql check` records a fact under the label that it read before it looked at a row, so a bump meanwhile names
        no data that it verified. A fact about owners names the way to them (`unique_fact`), so another policy, with
        another unit, does not find it. Where somebody may write (`verifiable` is false), only constraints count. The
        catalogue is made anew whenever the label changes (`look_again`).
        **Requires** a label that changes with the data (the stamp of a file, a steward's bump), a file that is opened
        read-only, and a check that is right (`dpsql.policy.check`).
        **Checked by** `tests/unit/session/test_session_ledger.py`, and the planted bugs "facts of another version are
        believed", "a fact is noted for data that came after the check" and "a fact about one unit is believed of
        another".
        """
        facts = self.engine.constraints(self.policy)
        if self.engine.verifiable:
            facts |= {(fold(table), fact) for table, fact in self._ledger.facts(self.version())}
        return facts

    def _copies(self, facts: frozenset[tuple[str, str]]) -> Copies | None:
        """The tables that are bounded at rest, or why their copies are refused; None where no copies are read."""
        stamp = self.engine.copies
        return None if stamp is None else copies_of(self.policy, facts, stamp, self.engine.copies_content)

    # the sealed database --------------------------------------------------------------------------------------------

    @cached_property
    def finisher(self) -> Finisher:
        """The sealed database, which holds released and public tables and nothing else."""
        return Finisher(self._read_public, self.policy.limits.memory, self.policy.limits.seconds)

    def _read_public(self, name: str) -> PublicRows:
        table = self.catalog.find(name)
        assert isinstance(table, PublicTable)
        return self.engine.read_public(table.name, table.columns)


# opening --------------------------------------------------------------------------------------------------------------


def open_data(source: Source, policy: Policy, place: str | Path, *, isolate: bool) -> tuple[Engine, Ledger]:
    """Open the database and the ledger of a dataset. If one cannot be opened, the other is closed."""
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
    """The name that is charged, if it may ask for this purpose; None for the steward."""
    if analyst is None and not steward and policy.budget.analysts and "analyst" not in tuple(policy.budget.analysts):
        raise PolicyError(
            f"the policy of {policy.dataset} lists who may ask, and no name was given",
            hint="give a name listed in budget.analysts: analyst=… in Python, --analyst on the command line",
        )
    name = None if steward else analyst or "analyst"
    policy.check_purpose(name, purpose)
    return name


def ledger_at(policy: object, loaded: Policy, ledger: str | os.PathLike[str] | None) -> str | Path:
    """The place of the ledger: where it is given, else beside the policy file."""
    place = ledger_location(loaded, policy if isinstance(policy, str | os.PathLike) else None, ledger)
    if place is None:
        raise InterfaceError(
            "where should the ledger be?",
            hint='name a file, ledger="shop.ledger", or ledger=":memory:" for a throw-away',
        )
    return place


def copies_path(policy: Policy, ledger: str | Path, source: object) -> Path | None:
    """The file of a policy's prepared copies, beside the ledger that records them. Only files are copied."""
    files = all(map(is_path, source.values())) if isinstance(source, Mapping) else is_path(source)
    stored = str(ledger) != ":memory:" and "://" not in f"{ledger} {source}"
    return Path(ledger).with_name(f"{policy.dataset}.prepared") if policy.prepared and files and stored else None
