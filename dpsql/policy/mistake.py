"""What is wrong in a policy: where, why, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake of the steward; `path` leads from the top of the policy to the key."""

    path: Path
    reason: str
    fix: str

    @property
    def key(self) -> str:
        """The dotted key, as in `tables.orders.columns.amount.max`."""
        return ".".join(str(step) for step in self.path)

    def under(self, path: Path) -> Mistake:
        """The same mistake, seen from further up."""
        return Mistake(path + self.path, self.reason, self.fix)


class Mistakes(ValueError):
    """Several mistakes at once; a ValueError, so that pydantic collects it with those of other keys."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("; ".join(f"{each.key}: {each.reason}" if each.path else each.reason for each in mistakes))
        self.mistakes = mistakes


def wrong(reason: str, fix: str) -> Mistakes:
    """The mistake of the very key that is being read."""
    return Mistakes(Mistake((), reason, fix))
