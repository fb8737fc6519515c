"""The state of an account in memory: the totals and tables that its verified entries add up to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import Any, NamedTuple

from dpsql.budget.accountant import Caps, Spent
from dpsql.budget.calendar_windows import stricter_window, window_start
from dpsql.budget.costs import Charge
from dpsql.budget.ledger.entries import ROOT, Entry, entry_hash
from dpsql.budget.ledger.rollback_guard import ChainEnd
from dpsql.budget.ledger.sqlite_file import damaged
from dpsql.errors import LedgerError
from dpsql.mechanisms.exact_numbers import exact

Whose = tuple[str | None, str | None]
"""An account: an analyst's (ana, None), that of one of their purposes (ana, research), or everyone's (None, None)."""

EVERYONE: Whose = (None, None)

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_AT = len('{"at":"')
_DAY = _AT + len("2026-12-31")


@dataclass(slots=True)
class RunningSums:
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


class DailySums(dict[str, RunningSums]):
    """What an account spent on each day (UTC)."""

    def __missing__(self, day: str) -> RunningSums:
        date.fromisoformat(day)
        return self.setdefault(day, RunningSums())


class KeptRelease(NamedTuple):
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
        """The time of the release, and the recipe to make it again."""
        body: dict[str, Any] = _scan(self.body, 0)[0]
        return body


class Gap(NamedTuple):
    """What a restore charged for entries that nobody has: to the dataset, and to every analyst, as nobody knows whose.

    `mark` is the hash at which the lost chain ended; it is empty where the steward stated the loss.
    """

    day: str
    mark: str
    spent: Spent
    shown: Spent


@dataclass(slots=True)
class AccountState:
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
    total: RunningSums = field(default_factory=RunningSums)
    shown: RunningSums = field(default_factory=RunningSums)
    gaps: dict[str | int, Gap] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    days: defaultdict[Whose, DailySums] = field(default_factory=lambda: defaultdict(DailySums))
    caps: dict[Whose, Caps] = field(default_factory=dict)
    charges: dict[int, tuple[str, str]] = field(default_factory=dict)
    replays: set[tuple[Whose, int, int | None]] = field(default_factory=set)
    kept: defaultdict[str, list[KeptRelease]] = field(default_factory=lambda: defaultdict(list))
    families: defaultdict[str, list[KeptRelease]] = field(default_factory=lambda: defaultdict(list))
    releases: set[tuple[int, str]] = field(default_factory=set)
    counted: defaultdict[int, list[Charge]] = field(default_factory=lambda: defaultdict(list))
    numbered: dict[int, KeptRelease] = field(default_factory=dict)
    facts: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))

    def extend(self, entries: Iterable[Entry]) -> None:
        """Verify the entries and take them in; one that is not the next, untouched, stops it."""
        before, head, last, expected, read = self.previous, self.head, self.last, self.number + 1, self._read
        try:
            for number, kind, gist, body, digest in entries:
                if number != expected or digest != entry_hash(head, number, kind, gist, body):
                    raise LedgerError(f"entry {expected} is missing or was changed")
                read(number, kind, _scan(gist, 0)[0], gist, body)
                before, head, last, expected = head, digest, body, number + 1
        finally:
            self.number, self.previous, self.head, self.last = expected - 1, before, head, last

    @property
    def at(self) -> datetime | None:
        """When the last entry was written."""
        return datetime.fromisoformat(json.loads(self.last)["at"]) if self.last else None

    def spent(self, whose: Whose, since: date | None = None) -> Spent:
        """The sums of an account, or what it spent since a day.

        Each entry has the day that is written in it. One from a clock that was ahead is of a day to come: until that
        day is over it counts in every window.
        """
        gaps = self.open_gaps()
        if whose == EVERYONE:
            return self._with(self.total, (gap.spent for gap in gaps))
        first, sums = "" if since is None else since.isoformat(), RunningSums()
        for day, spent in self.days.get(whose, {}).items():
            if day >= first:
                sums.add(spent.rho, spent.delta, spent.epsilon)
        return self._with(sums, (gap.shown for gap in gaps if gap.day >= first))

    def open_gaps(self) -> list[Gap]:
        """What was charged for lost entries that are lost still."""
        return [gap for gap in self.gaps.values() if gap.mark not in self.found]

    def mark(self) -> ChainEnd:
        """Where the entries end, and all that was ever charged by them: what was found again counts here twice."""
        every = self.gaps.values()
        spent, shown = (gap.spent for gap in every), (gap.shown for gap in every)
        return ChainEnd(self.number, self.head, self._with(self.total, spent), self._with(self.shown, shown))

    @staticmethod
    def _with(sums: RunningSums, more: Iterable[Spent]) -> Spent:
        whole = RunningSums(sums.rho, sums.delta, sums.epsilon)
        for each in more:
            whole.add(each.rho, each.delta, each.epsilon)
        return whole.spent()

    def spent_in(self, whose: Whose, caps: Caps, today: date) -> Spent:
        """The sums of an account in its window of that day, or for ever where it has none."""
        return self.spent(whose, None if caps.every is None else window_start(today, caps.every))

    def details(self, entry: int) -> dict[str, Any]:
        """The body of a charge entry."""
        body: dict[str, Any] = _scan(self.charges[entry][1], 0)[0]
        return body

    def payer(self, entry: int) -> Whose:
        """For whom and for which purpose a charge was made; no analyst for the steward."""
        analyst, _, _, _, *purpose = _scan(self.charges[entry][0], 0)[0]  # replays may come after the purpose
        return analyst, purpose[0] if purpose else None

    def charge(self, entry: int, release: int | None = None) -> Charge:
        """What an entry charged, or the part of it that one of its releases costs, where that is known."""
        part = None if release is None else self.numbered[release].charge
        return Charge(*(_scan(self.charges[entry][0], 0)[0][1:4] if part is None else part))

    def charged(self, entry: int, *, everyone: bool) -> list[Charge]:
        """What an entry charged to the dataset, or to its analyst: replays of others' releases are the analyst's."""
        own = [self.charge(entry)] if entry in self.charges else []
        return own if everyone else [*own, *self.counted.get(entry, [])]

    def owes(self, entry: int, whose: Whose, release: int | None = None) -> list[Whose]:
        """The analyst's account, and that of the purpose, against which a replay of this entry, or of one of its
        releases, is yet to be counted.
        """
        analyst, purpose = whose
        payer = self.payer(entry)
        paid = {(payer[0], None), payer}
        mine: list[Whose] = [(analyst, None), *([(analyst, purpose)] if purpose is not None else [])]
        done = self.replays
        return [
            each
            for each in mine
            if analyst is not None and each not in paid and not {(each, entry, None), (each, entry, release)} & done
        ]

    def may_keep(self, entry: int, fingerprint: str) -> bool:
        """Whether the entry paid for this release, which is not kept yet."""
        known = entry in self.charges and (entry, fingerprint) not in self.releases
        return known and fingerprint in self.details(entry)["fingerprints"]

    def latest(self, whose: Whose) -> int | None:
        """The last charge of an account, or of anybody."""
        analyst, purpose = whose
        for entry in reversed(self.charges):
            payer = self.payer(entry)
            if whose in (EVERYONE, payer) or (purpose is None and payer[0] == analyst):
                return entry
        return None

    def in_force(self, whose: Whose, caps: Caps | None) -> Caps | None:
        """The caps of an account: what the policy says now, but never more than what is recorded."""
        recorded = self.caps.get(whose)
        if caps is None or recorded is None:
            return recorded if caps is None else exactly(caps)
        return Caps(
            min(exact(caps.epsilon), exact(recorded.epsilon)),
            min(exact(caps.delta), exact(recorded.delta)),
            stricter_window(caps.every, recorded.every),
        )

    def _read(self, number: int, kind: str, gist: list[Any], text: str, body: str) -> None:
        """An unknown kind is refused, never skipped: it may change what is left."""
        if kind == "charge":
            analyst, rho, delta, epsilon = gist[:4]
            purpose = gist[4] if len(gist) > 4 else None
            self.charges[number] = text, body
            self.total.add(rho, delta, epsilon)
            if analyst is not None:
                self.shown.add(rho, delta, epsilon)
                self.days[analyst, None][body[_AT:_DAY]].add(rho, delta, epsilon)
            if purpose is not None:
                self.days[analyst, purpose][body[_AT:_DAY]].add(rho, delta, epsilon)
            for each in gist[5] if len(gist) > 5 else ():
                self._replay(number, body, analyst, each[0], each[1], purpose)
        elif kind == "release":
            self._release(number, body, *gist)
        elif kind == "replay":
            self._replay(number, body, *gist[:4])
            for each in gist[4] if len(gist) > 4 else ():
                self._replay(number, body, gist[0], each[0], each[1], gist[3])
        else:
            self._read_act(number, kind, gist, body)

    def _replay(
        self,
        number: int,
        body: str,
        analyst: str,
        entry: int,
        release: int | None = None,
        purpose: str | None = None,
    ) -> None:
        """It counts on the day of the replay, for whoever has not paid for the release yet."""
        charge, owing = self.charge(entry, release), self.owes(entry, (analyst, purpose), release)
        if (analyst, None) in owing:
            self.counted[number].append(charge)
        if owing:
            self.shown.add(charge.rho, charge.delta, charge.epsilon)
        for whose in owing:
            self.replays.add((whose, entry, release))
            self.days[whose][body[_AT:_DAY]].add(charge.rho, charge.delta, charge.epsilon)

    def _read_act(self, number: int, kind: str, gist: list[Any], body: str) -> None:
        """Read an entry of the steward's own acts."""
        if kind == "fact":
            table, fact, version = gist
            self.facts[version].add((table, fact))
        elif kind == "caps":
            who, epsilon, delta, *rest = gist
            purpose, every = rest or (None, None)
            self.caps[who, purpose] = Caps(Fraction(epsilon), Fraction(delta), every)
        elif kind == "restore":
            self._restore(number, body[_AT:_DAY], *gist)
        elif kind == "version":
            (self.label,) = gist
        elif kind == "account" and number == 1:
            self.dataset, self.salt = gist[0], bytes.fromhex(gist[1])
        elif kind not in ("clock", "migrate"):
            raise LedgerError(f"entry {number} is of a kind that this dpsql does not know")

    def _restore(self, number: int, day: str, *gist: Any) -> None:
        """The charges for what is lost, each lost chain once, and the lost chains that are there again.

        An older dpsql wrote three sums, for the dataset alone.
        """
        if len(gist) == 3:
            self.total.add(*gist)
            return
        gaps, found = gist
        for mark, spent, shown in gaps:
            self.gaps.setdefault(mark or number, Gap(day, mark, Spent(*spent), Spent(*shown)))
        self.found.update(found)

    def _release(
        self, number: int, body: str, entry: int, fingerprint: str, digest: str, family: str = "", *charge: int | None
    ) -> None:
        kept = KeptRelease(number, entry, fingerprint, digest, list(charge) or None, body)
        self.releases.add((entry, fingerprint))
        self.numbered[number] = kept
        self.kept[fingerprint].append(kept)
        if family:
            self.families[family].append(kept)


