"""The interface of an engine. The rest of dpsql knows nothing else about an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.ledger.reservation import Reservation, Warrant, use
from dpsql.budget.pricing import Priced
from dpsql.engines.sealed import Exact
from dpsql.engines.sql.layout import lay_out
from dpsql.errors import InterfaceError, InternalError
from dpsql.plan.catalog import PublicData
from dpsql.plan.nodes.released_scan import Content, released_in, with_digests
from dpsql.policy.database_catalog import DatabaseReader


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits in bytes: memory (None: the engine's own limit) and disk space (None: no disk space)."""

    memory: int | None = None
    spill: int | None = None


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The rows of a public table: for each column an array of values, and an array that is true where it is NULL.

    The arrays hold numbers, or text where NumPy would change the values; `types` are the types they stand for.
    """

    values: Mapping[str, NDArray[Any]]
    nulls: Mapping[str, NDArray[np.bool_]]
    types: Mapping[str, str]


class Engine(ABC):
    """Describes the tables of a database, writes SQL for a plan, and runs it."""

    @abstractmethod
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """Columns and engine types of every table, by folded table name."""

    @abstractmethod
    def version(self) -> str:
        """A public label of the data. It changes whenever the data may have changed and is never computed from rows."""

    @abstractmethod
    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        """Facts that the engine itself guarantees, as (table, fact)."""

    @property
    @abstractmethod
    def verifiable(self) -> bool:
        """Whether a version never changes, so that a fact verified for it stays true."""

    @property
    @abstractmethod
    def live(self) -> bool:
        """Whether others may write to the tables, or alter them, while they are open here."""

    @property
    def copies(self) -> str | None:
        """The stamp of the file of prepared copies, empty if there is no file; None if this engine reads no copies."""
        return None

    def copies_content(self) -> str:
        """A digest of the content of that file."""
        return ""

    @abstractmethod
    def look_again(self) -> None:
        """Drop cached schemas and cached rows of public tables, since others may have written to them."""

    @property
    @abstractmethod
    def public(self) -> PublicData:
        """The contents of public tables, for the planner."""

    @abstractmethod
    def statements(self, release: Priced, salt: bytes | None) -> list[str]:
        """The SQL that names one release; without a salt, a placeholder takes its place."""

    def emit(self, release: Priced, salt: bytes | None) -> str:
        """The statements as one text."""
        return _text(self.statements(release, salt))

    def run_statements(self, release: Priced, salt: bytes | None) -> list[str]:
        """The statements that are run for a release; they give the integers of `statements`, perhaps in fewer scans."""
        return self.statements(release, salt)

    def shown(self, release: Priced) -> str:
        """The SQL that is run for one release, laid out for people, with a placeholder for the salt."""
        return ";\n".join(map(lay_out, self.run_statements(release, None)))

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        """Notes on values that this engine does not read. They follow from the query and the policy alone."""
        return ()

    @contextmanager
    def together(self, releases: Sequence[Priced] = ()) -> Iterator[None]:
        """Run the releases of one query inside: if others may write, all of them read one state of the data."""
        yield

    def run(
        self,
        release: Priced,
        salt: bytes,
        warrant: Warrant,
        contents: Mapping[str, Content] | None = None,
        seconds: float | None = None,
    ) -> Exact:
        """The exact integers of one release that was paid for (or that the steward traces), within so many seconds.

        The release is the one that the ledger was shown; if it reads nested results, `contents` has what these gave in
        the meantime, by their names in the plan. Raises EngineError with a constant text, whatever went wrong.

        **Theorem.** No row is read for a release that the warrant does not cover, and what is read is the release that
        was paid for, over nested results that are a function of other releases.
        **Proof.** `use` comes first, with the mark of the release as this engine would run it on its own version of the
        data. After it only the digests of nested results are filled in: tables, bounds, keys and noise stay, and none
        of them depends on a content (`dpsql.plan.nodes.released_scan`).
        **Requires** a warrant that only its makers make (`dpsql.budget.ledger.reservation`), contents of released
        tables (`dpsql.answers.nested_results`), and engines that read rows for releases in `_compute` only.
        **Checked by** `tests/unit/test_locks.py`, and the planted bug "an engine runs without a reservation".
        """
        known = contents or {}
        use(warrant, lambda reservation: self._mark(release, salt, reservation))
        if any(released_in(release.bounded.release.source)):
            release = _filled(release, known)
        return self._compute(release, salt, warrant, {each.digest: each for each in known.values()}, seconds)

    def _mark(self, release: Priced, salt: bytes, reservation: Reservation) -> bytes:
        """The mark of a release that runs here, on the version of the data that was reserved if that is this one."""
        if not f"{reservation.version} ".startswith(f"{self.version()} "):
            raise InternalError("the reservation is for another version of the data")
        return fingerprint(release, _text(self.statements(release, salt)), reservation.version, reservation.dataset)

    @abstractmethod
    def _compute(
        self,
        release: Priced,
        salt: bytes,
        warrant: Warrant,
        contents: Mapping[str, Content],
        seconds: float | None,
    ) -> Exact:
        """Run a release that may be run, over contents by digest, and seal the integers."""

    @abstractmethod
    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        """The rows of a table that the policy declares public, exactly."""

    def reader(self) -> DatabaseReader:
        """For the steward's own commands, such as `dpsql check`, which read private data exactly."""
        raise InterfaceError("the steward's commands do not reach this database", hint="open it in this process")

    @abstractmethod
    def close(self) -> None:
        """Close the database."""


def _text(written: Sequence[str]) -> str:
    return ";\n".join(written)


def _filled(release: Priced, contents: Mapping[str, Content]) -> Priced:
    """The release with the contents that it reads, in place of the placeholders with which it was paid for."""
    inner = release.bounded.release
    if any(scan.table not in contents for scan in released_in(inner.source)):
        raise InternalError("a release was to be run before what it reads was released")
    source = with_digests(inner.source, {name: content.digest for name, content in contents.items()})
    return replace(release, bounded=replace(release.bounded, release=replace(inner, source=source)))
