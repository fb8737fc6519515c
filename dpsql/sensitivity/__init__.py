"""Contribution bounds: how much one unit can change a release, by rules that are proved and enforced."""

from dpsql.sensitivity.bound import MAX_RELEASED, Bounded, Statistic, bound
from dpsql.sensitivity.claim import Claim

__all__ = ["MAX_RELEASED", "Bounded", "Claim", "Statistic", "bound"]
