"""Start, query and restart the worker process of an isolated engine.

If the process dies, runs out of memory or does not answer in time, all requests in progress fail with the constant text
of an engine failure. The next request starts a new process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from dpsql.cancellation import interruptible
from dpsql.engines.isolated.codec import pack, unpack
from dpsql.errors import EngineError, InterfaceError
from dpsql.steward_log import VALUES, log

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
            log.error("the engine's process said what is no answer: %s", type(problem).__name__)
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
