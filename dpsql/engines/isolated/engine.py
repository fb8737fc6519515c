"""An engine in another process: requests go through a pipe, and exact integers come back.

This process, which reads analysts' text and finishes answers, never opens the database.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsql.bounds.domain import Domain
from dpsql.budget.ledger.reservation import Reservation, Warrant
from dpsql.budget.pricing import Priced
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.table_files import list_files
from dpsql.engines.isolated.codec import pack
from dpsql.engines.isolated.worker_process import WorkerProcess
from dpsql.engines.sealed import Exact, Integers
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.release_statements import statements, text_notes
from dpsql.errors import InterfaceError
from dpsql.expressions.expression import Expression
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, released_in
from dpsql.policy import Policy

_SHARED: dict[object, tuple[WorkerProcess, int]] = {}
_TURN = threading.Lock()


class IsolatedEngine(Engine):
    """A database file, or Parquet files, in a process of its own, which connections to the same data share."""

    def __init__(self, source: object, limits: Resources, policy: Policy, copies: Path | None = None) -> None:
        files, beside = _files(source), None if copies is None else str(copies.absolute())
        opening = pack((files, limits.memory, limits.spill, policy.model_dump(), beside))
        self._key, self._closed = (opening, *map(_stamp, [*_paths(files), *([beside] if beside else [])])), False
        with _TURN:
            process, users = _SHARED.get(self._key) or (WorkerProcess(opening), 0)
            _SHARED[self._key] = process, users + 1
        self._process, self._public = process, RemotePublicData(process)
        self._schema, self._version, self._facts, self._verifiable, self._stamp = process.hello

    @property
    def process(self) -> WorkerProcess:
        """The process that holds the data."""
        return self._process

    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return self._schema

    def version(self) -> str:
        return self._version

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        return self._facts

    @property
    def verifiable(self) -> bool:
        return self._verifiable

    @property
    def copies(self) -> str | None:
        return self._stamp

    def copies_content(self) -> str:
        return str(self._process.ask("copies"))

    @property
    def live(self) -> bool:
        return False

    def look_again(self) -> None:
        """Do nothing: open files do not change."""

    @property
    def public(self) -> RemotePublicData:
        return self._public

    def statements(self, release: Priced, salt: bytes | None) -> list[str]:
        return statements(release, Site(self._schema, DUCKDB), salt)

    def notes(self, releases: Sequence[Priced]) -> tuple[str, ...]:
        return text_notes(releases, Site(self._schema, DUCKDB))

    def _compute(
        self,
        release: Priced,
        salt: bytes,
        warrant: Warrant,
        contents: Mapping[str, Content],
        seconds: float | None,
    ) -> Exact:
        """The other side is shown the warrant for this one release, checks it again, and runs it."""
        plain = replace(release, bounded=replace(release.bounded, release=replace(release.bounded.release, bars=())))
        shown = None
        if isinstance(warrant, Reservation):
            shown = warrant.entry, warrant.dataset, warrant.version, self._mark(release, salt, warrant)
        read = {scan.table: contents[scan.digest or ""] for scan in released_in(release.bounded.release.source)}
        content = self._process.ask("run", plain, salt, shown, read, seconds, seconds=seconds)
        assert isinstance(content, Integers)
        return Exact(content, warrant)

    def read_public(self, table: str, columns: Sequence[str]) -> PublicRows:
        rows = self._process.ask("rows", table, tuple(columns))
        assert isinstance(rows, PublicRows)
        return rows

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with _TURN:
            process, users = _SHARED.pop(self._key)
            if users > 1:
                _SHARED[self._key] = process, users - 1
                return
        process.end()


class RemotePublicData:
    """The contents of public tables, cached."""

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process
        self.forget()

    def forget(self) -> None:
        """Drop the cache."""
        self._known: dict[bytes, Any] = {}

    def unique(self, table: str, columns: frozenset[str]) -> bool:
        """Whether the columns identify at most one row."""
        return bool(self._asked("unique", table, columns))

    def domains(self, table: str, columns: Collection[str]) -> Mapping[str, Domain]:
        """The values of each column."""
        found = self._asked("domains", table, tuple(columns))
        assert all(isinstance(domain, Domain) for domain in found.values())
        return dict(found)

    def values(self, relation: Relation, expression: Expression, most: int) -> Domain | None:
        """The values of an expression over a public relation."""
        found = self._asked("values", relation, expression, most)
        assert found is None or isinstance(found, Domain)
        return found

    def _asked(self, verb: str, *args: object) -> Any:
        key = pack((verb, args))
        if key not in self._known:
            self._known[key] = self._process.ask(verb, *args)
        return self._known[key]


def _files(source: object) -> str | dict[str, str]:
    """The paths of the data. Frames and connections cannot be handed to another process."""
    if isinstance(source, str | os.PathLike):
        return str(Path(source).absolute())
    if isinstance(source, Mapping) and all(isinstance(each, str | os.PathLike) for each in source.values()):
        return {name: str(each if "://" in str(each) else Path(each).absolute()) for name, each in source.items()}
    raise InterfaceError(
        "only files can be opened in a separate process; frames and connections belong to this one",
        hint="give the path of a database or of Parquet files, or leave isolate=True out",
    )


def _paths(files: str | dict[str, str]) -> list[str]:
    return [files] if isinstance(files, str) else list(files.values())


def _stamp(path: str) -> object:
    """A value that changes when the file is replaced."""
    if Path(path).is_dir() or "*" in path:
        return list_files("", path).stamp
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
