"""Attack dpsql itself, over data made for the purpose, and print what was found.

python tests/attack/run.py                                      all checks, about a quarter of an hour
python tests/attack/run.py --check files --pairs 3000           files by every writer (240 pairs each in turn)
python tests/attack/run.py --check neighbours --long --resume state
python tests/attack/run.py --check neighbours --long --part 1/2 --json one.json
python tests/attack/run.py merge one.json two.json --html audit.html
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).parents[1]))

import typer

from attack.checks import ATTACKS
from dpsql.audit.report import Report
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import audit_command as command
from dpsql.interfaces.cli.audit_command import DOORS


def attack(
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[merge REPORT…]", help="`merge` and the JSON reports of several parts."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help=f"Run only this check (may be repeated): {', '.join(ATTACKS)}."),
    ] = None,
    pairs: command.Pairs = None,
    seed: command.Seed = 0,
    long: command.Long = False,
    resume: command.Resume = None,
    part: command.Part = "1/1",
    jobs: command.Jobs = 1,
    json: command.Json = None,
    html: command.Html = None,
) -> None:
    """Attack dpsql itself, over worlds made for the purpose.

    Exit code 0: nothing was found; 1: something was found, or the audit is incomplete; 2: wrong usage.
    """

    def run() -> Report:
        if given:
            if given[0] != "merge":
                raise InterfaceError("these checks make their own data", hint=f"dpsql audit {given[0]}")
            return command.merge_reports([Path(each) for each in given[1:]], ATTACKS)
        doors, absent = command.installed_doors(DOORS)
        settings = replace(command.audit_settings(pairs, seed, long, resume, part, jobs), doors=doors, absent=absent)
        return command.run_checks((), settings, ATTACKS, check, subject="the built-in worlds")

    command.finish(run, json, html, resume)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(attack)

if __name__ == "__main__":
    app()
