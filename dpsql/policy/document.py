"""What a policy text says, and on which line; it knows nothing of YAML, so that a dict policy needs none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpsql.policy.mistake import Mistake, Path


@dataclass(slots=True)
class Document:
    """What a YAML text says, the line of each key, and what is wrong with the text as YAML."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """The line of a key, or of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)
