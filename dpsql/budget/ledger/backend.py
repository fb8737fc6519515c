"""The interface between a ledger and its backends: a SQLite file, memory, or a PostgreSQL server.

A **location** is an address; a **storage** is the opened account at that address. Both guarantee that every failure is
raised as a LedgerError that states what was charged, that a write is durable once `writing` has ended without an error,
and that all writes are serialized across threads, processes and machines. The hash chain, the caps and the sums belong
to the ledger, not to the backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from dpsql.budget.ledger.entries import Entry
from dpsql.budget.ledger.rollback_guard import ChainEnd
from dpsql.errors import LedgerError

PATIENCE = 30.0
"""Seconds to wait for a lock that another process holds."""

Payloads = list[tuple[int, bytes]]
"""Noisy tables, with the numbers of their entries."""


WholeLedger = tuple[list[Entry], Payloads]
"""A ledger given as its entries, and the noisy tables that are kept with them."""


class LedgerStorage(ABC):
    """The entries of one account, opened."""

    name: str
    """The address to show to people, never with a password."""

    @abstractmethod
    def check_pages(self) -> None:
        """Check everything except the entries themselves, for the steward's `verify`."""

    @abstractmethod
    def accept(self) -> None:
        """All entries were verified: allow writes from now on."""

    @abstractmethod
    def marked(self) -> ChainEnd:
        """The chain end that the rollback guard recorded (empty without a guard). Read it before the entries."""

    @abstractmethod
    def settle(self, mark: ChainEnd, previous: bytes) -> None:
        """Bring the second place up to the last entry, which followed the hash `previous`, durably."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Read a consistent snapshot."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Hold the lock that covers a write and the update of the rollback guard."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """The one writer of all; what was appended is durable when it ends without an error, otherwise not there.

        Where it cannot be known whether it is there, the error says so: it counts as charged, and nothing is released.
        """

    @abstractmethod
    def entries(self, start: int) -> Iterator[Entry]:
        """The rows from a number on, in order."""

    @abstractmethod
    def ends_at(self, number: int) -> bool:
        """Whether nothing outside the rows shows that there was an entry after this one."""

    @abstractmethod
    def hash_of(self, number: int) -> bytes | None:
        """The hash of one entry."""

    @abstractmethod
    def payload_of(self, number: int) -> bytes | None:
        """The noisy table that was kept with an entry."""

    @abstractmethod
    def payloads(self) -> Payloads:
        """All noisy tables."""

    @abstractmethod
    def append(self, entry: Entry, payload: bytes | None = None) -> None:
        """One more row, and the noisy table that is kept with it; only inside `writing`."""

    @abstractmethod
    def damaged(self, what: str = "it is not a dpsql ledger, or it is damaged") -> LedgerError:
        """The refusal of a ledger that must not be trusted, and is not replaced."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; later calls are refused."""


class LedgerLocation(ABC):
    """An address that can hold the account of a dataset."""

    name: str
    """For people: never with a password."""

    @abstractmethod
    def create(self, first: Entry) -> None:
        """A new account, unless there is one, or something shows that there was one: then it is refused."""

    @abstractmethod
    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        """Open the account. It must have all its tables, and the triggers that make them append-only.

        Where a place may be made by its first use, `first` gives the entry that it begins with.
        """

    @abstractmethod
    def mark(self) -> ChainEnd | None:
        """What the second place says, also of a ledger that is refused; None where nothing does."""

    @abstractmethod
    def replace(self, dataset: str, made: Callable[[], WholeLedger]) -> str | None:
        """Put an account in the place of what is there, which is kept under another name: the name it got.

        `made` is called while nobody else can write.
        """
