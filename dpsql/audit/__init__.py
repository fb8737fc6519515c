"""For the steward: attack one's own promise, and see the very integers to which noise is added."""

from dpsql.audit.outcome import Finding, Outcome, Series
from dpsql.audit.traces import ReleaseTrace, StatisticTrace, nested, trace

__all__ = ["Finding", "Outcome", "ReleaseTrace", "Series", "StatisticTrace", "nested", "trace"]
