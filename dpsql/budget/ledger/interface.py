"""The interface of a ledger, independent of the backend that stores it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import isfinite
from types import TracebackType
from typing import Any, Self

from dpsql.budget.accountant import Caps, Spent
from dpsql.budget.costs import Charge, Cost
from dpsql.budget.ledger.reservation import Reservation
from dpsql.errors import ProgrammingError


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """The half width (95%) that a statistic had at the price of its query, and the law of its noise."""

    of: str
    half: float
    noise: str


@dataclass(frozen=True, slots=True)
class LastCharge:
    """A charge that was made, as far as it tells what a further one like it would give."""

    charge: Charge
    cost: Cost
    error: ErrorBar | None


@dataclass(frozen=True, slots=True)
class Standing:
    """An account now: its caps in force, its sums (in its window), and the day on which it starts afresh, if any."""

    caps: Caps
    spent: Spent
    renews: date | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a query asks of the budget before it may touch the data. `analyst` is None for the steward.

    `error` tells how far off the first statistic will be at this price: a function of query, policy and price.

    `replays` are others' releases (entry and number) that the query shows too, which count against the analyst's own
    accounts; `charge` is for what is released now, and None if that is nothing. `asked` is what the query would cost
    had nobody else released a part of it: the analyst's accounts must hold that much, and a refusal speaks of it alone.
    `version` is that of the data in the fingerprints.
    """

    analyst: str | None
    charge: Charge | None
    cost: Cost
    dataset_caps: Caps
    analyst_caps: Caps | None
    sql: str
    fingerprints: tuple[bytes, ...]
    purpose: str | None = None
    purpose_caps: Caps | None = None
    error: ErrorBar | None = None
    replays: tuple[tuple[int, int], ...] = ()
    asked: tuple[Charge, Cost] | None = None
    version: str = ""

    def __post_init__(self) -> None:
        charge = self.charge if self.asked is None else self.asked[0]
        if not isfinite(self.cost.epsilon) or not isinstance(charge, Charge):
            raise ProgrammingError(f"not the cost of a query: {self.cost!r}, {charge!r}")

    @property
    def whole(self) -> tuple[Charge, Cost]:
        """What the query costs if nobody else released a part of it before."""
        if self.asked is not None:
            return self.asked
        assert self.charge is not None
        return self.charge, self.cost


@dataclass(frozen=True, slots=True)
class ReleaseDetails:
    """What a release is kept with: the sub-plan that it is a part of, how to make it again, and its own charge.

    `paid` is the fingerprint that its entry named, where the release reads what that very entry released before it: its
    own fingerprint, which says what it read, was not known when it was paid for.
    """

    family: bytes
    recipe: Mapping[str, Any]
    charge: Charge
    paid: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release that was made: its number, its noisy table, which entry and who paid, and its share of the charge.

    Of an old ledger, which does not know the share, the charge is that of the whole entry.
    """

    number: int
    entry: int
    analyst: str | None
    payload: bytes
    charge: Charge


@dataclass(frozen=True, slots=True)
class RelatedRelease:
    """A release of a sub-plan, without its payload; `owed` if it would yet count against the analyst who asks."""

    number: int
    fingerprint: bytes
    recipe: Mapping[str, Any]
    owed: bool


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the steward's log. `text` is SQL or a fact, never a value of the data.

    `share` is what a charge or a counted replay costs of the account that the log is about, by the caps in force.
    """

    number: int
    at: datetime
    kind: str
    analyst: str | None
    text: str
    cost: Cost | None
    purpose: str | None = None
    share: float | None = None


