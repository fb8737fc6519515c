"""Mutants against the tests that reach them, side by side, each verdict a line of a file."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hand import Bug
from killers import Killers
from mechanical import Module, Mutant
from modules import ROOT
from pool import Worker, in_threads, workers


class Trial:
    """Mutants against their killers, side by side."""

    def __init__(self, killers: Killers, results: Path, patience: float, jobs: int, until: float | None = None) -> None:
        self.killers, self.results, self.patience, self.jobs, self.until = killers, results, patience, jobs, until
        self._lock, self._began, self._done = threading.Lock(), time.monotonic(), 0
        self._modules: dict[str, Module] = {}
        self.sound: dict[str, bool] = {}
        self.sound_in_a_copy: dict[str, bool] = {}

    def run(self, chosen: list[Mutant | Bug]) -> None:
        with ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutation"))
            cold = stack.enter_context(workers(self.jobs, "cold", scratch))
            warm = stack.enter_context(workers(self.jobs, "warm", *self._files()))
            in_threads(self.jobs, chosen, lambda mutants: self._serve(mutants, len(chosen), warm, cold))

    def _serve(self, mutants: Iterator[Mutant | Bug], total: int, warms: list[Worker], colds: list[Worker]) -> None:
        with self._lock:
            cold, warm = colds.pop(), warms.pop()
        for each in mutants:
            if self.until is not None and time.time() > self.until:
                break
            self._say(each.mutant if isinstance(each, Bug) else each, self._tried(each, warm, cold), total)

    def _tried(self, each: Mutant | Bug, warm: Worker, cold: Worker) -> dict[str, Any]:
        """In the living functions if it can be; else in a copy, as where tests of its own are named or none sees it."""
        if isinstance(each, Bug):
            mutant, source, more = each.mutant, each.source, each.tests
        else:
            mutant, source, more = each, "", ()
        verdict = self._ask(warm, mutant, source)
        while verdict["verdict"] == "killed" and not self._sound(warm, verdict["killer"]):
            self.killers.drop(verdict["killer"])
            verdict = self._ask(warm, mutant, source)
        survived = verdict["verdict"] == "survived" and not more and self.killers.sees(mutant)
        if verdict["verdict"] == "killed" or survived:
            return verdict
        if not source:
            with self._lock:
                source = self._module(mutant.module).mutated(mutant.id)
        verdict = self._ask(cold, mutant, source, more)
        while verdict["verdict"] == "killed" and not self._sound_in_a_copy(cold, mutant.module, verdict["killer"]):
            verdict = self._ask(cold, mutant, source, more)
        return verdict

    def _sound(self, worker: Worker, test: str) -> bool:
        """Does the test pass without a mutant? Asked once of each that kills."""
        if test not in self.sound and test in self.killers.seconds:
            job = {"id": "", "module": "", "tests": [test], "seconds": {test: self.killers.seconds[test]}}
            self.sound[test] = worker.ask(job)["verdict"] == "survived"
        return self.sound.get(test, True)

    def _sound_in_a_copy(self, worker: Worker, module: str, test: str) -> bool:
        """Does the test pass in a copy without a mutant? What cannot even be imported is asked of no test."""
        if test not in self.sound_in_a_copy and test.startswith("tests/"):
            job = {"id": "", "module": module, "tests": [test], "seconds": {}, "source": (ROOT / module).read_text()}
            self.sound_in_a_copy[test] = worker.ask(job)["verdict"] == "survived"
        return self.sound_in_a_copy.get(test, True)

    def _files(self) -> list[str]:
        """The files of the killers, without those that are gone since they were recorded."""
        named = dict.fromkeys(name.split("::")[0] for name in self.killers.seconds)
        return [name for name in named if (ROOT / name).exists()]

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = Module(name)
        return self._modules[name]

    def _ask(self, worker: Worker, mutant: Mutant, source: str = "", more: tuple[str, ...] = ()) -> dict[str, Any]:
        with self._lock:
            tests, whole = self.killers.of(mutant, self.patience)
        if not tests and not more:
            return {"verdict": "survived", "tests": 0, "whole": True}
        seconds = {test: self.killers.seconds[test] for test in tests}
        job = {
            "id": mutant.id,
            "module": mutant.module,
            "tests": tests,
            "seconds": seconds,
            "more": more,
            "without": [test for test, sound in self.sound_in_a_copy.items() if not sound],
            "source": source,
        }
        return worker.ask(job) | {"whole": whole}

    def _say(self, mutant: Mutant, verdict: dict[str, Any], total: int) -> None:
        told = {"id": mutant.id, "module": mutant.module, "line": mutant.line, "kind": mutant.kind,
                "before": mutant.before, "after": mutant.after} | verdict  # fmt: skip
        with self._lock:
            self._done += 1
            with self.results.open("a") as file:
                file.write(json.dumps(told, ensure_ascii=False) + "\n")
            if verdict["verdict"] == "killed":
                self.killers.learn(mutant, verdict["killer"])
            end = verdict.get("killer") or "SURVIVED"
            spent = time.monotonic() - self._began
            print(f"{self._done}/{total} {spent:.0f}s {mutant}: {end}", flush=True)
