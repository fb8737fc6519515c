"""Release what a priced query asks for: look in the archive, charge for the rest, and only then run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsql.budget.allocate import Priced, charge_of, cost_of
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Prepared
from dpsql.release.explain import first_error
from dpsql.release.make import Made, Maker
from dpsql.release.replay import Archive


@dataclass(frozen=True, slots=True)
class Releaser:
    """The data that is released, and the accounts that pay for it."""

    dataset: Dataset
    accounts: Accounts

    def release(self, prepared: Prepared) -> Made:
        """Replay what was released before; charge for the rest, durably, and only then run it."""
        policy, salt = self.accounts.policy, self.accounts.ledger.salt()
        maker = Maker(
            self.dataset.engine,
            self.archive(salt),
            self.dataset.finisher,
            salt,
            bool(policy.replay),
            self.accounts.counted,
            lambda missing: self._reserve(prepared, missing),
            policy.limits.seconds,
        )
        alone = frozenset(check.bounded.release.name for check in prepared.checks)
        return maker.make(prepared.bill, prepared.plan.nested, alone)

    def kept(self, prepared: Prepared) -> bool:
        """Does the ledger have all of it?"""
        ledger, policy = self.accounts.ledger, self.accounts.policy
        archive = self.archive(ledger.salt())
        paid = [priced for priced in prepared.bill.releases if not priced.free]
        return bool(policy.replay) and all(ledger.find(archive.mark(p), policy.keep) for p in paid)

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

    def _reserve(self, prepared: Prepared, missing: Mapping[bytes, Priced]) -> int | None:
        releases = list(missing.values())
        charge = charge_of(releases)
        if charge is None:
            return None
        request = self.accounts.request(prepared.sql, charge, cost_of(prepared.bill, releases), tuple(missing))
        error = first_error(releases, prepared.bill.mechanism)
        return self.accounts.ledger.reserve(replace(request, error=error))