class Ledger(ABC):
    """One dataset's account.

    Every method that changes it returns only when the change is durable, and nothing is ever refunded.
    """

    @abstractmethod
    def reserve(self, request: Request) -> Reservation:
        """Charge analyst and dataset at once, and count the replays, or raise BudgetExceeded and do neither.

        The reservation names the new entry, which is durable, and is what an engine asks for.

        **Theorem.** A refusal of the analyst's own budget, its text, figures and hint, is a function of the query, the
        policy and the sums of the accounts shown in it: it does not tell what others released.
        **Proof.** The analyst's accounts are asked for `request.whole`, in which a release of another's is priced as a
        new one, and on any refusal the text is made of `request.whole` and all accounts. What others released lowers
        only what the dataset's account is asked for; where that refuses, it refuses the whole too.
        **Requires** that `asked` is priced without a look at the archive (`dpsql.session`), and that every
        storage makes its refusal from it (`dpsql.budget.accountant`).
        **Checked by** `tests/unit/session/test_refusals_tell_nothing.py`.
        """

    @abstractmethod
    def count(self, request: Request) -> None:
        """Only count the replays of a request, all or none: there is nothing new to charge for."""

    @abstractmethod
    def afford(self, request: Request) -> None:
        """Raise BudgetExceeded if `reserve` would now; nothing is charged, and nothing is promised for later."""

    @abstractmethod
    def spent(self, analyst: str | None, purpose: str | None = None) -> Spent:
        """The sums, over all time, of an analyst's account, of one of its purposes, or (None) of everyone's."""

    @abstractmethod
    def standing(self, who: str | None, caps: Caps, purpose: str | None = None) -> Standing:
        """An account under the policy's caps: what is in force, and what was spent in its window of today."""

    @abstractmethod
    def last(self, analyst: str | None, purpose: str | None = None) -> LastCharge | None:
        """The last charge of an account, or (None) of anybody."""

    @abstractmethod
    def store(self, entry: int, fingerprint: bytes, payload: bytes, about: ReleaseDetails | None = None) -> None:
        """Keep a noisy table that this entry paid for, under one of the fingerprints it named."""

    @abstractmethod
    def find(
        self, fingerprint: bytes, keep: timedelta | None = None, number: int | None = None
    ) -> StoredRelease | None:
        """The first release (or that of this number) kept under this fingerprint that is not older than `keep`."""

    @abstractmethod
    def relatives(
        self, families: Sequence[bytes], analyst: str | None, keep: timedelta | None = None, purpose: str | None = None
    ) -> list[list[RelatedRelease]]:
        """For each sub-plan, the releases of it that are not older than `keep`."""

    @abstractmethod
    def owed(self, stored: StoredRelease, analyst: str | None, purpose: str | None = None) -> bool:
        """Was another's release not yet counted against the analyst's own cap?"""

    @abstractmethod
    def replayed(
        self,
        entry: int,
        analyst: str | None,
        caps: Caps | None,
        release: int | None = None,
        purpose: str | None = None,
        purpose_caps: Caps | None = None,
    ) -> bool:
        """Count another's release (or all of that entry) against the analyst's own cap, once; whether it was now.

        **Theorem.** An analyst's sums are at least the loss of everything that this analyst was shown.
        **Proof.** What they asked for was charged whole. Of another's entry they are shown single releases, each a
        mechanism of its own with noise of its own, so what they saw of it is the composition of those releases, and
        the sums add the charge of each at least once: its own, or that of the whole entry, which is no less.
        **Requires** one noise for each release (`dpsql.answers.noise_stage`), and that whoever shows a stored release
        counts it first (`dpsql.answers.execute`).
        **Checked by** `tests/unit/session/test_replay_accounts.py`.

        A release of the analyst's own that was made for another purpose counts once against this purpose. Raises
        BudgetExceeded if it does not fit. The dataset has paid already; so has whoever made the entry.
        """

    @abstractmethod
    def salt(self) -> bytes:
        """The account's 32 secret bytes, by which the rows of a unit are chosen."""

    @abstractmethod
    def record_fact(self, table: str, fact: str, data_version: str) -> None:
        """Note that the steward has verified a fact about a table in this version of the data."""

    @abstractmethod
    def facts(self, data_version: str) -> frozenset[tuple[str, str]]:
        """The verified facts of this version, as (table, fact)."""

    @abstractmethod
    def in_force(self, who: str | None, caps: Caps, purpose: str | None = None) -> Caps:
        """The caps that admit: what the policy says, but never more than what is recorded for this account.

        Lower caps apply at once and are recorded with the next charge; higher ones wait for `record_caps`. A window
        is more than none, and a shorter one more than a longer one.
        """

    @abstractmethod
    def record_caps(self, who: str | None, caps: Caps, by: str, purpose: str | None = None) -> bool:
        """Put caps in force, higher or lower, as an act of the steward; whether anything changed."""

    @abstractmethod
    def accept_clock(self, by: str) -> None:
        """Go on with the time of this machine although the last entry is later, as an act of the steward."""

    @abstractmethod
    def bump(self, label: str, by: str) -> None:
        """Name a new version of the data: what was released of earlier ones is not replayed for it."""

    @abstractmethod
    def label(self) -> str:
        """The name given to the version of the data by the last `bump`; empty before the first."""

    @abstractmethod
    def log(self, analyst: str | None = None) -> Iterator[LogEntry]:
        """Who asked what, when, at what cost: for the steward. All entries, or those of one analyst."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it lives, for people: never with a password."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store; a closed ledger refuses everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
