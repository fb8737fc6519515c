"""The steward's acts on a whole ledger: verify it, back it up, restore it."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dpsql.budget import store
from dpsql.budget.book import Book
from dpsql.budget.chain import Row, following
from dpsql.budget.clock import now
from dpsql.budget.durable import link_new
from dpsql.budget.handle import hold
from dpsql.budget.head import Head, Mark
from dpsql.budget.ledger import ChainedLedger, named, open_ledger
from dpsql.budget.merge import found, identity, merge, missing, stated_gap
from dpsql.budget.places import place_of
from dpsql.budget.storage import Place, Whole
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
    """What a restore did: the ledger's new end, the entries that are gone, and the name that the refused one got.

    `lost` is at most how many entries a head knows of and no file has, `added` how many one of the two files lacked.
    """

    mark: Mark
    lost: int | None
    aside: str | None
    added: int = 0


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


def restore(
    path: str | Path, source: str | Path, by: str, *, accept_loss: bool = False, lost: Fraction | None = None
) -> Restored:
    """Merge a copy into the account at a place, as an entry that says who did; see `merge_into`."""
    named(by)
    if accept_loss and lost is not None:
        raise LedgerError(
            "--lost and --accept-loss contradict each other",
            hint="choose one: --lost charges a share, the other nothing",
        )
    return merge_into(place_of(path), load_copy(source), by, lost=Fraction(0) if accept_loss and lost is None else lost)


@dataclass(frozen=True, slots=True)
class Copy:
    """A backup, or any whole ledger that was found, with what the head beside it says, if there is one."""

    name: str
    whole: Whole
    mark: Mark | None = None


def load_copy(source: str | Path) -> Copy:
    """The entries and releases of a copy; it may have a head, and need not."""
    name = str(Path(source).expanduser().resolve())
    if not Path(name).is_file():
        raise LedgerError(f"there is no backup at {name}", hint="name the file that `dpsql ledger backup` wrote")
    with explained(name), ExitStack() as ended:
        held = hold(name)  # a descriptor of our own would unlock a session of this process when it is closed
        ended.callback(held.release)
        store.check_header(name, held.read(100))
        with closing(store.connect(name)) as db:
            store.check(db, name)
            store.check_pages(db, name)
            whole = list(store.entries(db, 1)), list(store.payloads(db))
    with suppress(LedgerError, OSError):
        return Copy(name, whole, Head(name).read())
    return Copy(name, whole)


def merge_into(place: Place, copy: Copy, by: str, *, lost: Fraction | None = None) -> Restored:
    """Unite the ledger at a place with a copy; what was there is put aside, never deleted.

    Every entry of both counts from now on, once, also where they went separate ways; so does what the heads beside them
    know of and neither has (see `dpsql.budget.merge`). Where nothing tells how far the account went, the steward states
    what may be `lost`, as a share of the dataset's cap; 0 accepts that it is not counted. A ledger that was begun anew
    after a loss has no entry of the copy, and its head tells nothing of the account that was lost.
    """
    dataset, result = read_whole(copy.name, copy.whole[0]).dataset, list[Restored]()

    def united() -> Whole:
        here = _readable(place, dataset)
        heads = _heads(place, dataset)
        told = heads is not None and _related(here[0], copy.whole[0])
        if not told and lost is None:
            raise _unknown(anew=heads is not None)
        at = max(now(), *(_last(rows) for rows in (here[0], copy.whole[0]))).isoformat()
        rows, payloads = merge(here, copy.whole, by, at)
        marks = [*(heads or ()), *([] if copy.mark is None else [copy.mark])]
        gaps = [gap for mark in marks if (gap := missing(mark, rows)) is not None]
        stated = [stated_gap(rows, lost)] if lost else []
        gist = [[gap.gist() for gap in (*gaps, *stated)], found(rows)]
        body = {
            "at": at,
            "id": os.urandom(8).hex(),
            "by": by,
            "source": Path(copy.name).name,
            "told": _told(by, lost),
        }
        rows = [*rows, following(rows[-1][4], rows[-1][0], "restore", gist, body)]
        unknown = None if not told else max((gap.entries for gap in gaps), default=0)
        result[:] = [Restored(end_of(copy.name, rows), unknown, None, len(rows) - 1 - len(here[0] or copy.whole[0]))]
        return rows, payloads

    aside = place.replace(dataset, united)
    return replace(result[0], aside=aside)


def _readable(place: Place, dataset: str) -> Whole:
    """What can be read of the ledger that is there: entries up to the first broken one, releases as they are."""
    rows, book = list[Row](), Book()
    try:
        storage = place.open(dataset, None)
    except LedgerError:
        return [], []
    with closing(storage):
        with suppress(LedgerError, LookupError, TypeError, ValueError), storage.reading():
            for row in storage.entries(1):
                book.extend([row])
                rows.append(row)
        if rows and book.dataset != dataset:
            raise LedgerError(
                f"the ledger {place.name} is the account of '{book.dataset}', the copy is that of '{dataset}'",
                hint="name the ledger that the copy is of",
            )
        with suppress(LedgerError), storage.reading():
            return rows, storage.payloads()
    return rows, []


def _heads(place: Place, dataset: str) -> list[Mark] | None:
    """What the second place says, if anything; None where neither it nor a whole ledger tells where it ends."""
    with suppress(LedgerError, OSError):
        if (mark := place.mark()) is not None:
            return [mark]
    with suppress(LedgerError), ChainedLedger(place.open(dataset, None), dataset):
        return []
    return None


def _related(here: list[Row], copy: list[Row]) -> bool:
    """Is the ledger that is there a branch of the copy's account, as far as it can be read? Then its head tells."""
    return not here or not {identity(row) for row in here}.isdisjoint(map(identity, copy))


def _unknown(anew: bool) -> LedgerError:
    here = "the ledger and the copy have no entry in common: it was begun anew, and does not tell what was spent before"
    return LedgerError(
        here if anew else "neither the ledger nor its head tells what was spent, so a restore may forget some of it",
        hint="find the .head file or a newer copy. Otherwise state by name how much of the budget may have been spent"
        " since the copy: `--lost 20%` (100% is the worst case and closes the account), or `--accept-loss` to count"
        " nothing for it; what is found later is added by another restore",
    )


def _told(by: str, lost: Fraction | None) -> str:
    if lost:
        return f"{by} stated that {float(lost * 100):g}% of the budget may have been spent and is lost"
    if lost is not None:
        return f"{by} accepted the loss of what no file tells"
    return "nothing that was spent is forgotten"


def _last(rows: list[Row]) -> datetime:
    """When the last entry was written."""
    book = Book(last=rows[-1][3]) if rows else Book()
    return book.at or datetime.min.replace(tzinfo=UTC)
