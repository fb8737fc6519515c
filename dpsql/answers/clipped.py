"""What the checks found: the share that was cut off, with its error bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.answers.analytic_bars import interval
from dpsql.answers.estimation import estimates
from dpsql.answers.noise_stage import Released
from dpsql.answers.result import Clipped
from dpsql.sensitivity.clipped import Check

CONFIDENCE = 0.95


def clipped_shares(checks: Sequence[Check], released: Mapping[str, Released]) -> tuple[Clipped, ...]:
    """The share of each check, in their order."""
    shares = []
    for check in checks:
        table = released[check.bounded.release.name]
        [share] = estimates(table.priced, table.noisy)
        low, high = interval(table, 0, CONFIDENCE)
        shares.append(Clipped(check.what, check.effect, float(share[0]), float(low[0]), float(high[0])))
    return tuple(shares)
