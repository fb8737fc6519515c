"""Print every figure of docs/performance.md about speed as one Markdown table: `python tests/bench/run.py`.

Sections may be named: `python tests/bench/run.py speed planning`. `--json FILE` also writes the figures for programs,
`--rows N` changes the size of the speed data, `--profile` shows on stderr where planning and finishing spend their time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import error
import noise
import planning
import prepared
import speed
import startup
from measure import Row, markdown

SECTIONS = ("startup", "planning", "noise", "error", "speed", "prepared")


def main() -> None:
    """Measure, and print."""
    arguments = _arguments()
    sections: dict[str, Callable[[], list[Row]]] = {
        "startup": startup.measure,
        "planning": lambda: planning.measure(profile=arguments.profile),
        "noise": noise.measure,
        "error": error.measure,
        "speed": lambda: speed.measure(arguments.rows, arguments.times),
        "prepared": lambda: prepared.measure(arguments.rows, arguments.times),
    }
    rows = [row for name in arguments.sections or SECTIONS for row in sections[name]()]
    print(markdown(rows))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The benchmark of dpsql.")
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)}; all if none is named"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the speed data")
    parser.add_argument("--times", type=int, default=7, help="repetitions of each speed figure")
    parser.add_argument("--profile", action="store_true", help="profile planning and finishing")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
