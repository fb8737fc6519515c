"""The full black-box audit: every query as it is, and with half the noise planted. It can be stopped and resumed.

python tests/audit/black_box.py [--runs 6400] [--out figures.jsonl] [--correct | --planted] [--share 1/2] [--part 1/3]
python tests/audit/black_box.py --only "least, Laplace" "least, Gaussian"
python tests/audit/black_box.py --table figures.jsonl
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

from attack.blackbox_cases import QUERIES, cases
from planted import part_of_the_noise

from dpsql.audit.blackbox.promise_test import Counts, Limit
from dpsql.audit.blackbox.rounds import LEVEL, EventTest, audit, refuted

ONE = LEVEL / (2 * len(QUERIES))
"""The level of one test: two for each query, and all of them together at LEVEL."""


def run(out: Path, runs: int, shares: list[str], names: tuple[str, ...]) -> None:
    done = {(line["share"], line["case"]) for line in _lines(out)}
    for case in cases(names):
        for share in shares:
            if (share, case.name) in done:
                continue
            started = process_time()
            with nullcontext() if share == "1" else part_of_the_noise(Fraction(share)):
                made = audit(case, runs, lambda _: None, level=ONE)
            seconds = process_time() - started
            line = {"share": share, "case": case.name, "runs": made.runs, "answered": made.answered, "cpu": seconds}
            line |= {"factor": made.factor(ONE), "tests": [asdict(test) for test in made.tests]}
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(_shown(line), flush=True)


def table(out: Path) -> None:
    """Holm over all tests of one share of the noise; flagged, and the most noise that would have been.

    Where only some queries were asked, their tests get no more of the level than they get among all.
    """
    lines = _lines(out)
    for share in dict.fromkeys(line["share"] for line in lines):
        some = [line for line in lines if line["share"] == share]
        tests = [_read(test) for line in some for test in line["tests"]]
        flagged = {test.case for test in refuted(tests, ONE * len(tests))}
        seconds = sum(line["cpu"] for line in some)
        print(f"\n{share} of the noise: {len(flagged)} of {len(some)} flagged, {seconds:.0f} s of CPU")
        for line in some:
            print(_shown(line) + ("  FLAGGED" if line["case"] in flagged else ""))


def _shown(line: dict[str, Any]) -> str:
    best = min((_read(test) for test in line["tests"]), key=lambda test: test.p)
    return (
        f"{line['case']:36} ×{line['share']:4} {2 * line['runs']:6} runs {line['cpu']:5.1f} s  "
        f"{best.limit.kind:7} ≤ {best.limit.value:<6.3g} p {best.p:<8.2g} would flag ≤ {line['factor']:.2f}×"
    )


def _read(test: dict[str, Any]) -> EventTest:
    return EventTest(**{**test, "limit": Limit(**test["limit"]), "counts": Counts(**test["counts"])})


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6_400, help="the most, of each neighbour")
    parser.add_argument("--out", type=Path, default=Path("black_box.jsonl"))
    parser.add_argument("--correct", action="store_true", help="only the right noise")
    parser.add_argument("--planted", action="store_true", help="only a share of it")
    parser.add_argument("--share", default="1/2", help="the share that is planted")
    parser.add_argument("--part", default="1/1", help="every third query, from the first: 1/3; parts may share a file")
    parser.add_argument("--only", nargs="+", choices=QUERIES, default=tuple(QUERIES), metavar="QUERY", help="by name")
    parser.add_argument("--table", type=Path, nargs="?", const=Path("black_box.jsonl"))
    given = parser.parse_args()
    if not given.table:
        number, of = map(int, given.part.split("/"))
        both = given.correct == given.planted
        shares = ["1", given.share] if both else [given.share if given.planted else "1"]
        run(given.out, given.runs, shares, tuple(given.only)[number - 1 :: of])
    table(given.table or given.out)
