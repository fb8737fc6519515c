"""One ledger out of two that went separate ways: every entry of both counts, and none twice.

An entry is known by the hash that it had when it was first written; one that was taken over from another branch gets a
new number and a new hash, and names the old one as its `origin`. So a ledger is a *set* of entries, to merge is to
unite the sets, and the order in which copies turn up does not matter.

**Theorem.** Let a ledger *know* a charge if the charge is one of its entries or one of its gaps stands for it. After a
restore the dataset's sums (ρ, δ, ε) are at least those of all charges known to the ledger that was there, to the copy,
and to the heads beside both; an analyst's sums likewise, with what was replayed to them. No entry is counted twice.

**Proof.** *Entries.* The result has all entries of the first, and those of the second whose origin the first lacks,
so it has the union, each once (but releases whose table nobody has any more: these charge nothing, and a replay of one
counts as one of its whole entry); sums add them up, and a replay counts once for each account and release however often
it is written. ε is None as soon as one event is. *Heads.* A head marks an entry H, and on its trail an entry K,
the newest that the union has. With an entry the union has all that came before it in its first chain, because whole
chains are united. So if it has H, nothing is missing. Otherwise what was written after K up to H may be missing, and
that is the growth of the marks' sums from K to H: the gap. A gap is charged to the dataset and, by what all analysts
together were shown, to each of them. *Found.* A gap stops counting when H is in the union: then all that it stood
for is. It is one gap for one H, so two branches that both charged for H charge once.
**Requires** marks whose sums never fall along a chain (`Book.mark` counts gaps also after they were found), and
charges whose bytes differ on two branches (each has a random id).
**Checked by** `tests/unit/budget/test_ledger_merge.py` over random histories of spending, loss, forks and restores.

What no file and no head tells cannot be counted. A steward who accepts such a loss says so by name, and states how
much it may be (`stated_gap`), or that it is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import takewhile
from typing import Any

from dpsql.budget.accountant import Caps, Spent, limits
from dpsql.budget.ledger.account_state import EVERYONE, AccountState, Whose, write_caps, write_sums
from dpsql.budget.ledger.backend import WholeLedger
from dpsql.budget.ledger.entries import Entry, next_entry
from dpsql.budget.ledger.rollback_guard import HASH, ChainEnd
from dpsql.errors import LedgerError
from dpsql.mechanisms.exact_numbers import UNIT, units_up
from dpsql.mechanisms.zcdp_conversion import pure_rho


@dataclass(frozen=True, slots=True)
class Missing:
    """What must be charged for entries that nobody has: up to which hash (none if stated), and how many at most."""

    mark: str
    spent: Spent
    shown: Spent
    entries: int = 0

    def gist(self) -> list[Any]:
        """For a restore entry."""
        return [self.mark, write_sums(self.spent), write_sums(self.shown)]


def merge(here: WholeLedger, copy: WholeLedger, by: str, at: str) -> WholeLedger:
    """All entries and releases of both; the steward's own acts are settled as neither branch alone says.

    The caps are the lower ones where both branches changed them, and the data version is the newer one.
    """
    first, second = _ordered(here, copy) if here[0] else (copy, here)
    joined = _Union(_sound(first))
    joined.take(*first)
    added = joined.take(*second)
    mine, theirs, whole = (_book(rows) for rows in (first[0], second[0], joined.rows))
    for whose in sorted({_whose(row) for row in added if row[1] == "caps"}, key=str):
        lower = _lower(mine, theirs, whose)
        if lower is not None and whole.caps[whose] != lower:
            joined.append("caps", write_caps(whose, lower), {"at": at, "by": by})
    label = max(_label(first[0]), _label(second[0]))[1]
    if whole.label != label:
        joined.append("version", [label], {"at": at, "by": by})
    return joined.rows, sorted(joined.payloads.items())


def missing(mark: ChainEnd, rows: Iterable[Entry]) -> Missing | None:
    """The charges that a head records and no entry has; None if there are none.

    Where an old head does not say what analysts were shown, that is at most what the dataset was charged: no analyst
    pays for a release twice. The same head on a trail counts as if nobody had been shown anything yet.
    """
    known = {identity(row)[: 2 * HASH] for row in rows}
    end = _short(mark)
    if mark.number == 0 or end in known:
        return None
    since = next((each for each in reversed(mark.trail) if _short(each) in known), ChainEnd())
    shown = _growth(since.shown or Spent(), mark.shown or mark.spent)
    return Missing(end, _growth(since.spent, mark.spent), shown, mark.number - since.number)


def found(rows: Sequence[Entry]) -> list[str]:
    """The lost chains that the entries charge for, and now have."""
    known = {identity(row)[: 2 * HASH] for row in rows}
    return sorted({gap.mark for gap in _book(rows).open_gaps() if gap.mark in known})


def stated_gap(rows: Sequence[Entry], share: Fraction) -> Missing:
    """A share of the dataset's cap, as the entries record it, that the steward says may have been spent and is lost.

    All of it closes the account: with δ* > 0 the loss counts as impure, and with δ* = 0 ρ is that of any ε-DP event.
    """
    if share < 0:
        raise LedgerError("a loss cannot be negative", hint="state a share of the budget, 0% or more")
    caps = _book(rows).caps.get(EVERYONE)
    if caps is None:
        raise LedgerError(
            "the copy records no cap, so a loss cannot be stated as a share of it",
            hint="nothing had been spent when the copy was made; find a newer copy, or use --accept-loss",
        )
    limit = limits(caps)
    if limit.rho is None:
        epsilon = _part(limit.epsilon, share)
        lost = Spent(units_up(pure_rho(epsilon * UNIT)) if epsilon else 0, 0, epsilon)
    else:
        lost = Spent(_part(limit.rho, share), _part(limit.delta, share), None if share else 0)
    return Missing("", lost, lost)


def identity(row: Entry) -> str:
    """The hash that an entry had when it was first written."""
    origin = json.loads(row[3]).get("origin")
    return row[4].hex() if origin is None else str(origin)


@dataclass(slots=True)
class _Union:
    """The entries so far, with the releases that are kept: each is that of its entry, and untouched."""

    rows: list[Entry]
    payloads: dict[int, bytes] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def take(self, rows: list[Entry], payloads: Iterable[tuple[int, bytes]]) -> list[Entry]:
        """Add what is not there yet, in its own order; the entries that were added."""
        self.numbers = {identity(row): row[0] for row in self.rows}
        kept, places, before = dict(payloads), dict[int, int](), len(self.rows)
        for row in rows:
            origin = identity(row)
            if origin not in self.numbers and row[1] != "account" and (row[1] != "release" or _intact(row, kept)):
                self.numbers[origin] = self._take(row, origin, places)
            if origin in self.numbers:
                places[row[0]] = self.numbers[origin]
                if row[0] in kept and _intact(row, kept):
                    self.payloads[places[row[0]]] = kept[row[0]]
        return self.rows[before:]

    def _take(self, row: Entry, origin: str, places: dict[int, int]) -> int:
        return self.append(row[1], _renumbered(row[1], json.loads(row[2]), places), json.loads(row[3]), origin)

    def append(self, kind: str, gist: list[Any], body: dict[str, Any], origin: str | None = None) -> int:
        """One more entry; its number."""
        number, _, _, _, head = self.rows[-1]
        named = {} if origin is None else {"origin": origin}
        self.rows.append(next_entry(head, number, kind, gist, {**body, **named}))
        return number + 1


def _ordered(here: WholeLedger, copy: WholeLedger) -> tuple[WholeLedger, WholeLedger]:
    """The branch that is continued: the ledger in place, unless its releases are damaged or it is a younger account."""
    begun = (json.loads(rows[0][3])["at"] for rows in (here[0], copy[0]))
    older = here[0][0] == copy[0][0] or next(begun) <= next(begun)
    kept = dict(here[1])
    intact = all(_intact(row, kept) for row in here[0] if row[1] == "release")
    return (here, copy) if older and intact else (copy, here)


def _sound(whole: WholeLedger) -> list[Entry]:
    """The entries before the first release that is missing; the chain goes on from these unchanged."""
    rows, kept = whole[0], dict(whole[1])
    return list(takewhile(lambda row: row[1] != "release" or _intact(row, kept), rows))


def _intact(row: Entry, kept: dict[int, bytes]) -> bool:
    """Whether the release of this entry is there, and is the one that was kept."""
    return row[0] in kept and row[1] == "release" and sha256(kept[row[0]]).hexdigest() == json.loads(row[2])[2]


def _renumbered(kind: str, gist: list[Any], places: dict[int, int]) -> list[Any]:
    """The same gist, with the numbers that entries have now; a replay of a release that is gone is one of its entry."""

    def replay(entry: int, release: int | None = None) -> list[int | None]:
        return [places[entry], None if release is None else places.get(release)]

    if kind == "release":
        return [places[gist[0]], *gist[1:]]
    if kind == "charge" and len(gist) > 5:
        return [*gist[:5], [replay(*each) for each in gist[5]]]
    if kind == "replay":
        more = [[replay(*each) for each in gist[4]]] if len(gist) > 4 else []
        return [gist[0], *replay(*gist[1:3]), *gist[3:4], *more]
    return gist


def _lower(mine: AccountState, theirs: AccountState, whose: Whose) -> Caps | None:
    return mine.in_force(whose, theirs.caps[whose])


def _whose(row: Entry) -> Whose:
    who, _, _, *rest = json.loads(row[2])
    return who, rest[0] if rest else None


def _label(rows: Sequence[Entry]) -> tuple[str, str]:
    """When the data version was last named, and its name."""
    named = [(json.loads(row[3])["at"], json.loads(row[2])[0]) for row in rows if row[1] == "version"]
    return named[-1] if named else ("", "")


def _growth(since: Spent, until: Spent) -> Spent:
    """What the entries between two marks of a chain add up to; they may be impure if the later sums are."""
    epsilon = None if until.epsilon is None else until.epsilon - (since.epsilon or 0)
    return Spent(until.rho - since.rho, until.delta - since.delta, epsilon)


def _part(limit: int, share: Fraction) -> int:
    return -int(-limit * share // 1)


def _short(mark: ChainEnd) -> str:
    return mark.hash[:HASH].hex()


def _book(rows: Iterable[Entry]) -> AccountState:
    book = AccountState()
    book.extend(rows)
    return book
