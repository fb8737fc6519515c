"""Where a ledger lives: what it asks of a file, of memory or of a database server, and nothing else.

A **place** is an address; a **storage** is what lies there, opened. Both promise that every failure comes out as a
LedgerError which says what is safe, that a write is durable when its `writing` ends without one, and that all writes
have one serial order over all threads, processes and machines. The chain, the caps and the sums are the ledger's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from dpsql.budget.ledger.hash_chain import Entry
from dpsql.budget.ledger.rollback_guard import ChainEnd
from dpsql.errors import LedgerError

PATIENCE = 30.0
"""Seconds to wait for other processes before giving up."""

Payloads = list[tuple[int, bytes]]
"""Noisy tables, with the numbers of their entries."""


WholeLedger = tuple[list[Entry], Payloads]
"""A ledger given as its entries, and the noisy tables that are kept with them."""


class LedgerStorage(ABC):
    """The entries of one account, opened."""

    name: str
    """Where it is, for people: never with a password."""

    @abstractmethod
    def check_pages(self) -> None:
        """Look at everything that can be looked at beside the entries: for the steward's `verify`."""

    @abstractmethod
    def accept(self) -> None:
        """The whole was read and verified: from now on it may be written to."""

    @abstractmethod
    def marked(self) -> ChainEnd:
        """What the second place says; a mark of no entry where there is none. Read it before the entries."""

    @abstractmethod
    def settle(self, mark: ChainEnd, previous: bytes) -> None:
        """Bring the second place up to the last entry, which followed the hash `previous`, durably."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Entries that are seen inside stay as they are."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """What must surround a write and its mark in the second place."""

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
        """Whether nothing beside the rows tells of an entry after this one."""

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
        """Let go; afterwards everything is refused."""


class LedgerLocation(ABC):
    """An address at which the account of a dataset can be."""

    name: str
    """For people: never with a password."""

    @abstractmethod
    def create(self, first: Entry) -> None:
        """A new account, unless there is one, or something shows that there was one: then it is refused."""

    @abstractmethod
    def open(self, dataset: str | None, first: Callable[[], Entry] | None) -> LedgerStorage:
        """What lies there, which has all its tables and the guards that make them append-only.

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
