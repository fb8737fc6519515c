"""What dpsql asks of an engine. Nothing else about an engine is known outside its own folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.allocate import Priced
from dpsql.errors import InterfaceError
from dpsql.expressions.expression import Value
from dpsql.plan.public import PublicData
from dpsql.plan.released import Content
from dpsql.policy.reader import Reader


@dataclass(frozen=True, slots=True)
class Resources:
    """What an engine may take of the machine, in bytes: memory (None: the engine's own limit) and disk (None: none)."""

    memory: int | None = None
    spill: int | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """An exact histogram: the weight of each cell that has any, by the number of its group, in ascending order."""

    groups: NDArray[np.int64]
    cells: NDArray[np.int64]
    weights: NDArray[np.int64]

    def of(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells of one group that have weight, and their weights."""
        start, stop = np.searchsorted(self.groups, [group, group + 1])
        return self.cells[start:stop], self.weights[start:stop]


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact integers, before noise. Only an engine makes one, and only `dpsql.release.noise` and the audit read it.

    `keys` holds one tuple per row; `values` one array per statistic, already floored to its noise grid; `selection`
    the total weight of each private key; `histograms` what the choices are made from.
    """

    keys: tuple[tuple[Value, ...], ...]
    values: tuple[NDArray[np.int64], ...]
    selection: NDArray[np.int64] | None
    histograms: tuple[Weights, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The rows of a public table: an array for each column, and another that says where it is NULL.

    The arrays hold numbers, or text where NumPy would change the values; `types` are the types they stand for.
    """

    values: Mapping[str, NDArray[Any]]
    nulls: Mapping[str, NDArray[np.bool_]]
    types: Mapping[str, str]


class Engine(ABC):
    """Describes tables, emits SQL from a plan, and runs it."""

    @abstractmethod
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """Columns and engine types of every table, by folded table name."""

    @abstractmethod
    def version(self) -> str:
        """A public label of the data: it changes when the data may have changed, and is never computed from rows."""

    @abstractmethod
    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        """Facts that the engine itself guarantees, as (table, fact)."""

    @property
    @abstractmethod
    def verifiable(self) -> bool:
        """Can a fact that was verified for a version be relied on (nobody writes to this version)?"""

    @property
    @abstractmethod
    def live(self) -> bool:
        """May somebody write to the tables, or alter them, while they are open here?"""

    @property
    def copies(self) -> str | None:
        """The stamp of the file with prepared copies beside the data, empty if it is not there; None: none are read."""
        return None

    def copies_content(self) -> str:
        """A digest of the content of that file."""
        return ""

    @abstractmethod
    def look_again(self) -> None:
        """Forget what was known of the tables, their types and the rows of public ones: somebody may have written."""

    @property
    @abstractmethod
    def public(self) -> PublicData:
        """What the planner may ask about public tables."""

    @abstractmethod
    def emit(self, release: Priced, salt: bytes | None) -> str:
        """The SQL of one release; without salt, a placeholder stands in its place (for people to read)."""

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        """What this engine does not read of their tables, in words that follow from the query and the policy."""
        return ()

    @contextmanager
    def together(self, releases: Sequence[Priced] = ()) -> Iterator[None]:
        """These releases, of one query, run inside: where others may write, they all read one state of the data."""
        yield

    @abstractmethod
    def run(
        self,
        release: Priced,
        salt: bytes,
        contents: Mapping[str, Content] | None = None,
        seconds: float | None = None,
    ) -> Exact:
        """The exact integers of one release, within so many seconds.

        `contents` has, by digest, what nested queries released and this one reads. Raises EngineError with a constant
        text, whatever went wrong.
        """

    @abstractmethod
    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        """The rows of a table that the policy declares public, exactly."""

    def reader(self) -> Reader:
        """For the steward's own commands, such as `dpsql check`, which read private data exactly."""
        raise InterfaceError("the steward's commands do not reach this database", hint="open it in this process")

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""
