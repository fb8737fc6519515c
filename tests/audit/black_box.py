"""The full black-box audit: every query as it is, and with half the noise planted. It can be stopped and resumed.

python tests/audit/black_box.py --runs 4000 --out figures.jsonl [--correct | --planted]
python tests/audit/black_box.py --table figures.jsonl
"""

from __future__ import annotations

import argparse
import json
import pickle
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from planted import half_the_noise

from dpsql.audit.blackbox.audit import LEVEL, Verdict, asked, judged, refuted
from dpsql.audit.blackbox.binomial import Counts
from dpsql.audit.blackbox.cases import QUERIES, cases
from dpsql.audit.blackbox.promise import Limit


def run(out: Path, runs: int, modes: list[bool]) -> None:
    done = {(line["planted"], line["case"], line["runs"]) for line in _lines(out)}
    for case in cases():
        for planted in modes:
            if (planted, case.name, runs) in done:
                continue
            with half_the_noise() if planted else nullcontext():
                started = perf_counter()
                seen = asked(case, runs, lambda _: None)
                seconds = perf_counter() - started
            kept = out.with_suffix(f".{'planted' if planted else 'correct'}.{case.name.replace(' ', '_')}.pickle")
            kept.write_bytes(pickle.dumps(seen))
            tests = judged(case.name, seen)
            line = {"planted": planted, "case": case.name, "runs": runs, "seconds": seconds}
            with out.open("a") as file:
                file.write(json.dumps({**line, "tests": [asdict(test) for test in tests]}) + "\n")
            print(f"{case.name:32} planted={planted!s:6} {seconds:7.1f} s  least p {_least(tests):.3g}", flush=True)


def table(out: Path) -> None:
    """Holm over all tests of one mode; lower bounds that hold together."""
    for planted in (False, True):
        lines = [line for line in _lines(out) if line["planted"] == planted]
        tests = [_read(test) for line in lines for test in line["tests"]]
        flagged = {test.case for test in refuted(tests)}
        print(f"\n{'half the noise' if planted else 'as it is'}: {len(flagged)} of {len(lines)} flagged")
        for line in lines:
            best = min((_read(test) for test in line["tests"]), key=lambda test: test.p)
            low = best.limit.at(best.lower(LEVEL / max(1, len(tests))))
            print(
                f"{line['case']:32} {best.limit.kind:8} ≤ {best.limit.value:<7.4g} at least {low.value:<7.4g}"
                f" p {best.p:<9.2g} {'FLAGGED' if line['case'] in flagged else '':8}{line['seconds']:7.1f} s"
                f"  {best.counts.hits}/{best.counts.runs} : {best.counts.misses}/{best.counts.others}  {best.event[:60]}"
            )
    print(f"\nqueries: {len(QUERIES)}")


def _least(tests: tuple[Verdict, ...]) -> float:
    return min(test.p for test in tests)


def _read(test: dict[str, Any]) -> Verdict:
    return Verdict(**{**test, "limit": Limit(**test["limit"]), "counts": Counts(**test["counts"])})


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--out", type=Path, default=Path("black_box.jsonl"))
    parser.add_argument("--correct", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--table", type=Path, nargs="?", const=Path("black_box.jsonl"))
    given = parser.parse_args()
    if given.table:
        table(given.table)
    else:
        both = given.correct == given.planted
        run(given.out, given.runs, [False, True] if both else [given.planted])
