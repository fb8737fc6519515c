"""Plant bugs in the privacy modules, one at a time, and print which test catches each: `python tests/mutation/run.py`.

`--hand` plants those of hand.toml, `--mechanical` those made from the source (both if neither is named);
`--module PART` only those of modules with that text in their path; `--sample N --seed S` a random sample of the
mechanical ones, in an order that the seed fixes, so that a run that was stopped is a random sample too.
`--resume FILE` (default .mutation/results.jsonl) keeps each verdict as a line, and asks for none twice;
`--again` asks once more for those that survived without a reason, and for no new ones. `--report` prints what the file has.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hand import Bug, bugs
from killers import Killers
from mechanical import Module, Mutant
from modules import ROOT, privacy_modules
from pool import Worker, in_threads, read_record, record, workers
from score import excused, read_results, report

WORK = ROOT / ".mutation"


class Trial:
    """Mutants against their killers, side by side."""

    def __init__(self, killers: Killers, results: Path, patience: float, jobs: int, until: float | None = None) -> None:
        self.killers, self.results, self.patience, self.jobs, self.until = killers, results, patience, jobs, until
        self._lock, self._began, self._done = threading.Lock(), time.monotonic(), 0
        self._modules: dict[str, Module] = {}
        self.sound: dict[str, bool] = {}

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
        """In the living functions if it can be; else, or if tests of its own are named, in a copy."""
        if isinstance(each, Bug):
            mutant, source, more = each.mutant, each.source, each.tests
        else:
            mutant, source, more = each, "", ()
        verdict = self._ask(warm, mutant, source)
        while verdict["verdict"] == "killed" and not self._sound(warm, verdict["killer"]):
            self.killers.drop(verdict["killer"])
            verdict = self._ask(warm, mutant, source)
        if verdict["verdict"] == "killed" or (verdict["verdict"] == "survived" and not more):
            return verdict
        if not source:
            with self._lock:
                source = self._module(mutant.module).mutated(mutant.id)
        return self._ask(cold, mutant, source, more)

    def _sound(self, worker: Worker, test: str) -> bool:
        """Does the test pass without a mutant? Asked once of each that kills."""
        if test not in self.sound and test in self.killers.seconds:
            job = {"id": "", "module": "", "tests": [test], "seconds": {test: self.killers.seconds[test]}}
            self.sound[test] = worker.ask(job)["verdict"] == "survived"
        return self.sound.get(test, True)

    def _files(self) -> list[str]:
        return list(dict.fromkeys(name.split("::")[0] for name in self.killers.seconds))

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


def main() -> int:
    arguments = _arguments()
    WORK.mkdir(exist_ok=True)
    known = read_results(arguments.resume)
    chosen = _chosen(arguments)
    if not arguments.report:
        killers = _killers(arguments)
        for each in known.values():
            if each["verdict"] == "killed" and each["killer"] in killers.seconds:
                killers.kills[each["killer"]] += 1
                killers.near[each["module"]][each["killer"]] += 1
        asked = [m for m in chosen if _asked(known.get(_id(m)), arguments.again)]
        until = None if arguments.minutes is None else time.time() + 60 * arguments.minutes
        Trial(killers, arguments.resume, arguments.patience, arguments.jobs, until).run(asked)
        known = read_results(arguments.resume)
    print(report(known, [_id(m) for m in chosen]))
    return 0


def _id(each: Mutant | Bug) -> str:
    return each.mutant.id if isinstance(each, Bug) else each.id


def _asked(verdict: dict[str, Any] | None, again: bool) -> bool:
    if verdict is None or not again:
        return verdict is None and not again
    return verdict["verdict"] == "survived" and not excused(verdict["id"])


def _killers(arguments: argparse.Namespace) -> Killers:
    path = WORK / "reached.jsonl"
    if arguments.record or not path.exists():
        return record(arguments.jobs, path)
    return read_record(path)


def _chosen(arguments: argparse.Namespace) -> list[Mutant | Bug]:
    both = not (arguments.hand or arguments.mechanical)
    planted = [bug for bug in bugs() if arguments.module in bug.mutant.module] if arguments.hand or both else []
    names = [name for name in privacy_modules() if arguments.module in name]
    made = [m for name in names for m in Module(name).mutants] if arguments.mechanical or both else []
    random.Random(arguments.seed).shuffle(made)
    return [*planted, *made[: arguments.sample]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hand", action="store_true", help="the bugs of hand.toml")
    parser.add_argument("--mechanical", action="store_true", help="those made from the source")
    parser.add_argument("--module", default="", help="only modules with this text in their path")
    parser.add_argument("--sample", type=int, default=None, help="so many mechanical ones, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the mechanical ones")
    parser.add_argument("--resume", type=Path, default=WORK / "results.jsonl", help="the file of verdicts")
    parser.add_argument("--again", action="store_true", help="ask once more for those that survived")
    parser.add_argument("--record", action="store_true", help="record anew which tests reach which lines")
    parser.add_argument("--report", action="store_true", help="print what the file has")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds of tests for one mutant")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument("--jobs", type=int, default=2, help="workers side by side")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
