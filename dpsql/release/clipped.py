"""What the checks found: the share that was cut off, with its error bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpsql.release.estimate import estimates
from dpsql.release.intervals import interval
from dpsql.release.noise import Released
from dpsql.sensitivity.clipped import Check

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Clipped:
    """A share between 0 and 1 (NaN if too few were counted) and its 95% interval."""

    what: str
    effect: str
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.high - self.low > 0.9:
            return f"how many {self.what} is drowned in the noise: ask with a larger epsilon"
        about = f"about {100 * self.share:.2g}% ({100 * self.low:.2g}% to {100 * self.high:.2g}%) {self.what}"
        return f"{about}, {self.effect}" if self.low > 0 else about


def clipped_shares(checks: Sequence[Check], released: Mapping[str, Released]) -> tuple[Clipped, ...]:
    """The share of each check, in their order."""
    shares = []
    for check in checks:
        table = released[check.bounded.release.name]
        [share] = estimates(table.priced, table.noisy)
        low, high = interval(table, 0, CONFIDENCE)
        shares.append(Clipped(check.what, check.effect, float(share[0]), float(low[0]), float(high[0])))
    return tuple(shares)
