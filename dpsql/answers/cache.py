"""The caches of a session: its last plans and answers, so that a dashboard that refreshes is not computed again.

**Theorem.** An answer from here is a replay. **Proof.** It is kept under the text and everything else that was asked,
for one version of the data, with the marks and entries of the releases that it was computed from; it is used only
while the ledger would replay each of those, and every one is counted against the analyst's cap as in any replay. What
is computed from equal releases by equal SQL is equal, unless the query reads the clock: such answers are not kept.
**Theorem.** A plan from here is the one that would be made. **Proof.** A plan is a function of the text and what else
was asked, of the policy, the analyst and the tables that the session opened, all of which are fixed, of the version
of the data, which is part of the key, of bounds that were searched for, and of the clock: with the latter two none is
kept, nor where somebody may alter the tables. Nothing of it depends on private data.
**Requires** a session whose policy, analyst and tables do not change, a label that changes with the data
(`dpsql.dataset`), and that every reading of the clock is known (`dpsql.plan.clock`).
**Checked by** `tests/unit/session/test_recent.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dpsql.answers.result import Result

T = TypeVar("T")
MOST_KEPT = 128
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer, the version of the data, and for each mark of its releases the entry that paid for it."""

    result: Result
    version: str
    origins: Mapping[bytes, int]


@dataclass(slots=True)
class BoundedCache(Generic[T]):
    """Values by key; the oldest is dropped when there are too many."""

    kept: dict[str, T] = field(default_factory=dict)

    def get(self, asked: str) -> T | None:
        """The value that is cached for a key."""
        return self.kept.get(asked)

    def keep(self, asked: str, made: T) -> None:
        """Cache a value, and drop the oldest if there are too many."""
        self.kept.pop(asked, None)
        self.kept[asked] = made
        if len(self.kept) > MOST_KEPT:
            self.kept.pop(next(iter(self.kept)), None)


class AnswerCache(BoundedCache[CachedAnswer]):
    """The last answers, of any version of the data."""

    def offer(self, asked: str, made: CachedAnswer) -> None:
        """Cache an answer if it is small."""
        if len(made.result) <= MOST_ROWS:
            self.keep(asked, made)
