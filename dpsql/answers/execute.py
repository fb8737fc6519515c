"""Execution of a bill: replay what was released before, and run what is missing under the reservation that paid for it.

One charge covers every stage of a query. It is made between looking up and running (`dpsql.session`): after it nothing
can run out, and before it nothing was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpsql.answers.nested_results import NestedResults
from dpsql.answers.noise_stage import Released, add_noise, drawn_ahead, public_table
from dpsql.answers.reuse import Archive
from dpsql.answers.serialize import serialize
from dpsql.budget import Cost, Reservation, StoredRelease
from dpsql.budget.pricing import Bill, Priced, cost_of
from dpsql.engines.base import Engine
from dpsql.errors import InternalError


@dataclass(frozen=True, slots=True)
class Executed:
    """What a query released or replayed: its tables, its cost, what was counted, and which entry paid for each mark."""

    tables: Mapping[str, Released]
    cost: Cost
    replayed: bool
    notes: tuple[str, ...]
    counted: tuple[str, ...]
    origins: Mapping[bytes, int]
    version: str


@dataclass(slots=True)
class Execution:
    """One execution of a bill, in the order of the plan, so that what a release reads is there before it.

    First everything is looked up (`look_up`); then the caller charges for what is `missing` and counts what is
    `replayed`; then `run` makes what is missing, under that reservation. Releases that stand `alone` answer nothing but
    themselves when they are replayed. `paid` has the releases as the ledger was shown them.

    **Theorem.** Everything that `run` releases was `missing` when the charge was made, each mark is released once, and
    what is replayed draws no noise.
    **Proof.** `Engine.run` and the noise are reached through `_release` only, and the engine refuses what the
    reservation does not cover. Each release that is not free is put by `_look_up` among `done` and `replayed`, or among
    `missing`, unless it is the twin of a missing one, and what reads a missing release is missing too. `_release` makes
    what is not done, except for releases whose mark was made before in this query: equal marks are equal SQL, noise
    and version, so they show one table. Whatever fails afterwards, the charge stays. Prices were fixed before any
    content was known (`dpsql.plan.nodes.released_scan`), so the charge is of what is made.
    **Requires** a reservation for what was charged, durably (`dpsql.budget.ledger.reservation`, `dpsql.session`), marks
    that say all of a release (`dpsql.budget.fingerprint`, `dpsql.answers.nested_results`), and that only what is
    computed from public tables is `free` (`dpsql.budget.pricing`).
    **Checked by** `tests/unit/session/test_session.py`, `tests/unit/session/test_nested_results.py`, and the planted
    bugs "the charge comes after the run" and "a twin is released again".
    """

    engine: Engine
    archive: Archive
    contents: NestedResults
    salt: bytes
    replay: bool
    bill: Bill
    alone: frozenset[str] = frozenset()
    seconds: int | None = None
    done: dict[str, Released] = field(default_factory=dict)
    paid: dict[str, Priced] = field(default_factory=dict)
    marks: dict[str, bytes] = field(default_factory=dict)
    missing: dict[bytes, Priced] = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)
    made: dict[bytes, str] = field(default_factory=dict)
    origins: dict[bytes, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    replayed: list[tuple[Priced, StoredRelease]] = field(default_factory=list)

    def look_up(self) -> None:
        """Find what was released before; the rest is missing."""
        for priced in self.bill.releases:
            self._look_up(priced)

    def run(self, reservation: Reservation | None) -> None:
        """Make what is missing, in the order of the plan, under the reservation that paid for it."""
        left = [priced for priced in self.bill.releases if priced.bounded.release.name not in self.done]
        if left and reservation is None:
            raise InternalError("a release is missing that was not paid for")
        with self.engine.together(left):
            for priced in left:
                assert reservation is not None
                self._release(priced, reservation)

    def executed(self, counted: Sequence[str]) -> Executed:
        """The released tables and what they cost."""
        return Executed(
            self.done,
            cost_of(self.bill, list(self.missing.values())),
            not self.missing and not all(p.free for p in self.bill.releases),
            tuple(dict.fromkeys(self.notes)),
            tuple(dict.fromkeys(counted)),
            self.origins,
            self.archive.version,
        )

    def _look_up(self, priced: Priced) -> None:
        """The release as it was made before, else it is missing; one that reads what is missing is missing too."""
        name = priced.bounded.release.name
        if priced.free:
            self.done[name] = public_table(priced)
            return
        self.contents.complete(self.done, self.marks)
        filled = self.contents.filled(priced)
        self.paid[name], self.marks[name] = filled, (mark := self.archive.mark(filled))
        if mark in self.missing:
            self.twins[name] = self.missing[mark].bounded.release.name
            return
        found = self.archive.find(filled, mark) if self.replay and self.contents.knows(priced) else None
        if found is None:
            self.missing[mark] = priced
            return
        self.done[name] = found.released
        self.notes += found.notes
        self.replayed.append((priced, found.stored))
        self.origins[found.mark] = found.stored.entry

    def _release(self, priced: Priced, reservation: Reservation) -> None:
        """Make one release that was paid for, over what was released before it."""
        name = priced.bounded.release.name
        self.contents.complete(self.done)
        filled = self.contents.filled(priced)
        mark = self.marks[name] if filled is self.paid[name] else self.archive.mark(filled)
        twin = self.twins.get(name) or self.made.get(mark)
        if twin is not None:
            self.done[name] = self.done[twin].shown_as(priced)
            return
        ahead = drawn_ahead(filled)
        exact = self.engine.run(self.paid[name], self.salt, reservation, self.contents.made, self.seconds)
        self.done[name], self.made[mark] = add_noise(filled, exact, ahead), name
        about = replace(self.archive.about(filled, alone=name in self.alone), paid=self.marks[name])
        self.archive.ledger.store(reservation.entry, mark, serialize(self.done[name]), about)
        self.origins[mark] = reservation.entry
