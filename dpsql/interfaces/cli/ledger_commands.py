"""The steward's commands on the ledger: verify, log, export, back up, restore, migrate, and acts that are entries."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from dpsql.errors import LedgerError
from dpsql.interfaces.cli.arguments import Details
from dpsql.interfaces.cli.terminal import printable, screen, waiting

app = typer.Typer(no_args_is_help=True, help="For the steward: manage the ledger.")
data = typer.Typer(no_args_is_help=True, help="For the steward: name versions of the data.")

File = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="The ledger's file (its .head stands beside it), or postgresql://…"),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="NAME", envvar="DPSQL_STEWARD", help="The name of the person who does this. It is recorded."
    ),
]


@app.command()
def create(
    ledger: File,
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="As the policy names it.")],
) -> None:
    """Create an account. In a database that servers share, this is the only way to create one."""
    from dpsql.budget.ledger import create_ledger

    typer.echo(f"{create_ledger(ledger, dataset)}: created for the dataset '{dataset}'.")


@app.command()
def verify(ledger: File) -> None:
    """Verify every page, every link of the hash chain, every stored release and the head."""
    from dpsql.budget.ledger.maintenance import verify as run

    with waiting("verifying"):
        found = run(ledger)
    typer.echo(
        f"{_name(ledger)}: whole. Dataset '{found.dataset}', {found.mark.number} entries,"
        f" {_many(found.charges, 'charge')}, {_many(found.releases, 'release')},"
        f" {found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC."
    )
    typer.echo(f"head: {found.mark.number} {found.mark.hash.hex()}")


@app.command()
def log(
    ledger: File,
    last: Annotated[int | None, typer.Option("--last", metavar="N", min=1, help="Only the last N entries.")] = None,
    analyst: Annotated[
        str | None,
        typer.Option("--analyst", metavar="NAME", help="Only this analyst's entries, in shares of their cap."),
    ] = None,
    details: Details = False,
) -> None:
    """Show who ran which query, when, and at what cost: a share of the dataset's budget."""
    from dpsql.budget.costs import share_text
    from dpsql.budget.ledger import open_ledger
    from dpsql.interfaces.cli.output import cell, new_table

    with open_ledger(ledger, None, create=False) as opened:
        lines = list(opened.log(analyst))
    table = new_table()
    for name in ("entry", "when (UTC)", "kind", "analyst", "cost", *(["in detail"] if details else []), "what"):
        table.add_column(name, justify="right" if name == "cost" else "left")
    for line in lines[-(last or len(lines)) :]:
        cost = ["" if line.share is None else share_text(line.share)]
        cost += ["" if line.cost is None else line.cost.details] if details else []
        who = f"{line.analyst or ''}{f' for {line.purpose}' if line.purpose else ''}"
        parts = (str(line.number), f"{line.at:%Y-%m-%d %H:%M:%S}", line.kind, who, *cost, line.text)
        table.add_row(*(cell(printable(part)) for part in parts))
    screen().print(table)


@app.command()
def export(
    ledger: File,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="A new file; default: standard output.")
    ] = None,
) -> None:
    """Export every entry as a line of JSON, without released tables, exact values or the salt."""
    from dpsql.budget.ledger import open_ledger
    from dpsql.budget.ledger.entries import export_entry as exported

    with open_ledger(ledger, None, create=False) as opened:
        text = "".join(json.dumps(exported(row)) + "\n" for row in opened.rows())
    if to is None:
        typer.echo(text, nl=False)
        return
    _write_new(to, text)
    typer.echo(f"{to}: {text.count(chr(10))} entries")


