"""For the steward: test the promise on one's own policy and data, and see the exact integers before noise.

`trace` returns those integers. The checks of `dpsql audit` are in `dpsql.audit.report`; attacks on dpsql itself, which
need no data of the steward's, are in tests/attack.
"""

from dpsql.audit.outcome import AuditFinding, Outcome, PlotSeries, Settings
from dpsql.audit.traces import ReleaseTrace, StatisticTrace, nested, trace
from dpsql.audit.world import World

__all__ = [
    "AuditFinding",
    "Outcome",
    "PlotSeries",
    "ReleaseTrace",
    "Settings",
    "StatisticTrace",
    "World",
    "nested",
    "trace",
]
