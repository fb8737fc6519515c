"""The data behind a session: its version, the tables that exist for the analyst, and the sealed database beside it."""

from __future__ import annotations

from functools import cached_property

from dpsql.answers.finish import Finisher
from dpsql.budget import Ledger
from dpsql.engines.base import Engine, PublicRows
from dpsql.plan.catalog import Catalog, Copies, PublicTable, make_catalog
from dpsql.plan.copies import copies_of
from dpsql.plan.view_expansion import with_visible_views
from dpsql.policy import Policy, fold


class Dataset:
    """What is known of the data without its private rows, for one version of it at a time."""

    def __init__(self, engine: Engine, policy: Policy, ledger: Ledger, analyst: str | None) -> None:
        self.engine, self.policy = engine, policy
        self._ledger, self._analyst = ledger, analyst
        self._seen: str | None = None

    def version(self) -> str:
        """The public label of the data: the engine's, and the steward's own where `dpsql data bump` gave one."""
        return " ".join(part for part in (self.engine.version(), self._ledger.label()) if part)

    def look_again(self) -> str:
        """Where others may write, what was known about tables and constraints is asked anew for each query.

        Facts and copies belong to a version of the data, which is returned: after a bump they are looked up again.
        """
        version = self.version()
        if self.engine.live:
            self.engine.look_again()
            self.finisher.forget()
        if self.engine.live or version != self._seen:
            self.__dict__.pop("catalog", None)
            self.__dict__.pop("whole_catalog", None)
            self._seen = version
        return version

    def close(self) -> None:
        """Let go of the database and of the sealed one."""
        if "finisher" in self.__dict__:
            self.finisher.close()
        self.engine.close()

    # tables ---------------------------------------------------------------------------------------------------------

    @cached_property
    def catalog(self) -> Catalog:
        """The analyst's."""
        return self.catalog_of(self.policy)

    @cached_property
    def whole_catalog(self) -> Catalog:
        """The steward's."""
        return self._catalog_of(self.policy, None)

    def catalog_of(self, policy: Policy) -> Catalog:
        """The analyst's, by another policy."""
        return self._catalog_of(policy, self._analyst)

    def uncopied_catalog(self) -> Catalog:
        """The steward's, without prepared copies: what copies are made of."""
        return make_catalog(self.policy, self.engine.schema(), self._facts(), None, self.engine.public)

    def _catalog_of(self, policy: Policy, analyst: str | None) -> Catalog:
        facts = self._facts()
        copies = self._copies(facts)
        catalog = make_catalog(policy, self.engine.schema(), facts, analyst, self.engine.public, copies)
        return with_visible_views(catalog, policy.view_queries)

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
