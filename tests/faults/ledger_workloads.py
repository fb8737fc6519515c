"""Twenty small lives of a ledger, for killing at every system call. Run as a program it forks one child for each.

A child tells on a pipe what it asks for (`A`) and, only after the charge returned, what it releases (`R`). Its parent
makes no durable system call, so that a fault injected by number strikes the children alone; it judges nothing: the
caller opens the ledgers afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.budget import Caps, Cost, Ledger, Request, open_ledger, pure_charge
from dpsql.budget.ledger.maintenance import backup, restore
from dpsql.errors import BudgetExceeded, LedgerError

CAPS = Caps(1, 0)
UNITS = {price: pure_charge(price).epsilon or 0 for price in (0.05, 0.1, 0.2, 0.5)}
Tell = Callable[[str], None]


class ClientGone(Exception):
    """The client's pipe is broken."""


def ask(price: float = 0.1, analyst: str | None = "ana", cap: float | None = None, marks: int = 1) -> Request:
    own = None if cap is None else Caps(cap, 0)
    names = tuple(b"f%d" % each for each in range(marks))
    return Request(analyst, pure_charge(price), Cost(price, 0.0, 0.0), CAPS, own, "SELECT count(*) FROM t", names)


def charge(ledger: Ledger, tell: Tell, request: Request) -> int:
    """Say before that it is asked for, and after that it is paid and released: an open `A` is what is in flight."""
    units = request.charge.epsilon
    tell(f"A {units}\n")
    try:
        entry = ledger.reserve(request).entry
    except BudgetExceeded:
        tell("N\n")
        raise
    tell(f"R {entry} {units}\n")
    return entry


@contextmanager
def opened(path: Path) -> Iterator[Ledger]:
    with open_ledger(path, "shop") as ledger:
        yield ledger


def create_only(path: Path, tell: Tell) -> None:
    open_ledger(path, "shop").close()


def one_charge(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask())


def two_charges(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask())
        charge(ledger, tell, ask(0.2))


def two_openings(path: Path, tell: Tell) -> None:
    one_charge(path, tell)
    one_charge(path, tell)


def charge_and_store(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        ledger.store(charge(ledger, tell, ask()), b"f0", b"noisy" * 10)


def store_many_pages(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        ledger.store(charge(ledger, tell, ask()), b"f0", b"noisy" * 5000)


def store_two(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        entry = charge(ledger, tell, ask(marks=2))
        ledger.store(entry, b"f0", b"one")
        ledger.store(entry, b"f1", b"two")


def replay(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        entry = charge(ledger, tell, ask())
        ledger.store(entry, b"f0", b"one")
        ledger.find(b"f0")
        ledger.replayed(entry, "bob", Caps(0.5, 0))


def facts(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        ledger.record_fact("customers", "unique", "v1")
        charge(ledger, tell, ask())


def refused_by_the_cap(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask(0.5))
        charge(ledger, tell, ask(0.5))
        try:
            charge(ledger, tell, ask(0.1))
        except BudgetExceeded:
            return


def refused_by_the_analysts_cap(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask(0.2, cap=0.2))
        try:
            charge(ledger, tell, ask(0.1, cap=0.2))
        except BudgetExceeded:
            charge(ledger, tell, ask(0.1, "bob", cap=0.2))


def lowered_cap(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask(0.1, cap=0.5))
        charge(ledger, tell, ask(0.1, cap=0.2))


def raised_cap(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask(0.1, cap=0.1))
        ledger.record_caps("ana", Caps(0.3, 0), "the steward")
        charge(ledger, tell, ask(0.2, cap=0.3))


def steward_charges(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask(0.1, None))


def bumped(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask())
        ledger.bump("2026-11", "the steward")
        charge(ledger, tell, ask(0.05))


def two_connections(path: Path, tell: Tell) -> None:
    with opened(path) as one, opened(path) as two:
        charge(one, tell, ask())
        charge(two, tell, ask(0.2))
        charge(one, tell, ask(0.05))


def left_open(path: Path, tell: Tell) -> None:
    charge(open_ledger(path, "shop"), tell, ask())


def long_text(path: Path, tell: Tell) -> None:
    request = ask()
    long = Request(*(getattr(request, name) for name in Request.__slots__[:5]), "SELECT " + "1 + " * 9000, (b"f0",))
    with opened(path) as ledger:
        charge(ledger, tell, long)


def backed_up(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask())
        backup(path, path.with_name("copy"))
        charge(ledger, tell, ask(0.2))


def restored(path: Path, tell: Tell) -> None:
    backed_up(path, tell)
    restore(path, path.with_name("copy"), "the steward")
    one_charge(path, tell)


def clock_accepted(path: Path, tell: Tell) -> None:
    with opened(path) as ledger:
        charge(ledger, tell, ask())
        ledger.accept_clock("the steward")
        charge(ledger, tell, ask(0.05))


WORKLOADS: dict[str, Callable[[Path, Tell], None]] = {
    work.__name__: work
    for work in (
        create_only, one_charge, two_charges, two_openings, charge_and_store, store_many_pages, store_two, replay,
        facts, refused_by_the_cap, refused_by_the_analysts_cap, lowered_cap, raised_cap, steward_charges, bumped,
        two_connections, left_open, long_text, backed_up, restored, clock_accepted,
    )
}  # fmt: skip


def run(name: str, folder: Path, pipe: int) -> int:
    """One workload in this process; an injected error must come out as a LedgerError."""

    def tell(text: str) -> None:
        try:
            os.write(pipe, f"{name} {text}".encode())
        except OSError as error:
            raise ClientGone from error

    try:
        WORKLOADS[name](folder / name / "shop.ledger", tell)
    except (LedgerError, ClientGone):
        return 3
    return 0


def main() -> None:
    """Arguments: a folder with one folder for each workload, the pipe, the names."""
    folder, pipe, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    struck = False
    for name in names:
        child = os.fork()
        if child == 0:
            code = 4
            try:
                code = run(name, folder, pipe)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status not in (0, 9, 3 << 8):
            os._exit(5)
        struck = struck or status != 0
    os._exit(7 if struck else 0)


if __name__ == "__main__":
    main()
