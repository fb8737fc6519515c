"""Plant bugs in the privacy modules, one at a time, and print which test catches each: `python tests/mutation/run.py`.

`--hand` plants those of hand.toml, `--mechanical` those made from the source (both if neither is named);
`--module PART` only those of modules with that text in their path; `--sample N --seed S` a random sample of the
mechanical ones, in an order that the seed fixes, so that a run that was stopped is a random sample too.
`--resume FILE` (default .mutation/results.jsonl) keeps each verdict as a line, and asks for none twice;
`--again` asks once more for those that survived without a reason, and for no new ones. `--report` prints what the file has.
`--tests PATH ...` asks all tests of those paths and no others, for which nothing need be recorded: the quick way while
writing tests of one module. Its verdicts are kept apart (.mutation/narrow.jsonl): they say what those tests catch.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

from hand import Bug, bugs
from killers import Killers
from mechanical import Module, Mutant
from modules import ROOT, privacy_modules
from pool import all_of, read_record, record
from score import excused, read_results, report
from trial import Trial

WORK = ROOT / ".mutation"


def main() -> int:
    arguments = _arguments()
    arguments.resume = arguments.resume or WORK / ("narrow.jsonl" if arguments.tests else "results.jsonl")
    WORK.mkdir(exist_ok=True)
    known = read_results(arguments.resume)
    chosen = _chosen(arguments)
    if not arguments.report:
        until = None if arguments.minutes is None else time.time() + 60 * arguments.minutes
        killers = _killers(arguments, until)
        for each in known.values():
            if each["verdict"] == "killed" and each["killer"] in killers.seconds:
                killers.kills[each["killer"]] += 1
                killers.near[each["module"]][each["killer"]] += 1
        if not chosen:
            raise SystemExit(f"no mutant has {arguments.module!r} in its module's path: see tests/mutation/modules.py")
        asked = [m for m in chosen if _asked(known.get(_id(m)), arguments.again)]
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


def _killers(arguments: argparse.Namespace, until: float | None) -> Killers:
    if arguments.tests:
        return all_of(arguments.tests)
    path = WORK / "reached.jsonl"
    if arguments.record or not path.exists():
        return record(arguments.jobs, path, until)
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
    parser.add_argument("--resume", type=Path, default=None, help="the file of verdicts")
    parser.add_argument("--again", action="store_true", help="ask once more for those that survived")
    parser.add_argument("--tests", nargs="+", default=(), help="ask these tests only, and all of them")
    parser.add_argument("--record", action="store_true", help="go on recording which tests reach which lines")
    parser.add_argument("--report", action="store_true", help="print what the file has")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds of tests for one mutant")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long, recording included")
    parser.add_argument("--jobs", type=int, default=2, help="workers side by side")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
