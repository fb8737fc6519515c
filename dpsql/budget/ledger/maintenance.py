"""The steward's commands on a ledger: verify, back up, restore, and migrate from an older version."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.budget.ledger import ChainedLedger, backend, named, open_ledger, sqlite_file
from dpsql.budget.ledger.account_state import AccountState, end_of_chain, read_ledger
from dpsql.budget.ledger.backend import LedgerLocation, Payloads, WholeLedger
from dpsql.budget.ledger.durable_files import link_new, refuse_network
from dpsql.budget.ledger.entries import ROOT, Entry, next_entry, now
from dpsql.budget.ledger.locations import location_of
from dpsql.budget.ledger.merge_branches import found, identity, merge, missing, stated_gap
from dpsql.budget.ledger.rollback_guard import ChainEnd, RollbackGuard
from dpsql.budget.ledger.sqlite_backend import FileLocation, replace_ledger
from dpsql.budget.ledger.sqlite_file import damaged, explained, hold_file
from dpsql.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found to be whole."""

    dataset: str
    mark: ChainEnd
    charges: int
    releases: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: the ledger's new end, the entries that are gone, and the name that the refused one got.

    `lost` is the most entries that a head records and no file has; `added` is the number that one file lacked.
    """

    mark: ChainEnd
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


def backup(path: str | Path, target: str | Path) -> ChainEnd:
    """A whole copy in one new file, also while others write. It is complete without a head: `restore` reads it."""
    place = Path(target).expanduser().resolve()
    with explained(str(place)), open_ledger(path, None, create=False) as ledger:
        rows, payloads = ledger.rows(), ledger.kept()
        if not link_new(sqlite_file.draft(place, rows, payloads), place):
            raise LedgerError(f"{place} exists already", hint="give a new name: a backup never replaces a file")
        return end_of_chain(str(place), rows)


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
    return merge_into(
        location_of(path), load_copy(source), by, lost=Fraction(0) if accept_loss and lost is None else lost
    )


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """A backup, or any whole ledger that was found, with what the head beside it says, if there is one."""

    name: str
    whole: WholeLedger
    mark: ChainEnd | None = None


def load_copy(source: str | Path) -> LedgerCopy:
    """The entries and releases of a copy; it may have a head, and need not."""
    name = str(Path(source).expanduser().resolve())
    if not Path(name).is_file():
        raise LedgerError(f"there is no backup at {name}", hint="name the file that `dpsql ledger backup` wrote")
    with explained(name), ExitStack() as ended:
        held = hold_file(name)  # a descriptor of our own would unlock a session of this process when it is closed
        ended.callback(held.release)
        sqlite_file.check_header(name, held.read(100))
        with closing(sqlite_file.connect(name)) as db:
            sqlite_file.check(db, name)
            sqlite_file.check_pages(db, name)
            whole = list(sqlite_file.entries(db, 1)), list(sqlite_file.payloads(db))
    with suppress(LedgerError, OSError):
        return LedgerCopy(name, whole, RollbackGuard(name).read())
    return LedgerCopy(name, whole)


def merge_into(place: LedgerLocation, copy: LedgerCopy, by: str, *, lost: Fraction | None = None) -> Restored:
    """Unite the ledger at a place with a copy; what was there is put aside, never deleted.

    Every entry of both counts from now on, once, also where they went separate ways; so does what the heads beside them
    know of and neither has (see `dpsql.budget.ledger.merge_branches`). Where nothing tells how far the account went,
    the steward states what may be `lost`, as a share of the dataset's cap; 0 accepts that it is not counted. A ledger
    that was begun anew after a loss has no entry of the copy, and its head tells nothing of the account that was lost.
    """
    dataset, result = read_ledger(copy.name, copy.whole[0]).dataset, list[Restored]()

    def united() -> WholeLedger:
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
        rows = [*rows, next_entry(rows[-1][4], rows[-1][0], "restore", gist, body)]
        unknown = None if not told else max((gap.entries for gap in gaps), default=0)
        result[:] = [
            Restored(end_of_chain(copy.name, rows), unknown, None, len(rows) - 1 - len(here[0] or copy.whole[0]))
        ]
        return rows, payloads

    aside = place.replace(dataset, united)
    return replace(result[0], aside=aside)


def _readable(place: LedgerLocation, dataset: str) -> WholeLedger:
    """What can be read of the ledger that is there: entries up to the first broken one, releases as they are."""
    rows, book = list[Entry](), AccountState()
    try:
        backend = place.open(dataset, None)
    except LedgerError:
        return [], []
    with closing(backend):
        with suppress(LedgerError, LookupError, TypeError, ValueError), backend.reading():
            for row in backend.entries(1):
                book.extend([row])
                rows.append(row)
        if rows and book.dataset != dataset:
            raise LedgerError(
                f"the ledger {place.name} is the account of '{book.dataset}', the copy is that of '{dataset}'",
                hint="name the ledger that was copied",
            )
        with suppress(LedgerError), backend.reading():
            return rows, backend.payloads()
    return rows, []


def _heads(place: LedgerLocation, dataset: str) -> list[ChainEnd] | None:
    """What the second place says, if anything; None where neither it nor a whole ledger tells where it ends."""
    with suppress(LedgerError, OSError):
        if (mark := place.mark()) is not None:
            return [mark]
    with suppress(LedgerError), ChainedLedger(place.open(dataset, None), dataset):
        return []
    return None


def _related(here: list[Entry], copy: list[Entry]) -> bool:
    """Is the ledger that is there a branch of the copy's account, as far as it can be read? Then its head tells."""
    return not here or not {identity(row) for row in here}.isdisjoint(map(identity, copy))


