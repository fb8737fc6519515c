"""Random histories of a ledger: spending, backups, losses, damage, forks and restores, and what must hold after each.

    python tests/unit/budget/ledger_histories.py 10000

runs as many and prints how many restores were checked. The places lie in memory, so that thousands take minutes; the
ledger, the head's marks, the merge and the restore are the product's own.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpsql.budget import Caps, Charge, Cost, Request
from dpsql.budget.accountant import Spent
from dpsql.budget.ledger import ChainedLedger
from dpsql.budget.ledger.account_state import AccountState
from dpsql.budget.ledger.backend import LedgerLocation, LedgerStorage, Payloads, WholeLedger
from dpsql.budget.ledger.entries import Entry
from dpsql.budget.ledger.interface import ReleaseDetails
from dpsql.budget.ledger.locations import first_entry
from dpsql.budget.ledger.maintenance import LedgerCopy, merge_into
from dpsql.budget.ledger.rollback_guard import ChainEnd
from dpsql.errors import LedgerError

UNIT = 10**40
CAPS = Caps(10**9, Fraction(1, 2))
PURE = Caps(10**9, 0)
ANALYSTS = ("ana", "bob", "cat")
STEWARD = "the steward"


class ListStorage(LedgerStorage):
    """The entries of a place, as the ledger reads and writes them."""

    def __init__(self, place: ListPlace) -> None:
        self.name, self._place = place.name, place

    def check_pages(self) -> None: ...

    def accept(self) -> None: ...

    def marked(self) -> ChainEnd:
        return self._place.head or ChainEnd()

    def settle(self, mark: ChainEnd, previous: bytes) -> None:
        self._place.head = mark.after(self._place.head or ChainEnd())

    def reading(self) -> nullcontext[None]:
        return nullcontext()

    def alone(self) -> nullcontext[None]:
        return nullcontext()

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield

    def entries(self, start: int) -> Iterator[Entry]:
        return iter(self._place.rows[max(0, start - 1) :])

    def ends_at(self, number: int) -> bool:
        return True

    def hash_of(self, number: int) -> bytes | None:
        return self._place.rows[number - 1][4]

    def payload_of(self, number: int) -> bytes | None:
        return self._place.payloads.get(number)

    def payloads(self) -> Payloads:
        return sorted(self._place.payloads.items())

    def append(self, entry: Entry, payload: bytes | None = None) -> None:
        self._place.rows.append(entry)
        if payload is not None:
            self._place.payloads[entry[0]] = payload

    def damaged(self, what: str = "damaged") -> LedgerError:
        return LedgerError(what)

    def close(self) -> None: ...


@dataclass
class ListPlace(LedgerLocation):
    """A file and its head, each of which can be lost; and which charges they know of, by the test's own count."""

    name: str
    rows: list[Entry] = field(default_factory=list)
    payloads: dict[int, bytes] = field(default_factory=dict)
    head: ChainEnd | None = None
    file_knows: frozenset[int] = frozenset()
    head_knows: frozenset[int] = frozenset()

    def create(self, first: Entry) -> None:
        raise NotImplementedError

    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        if not self.rows:
            raise LedgerError("missing")
        return ListStorage(self)

    def mark(self) -> ChainEnd | None:
        return self.head

    def replace(self, dataset: str, made: Callable[[], WholeLedger]) -> str | None:
        rows, payloads = made()
        self.rows, self.payloads = list(rows), dict(payloads)
        return None

    def copied(self, name: str) -> ListPlace:
        return replace(self, name=name, rows=list(self.rows), payloads=dict(self.payloads))


@dataclass(frozen=True)
class Event:
    """What was released: to whom, and at what loss."""

    who: str
    charge: Charge


