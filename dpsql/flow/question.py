"""A query as an analyst sent it, with everything that decides its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsql.options import QueryOptions
from dpsql.sql import Parameters, meaning


@dataclass(frozen=True, slots=True)
class Question:
    """A text, its parameters and its options; `settings` and `dialect` are those of the session."""

    sql: str
    parameters: Parameters | None
    options: QueryOptions
    settings: QueryOptions
    dialect: str

    def by(self, mechanism: str) -> Question:
        """The same question with another mechanism."""
        return replace(self, options=replace(self.options, mechanism=mechanism))

    @property
    def key(self) -> str:
        """Questions with the same key have the same answer, unless they name an accuracy."""
        return repr((self.sql, meaning(self.parameters), self.options, self.settings, self.dialect))

    def plan_key(self, version: str) -> str:
        """Questions with the same key have the same plan for a version of the data, unless they name an accuracy."""
        shown = replace(self, options=replace(self.options, nonnegative=False))
        return repr((shown.key, version))
