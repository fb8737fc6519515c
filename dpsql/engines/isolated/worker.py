"""The worker process that holds the private data. It answers requests over one pipe and exits when the pipe closes.

It returns the exact integers of releases over the policy's tables, and the rows of tables that the policy declares
public. It accepts plans, never SQL, and reports only the kind of a failure. It runs a release only if the mark of the
release is the one that was paid for.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dpsql.budget.ledger.reservation import PERMIT, RESERVE, Reservation, TracePermit, Warrant
from dpsql.cancellation import ClientTask
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open import remove_spills
from dpsql.engines.isolated.codec import pack, unpack
from dpsql.engines.sealed import OPEN
from dpsql.errors import Error
from dpsql.policy import fold, load_policy

THREADS = 16
_OPEN, _RESERVE, _PERMIT = OPEN.take(), RESERVE.take(), PERMIT.take()
"""The one door through which exact values and warrants pass between processes. The engine on the other side demands a
warrant of its own ledger before it asks, and seals what it is given before anybody sees it: to the rest of dpsql the
two processes are one engine. Nobody else reads the other end of the pipe."""


class Worker:
    """The engine, and the requests that it answers."""

    def __init__(self, source: Any, limits: Resources, policy: Mapping[str, Any], copies: str | None) -> None:
        declared = load_policy(policy)
        self._engine = DuckDBEngine(source, limits, policy=declared, copies=None if copies is None else Path(copies))
        self._engine.keep_only({fold(name) for name in declared.tables})
        self._open = {fold(name) for name, table in declared.tables.items() if table.public}
        self._public = self._engine.public_reader(self._open)
        self.hello = (
            {table: dict(columns) for table, columns in self._engine.schema().items()},
            self._engine.version(),
            self._engine.constraints(declared),
            self._engine.verifiable,
            self._engine.copies,
        )

    def answer(self, verb: str, args: tuple[Any, ...]) -> object:
        """Answer one request; any other verb is refused."""
        match verb:
            case "run":
                release, salt, shown, contents, seconds = args
                return self._engine.run(release, salt, _warrant(shown), contents, seconds).open(_OPEN)
            case "rows":
                table, columns = args
                return self._engine.read_public(table, columns) if fold(table) in self._open else _no(table)
            case "copies":
                return self._engine.copies_content()
            case "unique":
                return self._public.unique(*args)
            case "domains":
                return dict(self._public.domains(*args))
            case "values":
                return self._public.values(*args)
        return _no(verb)


def _warrant(shown: tuple[int, str, str, bytes] | None) -> Warrant:
    """What the other side showed for one release, made again here: the ledger is there, and its word comes by pipe."""
    if shown is None:
        return TracePermit(by=_PERMIT)
    entry, dataset, version, mark = shown
    return Reservation(entry, dataset, version, frozenset([mark]), by=_RESERVE)


def _no(what: object) -> object:
    raise LookupError(what)


class WorkerPipe:
    """Requests from the pipe, and their replies; each request is answered by a thread."""

    def __init__(self, number: int) -> None:
        self._pipe, self._turn = Connection(number), threading.Lock()
        self._errands: dict[int, ClientTask] = {}

    def receive(self) -> Any:
        """Receive the next message."""
        return unpack(self._pipe.recv_bytes())

    def reply(self, *said: object) -> None:
        """Send a reply, one at a time."""
        data = pack(said)
        with self._turn:
            self._pipe.send_bytes(data)

    def take(self, worker: Worker, threads: Executor, asked: int, verb: str, args: tuple[Any, ...]) -> None:
        """Start to answer a request, or stop one that was abandoned."""
        if verb == "stop":
            if (found := self._errands.get(args[0])) is not None:
                found.leave()
            return
        self._errands[asked] = errand = ClientTask()
        threads.submit(self._answer, worker, errand, asked, verb, args)

    def _answer(self, worker: Worker, errand: ClientTask, asked: int, verb: str, args: tuple[Any, ...]) -> None:
        try:
            with errand.underway():
                made = worker.answer(verb, args)
            self.reply(asked, "done", made)
        except Exception as problem:
            self.reply(asked, "failed", type(problem).__name__)
        finally:
            self._errands.pop(asked, None)


def main(number: int, folder: str) -> None:
    """Open the data, drop privileges, and answer requests until the other side disconnects."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = WorkerPipe(number)
    try:
        source, memory, spill, policy, copies = pipe.receive()
        limits = Resources(memory, spill)
        worker = Worker(source, limits, policy, copies)
        confine(limits)
        pipe.reply(0, "done", worker.hello)
    except Error as error:
        pipe.reply(0, "refused", (error.message, error.hint))
        return
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            while True:
                pipe.take(worker, threads, *pipe.receive())
        except (EOFError, OSError):
            _leave(0, folder)
        except BaseException:
            _leave(1, folder)


def _leave(code: int, folder: str) -> None:
    """The other side is gone: do not wait for what still runs, and remove what it spilled.

    The folder that was made for this process is removed too: the process that made it may have been killed.
    """
    remove_spills()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


# limits of the operating system ---------------------------------------------------------------------------------------
# Operating system limits of the worker process. They cannot be raised again.


NO_NEW_PRIVILEGES, DUMPABLE = 38, 4
ROOM = 2**30
"""Memory for Python, libraries and thread stacks, beyond that of the engine."""


def confine(limits: Resources) -> None:
    """No core dumps, debugger or new privileges; no files unless there is a spill; at most twice the memory limit.

    The engine keeps its own memory limit; the limit of the system is the net below it, for what an engine does not
    count (long texts), and ends the process rather than the machine. Not limited here: the CPU time, which the system
    counts over a whole life (the other side has a clock for each query), and system calls (there is no filter).
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0 if limits.spill is None else limits.spill)
    if limits.memory is not None:
        _limit(resource.RLIMIT_AS, _mapped() + 2 * limits.memory + ROOM)
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        system.prctl(DUMPABLE, 0, 0, 0, 0)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (least, least))


def _mapped() -> int:
    """The address space that is taken already."""
    table = Path("/proc/self/statm")
    return int(table.read_text().split()[0]) * resource.getpagesize() if table.exists() else ROOM


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2])
    except (EOFError, OSError):
        _leave(1, sys.argv[2])
