"""What must be shown before data is read: a reservation, which the ledger makes, or the steward's permit to trace.

**Theorem (charge before release).** Whatever the noise stage is given was charged for, durably, before a row of it was
read, and each charge is used once: no release is run for nothing, and none twice for one price.
**Proof.** `Engine.run` is the only way to an engine's rows that gives exact values, and asks `use` before it reads one.
`use` passes a reservation that the ledger made, if it covers the mark of that very release and the mark was not used
before. The ledger makes a reservation when the entry that names those marks is durable, and never before. The other
thing that passes is a trace permit, and the noise stage refuses exact values that were read under one.
**Requires** marks that say all of a release (`dpsql.budget.fingerprint`), a ledger that returns when an entry is
durable (`dpsql.budget.ledger.sqlite_file`), and rights that only their holders have (`dpsql.rights`).
**Checked by** `tests/unit/test_locks.py`, and the planted bugs "an engine runs without a reservation", "a reservation
covers any release", "a reservation is used twice", "anybody makes a reservation" and "a trace is released".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from weakref import WeakKeyDictionary

from dpsql.errors import InternalError
from dpsql.rights import Right, Token

RESERVE = Right("make a reservation", "dpsql.budget.ledger.chained_ledger", "dpsql.engines.isolated.worker")
PERMIT = Right("permit a trace", "dpsql.session", "dpsql.engines.isolated.worker")
"""An isolated engine's process makes again what was shown on the other side of its pipe (`isolated.child`)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Reservation:
    """A durable charge: its entry in the ledger of a dataset, and the marks of the releases of a version it covers."""

    entry: int
    dataset: str
    version: str
    marks: frozenset[bytes]
    by: InitVar[Token] = field(kw_only=True)

    def __post_init__(self, by: Token) -> None:
        RESERVE.check(by)
        _unused[self] = set(self.marks)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TracePermit:
    """The steward's leave to read exact values without a charge, for a trace: noise is never added to these."""

    by: InitVar[Token] = field(kw_only=True)

    def __post_init__(self, by: Token) -> None:
        PERMIT.check(by)
        _permits[self] = None


Warrant = Reservation | TracePermit
_unused: WeakKeyDictionary[Reservation, set[bytes]] = WeakKeyDictionary()
_permits: WeakKeyDictionary[TracePermit, None] = WeakKeyDictionary()
"""Those that were made by a holder, so that a copy is none; and the marks of each for which nothing was run yet."""


def made_by_a_holder(warrant: object) -> bool:
    """Is it a reservation that the ledger made, or a permit of the steward's connection?"""
    return (type(warrant) is Reservation and warrant in _unused) or (
        type(warrant) is TracePermit and warrant in _permits
    )


def use(warrant: Warrant, mark: Callable[[Reservation], bytes]) -> None:
    """Stop a run that was not paid for, or not permitted. A reservation covers each of its marks once."""
    if not made_by_a_holder(warrant):
        raise InternalError("no data is read without a reservation")
    if isinstance(warrant, Reservation):
        try:
            _unused[warrant].remove(mark(warrant))
        except KeyError:
            raise InternalError("this reservation does not cover the release, or was used for it before") from None
