"""The other end of the pipe: the engine's process is started, asked, given up and started again.

A process that dies, runs out of memory or keeps silent for too long takes the questions under way with it, whoever
asked them: each fails with the constant text of an engine's failure. The next question starts a new process.
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
"""Seconds: for the process to open the database; and, beyond a query's own, to say that it was stopped."""

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
        """The process's id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Is it gone?"""
        return self._ended

    def hello(self) -> Hello:
        """What the process says once it has opened the database."""
        schema, version, facts, verifiable, copies = self._result(self._hello, START)
        return schema, version, facts, verifiable, copies

    def ask(self, verb: str, args: tuple[Any, ...], seconds: float | None) -> Any:
        """The answer to one question; the process is ended if it has none in time."""
        reply: Future[tuple[str, Any]] = Future()
        with self._turn:
            number = next(self._numbers)
            self._waiting[number] = reply
        with interruptible(lambda: self._send(pack((0, "stop", (number,))))):
            self._send(pack((number, verb, args)))
            return self._result(reply, seconds)

    def end(self) -> None:
        """End the process, whatever it does."""
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
        """Hand each reply to who waits for it, until there are no more, or one is none: nobody waits in vain."""
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
        """The process is gone: so are the answers."""
        self.end()
        with self._turn:
            lost, self._waiting = list(self._waiting.values()), {}
        for each in lost:
            each.set_result(("failed", "the process ended"))


class WorkerProcess:
    """A database in a process of its own, which lives again after it died."""

    def __init__(self, opening: bytes) -> None:
        self._opening, self._turn = opening, threading.Lock()
        self._running = RunningWorker(opening)
        self.hello = self._running.hello()

    @property
    def number(self) -> int:
        """The id of the process that there is now."""
        return self._running.number

    def ask(self, verb: str, *args: Any, seconds: float | None = None) -> Any:
        """The answer to one question, within so many seconds (and a few more, for the process to say why not)."""
        return self._alive().ask(verb, args, None if seconds is None else seconds + GRACE)

    def end(self) -> None:
        """For good."""
        self._running.end()

    def _alive(self) -> RunningWorker:
        with self._turn:
            if self._running.ended:
                self._running = RunningWorker(self._opening)
                self._check()
            return self._running

    def _check(self) -> None:
        """A new life has to find what the first one found: plans, facts and versions rest on it."""
        try:
            same = self._running.hello() == self.hello
        except InterfaceError:
            same = False
        if not same:
            self._running.end()
            log.error("the database was moved or replaced while its process was gone: connect again, or reload")
            raise EngineError
