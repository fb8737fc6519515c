"""The process that holds the private data. It answers a few questions over one pipe, and ends when the pipe does.

What it can be asked: exact integers of releases over tables of the policy, and rows of tables that the policy declares
public. It reads plans, never SQL, and says of a failure which kind it was, and no more.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dpsql.abandoned import Errand
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open import remove_spills
from dpsql.engines.isolated.codec import pack, unpack
from dpsql.engines.isolated.confine import confine
from dpsql.errors import Error
from dpsql.policy import fold, load_policy

THREADS = 16


class Desk:
    """The questions, and the engine that answers them."""

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
        """One question; whatever is not listed here is none."""
        match verb:
            case "run":
                release, salt, contents, seconds = args
                return self._engine.run(release, salt, contents, seconds)
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


def _no(what: object) -> object:
    raise LookupError(what)


def main(number: int, folder: str) -> None:
    """Open, be confined, and answer until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe, turn = Connection(number), threading.Lock()

    def reply(*said: object) -> None:
        data = pack(said)
        with turn:
            pipe.send_bytes(data)

    def work(asked: int, errand: Errand, verb: str, args: tuple[Any, ...]) -> None:
        try:
            with errand.underway():
                made = desk.answer(verb, args)
            reply(asked, "done", made)
        except Exception as problem:
            reply(asked, "failed", type(problem).__name__)
        finally:
            errands.pop(asked, None)

    errands: dict[int, Errand] = {}

    def take(asked: int, verb: str, args: tuple[Any, ...]) -> None:
        """Begin with a question; or stop one that nobody waits for, if it is still there."""
        if verb == "stop":
            if (found := errands.get(args[0])) is not None:
                found.leave()
            return
        errands[asked] = errand = Errand()
        threads.submit(work, asked, errand, verb, args)

    try:
        source, memory, spill, policy, copies = unpack(pipe.recv_bytes())
        limits = Resources(memory, spill)
        desk = Desk(source, limits, policy, copies)
        confine(limits)
        reply(0, "done", desk.hello)
    except Error as error:
        reply(0, "refused", (error.message, error.hint))
        return
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            while True:
                take(*unpack(pipe.recv_bytes()))
        except (EOFError, OSError):
            _leave(0, folder)
        except BaseException:
            _leave(1, folder)


def _leave(code: int, folder: str) -> None:
    """Nobody listens any more: what still runs is not waited for, and what it spilled is not left behind.

    Neither is the folder that was made for this process: who made it may have been killed.
    """
    remove_spills()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2])
    except (EOFError, OSError):
        _leave(1, sys.argv[2])