@app.command()
def backup(ledger: File, to: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Copy the ledger into one new file. It may be in use."""
    from dpsql.budget.ledger.maintenance import backup as run

    with waiting("copying"):
        mark = run(ledger, to)
    typer.echo(f"{to}: {mark.number} entries. It holds the salt: keep it as private as the ledger.")


@app.command()
def restore(
    ledger: File,
    source: Annotated[Path, typer.Option("--from", metavar="BACKUP", help="A backup, or any whole copy.")],
    by: By = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Do not count what was spent after the backup if no file records it. Your name is recorded.",
        ),
    ] = False,
    lost: Annotated[
        str | None,
        typer.Option(
            "--lost",
            metavar="SHARE",
            help="Charge this share of the budget for what was spent after the backup if no file records it: 20%.",
        ),
    ] = None,
) -> None:
    """Merge a backup, or a copy that was found, into the ledger. Whatever either of them has spent stays spent."""
    from dpsql.budget.ledger.maintenance import restore as run

    with waiting("restoring"):
        done = run(ledger, source, _steward(by), accept_loss=accept_loss, lost=_share(lost))
    typer.echo(f"{_name(ledger)}: restored, {done.mark.number} entries.")
    if done.added:
        typer.echo(f"{done.added} entries were added from the backup; what they cost now counts.")
    if done.lost:
        typer.echo(
            f"up to {done.lost} entries are known only from the head. Their cost stays spent: it is charged to the"
            " dataset and, because nobody knows who asked, to every analyst."
        )
    if lost:
        typer.echo(
            f"{lost} of the dataset's budget is charged for what was lost: to the dataset and, because nobody knows who"
            " asked, to every analyst. An analyst whose cap is smaller than that has nothing left."
        )
    elif done.lost is None:
        typer.echo("what was spent but is in no file is not counted. If the lost ledger is found, restore it, too.")
    if done.aside is not None:
        typer.echo(f"the ledger that was there before is now {done.aside}. Keep it until you know what happened.")


@app.command()
def migrate(ledger: File, by: By = None) -> None:
    """Migrate a ledger of an older version to this version."""
    from dpsql.budget.ledger.maintenance import migrate as run

    done = run(ledger, _steward(by))
    if done is None:
        typer.echo(f"{_name(ledger)}: has this version already.")
    else:
        typer.echo(f"{_name(ledger)}: migrated, {done.mark.number} entries. The old file is {done.aside}.")


@app.command("raise-cap")
def raise_cap(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="The policy whose caps are to be in force.")],
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="LEDGER", help="Default: <dataset>.ledger beside the policy.")
    ] = None,
    by: By = None,
) -> None:
    """Apply the caps of the policy, for the dataset and every analyst. Each change is recorded with your name."""
    from dpsql.budget import Caps
    from dpsql.budget.ledger import open_ledger
    from dpsql.policy import ledger_location, load_policy

    name, loaded = _steward(by), load_policy(policy)
    place = ledger_location(loaded, policy, ledger)
    assert place is not None
    with open_ledger(place, loaded.dataset, create=False) as opened:
        for who, purpose in loaded.accounts():
            caps = Caps(*loaded.caps(who, purpose))
            done = "recorded" if opened.record_caps(who, caps, name, purpose) else "in force already"
            whose = f"{who or 'dataset'}{f' for {purpose}' if purpose else ''}"
            window = f", afresh every {caps.every}" if caps.every else ""
            typer.echo(f"{whose}: ε = {float(caps.epsilon):g}, δ = {float(caps.delta):g}{window}: {done}")


@app.command("accept-clock")
def accept_clock(ledger: File, by: By = None) -> None:
    """Continue with this machine's time although the last entry is later (a clock was ahead)."""
    from dpsql.budget.ledger import open_ledger

    name = _steward(by)
    with open_ledger(ledger, None, create=False) as opened:
        opened.accept_clock(name)
    typer.echo(f"{_name(ledger)}: goes on with the time of this machine.")


@data.command()
def bump(
    ledger: File, label: Annotated[str, typer.Argument(metavar="LABEL", help="A public name.")], by: By = None
) -> None:
    """Record a new version of the data. Earlier answers are no longer replayed; what was spent stays spent."""
    from dpsql.budget.ledger import open_ledger

    name = _steward(by)
    with open_ledger(ledger, None, create=False) as opened:
        opened.bump(label, name)
    typer.echo(f"{_name(ledger)}: data version {label}. Facts verified for earlier versions need `dpsql check` again.")


def _share(text: str | None) -> Fraction | None:
    """A share of the budget, as people write it."""
    if text is None:
        return None
    try:
        share = Fraction(text.strip().removesuffix("%").strip()) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if share < 0 or not text.strip().endswith("%"):
        raise LedgerError(f"--lost must be a share of the budget, got '{text}'", hint="write for instance --lost 20%")
    return share


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _name(ledger: str) -> str:
    """Where it is, for people: an address without its password."""
    from dpsql.budget.ledger.locations import location_of

    return location_of(ledger).name


def _steward(by: str | None) -> str:
    from dpsql.budget.ledger import named

    return named(by or "")


def _write_new(path: Path, text: str) -> None:
    """Queries are analysts' own business: readable by the steward only, and never over another file."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise LedgerError(f"{path} cannot be written: {error.strerror}", hint="give a new file name") from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
