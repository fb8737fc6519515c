"""A process that is ready to run tests and forks for each mutant: `warm` (all is imported) or `cold` (libraries are).

Jobs come and verdicts go as lines of JSON. A warm child changes the living functions; a cold one imports the package
from a copy on disk, so that constants and processes of its own see the mutant too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mechanical import Module
from modules import ROOT
from plant import Alive, changed_functions, copy_package, remove_copy

MEMORY = 12 * 2**30
QUIET = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:terminalreporter",
    "-p",
    "no:randomly",
    "-p",
    "no:xdist",
    "-W",
    "ignore",
]
RECORDED = 8
"""Seconds of processor time after which the recording of ten tests is stopped."""

SLOW = 15.0
"""What ten such tests are taken to need."""

STUCK = 120.0
"""Seconds after which ten tests that cannot be stopped are given up."""

Job = dict[str, Any]


class Line:
    """Lines of JSON over two file descriptors."""

    def __init__(self, reads: int, writes: int) -> None:
        self.jobs, self.verdicts = os.fdopen(reads, "r"), os.fdopen(writes, "w")

    def __iter__(self) -> Iterator[Job]:
        return map(json.loads, iter(self.jobs.readline, ""))

    def say(self, verdict: Job) -> None:
        self.verdicts.write(json.dumps(verdict) + "\n")
        self.verdicts.flush()


def serve_each(pairs: list[tuple[int, int]], serve: Callable[[Line], None]) -> None:
    """One process for each line, all forked from this one; returns when all have ended."""
    children = []
    for pair in pairs:
        child = os.fork()
        if child == 0:
            _close(end for other in pairs if other != pair for end in other)
            serve(Line(*pair))
            os._exit(0)
        children.append(child)
    _close(end for pair in pairs for end in pair)
    for child in children:
        os.waitpid(child, 0)


def _close(ends: Iterable[int]) -> None:
    for end in ends:
        os.close(end)


class Told:
    """What a child tells its parent: which test begins, and how it ended."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def __call__(self, *words: object) -> None:
        os.write(self.pipe, (json.dumps(words) + "\n").encode())


def in_child(run: Callable[[Told], None], limit: Callable[[str], float]) -> Job:
    """Run in a fork; the verdict: killed (by which test, how) or survived. A test over its limit is a kill.

    The limit is on processor time, which other work on the machine does not stretch; one that sleeps has ten times it.
    """
    began, (reads, writes) = time.monotonic(), os.pipe()
    with _room_for_servers():
        child = os.fork()
        if child == 0:
            _be_child(run, reads, writes)
        os.close(writes)
        verdict = _watch(child, reads, limit)
        os.close(reads)
        _end(child)
    return verdict | {"seconds": round(time.monotonic() - began, 2)}


