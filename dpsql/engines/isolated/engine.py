"""An engine in another process: requests go through a pipe, and exact integers come back.

This process, which reads analysts' text and finishes answers, never opens the database.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dpsql.bounds.domain import Domain
from dpsql.budget.ledger.reservation import Reservation, Warrant
from dpsql.budget.pricing import Priced
from dpsql.cancellation import interruptible
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.table_files import list_files
from dpsql.engines.isolated.codec import pack, unpack
from dpsql.engines.sealed import Exact, Integers
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.release_statements import statements, text_notes
from dpsql.errors import EngineError, InterfaceError
from dpsql.expressions.expression import Expression
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.released_scan import Content, released_in
from dpsql.policy import Policy
from dpsql.steward_log import VALUES, log

# the worker process ---------------------------------------------------------------------------------------------------
# Start, query and restart the worker process of an isolated engine.
#
# If the process dies, runs out of memory or does not answer in time, all requests in progress fail with the constant
# text of an engine failure. The next request starts a new process.


START = 120.0
GRACE = 5.0
"""Seconds to open the database, and seconds beyond a query's own limit to report that it was stopped."""

Hello = tuple[Mapping[str, Mapping[str, str]], str, frozenset[tuple[str, str]], bool, str | None]


class RunningWorker:
    """One process, from its start to its end."""

    def __init__(self, opening: bytes) -> None:
        ours, theirs = socket.socketpair()
        self._folder = tempfile.TemporaryDirectory(prefix="dpsql-")
        paths = os.pathsep.join(path for path in sys.path if path)
        quiet = None if os.environ.get(VALUES) == "yes" else subprocess.DEVNULL
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (our own module, no word of anybody's)
                [sys.executable, "-m", "dpsql.engines.isolated.worker", str(theirs.fileno()), self._folder.name],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=quiet, stderr=quiet,
                start_new_session=True, cwd=self._folder.name,
                env={**os.environ, "PYTHONPATH": paths, "TMPDIR": self._folder.name, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        self._pipe = Connection(ours.detach())
        self._turn, self._numbers = threading.Lock(), count(1)
        self._waiting: dict[int, Future[tuple[str, Any]]] = {0: Future()}
        self._ended = False
        hello = self._waiting[0]
        threading.Thread(target=self._listen, name="dpsql-engine", daemon=True).start()
        self._send(opening)
        self._hello = hello

    @property
    def number(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended

    def hello(self) -> Hello:
        """The description that the process sends once it has opened the database."""
        schema, version, facts, verifiable, copies = self._result(self._hello, START)
        return schema, version, facts, verifiable, copies

    def ask(self, verb: str, args: tuple[Any, ...], seconds: float | None) -> Any:
        """Send one request and wait for its answer; the process is killed if it does not answer in time."""
        reply: Future[tuple[str, Any]] = Future()
        with self._turn:
            number = next(self._numbers)
            self._waiting[number] = reply
        with interruptible(lambda: self._send(pack((0, "stop", (number,))))):
            self._send(pack((number, verb, args)))
            return self._result(reply, seconds)

    def end(self) -> None:
        """Kill the process."""
        self._ended = True
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _result(self, reply: Future[tuple[str, Any]], seconds: float | None) -> Any:
        try:
            outcome, value = reply.result(seconds)
        except Late:
            log.error("the engine's process did not answer in time and was ended")
            self.end()
            outcome, value = "failed", "TimeoutError"
        if outcome == "done":
            return value
        if outcome == "refused":
            raise InterfaceError(value[0], hint=value[1])
        log.error("the engine's process could not answer: %s", value)
        raise EngineError

    def _send(self, data: bytes) -> None:
        try:
            with self._turn:
                self._pipe.send_bytes(data)
        except OSError:
            self._give_up()

    def _listen(self) -> None:
        """Deliver each reply to the thread that waits for it, until the pipe closes or a reply is invalid."""
        try:
            while True:
                number, outcome, value = unpack(self._pipe.recv_bytes())
                with self._turn:
                    waiting = self._waiting.pop(number, None)
                if waiting is not None:
                    waiting.set_result((outcome, value))
        except (EOFError, OSError):
            pass
        except Exception as problem:
            log.error("the engine's process sent an invalid reply: %s", type(problem).__name__)
        finally:
            self._give_up()

    def _give_up(self) -> None:
        """End the process and fail all requests that wait for an answer."""
        self.end()
        with self._turn:
            lost, self._waiting = list(self._waiting.values()), {}
        for each in lost:
            each.set_result(("failed", "the process ended"))


class WorkerProcess:
    """A database in a process of its own, which is restarted if it dies."""

    def __init__(self, opening: bytes) -> None:
        self._opening, self._turn = opening, threading.Lock()
        self._running = RunningWorker(opening)
        self.hello = self._running.hello()

    @property
    def number(self) -> int:
        """The id of the current process."""
        return self._running.number

    def ask(self, verb: str, *args: Any, seconds: float | None = None) -> Any:
        """Send one request, with a time limit in seconds (`GRACE` is added for the process to report a timeout)."""
        return self._alive().ask(verb, args, None if seconds is None else seconds + GRACE)

    def end(self) -> None:
        """End the process and do not restart it."""
        self._running.end()

    def _alive(self) -> RunningWorker:
        with self._turn:
            if self._running.ended:
                self._running = RunningWorker(self._opening)
                self._check()
            return self._running

    def _check(self) -> None:
        """A restarted process must describe the same database, since plans, facts and versions depend on it."""
        try:
            same = self._running.hello() == self.hello
        except InterfaceError:
            same = False
        if not same:
            self._running.end()
            log.error("the database was moved or replaced while its process was gone: connect again, or reload")
            raise EngineError


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
