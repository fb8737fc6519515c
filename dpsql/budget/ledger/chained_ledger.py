"""The durable ledger: append-only, hash-chained, shared by threads, processes and machines.

Every change is one entry, made by one writer at a time: read what others appended, verify it, decide, append, commit
to disk, mark the new head in the second place. So all admissions have one serial order, and a charge is durable,
in both places, before `reserve` returns. Where the entries lie is a `Storage`'s business: a file, or a server.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import Any

from dpsql.budget.accountant import Account, Caps, Spent, admit, admits, limits, raise_hint, refusal_of
from dpsql.budget.calendar_windows import next_window_start
from dpsql.budget.costs import Charge
from dpsql.budget.ledger.account_state import (
    EVERYONE,
    AccountState,
    KeptRelease,
    Whose,
    exactly,
    write_caps,
    write_charge,
    write_replays,
    write_sums,
)
from dpsql.budget.ledger.backend import LedgerStorage, Payloads
from dpsql.budget.ledger.entries import (
    Entry,
    entry_time,
    next_entry,
    now,
    read_cost,
    read_error,
    read_log_entry,
    write_error,
)
from dpsql.budget.ledger.interface import (
    LastCharge,
    Ledger,
    LogEntry,
    RelatedRelease,
    ReleaseDetails,
    Request,
    Standing,
    StoredRelease,
)
from dpsql.budget.ledger.reservation import RESERVE, Reservation
from dpsql.budget.ledger.rollback_guard import ChainEnd
from dpsql.budget.shares import share_of
from dpsql.errors import LedgerError

_RESERVE = RESERVE.take()


class ChainedLedger(Ledger):
    """A ledger in any storage: a lock orders the threads of this process, the storage's own all others."""

    def __init__(self, storage: LedgerStorage, dataset: str | None) -> None:
        """Verify the whole; the storage is closed if it is refused."""
        self._storage, self._process = storage, os.getpid()
        self._lock = threading.Lock()
        self._book = AccountState()
        self._confirmed = ChainEnd()
        try:
            self._verify(dataset)
            storage.accept()
        except BaseException:
            storage.close()
            raise

    def reserve(self, request: Request) -> Reservation:
        """See `Ledger`. The transaction that checks the caps is the one that records the charge, and it is one entry:
        a query that is refused, or cut short, leaves nothing of itself. The reservation is made after it.
        """
        if request.charge is None:
            raise LedgerError("there is nothing to charge for")
        body = {
            "id": os.urandom(8).hex(),  # of two branches, two charges are two, also when all else is equal
            "cost": [repr(request.cost.epsilon), repr(request.cost.delta), repr(request.cost.rho)],
            "fingerprints": [fingerprint.hex() for fingerprint in request.fingerprints],
            "sql": request.sql,
            **write_error(request.error),
        }
        self._note_caps(_asked(request))
        with self._writing():
            self._admit(request)
            gist = write_charge((request.analyst, request.purpose), request.charge, self._owing(request))
            entry = self._append("charge", gist, body)
        return Reservation(entry, self._book.dataset, request.version, frozenset(request.fingerprints), by=_RESERVE)

    def count(self, request: Request) -> None:
        """See `Ledger`."""
        self._note_caps(_asked(request))
        with self._writing():
            if owing := self._owing(request):
                self._admit(request)
                self._append("replay", write_replays((request.analyst, request.purpose), owing), {})

    def _owing(self, request: Request) -> list[tuple[int, int]]:
        """The replays that are yet to be counted."""
        whose = request.analyst, request.purpose
        return [each for each in request.replays if self._owes(each[0], whose, each[1])]

    def afford(self, request: Request) -> None:
        """See `Ledger`."""
        with self._reading():
            self._admit(request)

    def spent(self, analyst: str | None, purpose: str | None = None) -> Spent:
        """See `Ledger`."""
        with self._reading():
            return self._book.spent((analyst, purpose))

    def standing(self, who: str | None, caps: Caps, purpose: str | None = None) -> Standing:
        """See `Ledger`."""
        with self._reading():
            account = self._account((who, purpose), caps)
            return Standing(account.caps, account.spent, account.renews)

    def last(self, analyst: str | None, purpose: str | None = None) -> LastCharge | None:
        """See `Ledger`."""
        with self._reading():
            entry = self._book.latest((analyst, purpose))
            if entry is None:
                return None
            body = self._book.details(entry)
            return LastCharge(self._book.charge(entry), read_cost(body), read_error(body))

    def store(self, entry: int, fingerprint: bytes, payload: bytes, about: ReleaseDetails | None = None) -> None:
        """See `Ledger`. The chain holds the payload's digest, so a changed payload is never replayed."""
        key = fingerprint.hex()
        paid = key if about is None or about.paid is None else about.paid.hex()
        known = [] if about is None else [about.family.hex(), *write_sums(about.charge)]
        body = {} if about is None else {"recipe": dict(about.recipe)}
        with self._writing():
            if not self._book.may_keep(entry, paid) or (entry, key) in self._book.releases:
                raise LedgerError(f"entry {entry} did not pay for this release, or it is kept already")
            digest = hashlib.sha256(payload).hexdigest()
            self._append("release", [entry, key, digest, *known], body, payload=payload)
            self._book.releases.add((entry, paid))

    def find(
        self, fingerprint: bytes, keep: timedelta | None = None, number: int | None = None
    ) -> StoredRelease | None:
        """See `Ledger`."""
        with self._reading():
            fresh = self._fresh(self._book.kept.get(fingerprint.hex(), ()), keep)
            found = next((kept for kept in fresh if number in (None, kept.number)), None)
            if found is None:
                return None
            payload, charge = self._payload(found.number, found.digest), self._book.charge(found.entry, found.number)
            return StoredRelease(found.number, found.entry, self._book.payer(found.entry)[0], payload, charge)

    def relatives(
        self, families: Sequence[bytes], analyst: str | None, keep: timedelta | None = None, purpose: str | None = None
    ) -> list[list[RelatedRelease]]:
        """See `Ledger`."""
        with self._reading():
            kept = [list(self._fresh(self._book.families.get(family.hex(), ()), keep)) for family in families]
            return [[self._relative(each, (analyst, purpose)) for each in found] for found in kept]

    def _relative(self, kept: KeptRelease, whose: Whose) -> RelatedRelease:
        owed = bool(self._book.owes(kept.entry, whose, kept.number))
        return RelatedRelease(kept.number, bytes.fromhex(kept.fingerprint), kept.told()["recipe"], owed)

    def _fresh(self, releases: Iterable[KeptRelease], keep: timedelta | None) -> Iterator[KeptRelease]:
        """Those that are not too old by the later of the clock and the last entry: a clock set back revives nothing."""
        if keep is None:
            return iter(releases)
        time = max(now(), self._book.at or now())
        return (kept for kept in releases if time - datetime.fromisoformat(kept.told()["at"]) <= keep)

    def owed(self, stored: StoredRelease, analyst: str | None, purpose: str | None = None) -> bool:
        """See `Ledger`."""
        with self._reading():
            return bool(self._owes(stored.entry, (analyst, purpose), stored.number))

    def replayed(
        self,
        entry: int,
        analyst: str | None,
        caps: Caps | None,
        release: int | None = None,
        purpose: str | None = None,
        purpose_caps: Caps | None = None,
    ) -> bool:
        """See `Ledger`. Nothing is written, and no disk is waited for, unless there is something to count."""
        with self._reading():
            if not self._owes(entry, (analyst, purpose), release):
                return False
        asked: dict[Whose, Caps | None] = {(analyst, None): caps, (analyst, purpose): purpose_caps or caps}
        self._note_caps(asked)
        with self._writing():
            owing = self._owes(entry, (analyst, purpose), release)
            if not owing:
                return False
            limited = [(whose, limit) for whose in owing if (limit := self._book.in_force(whose, asked[whose]))]
            cost = read_cost(self._book.details(entry))
            admit(self._book.charge(entry, release), cost, [self._account(*each) for each in limited])
            self._append("replay", write_replays((analyst, purpose), [(entry, release)]), {})
            return True

    def salt(self) -> bytes:
        """See `Ledger`."""
        return self._book.salt

    def record_fact(self, table: str, fact: str, data_version: str) -> None:
        """See `Ledger`. A fact that is known already is not written again."""
        with self._writing():
            if (table, fact) not in self._book.facts.get(data_version, ()):
                self._append("fact", [table, fact, data_version], {})

    def facts(self, data_version: str) -> frozenset[tuple[str, str]]:
        """See `Ledger`."""
        with self._reading():
            return frozenset(self._book.facts.get(data_version, ()))

    def in_force(self, who: str | None, caps: Caps, purpose: str | None = None) -> Caps:
        """See `Ledger`."""
        with self._reading():
            return self._book.in_force((who, purpose), caps) or caps

    def record_caps(self, who: str | None, caps: Caps, by: str, purpose: str | None = None) -> bool:
        """See `Ledger`."""
        named(by)
        if who is None and caps.every is not None:
            raise LedgerError("the dataset's cap never resets", hint="give `every` to analysts only")
        with self._writing():
            if self._book.caps.get((who, purpose)) == exactly(caps):
                return False
            self._append("caps", write_caps((who, purpose), caps), {"by": by})
            return True

    def accept_clock(self, by: str) -> None:
        """See `Ledger`."""
        named(by)
        with self._writing():
            self._append("clock", [], {"by": by}, accept_clock=True)

    def bump(self, label: str, by: str) -> None:
        """See `Ledger`."""
        named(by)
        with self._writing():
            self._append("version", [label], {"by": by})

    def label(self) -> str:
        """See `Ledger`."""
        with self._reading():
            return self._book.label

    @property
    def dataset(self) -> str:
        """Whose account it is."""
        return self._book.dataset

    def log(self, analyst: str | None = None) -> Iterator[LogEntry]:
        """See `Ledger`."""
        rows, book = self.rows(), self._book
        caps = book.caps.get((analyst, None)) or book.caps.get(EVERYONE)
        for line in map(read_log_entry, rows):
            if analyst is not None and line.analyst != analyst:
                continue
            charges = book.charged(line.number, everyone=analyst is None)
            shares = [] if caps is None else [share_of(limits(caps), charge) for charge in charges]
            yield replace(line, share=float(sum(shares))) if shares else line

    def rows(self) -> list[Entry]:
        """All entries, verified."""
        with self._reading():
            return list(self._storage.entries(1))

    def kept(self) -> Payloads:
        """All noisy tables with the numbers of their entries, each checked against its digest."""
        with self._reading():
            digests = {number: each.digest for number, each in self._book.numbered.items()}
            found = self._storage.payloads()
            for number, digest in digests.items():
                self._payload(number, digest)
            return found

    def check_pages(self) -> None:
        """Check everything except the entries."""
        with self._reading():
            self._storage.check_pages()

    def mark(self) -> ChainEnd:
        """Where the chain ends now, and what was spent."""
        with self._reading():
            return self._mark()

    @property
    def place(self) -> str:
        """See `Ledger`."""
        return self._storage.name

    def close(self) -> None:
        """See `Ledger`."""
        with self._lock:
            self._storage.close()

    def _verify(self, dataset: str | None) -> None:
        with self._reading():
            found = self._book.dataset
        if dataset not in (None, found):
            raise LedgerError(
                f"the ledger {self.place} is the account of '{found}', not of '{dataset}'",
                hint="name the ledger of this dataset, or correct `dataset` in the policy",
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The mark is read before the ledger, which may only be at or beyond it."""
        with self._lock:
            self._refuse_fork()
            mark = self._storage.marked()
            with self._storage.reading():
                self._catch_up()
                self._confirm(mark)
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Ledger first, second place next, and only then does the caller learn of it.

        What was appended enters the book only by being read back.
        """
        with self._lock:
            self._refuse_fork()
            with self._storage.alone():
                with self._storage.writing():
                    self._catch_up()
                    self._confirm(self._storage.marked())
                    self._settle()
                    yield
                with self._storage.reading():
                    self._catch_up()
                self._settle()

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError("a ledger cannot be used after a fork", hint="open it again in the new process")

    def _catch_up(self) -> None:
        """Take in what was appended since; the last entry known must still be there, unchanged."""
        rows = self._storage.entries(self._book.number)
        if self._book.number and self._book.head not in next(rows, ()):
            raise self._storage.damaged("entries that existed before are missing")
        try:
            self._book.extend(rows)
        except LedgerError as error:
            raise self._storage.damaged(error.message) from error
        except (LookupError, TypeError, ValueError) as error:
            raise self._storage.damaged() from error
        if not self._book.number or not self._storage.ends_at(self._book.number):
            raise self._storage.damaged("its last entries are missing")

    def _mark(self) -> ChainEnd:
        return self._book.mark()

    def _confirm(self, mark: ChainEnd) -> None:
        """The marked entry is one of the ledger's."""
        if mark == self._confirmed:
            return
        if mark.number > self._book.number:
            raise self._storage.damaged(
                f"it ends at entry {self._book.number}, but its head says {mark.number}: it is an older copy"
            )
        if mark.number and self._storage.hash_of(mark.number) != mark.hash:
            raise self._storage.damaged(f"entry {mark.number} is not the one that its head says: it was replaced")
        self._confirmed = mark

    def _settle(self) -> None:
        """Bring the second place up to the last entry."""
        self._storage.settle(self._mark(), self._book.previous)

    def _append(
        self,
        kind: str,
        gist: list[Any],
        body: dict[str, Any],
        *,
        payload: bytes | None = None,
        accept_clock: bool = False,
    ) -> int:
        at = now() if accept_clock else entry_time(self._book.at)
        entry = next_entry(self._book.head, self._book.number, kind, gist, {"at": at.isoformat(), **body})
        self._storage.append(entry, payload)
        return entry[0]

    def _payload(self, number: int, digest: str) -> bytes:
        payload = self._storage.payload_of(number)
        if payload is None or hashlib.sha256(payload).hexdigest() != digest:
            raise self._storage.damaged(f"the release kept in entry {number} was changed")
        return payload

    def _owes(self, entry: int, whose: Whose, release: int | None) -> list[Whose]:
        if entry not in self._book.charges:
            raise LedgerError(f"the ledger has no charge with number {entry}")
        if release is not None and (release not in self._book.numbered or self._book.numbered[release].entry != entry):
            raise LedgerError(f"the ledger has no release with number {release} of entry {entry}")
        return self._book.owes(entry, whose, release)

    def _note_caps(self, asked: Mapping[Whose, Caps | None]) -> None:
        """Record the caps of a new account, and lower ones, each as an entry of its own: no later rise is silent."""
        for whose, caps in asked.items():
            if caps is not None and self._book.caps.get(whose) != self._book.in_force(whose, caps):
                with self._writing():
                    lower = self._book.in_force(whose, caps)
                    if lower is not None and self._book.caps.get(whose) != lower:
                        self._append("caps", write_caps(whose, lower), {"by": "the policy"})

    def _admit(self, request: Request) -> None:
        asked = _asked(request)
        accounts = {whose: self._account(whose, caps) for whose, caps in self._limited(request).items()}
        if all(admits(a.caps, a.spent, due) for whose, a in accounts.items() for due in self._due(request, whose)):
            return
        refusal = refusal_of(*request.whole, list(accounts.values()))
        if any(self._book.in_force(whose, caps) != exactly(caps) for whose, caps in asked.items()):
            refusal.hint = raise_hint(refusal.hint)
        raise refusal

    def _due(self, request: Request, whose: Whose) -> list[Charge]:
        """The charges that an account must admit: new ones for the dataset, all of them and replays for an analyst."""
        new = [] if request.charge is None else [request.charge]
        if whose == EVERYONE:
            return new
        own = request.analyst, request.purpose
        replays = [
            self._book.charge(*each) for each in request.replays if whose in self._book.owes(each[0], own, each[1])
        ]
        return [request.whole[0], *([reduce(add, [*new, *replays])] if new or replays else [])]

    def _limited(self, request: Request) -> dict[Whose, Caps]:
        """The accounts that must admit a request, the innermost first: those with caps, now or recorded."""
        asked, own = _asked(request), (request.analyst, request.purpose)
        inner = dict.fromkeys([own, (request.analyst, None), EVERYONE])
        limits = {whose: self._book.in_force(whose, asked.get(whose)) for whose in inner}
        return {whose: caps for whose, caps in limits.items() if caps is not None}

    def _account(self, whose: Whose, caps: Caps) -> Account:
        """An account in its window of the time that the next entry would have."""
        limit = self._book.in_force(whose, caps) or caps
        today = max(now(), self._book.at or now()).date()
        again = None if limit.every is None else next_window_start(today, limit.every)
        return Account(self._name(whose), limit, self._book.spent_in(whose, limit, today), again)

    def _name(self, whose: Whose) -> str:
        who, purpose = whose
        if who is None:
            return f"everyone on '{self._book.dataset}'"
        return who if purpose is None else f"{who} for {purpose}"


def _asked(request: Request) -> dict[Whose, Caps]:
    """What the policy says of each account that a request concerns."""
    asked: dict[Whose, Caps | None] = {EVERYONE: request.dataset_caps}
    if request.analyst is not None:
        asked[request.analyst, None] = request.analyst_caps
    if request.purpose is not None:
        asked[request.analyst, request.purpose] = request.purpose_caps
    return {whose: caps for whose, caps in asked.items() if caps is not None}


def named(by: str) -> str:
    """An act of the steward names who did it."""
    if not by.strip():
        raise LedgerError("this command records the steward's name", hint="give --by NAME, or set DPSQL_STEWARD")
    return by
