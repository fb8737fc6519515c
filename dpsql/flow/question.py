"""What an analyst asks, with all that decides what the answer is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsql.release.target import Accuracy
from dpsql.sql import Asked, Parameters, meaning


@dataclass(frozen=True, slots=True)
class Question:
    """A text and its parameters; `keywords` were given with it, `settings` and `dialect` are the session's."""

    sql: str
    parameters: Parameters | None
    keywords: Asked
    settings: Asked
    dialect: str
    accuracy: Accuracy | None = None
    nonnegative: bool = False
    clipped: bool = False

    def by(self, mechanism: str) -> Question:
        """The same with a mechanism as its keyword."""
        return replace(self, keywords=replace(self.keywords, mechanism=mechanism))

    @property
    def key(self) -> str:
        """Questions with the same one have the same answer, unless they name an accuracy."""
        return repr((*self._said, self.nonnegative, self.clipped))

    def plan_key(self, version: str) -> str:
        """Questions with the same one have the same plan for a version of the data, unless they name an accuracy."""
        return repr((*self._said, self.clipped, version))

    @property
    def _said(self) -> tuple[object, ...]:
        return self.sql, meaning(self.parameters), self.keywords, self.settings, self.dialect
