"""The account in memory: what the verified entries add up to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dpsql.budget.accountant import Spent
from dpsql.budget.chain import ROOT, Row, link
from dpsql.budget.event import Charge
from dpsql.errors import LedgerError

_decode = json.JSONDecoder().raw_decode


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
        self.epsilon = None if epsilon is None or self.epsilon is None else self.epsilon + epsilon

    def spent(self) -> Spent:
        """The sums as they are now."""
        return Spent(self.rho, self.delta, self.epsilon)


@dataclass(frozen=True, slots=True)
class Kept:
    """A release entry: the charge that paid for it, and the digest of the payload, which has its number."""

    number: int
    entry: int
    digest: str


@dataclass(slots=True)
class Book:
    """A fold over the entries, in order. It holds nothing but what they say, so it can be made again.

    Charges stay as they were read until one is asked for: opening a ledger of thousands must be quick.
    """

    number: int = 0
    head: bytes = ROOT
    dataset: str = ""
    salt: bytes = b""
    total: Sums = field(default_factory=Sums)
    by_analyst: defaultdict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    charges: dict[int, str] = field(default_factory=dict)
    replays: set[tuple[str, int]] = field(default_factory=set)
    kept: dict[str, Kept] = field(default_factory=dict)
    releases: set[tuple[int, str]] = field(default_factory=set)
    facts: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))

    def extend(self, entries: Iterable[Row]) -> None:
        """Verify the entries and take them in; one that is not the next, untouched, stops it."""
        for number, body, digest in entries:
            if number != self.number + 1 or digest != link(self.head, number, body):
                raise LedgerError(f"entry {self.number + 1} is missing or was changed")
            self._read(number, body)
            self.number, self.head = number, digest

    def spent(self, analyst: str | None) -> Spent:
        """The sums of an analyst's account, or (None) of the whole dataset's."""
        sums = self.total if analyst is None else self.by_analyst.get(analyst, Sums())
        return sums.spent()

    def paid(self, entry: int) -> dict[str, Any]:
        """The body of a charge entry."""
        body: dict[str, Any] = _decode(self.charges[entry])[0]
        return body

    def charge(self, entry: int) -> Charge:
        """What an entry charged."""
        return Charge(*_read_charge(self.paid(entry)))

    def owes(self, entry: int, analyst: str | None) -> bool:
        """Whether a replay of this entry is yet to be counted against the analyst's own cap."""
        own = analyst is None or analyst == self.paid(entry)["analyst"]
        return not own and (analyst, entry) not in self.replays

    def may_keep(self, entry: int, fingerprint: str) -> bool:
        """Whether the entry paid for this release, which is not kept yet."""
        known = entry in self.charges and (entry, fingerprint) not in self.releases
        return known and fingerprint in self.paid(entry)["fingerprints"]

    def _read(self, number: int, text: str) -> None:
        """An unknown kind is refused, never skipped: it may change what is left."""
        body = _decode(text)[0]
        kind = body["kind"]
        if kind == "charge":
            self.charges[number] = text
            self._charge(body)
        elif kind == "release":
            self._release(number, body)
        elif kind == "replay":
            self.replays.add((body["analyst"], body["entry"]))
            self.by_analyst[body["analyst"]].add(*_read_charge(self.paid(body["entry"])))
        elif kind == "fact":
            self.facts[body["data_version"]].add((body["table"], body["fact"]))
        elif kind == "account" and number == 1:
            self.dataset, self.salt = body["dataset"], bytes.fromhex(body["salt"])
        else:
            raise LedgerError(f"entry {number} is of a kind that this dpsql does not know")

    def _charge(self, body: dict[str, Any]) -> None:
        charge, analyst = _read_charge(body), body["analyst"]
        self.total.add(*charge)
        if analyst is not None:
            self.by_analyst[analyst].add(*charge)

    def _release(self, number: int, body: dict[str, Any]) -> None:
        """The first release of a fingerprint is the one that is replayed."""
        entry, fingerprint = body["entry"], body["fingerprint"]
        self.releases.add((entry, fingerprint))
        self.kept.setdefault(fingerprint, Kept(number, entry, body["digest"]))


def write_charge(charge: Charge) -> list[str | None]:
    """As decimal text: the integers do not fit into 64 bits."""
    return [str(charge.rho), str(charge.delta), None if charge.epsilon is None else str(charge.epsilon)]


def _read_charge(body: dict[str, Any]) -> tuple[int, int, int | None]:
    rho, delta, epsilon = body["charge"]
    return int(rho), int(delta), None if epsilon is None else int(epsilon)
