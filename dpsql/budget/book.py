"""The account in memory: what the verified entries add up to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from dpsql.budget.accountant import Caps, Spent
from dpsql.budget.chain import ROOT, Row, link
from dpsql.budget.event import Charge
from dpsql.budget.exact import exact
from dpsql.errors import LedgerError

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


@dataclass(slots=True)
class Sums:
    """A `Spent` that can be added to in place."""

    rho: int = 0
    delta: int = 0
    epsilon: int | None = 0

    def add(self, rho: int, delta: int, epsilon: int | None) -> None:
        """Count one more charge."""
        self.rho += rho
        self.delta += delta
        if self.epsilon is not None:
            self.epsilon = None if epsilon is None else self.epsilon + epsilon

    def spent(self) -> Spent:
        """The sums as they are now."""
        return Spent(self.rho, self.delta, self.epsilon)


class Kept(NamedTuple):
    """A release entry: the charge that paid for it, the digest of the payload, which has its number, and its body.

    `charge` is the part of that charge which is its own; an old ledger does not know it.
    """

    number: int
    entry: int
    fingerprint: str
    digest: str
    charge: list[int | None] | None
    body: str

    def told(self) -> dict[str, Any]:
        """When it was made, and how it can be made again."""
        body: dict[str, Any] = _scan(self.body, 0)[0]
        return body


@dataclass(slots=True)
class Book:
    """A fold over the entries, in order. It holds nothing but what they say, so it can be made again.

    Of a charge only the gist is read until more is asked for: opening a ledger of thousands must be quick.
    """

    number: int = 0
    head: bytes = ROOT
    previous: bytes = ROOT
    dataset: str = ""
    salt: bytes = b""
    label: str = ""
    last: str = ""
    total: Sums = field(default_factory=Sums)
    by_analyst: defaultdict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    caps: dict[str | None, Caps] = field(default_factory=dict)
    charges: dict[int, tuple[str, str]] = field(default_factory=dict)
    replays: set[tuple[str, int, int | None]] = field(default_factory=set)
    kept: defaultdict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))
    families: defaultdict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))
    releases: set[tuple[int, str]] = field(default_factory=set)
    numbered: dict[int, Kept] = field(default_factory=dict)
    facts: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))

    def extend(self, entries: Iterable[Row]) -> None:
        """Verify the entries and take them in; one that is not the next, untouched, stops it."""
        before, head, last, expected, read = self.previous, self.head, self.last, self.number + 1, self._read
        try:
            for number, kind, gist, body, digest in entries:
                if number != expected or digest != link(head, number, kind, gist, body):
                    raise LedgerError(f"entry {expected} is missing or was changed")
                read(number, kind, gist, body)
                before, head, last, expected = head, digest, body, number + 1
        finally:
            self.number, self.previous, self.head, self.last = expected - 1, before, head, last

    @property
    def at(self) -> datetime | None:
        """When the last entry was written."""
        return datetime.fromisoformat(json.loads(self.last)["at"]) if self.last else None

    def spent(self, analyst: str | None) -> Spent:
        """The sums of an analyst's account, or (None) of the whole dataset's."""
        sums = self.total if analyst is None else self.by_analyst.get(analyst, Sums())
        return sums.spent()

    def details(self, entry: int) -> dict[str, Any]:
        """The body of a charge entry."""
        body: dict[str, Any] = _scan(self.charges[entry][1], 0)[0]
        return body

    def payer(self, entry: int) -> str | None:
        """Whose query a charge was for; None for the steward."""
        analyst: str | None = _scan(self.charges[entry][0], 0)[0][0]
        return analyst

    def charge(self, entry: int, release: int | None = None) -> Charge:
        """What an entry charged, or the part of it that one of its releases costs, where that is known."""
        part = None if release is None else self.numbered[release].charge
        return Charge(*(_scan(self.charges[entry][0], 0)[0][1:] if part is None else part))

    def owes(self, entry: int, analyst: str | None, release: int | None = None) -> bool:
        """Whether a replay of this entry, or release, is yet to be counted against the analyst's own cap."""
        if analyst is None or analyst == self.payer(entry) or (analyst, entry, None) in self.replays:
            return False
        return release is None or (analyst, entry, release) not in self.replays

    def may_keep(self, entry: int, fingerprint: str) -> bool:
        """Whether the entry paid for this release, which is not kept yet."""
        known = entry in self.charges and (entry, fingerprint) not in self.releases
        return known and fingerprint in self.details(entry)["fingerprints"]

    def in_force(self, who: str | None, caps: Caps | None) -> Caps | None:
        """The caps of an account: what the policy says now, but never more than what is recorded."""
        recorded = self.caps.get(who)
        if caps is None or recorded is None:
            return recorded if caps is None else exactly(caps)
        return Caps(min(exact(caps.epsilon), exact(recorded.epsilon)), min(exact(caps.delta), exact(recorded.delta)))

    def _read(self, number: int, kind: str, text: str, body: str) -> None:
        """An unknown kind is refused, never skipped: it may change what is left."""
        gist = _scan(text, 0)[0]
        if kind == "charge":
            analyst, *charge = gist
            self.charges[number] = text, body
            self.total.add(*charge)
            if analyst is not None:
                self.by_analyst[analyst].add(*charge)
        elif kind == "release":
            self._release(number, body, *gist)
        elif kind == "replay":
            self._replay(*gist)
        else:
            self._read_act(number, kind, gist)

    def _read_act(self, number: int, kind: str, gist: list[Any]) -> None:
        """The kinds that are the steward's."""
        if kind == "fact":
            table, fact, version = gist
            self.facts[version].add((table, fact))
        elif kind == "caps":
            who, epsilon, delta = gist
            self.caps[who] = Caps(Fraction(epsilon), Fraction(delta))
        elif kind == "restore":
            self.total.add(*gist)
        elif kind == "version":
            (self.label,) = gist
        elif kind == "account" and number == 1:
            self.dataset, self.salt = gist[0], bytes.fromhex(gist[1])
        elif kind not in ("clock", "migrate"):
            raise LedgerError(f"entry {number} is of a kind that this dpsql does not know")

    def _release(
        self, number: int, body: str, entry: int, fingerprint: str, digest: str, family: str = "", *charge: int | None
    ) -> None:
        kept = Kept(number, entry, fingerprint, digest, list(charge) or None, body)
        self.releases.add((entry, fingerprint))
        self.numbered[number] = kept
        self.kept[fingerprint].append(kept)
        if family:
            self.families[family].append(kept)

    def _replay(self, analyst: str, entry: int, release: int | None = None) -> None:
        charge = self.charge(entry, release)
        self.replays.add((analyst, entry, release))
        self.by_analyst[analyst].add(charge.rho, charge.delta, charge.epsilon)


def exactly(caps: Caps) -> Caps:
    """The same caps in exact numbers, so that they can be compared."""
    return Caps(exact(caps.epsilon), exact(caps.delta))


def write_charge(charge: Charge | Spent) -> list[int | None]:
    """The integers of a charge, for a gist."""
    return [charge.rho, charge.delta, charge.epsilon]


def write_caps(who: str | None, caps: Caps) -> list[str | None]:
    """Whose caps, and the exact numbers as text, for a gist."""
    return [who, str(exact(caps.epsilon)), str(exact(caps.delta))]
