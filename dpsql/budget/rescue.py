"""The steward's acts on the whole file: verify it, back it up, restore it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dpsql.budget import store
from dpsql.budget.accountant import Spent
from dpsql.budget.book import EVERYONE, Book, write_sums
from dpsql.budget.chain import Row, following
from dpsql.budget.clock import now
from dpsql.budget.durable import link_new, refuse_network, sync_file
from dpsql.budget.head import Head, Mark
from dpsql.budget.ledger import named, open_ledger
from dpsql.budget.store import damaged, explained
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
    """What a restore did: the ledger's new end, the entries that are gone, and where the refused file was put."""

    mark: Mark
    lost: int | None
    aside: Path | None


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
    """Continue an account from a copy, as an entry of its own; the file that is there is put aside, never deleted.

    What the dataset had spent by the head, or by the ledger where that is whole, stays spent: what the copy does not
    know of it is charged in the new entry. Only `accept_loss` gives that up, and the entry then says who did.
    Analysts' own sums are those of the copy. The head is written last, so a restore that is cut short leaves a ledger
    that is refused, and can be run again.
    """
    named(by)
    place, copy = (str(Path(each).expanduser().resolve()) for each in (path, source))
    with explained(place):
        refuse_network(place)
        rows, payloads = _load(copy)
        head = Head(place)
        known = _known(place, head)
        if head.exists():
            with head.locked(store.PATIENCE):
                known = _known(place, head)
                entry = _entry(_read(copy, rows), known, copy, by, accept_loss=accept_loss)
                done = put_in_place(place, head, [*rows, entry], payloads)
        else:
            entry = _entry(_read(copy, rows), known, copy, by, accept_loss=accept_loss)
            head.create(end_of(copy, [*rows, entry]))
            with head.locked(store.PATIENCE):
                done = put_in_place(place, head, [*rows, entry], payloads)
    return replace(done, lost=None if known is None else _lost(rows, known))


def put_in_place(place: str, head: Head, rows: list[Row], payloads: list[tuple[int, bytes]]) -> Restored:
    """Exchange the file at the place for a new one, then the head, whose lock is held."""
    mark = end_of(place, rows)
    aside = _exchange(Path(place), store.draft(Path(place), rows, payloads))
    head.rewrite(mark)
    return Restored(mark, 0, aside)


def end_of(place: str, rows: list[Row]) -> Mark:
    """The mark of a whole ledger with these entries."""
    book = _read(place, rows)
    return Mark(book.number, book.head, book.spent(EVERYONE))


def _load(copy: str) -> tuple[list[Row], list[tuple[int, bytes]]]:
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


def _read(copy: str, rows: list[Row]) -> Book:
    book = Book()
    try:
        book.extend(rows)
    except (LedgerError, LookupError, TypeError, ValueError) as error:
        raise damaged(copy) from error
    if not book.number:
        raise damaged(copy)
    return book


def _known(place: str, head: Head) -> Mark | None:
    """The furthest end of the account that anything here still tells: the ledger's, if it is whole, or the head's."""
    with suppress(LedgerError), open_ledger(place, None, create=False) as ledger:
        return ledger.mark()
    with suppress(LedgerError, OSError):
        return head.read() if head.exists() else None
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


def _exchange(place: Path, draft: Path) -> Path | None:
    """Put the draft in the place of what is there, in one step; that keeps its content under another name."""
    aside = place.with_name(f"{place.name}.refused-{now():%Y%m%dT%H%M%S%f}")
    there = os.path.lexists(place)
    if there:
        os.link(place, aside)
    for suffix in ("-wal", "-journal", "-shm"):
        old = place.with_name(place.name + suffix)
        if os.path.lexists(old):
            old.rename(aside.with_name(aside.name + suffix))
    draft.replace(place)
    sync_file(place.parent)
    return aside if there else None