@contextmanager
def _room_for_servers() -> Iterator[None]:
    """Where a PostgreSQL of the tests keeps its data: who is killed cleans up nothing."""
    folder = Path(tempfile.mkdtemp(prefix="mutation-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    folder.chmod(0o711)
    os.environ["DPSQL_TEST_SERVERS"] = str(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(child: int) -> None:
    """The child with all that it started."""
    for stop in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        with suppress(ProcessLookupError, PermissionError):
            stop()
    os.waitpid(child, 0)


def _be_child(run: Callable[[Told], None], reads: int, writes: int) -> None:
    os.setsid()
    os.close(reads)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    told = Told(writes)
    try:
        run(told)
        told("end")
    except BaseException as failure:
        told("killed", "(before any test)", "".join(traceback.format_exception_only(failure))[-300:])
    finally:
        os._exit(0)


def _watch(child: int, reads: int, limit: Callable[[str], float]) -> Job:
    test, tests, rest = "(start)", 0, b""
    began = used = 0.0, 0.0
    while True:
        ready, _, _ = select.select([reads], [], [], 2)
        used = time.monotonic(), _processor(child)
        if not ready:
            began = began if any(began) else used
            most = limit(test)
            if used[1] - began[1] > most or used[0] - began[0] > 10 * most:
                return {"verdict": "killed", "killer": test, "how": "timeout", "tests": tests}
            continue
        began = used
        data = os.read(reads, 65536)
        if not data:
            return {"verdict": "killed", "killer": test, "how": "the process died", "tests": tests}
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            match json.loads(line):
                case ["begin", name]:
                    test, tests = name, tests + 1
                case ["killed", name, how]:
                    return {"verdict": "killed", "killer": name, "how": how, "tests": tests}
                case ["broken", how]:
                    return {"verdict": "broken", "how": how, "tests": tests}
                case ["end"]:
                    return {"verdict": "survived", "tests": tests}


def _processor(child: int) -> float:
    """Seconds of processor time that a process and its ended children have had."""
    try:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _session() -> float:
    """Seconds of processor time of this process and of what it started that still runs, such as Spark."""
    mine, seconds = os.getsid(0), 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(folder.name)) == mine:
                seconds += _processor(int(folder.name))
    return seconds


def limits(job: Job) -> Callable[[str], float]:
    """Ten times what a test takes on the unchanged product, and twenty seconds."""
    seconds: dict[str, float] = job.get("seconds", {})
    return lambda test: 10 + 10 * seconds.get(test, 5.0)


class Nearest:
    """`from conftest import ...` means the one beside the test, whichever of them pytest read last."""

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if not isinstance(collector, pytest.Module):
            return
        beside = collector.path.parent.resolve() / "conftest.py"
        for plugin in collector.config.pluginmanager.get_plugins():
            if Path(getattr(plugin, "__file__", None) or "/").resolve() == beside:
                sys.modules["conftest"] = plugin


# warm ------------------------------------------------------------------------------------------------------------------


class Warm:
    """In place of pytest's own loop over the collected tests: one process for each line, forked when all is ready."""

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = pairs
        self.lost: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.lost.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        alive = Alive(str(ROOT / "dpsql"))
        with suppress(ImportError):
            import coverage  # noqa: F401 - once, and not in each child that records
        gc.freeze()
        serve_each(self.pairs, lambda line: _serve_warm(line, items, self.lost, alive))
        os._exit(0)


def _serve_warm(line: Line, items: dict[str, pytest.Item], lost: list[str], alive: Alive) -> None:
    modules: dict[str, Module] = {}
    line.say({"ready": list(items), "lost": lost})
    for job in line:
        if job.get("record"):
            line.say(_recorded([items[name] for name in job["tests"]]))
            continue
        name = job["module"]
        if name and name not in modules:
            modules[name] = Module(name)
        run = partial(_run_warm, job, modules.get(name), alive, items)
        line.say({"id": job["id"]} | in_child(run, limits(job)))


def _run_warm(job: Job, module: Module | None, alive: Alive, items: dict[str, pytest.Item], told: Told) -> None:
    """Plant the mutant, unless there is none, and run the tests up to the first that fails."""
    if module is not None and (problem := _planted(job, module, alive)):
        told("broken", problem)
        return
    chosen = [items[name] for name in job["tests"] if name in items]
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        told("begin", item.nodeid)
        if failed := _failure(item, following):
            told("killed", item.nodeid, failed)
            return


def _planted(job: Job, module: Module, alive: Alive) -> str | None:
    """Nothing, or why the mutant cannot be put into living functions."""
    pairs = changed_functions(module.code(module.source), module.code(job["source"] or module.planted(job["id"])))
    if pairs is None:
        return "runs at import"
    return None if alive.plant(str(ROOT / module.name), pairs) else "not in this process"


def _failure(item: pytest.Item, following: pytest.Item | None) -> str | None:
    for report in runtestprotocol(item, nextitem=following, log=False):
        if report.failed:
            return str(report.longrepr).strip().splitlines()[-1][-300:]
    return None


def _recorded(items: list[pytest.Item]) -> Job:
    """What some tests take, and which lines of the package they run (in a fork, so that nothing is remembered)."""
    reads, writes = os.pipe()
    tens = -(-len(items) // 10)
    with _room_for_servers():
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(reads)
            _record(items, tens, writes)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            said = pipe.read() if select.select([pipe], [], [], STUCK * tens)[0] else b""
        _end(child)
    return json.loads(said) if said else {"seconds": SLOW * tens, "passed": [], "lines": {}}


def _record(items: list[pytest.Item], tens: int, writes: int) -> None:
    """Those that take too long are stopped, and known by the lines that they came to."""
    import coverage

    watching = coverage.Coverage(data_file=None, include=["*/dpsql/*"], config_file=False)
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, RECORDED * tens)
    passed = []
    try:
        began = _session()
        watching.start()
        try:
            for item, following in zip(items, [*items[1:], None], strict=True):
                if _failure(item, following) is None:
                    passed.append(item.nodeid)
        except (KeyboardInterrupt, pytest.exit.Exception):
            pass
        if stopped:
            passed = [item.nodeid for item in items]
        signal.setitimer(signal.ITIMER_PROF, 0)
        watching.stop()
        data, seconds = watching.get_data(), _session() - began
        lines = {name: data.lines(name) for name in data.measured_files()}
        with os.fdopen(writes, "w") as pipe:
            json.dump({"seconds": SLOW * tens if stopped else seconds, "passed": passed, "lines": lines}, pipe)
    finally:
        os._exit(0)


# cold ------------------------------------------------------------------------------------------------------------------


class Cold:
    """Runs the chosen tests in the chosen order, and tells."""

    def __init__(self, job: Job, told: Told) -> None:
        self.order, self.told = {name: place for place, name in enumerate(job["tests"])}, told
        self.more, self.without = tuple(job.get("more", ())), job.get("without", ())

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = sorted((item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid])
        asked = [*chosen, *(item for item in items if item.nodeid.startswith(self.more))]
        items[:] = [item for item in asked if item.nodeid not in self.without]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.told("begin", nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.without:
            self.told("killed", report.nodeid, str(report.longrepr).strip().splitlines()[-1][-300:])
            os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.told("killed", report.nodeid, str(report.longrepr).strip().splitlines()[-1][-300:])
            os._exit(0)


def _run_cold(job: Job, told: Told) -> None:
    os.environ["PYTHONPATH"] = os.environ["DPSQL_MUTANT"] = job["copy"]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path.insert(0, job["copy"])
    os.chdir(job["copy"])
    files = list(dict.fromkeys([*(name.split("::")[0] for name in job["tests"]), *job.get("more", ())]))
    code = pytest.main([*QUIET, "--rootdir", job["copy"], *files], plugins=[Nearest(), Cold(job, told)])
    if code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        told("killed", "(before any test)", "the package cannot be imported")


def serve_cold(pairs: list[tuple[int, int]], scratch: Path) -> None:
    _preload()
    gc.freeze()
    serve_each(pairs, lambda line: _serve_cold(line, scratch))


def _serve_cold(line: Line, scratch: Path) -> None:
    line.say({"ready": [], "lost": []})
    for number, job in enumerate(line):
        job["copy"] = str(copy_package(scratch / f"{os.getpid()}-{number}", job["module"], job["source"]))
        try:
            line.say({"id": job["id"]} | in_child(partial(_run_cold, job), limits(job)))
        finally:
            remove_copy(Path(job["copy"]))


def _preload() -> None:
    for name in ("duckdb", "sqlglot", "numpy", "pandas", "pydantic", "hypothesis", "scipy.stats", "pyarrow", "yaml", "rich",
                 "typer", "typer.testing", "polars", "opendp", "sqlalchemy"):  # fmt: skip
        try:
            __import__(name)
        except ImportError:
            continue


def main() -> None:
    kind, told, *rest = sys.argv[1:]
    ends = list(map(int, told.split(",")))
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    if kind == "warm":
        pytest.main([*QUIET, *rest], plugins=[Nearest(), Warm(pairs)])
    else:
        serve_cold(pairs, Path(rest[0]))


if __name__ == "__main__":
    main()