def exactly(caps: Caps) -> Caps:
    """The same caps in exact numbers, so that they can be compared."""
    return Caps(exact(caps.epsilon), exact(caps.delta), caps.every)


def write_sums(sums: Charge | Spent) -> list[int | None]:
    """The integers of a charge, for a gist."""
    return [sums.rho, sums.delta, sums.epsilon]


def write_charge(whose: Whose, charge: Charge, replays: Sequence[tuple[int, int]] = ()) -> list[Any]:
    """Who pays and how much, for a gist; then the purpose and the replays that are counted with it, where there are."""
    analyst, purpose = whose
    more = [purpose, [*map(list, replays)]] if replays else [purpose] if purpose is not None else []
    return [analyst, *write_sums(charge), *more]


def write_replays(whose: Whose, replays: Sequence[tuple[int, int | None]]) -> list[Any]:
    """Which releases were shown to whom, for a gist: the first, the purpose, and all the others."""
    analyst, purpose = whose
    gist: list[Any] = [analyst, *replays[0], purpose, [*map(list, replays[1:])] or None]
    while gist[-1] is None:
        gist.pop()
    return gist


def write_caps(whose: Whose, caps: Caps) -> list[str | None]:
    """Whose caps, and the exact numbers as text, for a gist; purpose and window come last, where there is one."""
    who, purpose = whose
    more = [] if purpose is None and caps.every is None else [purpose, caps.every]
    return [who, str(exact(caps.epsilon)), str(exact(caps.delta)), *more]


# a complete ledger, given as its entries


def read_ledger(name: str, rows: list[Entry]) -> AccountState:
    """The account that the entries add up to; refused unless they are one unbroken chain."""
    book = AccountState()
    try:
        book.extend(rows)
    except (LedgerError, LookupError, TypeError, ValueError) as error:
        raise damaged(name) from error
    if not book.number:
        raise damaged(name)
    return book


def end_of_chain(name: str, rows: list[Entry]) -> ChainEnd:
    """The mark of a whole ledger with these entries, and the trail that leads to it."""
    read_ledger(name, rows)
    book, mark = AccountState(), ChainEnd()
    for row in rows:
        book.extend([row])
        mark = book.mark().after(mark)
    return mark
