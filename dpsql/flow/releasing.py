"""Release what a priced query asks for: look in the archive, charge for the rest, and only then run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dpsql.answers.execute import Made, Maker
from dpsql.answers.explain import first_error
from dpsql.answers.reuse import Archive
from dpsql.budget import Reservation, StoredRelease
from dpsql.budget.pricing import Priced, charge_of, cost_of
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Prepared


@dataclass(frozen=True, slots=True)
class Releaser:
    """The data that is released, and the accounts that pay for it."""

    dataset: Dataset
    accounts: Accounts

    def release(self, prepared: Prepared) -> Made:
        """Replay what was released before; charge for the rest, durably, and only then run it.

        A search for norms is known for as long as its version of the data is, so it is replayed whatever the policy
        says of answers: a second one would be paid for and not be read.
        """
        policy, salt = self.accounts.policy, self.accounts.ledger.salt()
        searches = [priced.bounded for priced in prepared.bill.releases if priced.bounded.searched is not None]
        archive = replace(self.archive(salt), keep=None) if searches else self.archive(salt)
        maker = Maker(
            self.dataset.engine,
            archive,
            self.dataset.finisher,
            salt,
            bool(policy.replay or searches),
            lambda missing, replayed: self._reserve(prepared, archive.version, missing, replayed),
            policy.limits.seconds,
        )
        alone = [*(check.bounded for check in prepared.checks), *searches]
        return maker.make(prepared.bill, prepared.plan.nested, frozenset(each.release.name for each in alone))

    def kept(self, prepared: Prepared) -> bool:
        """Does the ledger have all of it, as releases that the analyst paid for or was shown?"""
        ledger, policy = self.accounts.ledger, self.accounts.policy
        archive = self.archive(ledger.salt())
        paid = [priced for priced in prepared.bill.releases if not priced.free]
        found = [ledger.find(archive.mark(p), policy.keep) for p in paid] if policy.replay else [None]
        return all(each is not None and not self.accounts.owes(each) for each in found)

    def archive(self, salt: bytes) -> Archive:
        """The ledger's releases of this version of the data, as the analyst may see them."""
        policy = self.accounts.policy
        return Archive(
            self.accounts.ledger,
            lambda priced: self.dataset.engine.emit(priced, salt),
            policy.dataset,
            self.dataset.version(),
            self.dataset.catalog,
            self.accounts.analyst,
            policy.keep,
            self.accounts.purpose,
        )

    def _reserve(
        self,
        prepared: Prepared,
        version: str,
        missing: Mapping[bytes, Priced],
        replayed: Sequence[tuple[Priced, StoredRelease]],
    ) -> tuple[Reservation | None, tuple[str, ...]]:
        """Charge for what is missing and count what others released, in one step; and say what was counted."""
        bill, releases = prepared.bill, list(missing.values())
        owed = [(priced, stored) for priced, stored in replayed if self.accounts.owes(stored)]
        whole = [*releases, *(priced for priced, _ in owed)]
        asked = charge_of(whole)
        if asked is None:
            return None, ()
        costs = charge_of(releases), cost_of(bill, releases)
        request = replace(
            self.accounts.request(prepared.sql, *costs, tuple(missing), (asked, cost_of(bill, whole))),
            error=first_error(releases, bill.mechanism) if releases else None,
            version=version,
            replays=tuple(dict.fromkeys((stored.entry, stored.number) for _, stored in owed)),
        )
        told = tuple(self.accounts.told(stored) for _, stored in owed)
        if releases:
            return self.accounts.ledger.reserve(request), told
        self.accounts.ledger.count(request)
        return None, told