class History:
    """One dataset, its places (the first is the true one), and backups on a shelf."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pure_only = self.chance.random() < 0.3
        first = ListPlace("0", [first_entry("shop")])
        self.places, self.shelf, self.events = [first], list[ListPlace](), list[Event]()
        self.checked: Counter[str] = Counter()
        self._settle(first)

    def _settle(self, place: ListPlace) -> None:
        with ChainedLedger(ListStorage(place), "shop") as ledger:
            ledger._settle()

    def run(self, steps: int) -> Counter[str]:
        acts = [self.spend, self.spend, self.spend, self.replay, self.backup, self.lose_file, self.lose_head,
                self.old_head, self.rot, self.roll_back, self.fork, self.restore, self.restore, self.restore]  # fmt: skip
        for _ in range(steps):
            self.chance.choice(acts)()
        self.restore_everything()
        return self.checked

    def _open(self, place: ListPlace) -> ChainedLedger | None:
        """None where it is refused: then nothing can be spent."""
        if not place.rows or place.head is None:
            return None
        try:
            return ChainedLedger(ListStorage(place), "shop")
        except LedgerError:
            return None

    def _charge(self) -> Charge:
        amount = self.chance.choice([1, 1, 2, 5]) * UNIT
        if self.pure_only or self.chance.random() < 0.5:
            return Charge(amount, 0, amount)
        return Charge(amount, self.chance.choice([0, UNIT // 1000]))

    def spend(self) -> None:
        place, charge = self.chance.choice(self.places), self._charge()
        who = self.chance.choice([*ANALYSTS, STEWARD])
        ledger = self._open(place)
        if ledger is None:
            return
        mark = self.chance.choice([b"p", b"q", b"r"])
        caps, analyst = PURE if self.pure_only else CAPS, None if who == STEWARD else who
        request = Request(analyst, charge, Cost(1.0, 0.0, 0.0), caps, None, "q", (mark,))
        entry = ledger.reserve(request).entry
        if self.chance.random() < 0.7:
            ledger.store(entry, mark, b"%d" % len(self.events), ReleaseDetails(b"", {}, charge))
        self._know(place, len(self.events))
        self.events.append(Event(who, charge))

    def replay(self) -> None:
        """A release of another's, shown once more."""
        place, who = self.chance.choice(self.places), self.chance.choice(ANALYSTS)
        ledger = self._open(place)
        try:
            found = None if ledger is None else ledger.find(self.chance.choice([b"p", b"q", b"r"]))
        except LedgerError:
            return
        if ledger is None or found is None:
            return
        if ledger.replayed(found.entry, who, None, found.number):
            original = int(found.payload)
            self._know(place, len(self.events))
            self.events.append(Event(f"{who}<{original}", self.events[original].charge))

    def _know(self, place: ListPlace, event: int) -> None:
        place.file_knows |= {event}
        place.head_knows = place.file_knows

    def backup(self) -> None:
        place = self.chance.choice(self.places)
        if place.rows:
            copy = place.copied("copy")
            self.shelf.append(copy if self.chance.random() < 0.3 else replace(copy, head=None, head_knows=frozenset()))

    def lose_file(self) -> None:
        place = self.chance.choice(self.places)
        place.rows, place.payloads, place.file_knows = [], {}, frozenset()

    def lose_head(self) -> None:
        place = self.chance.choice(self.places)
        place.head, place.head_knows = None, frozenset()

    def old_head(self) -> None:
        """A head as an older dpsql wrote it: only what the dataset was charged."""
        place = self.chance.choice(self.places)
        if place.head is not None:
            place.head = replace(place.head, shown=None, trail=())

    def rot(self) -> None:
        """A noisy table that is not what it was, and one that belongs to no entry."""
        place = self.chance.choice([*self.places, *self.shelf])
        if place.payloads:
            place.payloads[self.chance.choice(list(place.payloads))] = b"rot"
        place.payloads[len(place.rows) + self.chance.randrange(1, 4)] = b"rot"

    def roll_back(self) -> None:
        """An old copy in the place of the file; sometimes its old head too, which nobody can notice."""
        if not self.shelf:
            return
        place, old = self.chance.choice(self.places), self.chance.choice(self.shelf)
        place.rows, place.payloads, place.file_knows = list(old.rows), dict(old.payloads), old.file_knows
        if old.head is not None:
            place.head, place.head_knows = old.head, old.head_knows

    def fork(self) -> None:
        if len(self.places) < 4:
            self.places.append(self.chance.choice(self.places).copied(str(len(self.places))))

    def restore(self) -> None:
        sources = [each for each in (*self.shelf, *self.places) if each.rows]
        if sources:
            self._restore(self.chance.choice(self.places), self.chance.choice(sources))

    def restore_everything(self) -> None:
        """Whatever survives is brought to one place, twice: then all that any of it knows is booked."""
        place = self.places[0]
        for _ in range(2):
            for source in [each for each in (*self.shelf, *self.places) if each.rows]:
                self._restore(place, source)
        survivors = frozenset[int]().union(
            *(each.file_knows for each in (*self.shelf, *self.places) if each.rows),
        )
        if place.rows:
            assert place.file_knows >= survivors
            self.check(place, survivors)

    def _restore(self, place: ListPlace, source: ListPlace) -> None:
        copy = LedgerCopy("copy", (list(source.rows), sorted(source.payloads.items())), source.head)
        told = place.head is not None
        knows = place.file_knows | place.head_knows | source.file_knows | source.head_knows
        try:
            merge_into(place, copy, "ste")
        except LedgerError:
            assert not told
            merge_into(place, copy, "ste", lost=Fraction(0))
            self.checked["accepted"] += 1
        place.head = None
        book = AccountState()
        for row in place.rows:
            book.extend([row])
            place.head = book.mark().after(place.head or ChainEnd())
        place.file_knows = place.head_knows = knows
        with ChainedLedger(ListStorage(place), "shop") as ledger:
            assert ledger.kept() == sorted(place.payloads.items())
        assert set(place.payloads) == {row[0] for row in place.rows if row[1] == "release"}
        self.check(place, knows)

    def check(self, place: ListPlace, knows: frozenset[int]) -> None:
        """Booked is at least what is known, for the dataset and each analyst; and no more, where no gap stands in."""
        book = AccountState()
        book.extend(place.rows)
        exact = not book.open_gaps()
        charged = [e.charge for number, e in enumerate(self.events) if number in knows and "<" not in e.who]
        self._compare(book.spent((None, None)), charged, exact)
        for who in ANALYSTS:
            own = [e.charge for number, e in enumerate(self.events) if number in knows and e.who == who]
            replayed = {e.who: e.charge for number, e in enumerate(self.events)
                        if number in knows and e.who.startswith(f"{who}<")}  # fmt: skip
            self._compare(book.spent((who, None)), [*own, *replayed.values()], exact)
        self.checked["exact" if exact else "gap"] += 1

    def _compare(self, booked: Spent, charges: list[Charge], exact: bool) -> None:
        pure = [charge.epsilon for charge in charges]
        epsilon = None if None in pure else sum(each or 0 for each in pure)
        wanted = Spent(sum(c.rho for c in charges), sum(c.delta for c in charges), epsilon)
        if exact:
            assert booked == wanted, (booked, wanted)
        assert booked.rho >= wanted.rho and booked.delta >= wanted.delta, (booked, wanted)
        assert booked.epsilon is None or (epsilon is not None and booked.epsilon >= epsilon), (booked, wanted)


def run(count: int, start: int = 0) -> Counter[str]:
    """So many histories, and what was checked in them."""
    total: Counter[str] = Counter()
    for seed in range(start, start + count):
        try:
            total += History(seed).run(8 + seed % 17)
        except AssertionError as failure:
            raise AssertionError(f"history {seed}: {failure}") from failure
        total["histories"] += 1
    return total


if __name__ == "__main__":
    print(dict(run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))