def _unknown(anew: bool) -> LedgerError:
    here = (
        "the ledger and the copy have no entry in common: it was created anew and does not record what was spent before"
    )
    return LedgerError(
        here if anew else "neither the ledger nor its head records what was spent, so a restore may lose some of it",
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


def _last(rows: list[Entry]) -> datetime:
    """When the last entry was written."""
    book = AccountState(last=rows[-1][3]) if rows else AccountState()
    return book.at or datetime.min.replace(tzinfo=UTC)


# migration from version 1 of the file

_OLD_ROOT = sha256(b"dpsql ledger 1").digest()


def migrate(path: str | Path, by: str) -> Restored | None:
    """Rewrite a ledger of an older version; None if it has this version already.

    The old file is put aside, whole. The new chain begins again, so its last entry names the hash at which the old
    one ended.
    """
    named(by)
    where = location_of(path)
    if not isinstance(where, FileLocation):
        raise LedgerError(f"{where.name} is no file", hint="only files were written by an older dpsql")
    place = where.name
    with explained(place):
        refuse_network(place)
        if not Path(place).is_file():
            raise LedgerError(f"there is no ledger at {place}", hint="check the path")
        with closing(sqlite_file.connect(place)) as db:
            if db.execute("PRAGMA application_id").fetchone() != (sqlite_file.APPLICATION,):
                raise damaged(place)
            if db.execute("PRAGMA user_version").fetchone() != (1,):
                open_ledger(place, None, create=False).close()
                return None
            db.execute("BEGIN EXCLUSIVE")
            rows = _rechained(db.execute("SELECT number, body, hash FROM entry ORDER BY number").fetchall(), place, by)
            return _exchange(place, rows, list(sqlite_file.payloads(db)))


def _exchange(place: str, rows: list[Entry], payloads: Payloads) -> Restored:
    """A migration that was cut short leaves the same head, because it depends on nothing but the file and the name."""
    head, mark = RollbackGuard(place), end_of_chain(place, rows)
    head.create(mark)
    with head.locked(backend.PATIENCE):
        if head.read() != mark:
            raise damaged(place, f"it has an old version, but {head.path} is of a new one")
        return Restored(mark, 0, replace_ledger(place, head, rows, payloads))


def _rechained(old: list[tuple[int, str, bytes]], place: str, by: str) -> list[Entry]:
    rows: list[Entry] = []
    ended, head = _OLD_ROOT, ROOT
    for number, text, digest in old:
        ended = sha256(ended + b"%d " % number + text.encode()).digest()
        if number != len(rows) + 1 or digest != ended:
            raise damaged(place, f"entry {len(rows) + 1} is missing or was changed")
        rows.append(next_entry(head, len(rows), *_translated(json.loads(text))))
        head = rows[-1][4]
    body = {"at": json.loads(old[-1][1])["at"] if old else "", "by": by, "version": 1, "ended": ended.hex()}
    return [*rows, next_entry(head, len(rows), "migrate", [], body)]


def _translated(told: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Kind, gist and body of an old entry."""
    kind, at = told["kind"], {"at": told["at"]}
    match kind:
        case "charge":
            charge = [None if part is None else int(part) for part in told["charge"]]
            return kind, [told["analyst"], *charge], at | {key: told[key] for key in ("cost", "fingerprints", "sql")}
        case "release":
            return kind, [told["entry"], told["fingerprint"], told["digest"]], at
        case "replay":
            return kind, [told["analyst"], told["entry"]], at
        case "fact":
            return kind, [told["table"], told["fact"], told["data_version"]], at
        case "account":
            return kind, [told["dataset"], told["salt"]], at
    raise LedgerError(f"an entry is of a kind that this dpsql does not know: {kind}")
