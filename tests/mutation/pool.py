"""Workers side by side: each thread keeps a warm and a cold process, and takes the next mutant when it is free."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from killers import SUITE, Chunk, Killers, from_record, needs_spark
from modules import ROOT, privacy_modules

HERE = Path(__file__).parent
CHUNK = 10
LEFT_OUT = ("--ignore=tests/unit/test_proofs.py",)
"""Reads the texts of the proofs, and runs nothing."""


class Worker:
    """The lines to one process of worker.py."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = os.fdopen(to, "w"), os.fdopen(back, "r")
        began = self._read()
        if began["lost"]:
            raise SystemExit(f"these tests cannot be imported together, so they would catch nothing: {began['lost']}")
        self.tests: list[str] = began["ready"]

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        self._to.write(json.dumps(job) + "\n")
        self._to.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._back.readline()
        if not line:
            raise SystemExit(
                "a worker ended: the tests need `pip install -e '.[test-all]'`, and each --tests path has to exist"
            )
        return json.loads(line)

    def close(self) -> None:
        self._to.close()
        self._back.close()


@contextmanager
def workers(count: int, kind: str, *arguments: str) -> Iterator[list[Worker]]:
    """Processes that are ready, forked from one, which reads or imports everything once."""
    pipes = [(os.pipe(), os.pipe()) for _ in range(count)]
    theirs = [end for (jobs, _), (_, verdicts) in pipes for end in (jobs, verdicts)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(HERE / "worker.py"), kind, ",".join(map(str, theirs)), *arguments],
        cwd=ROOT, pass_fds=theirs, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for end in theirs:
        os.close(end)
    made = [Worker(to, back) for (_, to), (back, _) in pipes]
    try:
        yield made
    finally:
        for worker in made:
            worker.close()
        process.wait()


def in_threads(count: int, items: Iterable[Any], serve: Callable[[Iterator[Any]], None]) -> None:
    """Give the items to threads as they ask for them; the first failure is raised when all have stopped."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for item in items:
        queue.put(item)
    failures: list[BaseException] = []

    def taken() -> Iterator[Any]:
        while not failures:
            try:
                yield queue.get_nowait()
            except Empty:
                return

    def run() -> None:
        try:
            serve(taken())
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def record(jobs: int, path: Path, until: float | None = None, suite: tuple[str, ...] = SUITE) -> Killers:
    """Run the tests once, a few of one function at a time, and note what they reach; folder by folder, Spark last.

    Each gives a line of JSON, so that it can be stopped and taken up again; of which none passed, on a busy machine
    perhaps, are asked once more. One stopped early has a part of the suite: what it lacks can only be missed.
    """
    if find_spec("coverage") is None:
        raise SystemExit("which lines a test reaches is recorded by coverage: pip install coverage")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {each["tests"][0]: each for each in lines if each["passed"]}
    lock = threading.Lock()
    with workers(jobs, "warm", *suite, *LEFT_OUT) as made:
        free, chunks = list(made), list(chunked(made[0].tests))

        def serve(waiting: Iterator[list[str]]) -> None:
            worker = free.pop()
            for chunk in waiting:
                if until is not None and time.time() > until:
                    return
                told = worker.ask({"record": True, "tests": chunk})
                with lock, path.open("a") as file:
                    known[chunk[0]] = {"tests": chunk} | told
                    file.write(json.dumps(known[chunk[0]]) + "\n")
                if len(known) % 50 == 0:
                    print(f"recorded {len(known)} of {len(chunks)}", flush=True)

        waiting = [chunk for chunk in chunks if chunk[0] not in known]
        random.Random(0).shuffle(waiting)
        waiting.sort(key=lambda chunk: (needs_spark(chunk[0]), _folder(chunk[0], suite)))
        in_threads(jobs, waiting, serve)
    return read_record(path)


def _folder(test: str, suite: tuple[str, ...]) -> int:
    return next(place for place, path in enumerate(suite) if test.startswith(path))


def chunked(tests: list[str]) -> Iterator[list[str]]:
    """Up to ten cases of one test function; all of a file for which Spark has to start."""
    for name, cases in groupby(tests, key=lambda test: test.partition("::" if needs_spark(test) else "[")[0]):
        listed = list(cases)
        size = len(listed) if name.endswith(".py") else CHUNK
        yield from (listed[at : at + size] for at in range(0, len(listed), size))


def read_record(path: Path) -> Killers:
    """The killers of a record; a test that fails without a mutant is none."""
    return from_record([json.loads(line) for line in path.read_text().splitlines()])


def all_of(paths: Sequence[str]) -> Killers:
    """Every test of these files and folders, taken to reach everything."""
    with workers(1, "warm", *paths) as [worker]:
        tests = worker.tests
    everywhere = dict.fromkeys(privacy_modules(), -1)
    return Killers(dict.fromkeys(tests, 1.0), [Chunk((test,), 0.0, everywhere, 1) for test in tests])
