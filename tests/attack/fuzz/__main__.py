"""`python tests/attack/fuzz --statements 100000 --seed 0 [--first N] [CORPUS …]`: the long run, which can be resumed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from attack.fuzz.corpus import read
from attack.fuzz.run import Run

CHUNK = 1_000


def main() -> int:
    """A line for each thousand; what was found; the figures. Stopped, it goes on with `--first`."""
    options = argparse.ArgumentParser(prog="python tests/attack/fuzz", description=__doc__)
    options.add_argument("corpus", nargs="*", type=Path, help="files or folders of SQL to mutate")
    options.add_argument("--statements", type=int, default=100_000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    extra, seen, found, began = read(asked.corpus), Counter[str](), 0, time.process_time()
    slowest = (0.0, "")
    for first in range(asked.first, asked.statements, CHUNK):
        run = Run(asked.seed, first, min(first + CHUNK, asked.statements), extra)
        judge = run.run(lambda _, __: None)
        seen += judge.seen
        slowest = max(slowest, judge.slowest)
        for finding in run.findings:
            print(f"FOUND {finding.what}\n    {finding.again[:2000]!a}", flush=True)
        found += len(run.findings)
        print(f"{run.last:,} done, {found} found, {time.process_time() - began:.0f} s of a processor", flush=True)
    for name, count in sorted(seen.items()):
        print(f"{name:<40}{count:>10,}")
    print(f"slowest: {slowest[0]:.2f} s: {slowest[1][:300]!a}")
    return min(found, 1)


if __name__ == "__main__":
    raise SystemExit(main())
