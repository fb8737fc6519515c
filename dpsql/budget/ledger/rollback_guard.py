"""The second place: where the chain of a ledger ends, and what was spent there, in a small file beside it.

A ledger that was replaced by an older copy is in itself flawless; only something kept elsewhere can tell. The
order is fixed: an entry is durable in the ledger first, then its mark is durable here, and only then does the
call return. So on opening

* the mark is the last entry: nothing happened;
* the mark is the last entry but one: a crash fell between the two; that entry was charged and its caller got
  nothing. It counts, and the next writer brings the mark up before it writes;
* the mark is further behind: something wrote to the ledger past this file, or this file is an old copy: refused;
* the mark is beyond the ledger, or names another hash: the ledger was rolled back or exchanged: refused;
* there is a mark of a first or later entry and no ledger: the ledger was deleted: refused, never recreated;
* there is a ledger and no mark: refused; a mark of no entry and no ledger: a creation that was cut short.

A mark also tells a few of the marks before it on its chain, its **trail**: from the head alone one can tell how far a
copy goes along with the ledger that is gone, and so what the copy lacks.

The file has two slots, each with its own checksum and in its own block, written in turn and in place: a torn
write spoils the slot that was being written and leaves the other, and a full disk cannot stop it. Its lock
orders the writers of all processes, before SQLite's own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from dpsql.budget.accountant import Spent
from dpsql.budget.ledger.durable_files import create_file, sync_data
from dpsql.budget.ledger.entries import ROOT
from dpsql.errors import LedgerError

SLOT = 4096
TRAIL = 11
HASH = 16
NOTHING = Spent()
_WAIT = 0.0005


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last entry that was marked: its number, its hash, and what all entries up to it add up to.

    `spent` is what the dataset was charged and `shown` what all analysts were, replays too: both count every entry, so
    between two marks of a chain they grow by what the entries between them hold. `trail` has a few earlier marks of
    the chain, thinner the further back; their hashes are cut to `HASH` bytes.

    A head that an older dpsql wrote has no `shown` (None). Where a gap ends there, `spent` is used: no analyst's
    sums are larger, since a release counts once for each analyst. Where a gap begins there, zero is used.
    """

    number: int = 0
    hash: bytes = ROOT
    spent: Spent = NOTHING
    shown: Spent | None = field(default=NOTHING, compare=False)
    trail: tuple[ChainEnd, ...] = field(default=(), compare=False)

    def after(self, last: ChainEnd) -> ChainEnd:
        """The same mark with the trail that leads to it, where `last` was the mark before it."""
        if not 0 < last.number < self.number:
            return replace(self, trail=last.trail)
        step = replace(last, hash=last.hash[:HASH], shown=NOTHING if last.shown is None else last.shown, trail=())
        return replace(self, trail=_thinned([*last.trail, step], self.number))


def _thinned(trail: list[ChainEnd], number: int) -> tuple[ChainEnd, ...]:
    """At most `TRAIL` marks: the first and the last, and those between at distances that grow by about one factor."""
    while len(trail) > TRAIL:
        gaps = [(number - trail[at - 1].number) / (number - trail[at + 1].number) for at in range(1, len(trail) - 1)]
        del trail[1 + gaps.index(min(gaps))]
    return tuple(trail)


