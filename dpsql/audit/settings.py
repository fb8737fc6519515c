"""What an audit is asked to do, and the doors through which it may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpsql.audit.doors.sweep import Door as Forbidden
from dpsql.audit.outcome import Outcome, Progress
from dpsql.audit.world import World

Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""SQL in, rows out; what is refused raises `dpsql.Error`."""
Door = Callable[[World], AbstractContextManager[Ask]]
"""Opens a world for an analyst through one of the interfaces."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to try, with which seed, and which part of it: the parts of one seed never overlap.

    `own` says that the worlds are the steward's, not the built-in ones, which a check may draw afresh. `resume` names a
    file in which a long check notes what is done, and reads what was.
    """

    seed: int = 0
    pairs: int = 5_000
    long: bool = False
    part: int = 1
    parts: int = 1
    jobs: int = 1
    own: bool = False
    resume: Path | None = None
    doors: Mapping[str, Door] = field(default_factory=dict)
    forbidden: Mapping[str, Forbidden] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    """Doors that are not installed here, and what would install them: nobody can come through them either."""

    @property
    def door_notes(self) -> tuple[str, ...]:
        return tuple(f"not installed here, so no door: {each}" for each in self.absent)


Check = Callable[[Sequence[World], Settings, Progress], Outcome]
"""A check of the audit. Its module is `dpsql.audit.checks.<name>`, and calls it `check`."""
