"""The steward's acts on a whole ledger: verify it, back it up, restore it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dpsql.budget import store
from dpsql.budget.accountant import Spent
from dpsql.budget.book import EVERYONE, Book, write_sums
from dpsql.budget.chain import Row, following
from dpsql.budget.clock import now
from dpsql.budget.durable import link_new
from dpsql.budget.head import Mark
from dpsql.budget.ledger import named, open_ledger
from dpsql.budget.places import place_of
from dpsql.budget.storage import Payloads, Place
from dpsql.budget.store import explained
from dpsql.budget.whole import end_of, read_whole
from dpsql.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found to be whole."""

    dataset: str
    mark: Mark
    charges: int
    releases: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: the ledger's new end, the entries that are gone, and the name that the refused one got."""

    mark: Mark
    lost: int | None
    aside: str | None


def verify(path: str | Path) -> Verified:
    """Check every page, every link of the chain, every kept release and the head; LedgerError if one is off."""
    with open_ledger(path, None, create=False) as ledger:
        ledger.check_pages()
        ledger.kept()
        lines = list(ledger.log())
        count = {kind: sum(line.kind == kind for line in lines) for kind in ("charge", "release")}
        ends = lines[0].at, lines[-1].at
        return Verified(ledger.dataset, ledger.mark(), count["charge"], count["release"], *ends)


def backup(path: str | Path, target: str | Path) -> Mark:
    """A whole copy in one new file, also while others write. It is complete without a head: `restore` reads it."""
    place = Path(target).expanduser().resolve()
    with explained(str(place)), open_ledger(path, None, create=False) as ledger:
        rows, payloads = ledger.rows(), ledger.kept()
        if not link_new(store.draft(place, rows, payloads), place):
            raise LedgerError(f"{place} exists already", hint="give a new name: a backup never replaces a file")
        return end_of(str(place), rows)


def restore(path: str | Path, source: str | Path, by: str, *, accept_loss: bool = False) -> Restored:
    """Continue an account from a copy, as an entry of its own; the ledger that is there is put aside, never deleted.

    What the dataset had spent by the head, or by the ledger where that is whole, stays spent: what the copy does not
    know of it is charged in the new entry. Only `accept_loss` gives that up, and the entry then says who did.
    Analysts' own sums are those of the copy.
    """
    named(by)
    copy, place = str(Path(source).expanduser().resolve()), place_of(path)
    rows, payloads = _load(copy)
    book, known, made = read_whole(copy, rows), list[Mark | None](), list[Row]()

    def continued() -> list[Row]:
        known.append(_known(path, place, book.dataset))
        made[:] = [*rows, _entry(book, known[-1], copy, by, accept_loss=accept_loss)]
        return made

    aside = place.replace(book.dataset, continued, payloads)
    lost = None if known[-1] is None else _lost(rows, known[-1])
    return Restored(end_of(copy, made), lost, aside)


def _load(copy: str) -> tuple[list[Row], Payloads]:
    """The entries and releases of a copy, whose own head is not asked for."""
    if not Path(copy).is_file():
        raise LedgerError(f"there is no backup at {copy}", hint="name the file that `dpsql ledger backup` wrote")
    with explained(copy):
        with Path(copy).open("rb") as file:
            store.check_header(copy, file.read(100))
        db = store.connect(copy)
        try:
            store.check(db, copy)
            store.check_pages(db, copy)
            return list(store.entries(db, 1)), list(store.payloads(db))
        finally:
            db.close()


def _known(path: str | Path, place: Place, dataset: str) -> Mark | None:
    """The furthest end of the account that anything still tells: the ledger's, if it is whole, or its head's."""
    with suppress(LedgerError), open_ledger(path, dataset, create=False) as ledger:
        return ledger.mark()
    with suppress(LedgerError, OSError):
        return place.mark()
    return None


def _holds(rows: list[Row], known: Mark) -> bool:
    return known.number == 0 or (known.number <= len(rows) and rows[known.number - 1][4] == known.hash)


def _entry(book: Book, known: Mark | None, copy: str, by: str, *, accept_loss: bool) -> Row:
    """The entry that says so, with what it charges to make up for what the copy does not know."""
    if known is None and not accept_loss:
        raise LedgerError(
            "neither the ledger nor its head tells what was spent, so a restore may forget some of it",
            hint="find the .head file; or accept the loss by name: `--accept-loss --by NAME`",
        )
    missing = Spent(0, 0, 0) if known is None or accept_loss else _missing(book.spent(EVERYONE), known.spent)
    told = f"{by} accepted the loss of what came later" if accept_loss else "nothing that was spent is forgotten"
    body = {"at": now().isoformat(), "by": by, "source": Path(copy).name, "told": told}
    return following(book.head, book.number, "restore", [*write_sums(missing)], body)


def _missing(have: Spent, known: Spent) -> Spent:
    """What must be added so that no sum is below what is known; purity that was lost stays lost."""
    epsilon = None if known.epsilon is None else max(0, known.epsilon - (have.epsilon or 0))
    return Spent(max(0, known.rho - have.rho), max(0, known.delta - have.delta), epsilon)


def _lost(rows: list[Row], known: Mark) -> int:
    """How many entries the copy does not have; at least one where it took another way."""
    return 0 if _holds(rows, known) else max(1, known.number - len(rows))
