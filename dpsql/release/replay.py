"""Answers from the ledger: the release itself where it was made before, or an earlier one that shows all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dpsql.budget import About, Ledger, Relative, Stored
from dpsql.budget.allocate import Priced, charge_of
from dpsql.budget.fingerprint import fingerprint
from dpsql.errors import Error, InternalError
from dpsql.plan.catalog import Catalog
from dpsql.plan.nodes.released_scan import released_in
from dpsql.release.cover import (
    Wider,
    covers,
    family,
    made_again,
    might_cover,
    part_of,
    portion_of,
    readable,
    recipe_of,
    searched,
    wider,
)
from dpsql.release.noise import Released
from dpsql.release.stored import unpack

MOST_TRIED = 20
OF_MORE = (
    "answered from an earlier release that has more columns at the same price, so its noise is larger than that of a"
    " fresh answer: ask for a larger epsilon to get one"
)
OF_MORE_GROUPS = (
    "answered from an earlier release of more groups: a unit is weighed down by its rows in all of those groups"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A release that need not be made: what is shown of the stored one, its mark, and what to know about it."""

    released: Released
    stored: Stored
    mark: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """The ledger's releases of one version of the data, as one analyst may see them."""

    ledger: Ledger
    emit: Callable[[Priced], str]
    dataset: str
    version: str
    catalog: Catalog
    analyst: str | None
    keep: timedelta | None
    purpose: str | None = None

    def mark(self, priced: Priced) -> bytes:
        """The fingerprint of a release; one that reads nested results says which."""
        if any(scan.digest is None for scan in released_in(priced.bounded.release.source)):
            raise InternalError("a release was to be marked before what it reads was named")
        return fingerprint(priced, self.emit(priced), self.version, self.dataset)

    def about(self, priced: Priced, *, alone: bool) -> About:
        """What a new release is kept with; one that stands `alone` answers nothing but itself."""
        release, charge = priced.bounded.release, charge_of([priced])
        assert charge is not None
        if alone:
            return About(b"", {}, charge)
        return About(family(release, release.source, self.version, self.dataset), recipe_of(priced), charge)

    def find(self, priced: Priced, mark: bytes) -> Found | None:
        """The very release, exactly as before; else the most accurate one that shows all of it.

        A release that was priced for an accuracy is answered by itself only: a part may be less accurate.
        """
        stored = self.ledger.find(mark, self.keep)
        if stored is not None:
            return Found(unpack(stored.payload, priced), stored, mark)
        return None if priced.portion.exact else self._covering(priced)

    def best(self, priced: Priced) -> Found | None:
        """The most accurate release that shows all of it, at whatever price, if the analyst is counted nothing."""
        return self._covering(priced, own=True)

    def _covering(self, priced: Priced, *, own: bool = False) -> Found | None:
        """The most accurate relative that shows all of it.

        Another's clip tells what their search found, and counting the release would not count the search: such a
        release is had by its very mark only, after the same search was counted.
        """
        ways = list(wider(priced.bounded))
        families = [family(priced.bounded.release, way.relation, self.version, self.dataset) for way in ways]
        kept = zip(ways, self.ledger.relatives(families, self.analyst, self.keep, self.purpose), strict=True)
        offered = [
            (way, each)
            for way, relatives in kept
            for each in relatives
            if not (each.owed and (own or searched(each.recipe)))
        ]
        likely = [(way, each) for way, each in offered if might_cover(priced, each.recipe)]
        likely.sort(key=lambda pair: -min(portion_of(pair[1].recipe).parts))
        return next((f for way, each in likely[:MOST_TRIED] if (f := self._part(priced, way, each)) is not None), None)

    def _part(self, asked: Priced, way: Wider, relative: Relative) -> Found | None:
        """The part that is asked of an earlier release, if it is what its recipe says and costs the analyst no more.

        Another's release may have been dearer than what is asked now; an analyst is never counted more than that.
        """
        made = self._made_again(asked, way, relative)
        if made is None or not covers(asked, made) or (relative.owed and made.price > asked.price):
            return None
        stored = self.ledger.find(relative.fingerprint, self.keep, relative.number)
        if stored is None:
            return None
        notes = [OF_MORE] if min(made.portion.parts) < min(asked.portion.parts) else []
        notes += [OF_MORE_GROUPS] if way.dropped and made.bounded.rule in ("clip", "vector") else []
        return Found(part_of(asked, unpack(stored.payload, made)), stored, relative.fingerprint, tuple(notes))

    def _made_again(self, asked: Priced, way: Wider, relative: Relative) -> Priced | None:
        """The earlier release as it would be planned for this analyst, if that is the one that was made.

        It may read columns that do not exist for this analyst, or no longer: then it shows nothing here, and whatever
        the planner would say of it is not for these eyes.
        """
        if not readable(way.relation, relative.recipe):
            return None
        try:
            made = made_again(asked, way.relation, relative.recipe, self.catalog)
            return made if self.mark(made) == relative.fingerprint else None
        except (Error, LookupError, ValueError):
            return None
