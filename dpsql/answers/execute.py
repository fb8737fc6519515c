"""Make the releases of a query: replay what was made before, charge for all of it at once, and only then run the rest.

Releases are made in the order of the plan, so that what one of them reads is there before it. One charge covers every
stage: after it nothing can run out, and before it nothing was touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpsql.answers.finish import Finisher
from dpsql.answers.nested_results import NestedResults
from dpsql.answers.noise_stage import Released, add_noise, drawn_ahead, public_table
from dpsql.answers.reuse import Archive
from dpsql.answers.serialize import serialize
from dpsql.budget import Cost, Reservation, StoredRelease
from dpsql.budget.pricing import Bill, Priced, cost_of
from dpsql.engines.base import Engine
from dpsql.errors import InternalError
from dpsql.plan.plan import NestedQuery


@dataclass(frozen=True, slots=True)
class Made:
    """What a query released or replayed: its tables, what that cost and counts, and which entry paid for each mark."""

    tables: Mapping[str, Released]
    cost: Cost
    replayed: bool
    notes: tuple[str, ...]
    counted: tuple[str, ...]
    origins: Mapping[bytes, int]
    version: str


@dataclass(frozen=True, slots=True)
class Maker:
    """All that making releases takes. `reserve` charges for what is missing and counts what is replayed, durably.

    **Theorem.** Before the engine reads a row for a query, the charge of everything that the query will release is
    durable; each mark is released and charged once; and what is replayed draws no noise.
    **Proof.** `make` looks up all, then reserves, then runs: two consecutive lines. `Engine.run` and the noise are
    reached through `_release` only, and the engine refuses what the reservation does not cover. `reserve` is given each
    release that is not free: `_look_up` puts it among `done` and `replayed`, or among `missing`, unless it is the twin
    of a missing one, and what reads a missing release is missing too. `_release` makes what is not done, but for those
    whose mark was made before in this query: equal marks are equal SQL, noise and version, so they show one table.
    Whatever fails afterwards, the charge stays. Prices were fixed before any content was known
    (`dpsql.plan.nodes.released_scan`), so the charge is of what is made.
    **Requires** a reservation for what was charged, durably (`dpsql.budget.ledger.reservation`), marks that say all of
    a release (`dpsql.budget.fingerprint`, `dpsql.answers.nested_results`), and that only what is computed from public
    tables is `free` (`dpsql.budget.pricing`).
    **Checked by** `tests/unit/session/test_session.py`, `tests/unit/session/test_nested_results.py`, and the planted
    bugs "the charge comes after the run" and "a twin is released again".
    """

    engine: Engine
    archive: Archive
    finisher: Finisher
    salt: bytes
    replay: bool
    reserve: Callable[
        [Mapping[bytes, Priced], Sequence[tuple[Priced, StoredRelease]]], tuple[Reservation | None, Sequence[str]]
    ]
    seconds: int | None = None

    def make(self, bill: Bill, nested: Sequence[NestedQuery], alone: frozenset[str]) -> Made:
        """The releases of a bill; those `alone` answer nothing but themselves when they are replayed."""
        work = _Work(NestedResults(self.finisher, nested))
        for priced in bill.releases:
            self._look_up(priced, work)
        reservation, counted = self.reserve(work.missing, work.replayed)
        self._run(bill, work, reservation, alone)
        replayed = reservation is None and not all(p.free for p in bill.releases)
        return Made(
            work.done,
            cost_of(bill, list(work.missing.values())),
            replayed,
            tuple(dict.fromkeys(work.notes)),
            tuple(dict.fromkeys(counted)),
            work.origins,
            self.archive.version,
        )

    def _look_up(self, priced: Priced, work: _Work) -> None:
        """The release as it was made before, else it is missing; one that reads what is missing is missing too."""
        name = priced.bounded.release.name
        if priced.free:
            work.done[name] = public_table(priced)
            return
        work.contents.complete(work.done, work.marks)
        filled = work.contents.filled(priced)
        work.paid[name], work.marks[name] = filled, (mark := self.archive.mark(filled))
        if mark in work.missing:
            work.twins[name] = work.missing[mark].bounded.release.name
            return
        found = self.archive.find(filled, mark) if self.replay and work.contents.knows(priced) else None
        if found is None:
            work.missing[mark] = priced
            return
        work.done[name] = found.released
        work.notes += found.notes
        work.replayed.append((priced, found.stored))
        work.origins[found.mark] = found.stored.entry

    def _run(self, bill: Bill, work: _Work, reservation: Reservation | None, alone: frozenset[str]) -> None:
        """Make what is not done, in the order of the plan."""
        left = [priced for priced in bill.releases if priced.bounded.release.name not in work.done]
        if left and reservation is None:
            raise InternalError("a release is missing that was not paid for")
        with self.engine.together(left):
            for priced in left:
                assert reservation is not None
                self._release(priced, work, reservation, alone)

    def _release(self, priced: Priced, work: _Work, reservation: Reservation, alone: frozenset[str]) -> None:
        """Make one release that was paid for, over what was released before it."""
        name = priced.bounded.release.name
        work.contents.complete(work.done)
        filled = work.contents.filled(priced)
        mark = self.archive.mark(filled)
        twin = work.twins.get(name) or work.made.get(mark)
        if twin is not None:
            work.done[name] = work.done[twin].shown_as(priced)
            return
        ahead = drawn_ahead(filled)
        exact = self.engine.run(work.paid[name], self.salt, reservation, work.contents.made, self.seconds)
        work.done[name], work.made[mark] = add_noise(filled, exact, ahead), name
        about = replace(self.archive.about(filled, alone=name in alone), paid=work.marks[name])
        self.archive.ledger.store(reservation.entry, mark, serialize(work.done[name]), about)
        work.origins[mark] = reservation.entry


@dataclass(slots=True)
class _Work:
    """What is done and what is missing, by name and by mark; `paid` are releases as the ledger was shown them."""

    contents: NestedResults
    done: dict[str, Released] = field(default_factory=dict)
    paid: dict[str, Priced] = field(default_factory=dict)
    marks: dict[str, bytes] = field(default_factory=dict)
    missing: dict[bytes, Priced] = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)
    made: dict[bytes, str] = field(default_factory=dict)
    origins: dict[bytes, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    replayed: list[tuple[Priced, StoredRelease]] = field(default_factory=list)
