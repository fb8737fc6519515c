"""For the steward: attack one's own promise, and see the very integers to which noise is added."""

from dpsql.audit.outcome import Finding, Outcome, Series
from dpsql.audit.settings import Settings
from dpsql.audit.traces import ReleaseTrace, StatisticTrace, nested, trace
from dpsql.audit.world import World
from dpsql.audit.worlds import builtin_worlds

__all__ = [
    "Finding",
    "Outcome",
    "ReleaseTrace",
    "Series",
    "Settings",
    "StatisticTrace",
    "World",
    "builtin_worlds",
    "nested",
    "trace",
]