class RollbackGuard:
    """The file beside a ledger that holds its mark."""

    def __init__(self, ledger: str) -> None:
        self.path = Path(ledger + ".head")
        self._handle = -1

    def exists(self) -> bool:
        """Whether there is a file, readable or not."""
        return os.path.lexists(self.path)

    def create(self, mark: ChainEnd | None = None) -> None:
        """Make it, with a mark of no entry unless one is given, unless it is there."""
        first = ChainEnd() if mark is None else mark
        create_file(self.path, _write(0, first) + _write(1, first))

    def read(self) -> ChainEnd:
        """The newest mark; LedgerError if the file is gone or neither slot is whole."""
        return self._newest()[1]

    def write(self, mark: ChainEnd) -> None:
        """Replace the older slot, durably. Needs the lock."""
        before, last = self._newest()
        turn = before + 1
        os.pwrite(self._handle, _write(turn, mark.after(last)), turn % 2 * SLOT)
        sync_data(self._handle)

    def rewrite(self, mark: ChainEnd) -> None:
        """Replace both slots, whatever they hold, durably: for a steward's restore. Needs the lock."""
        try:
            turn = self._newest()[0]
        except LedgerError:
            turn = 0
        for each in (turn + 1, turn + 2):
            os.pwrite(self._handle, _write(each, mark), each % 2 * SLOT)
            sync_data(self._handle)

    @contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        """The one writer among all processes and connections; the system frees the lock of one that dies."""
        try:
            self._handle = os.open(self.path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            raise _missing(self.path) from None
        try:
            _lock(self._handle, self.path, patience)
            yield
        finally:
            os.close(self._handle)
            self._handle = -1

    def _newest(self) -> tuple[int, ChainEnd]:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            raise _missing(self.path) from None
        marks = [mark for slot in (raw[:SLOT], raw[SLOT : 2 * SLOT]) if (mark := _read(slot)) is not None]
        if not marks:
            raise LedgerError(
                f"the ledger is refused: {self.path}, which records where it ends, is damaged", hint=restore_hint()
            )
        return max(marks, key=lambda each: each[0])


def restore_hint() -> str:
    """What a steward can do about a ledger that is refused."""
    return (
        "nothing was charged or changed. Put back the newest copy of the ledger together with its .head file, or let"
        " the steward run `dpsql ledger restore LEDGER --from BACKUP --by NAME`; it is never recreated, because that"
        " would forget what was spent"
    )


def _missing(path: Path) -> LedgerError:
    return LedgerError(
        f"the ledger is refused: {path}, which records where it ends, is missing",
        hint=f"if the ledger was moved, move {path.name} with it; otherwise {restore_hint()}",
    )


def _write(turn: int, mark: ChainEnd) -> bytes:
    """A slot; where the trail does not fit, what is furthest back is left out."""
    told = {"turn": turn, "number": mark.number, "hash": mark.hash.hex(), "spent": _sums(mark.spent)}
    trail = [[each.number, each.hash.hex(), _sums(each.spent), _sums(each.shown or NOTHING)] for each in mark.trail]
    shown = {} if mark.shown is None else {"shown": _sums(mark.shown)}
    while True:
        text = json.dumps({**told, **shown, "trail": trail}).encode()
        slot = text + b"\n" + sha256(text).hexdigest().encode()
        if len(slot) < SLOT or not trail:
            return slot.ljust(SLOT - 1) + b"\n"
        del trail[0]


def _sums(spent: Spent | None) -> list[int | None] | None:
    return None if spent is None else [spent.rho, spent.delta, spent.epsilon]


def _read(slot: bytes) -> tuple[int, ChainEnd] | None:
    text, _, rest = slot.partition(b"\n")
    if rest.rstrip() != sha256(text).hexdigest().encode():
        return None
    told = json.loads(text)
    trail = tuple(
        ChainEnd(number, bytes.fromhex(digest), Spent(*spent), Spent(*shown))
        for number, digest, spent, shown in told.get("trail", ())
    )
    spent, shown = Spent(*told["spent"]), told.get("shown")
    digest = bytes.fromhex(told["hash"])
    return told["turn"], ChainEnd(told["number"], digest, spent, None if shown is None else Spent(*shown), trail)


def _lock(handle: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not _try_lock(handle):
        if time.monotonic() > deadline:
            raise LedgerError(
                f"the ledger is busy: another process holds {path}; nothing was charged",
                hint="try again in a moment; if it stays, look for a process that hangs while it charges",
            )
        time.sleep(_WAIT)


def _try_lock(handle: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(handle, 2 * SLOT, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
