"""The last answers of a session, so that a dashboard that refreshes is not planned and finished anew each time.

**Theorem.** An answer from here is a replay. **Proof.** It is kept under the text and everything else that was asked,
for one version of the data, with the marks and entries of the releases that it was computed from; it is used only
while the ledger would replay each of those, and every one is counted against the analyst's cap as in any replay. What
is computed from equal releases by equal SQL is equal, unless the SQL reads the clock: such answers are not kept.
**Checked by** `tests/unit/session/test_recent.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.plan.plan import Plan
from dpsql.release.result import Result

MOST_KEPT = 128
MOST_ROWS = 10_000
_CLOCK = (
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentDatetime,
    exp.Localtime,
    exp.Localtimestamp,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer, the version of the data, and for each mark of its releases the entry that paid for it."""

    result: Result
    version: str
    origins: Mapping[bytes, int]


@dataclass(slots=True)
class Recent:
    """A few answers by what was asked; the oldest goes first."""

    kept: dict[str, Kept] = field(default_factory=dict)

    def get(self, asked: str) -> Kept | None:
        """The answer to the same question, of whatever version."""
        return self.kept.get(asked)

    def keep(self, asked: str, made: Kept, plan: Plan) -> None:
        """Remember an answer, if it is small and does not depend on the time."""
        if len(made.result) <= MOST_ROWS and not _reads_the_clock(plan):
            self.kept.pop(asked, None)
            self.kept[asked] = made
            if len(self.kept) > MOST_KEPT:
                self.kept.pop(next(iter(self.kept)), None)


def _reads_the_clock(plan: Plan) -> bool:
    queries = [plan.finishing, *(nested.plan.finishing for nested in plan.nested)]
    return any(isinstance(node, _CLOCK) for query in queries for node in query.walk())
