"""The command line: thin commands over one connection. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dpsql.errors import Error
from dpsql.interfaces import audit_command, ledger_commands, server_commands
from dpsql.interfaces.places import other_ledger, policy_beside
from dpsql.interfaces.terminal import complain, problems, screen, survive_any_encoding, waiting

if TYPE_CHECKING:
    from dpsql.session import Connection


class Doors(TyperGroup):
    """All commands; what they refuse is printed as message, caret and hint, and ends with exit code 1.

    An unexpected failure is named by its kind only: its text might hold private values.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except Error as error:
            complain(error)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as failure:
            if hasattr(failure, "exit_code"):
                raise
            problems().print(f"dpsql failed unexpectedly ({type(failure).__name__}): please report this as a bug")
        raise typer.Exit(1)


app = typer.Typer(
    cls=Doors, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Plain SQL in, differentially private answers with error bars out.",
)  # fmt: skip


app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(ledger_commands.data, name="data")
app.add_typer(server_commands.users, name="user")
app.command("serve")(server_commands.serve)
app.command("audit")(audit_command.audit)


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Mechanism(StrEnum):
    """Which noise is added."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


Database = Annotated[
    str,
    typer.Argument(
        metavar="DB", help="A DuckDB file (opened read-only), a folder of files, or postgresql://user@host/database."
    ),
]
Query = Annotated[str | None, typer.Argument(metavar="SQL", help="One query, or - to read it from standard input.")]
File = Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from this file.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy; default: policy.yaml beside DB.")
]
Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="LEDGER", help="A file, or postgresql://…; default: <dataset>.ledger beside the policy."
    ),
]
Analyst = Annotated[str | None, typer.Option("--analyst", metavar="NAME", help="Whose account pays.")]
Purpose = Annotated[
    str | None, typer.Option("--purpose", metavar="NAME", help="For what, where the policy lists purposes.")
]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="The price of the whole query; default: the policy's.")
]
Delta = Annotated[float | None, typer.Option("--delta", help="The delta of the whole query; default: the policy's.")]
Accuracy = Annotated[
    list[str] | None,
    typer.Option(
        "--within", "--accuracy", metavar="AMOUNT",
        help="The least price that errs by at most 100, or 2%, or for one column n=100 (may be repeated).",
    ),
]  # fmt: skip
Noise = Annotated[Mechanism | None, typer.Option("--mechanism", help="The noise; default: the policy's.")]
Clipped = Annotated[
    bool, typer.Option("--clipped", help="Also measure, for a part of the price, what the bounds cut off.")
]
Nonnegative = Annotated[bool, typer.Option("--nonnegative", help="Show counts below zero as zero.")]


def _version(asked: bool) -> None:
    if asked:
        from dpsql import __version__

        typer.echo(f"dpsql {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Plain SQL in, differentially private answers with error bars out."""


@app.command()
def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the shop in this new folder, to play with it.")
    ] = None,
) -> None:
    """See it at work: a made-up shop, five questions, a repeated one, a refusal. Needs nothing else."""
    from dpsql.interfaces.demo import run_demo

    run_demo(screen(), keep)


@app.command()
def query(
    db: Database, sql: Query = None, file: File = None, policy: PolicyFile = None, ledger: Ledger = None,
    analyst: Analyst = None, purpose: Purpose = None, epsilon: Epsilon = None, delta: Delta = None,
    mechanism: Noise = None, within: Accuracy = None,
    form: Annotated[Format, typer.Option("--format", help="table, csv or json.")] = Format.TABLE,
    nonnegative: Nonnegative = False, clipped: Clipped = False,
) -> None:  # fmt: skip
    """Answer one query, with error bars and cost."""
    from dpsql.interfaces import show

    text = _text(sql, file)
    with waiting("asking the database"), _connect(db, policy, ledger, analyst, purpose) as session:
        result = session.query(
            text,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            accuracy=_accuracy(within),
            nonnegative=nonnegative,
            clipped=clipped,
        )
        shown = {Format.TABLE: show.answer_table, Format.CSV: show.to_csv, Format.JSON: show.to_json}[form](result)
    if form is Format.TABLE:
        screen().print(shown)
        screen().print(show.footer(result), style="dim", markup=False)
    else:
        typer.echo(str(shown).removesuffix("\n"))


@app.command()
def explain(
    db: Database, sql: Query = None, file: File = None, policy: PolicyFile = None, ledger: Ledger = None,
    analyst: Analyst = None, purpose: Purpose = None, epsilon: Epsilon = None, delta: Delta = None,
    mechanism: Noise = None, within: Accuracy = None,
    engine_sql: Annotated[bool, typer.Option("--sql", help="Show the SQL that the database would run.")] = False,
    clipped: Clipped = False,
) -> None:  # fmt: skip
    """Show what a query would do, cost and miss by. Touches no private data, spends nothing."""
    text = _text(sql, file)
    with _connect(db, policy, ledger, analyst, purpose) as session:
        plan = session.explain(
            text, epsilon=epsilon, delta=delta, mechanism=mechanism, accuracy=_accuracy(within), clipped=clipped
        )
    typer.echo(plan.sql if engine_sql else str(plan))


@app.command()
def budget(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None, analyst: Analyst = None, purpose: Purpose = None,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE,
) -> None:  # fmt: skip
    """Show caps, spent, left and what that would buy: everyone's, and with --analyst that analyst's."""
    from dpsql.interfaces import show

    if form is Format.CSV:
        raise typer.BadParameter("a budget is printed as table or json", param_hint="--format")
    with _connect(db, policy, ledger, analyst, purpose, steward=analyst is None) as session:
        status = session.budget()
    if form is Format.JSON:
        typer.echo(show.budget_json(status))
    else:
        screen().print(show.budget_table(status))


@app.command()
def shell(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None, analyst: Analyst = None,
    purpose: Purpose = None, epsilon: Epsilon = None, delta: Delta = None, mechanism: Noise = None,
    nonnegative: Nonnegative = False,
) -> None:  # fmt: skip
    """Ask interactively, with history and completion; or pipe a script of queries into it."""
    from dpsql.interfaces.shell import Shell

    with _connect(db, policy, ledger, analyst, purpose) as session:
        session.ask(replace(session.asked, epsilon=epsilon, delta=delta, mechanism=mechanism))
        answered = Shell(session, nonnegative=nonnegative).run()
    if not (answered or sys.stdin.isatty()):
        raise typer.Exit(1)


@app.command()
def functions() -> None:
    """List what may stand below an aggregate."""
    from dpsql.interfaces.functions import listing
    from dpsql.interfaces.show import cell, new_table

    table = new_table(show_header=False)
    for group, forms in listing().items():
        table.add_row(cell(group, "bold"), cell("  ".join(forms)))
    screen().print(table)


@app.command()
def refusals() -> None:
    """Print why queries are refused, with what to write instead, as a page of Markdown."""
    from dpsql.refusals import page

    typer.echo(page(), nl=False)


@app.command()
def init(
    db: Database,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Where to write it; default: policy.yaml beside DB.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="NAME", help="The account in the ledger; default: the file's name."),
    ] = None,
) -> None:
    """For the steward: draft a policy from a database."""
    from dpsql.engines.open_engine import shown
    from dpsql.interfaces.steward import draft

    with waiting("reading the database"):
        written, observed = draft(db, policy or policy_beside(db), dataset or Path(db.partition("?")[0]).stem)
    told = f"dpsql check {quote(shown(db))} --policy {quote(str(written))}"
    typer.echo(f"{written}: the draft. Read every line, then run `{told}`.")
    typer.echo(f"{observed}: true extremes and values, for you only (mode 0600). Delete it when the policy is done.")


@app.command()
def check(db: Database, policy: PolicyFile = None, ledger: Ledger = None) -> None:
    """For the steward: verify what the policy declares, and note in the ledger what holds."""
    from dpsql.interfaces import steward
    from dpsql.interfaces.show import findings_table

    with waiting("checking the database"), _connect(db, policy, ledger, None, steward=True) as session:
        checked = steward.check(session)
    screen().print(findings_table(checked.findings))
    screen().print(f"the ledger: {checked.ledger}", soft_wrap=True, highlight=False)
    screen().print(f"verified facts in the ledger for this version of the data: {checked.recorded}")
    if (other := other_ledger(db, session.policy.dataset, checked.ledger)) is not None:
        said = f"beside the database is another ledger of {session.policy.dataset}, {other}: one dataset has one ledger"
        problems().print(
            f"{said}, or each has a budget of its own", style="bold yellow", soft_wrap=True, highlight=False
        )
    if not checked.ok:
        problems().print("mend what is marked ✗: in the policy or in the data", style="bold red")
        raise typer.Exit(1)


@app.command()
def prepare(db: Database, policy: PolicyFile = None, ledger: Ledger = None) -> None:
    """For the steward: write copies of tables in which each unit is bounded at rest, so that queries are faster."""
    from dpsql.interfaces import prepare_command

    with _connect(db, policy, ledger, None, steward=True) as session:
        prepare_command.run(session)


@app.command()
def bounds(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None,
    search: Annotated[bool, typer.Option("--search", help="Make the searches that nobody made yet; charged.")] = False,
) -> None:  # fmt: skip
    """For the steward: what private searches found, bounds as lines to store in the policy."""
    from dpsql.interfaces import steward

    with waiting("searching"), _connect(db, policy, ledger, None, steward=True) as session:
        lines = list(steward.found(session, search=search))
    for line in lines:
        typer.echo(line)


def _accuracy(within: list[str] | None) -> str | dict[str, str] | None:
    """One amount for all columns, or `column=amount` for some."""
    if not within:
        return None
    if len(within) == 1 and "=" not in within[0]:
        return within[0]
    if any("=" not in each for each in within):
        raise typer.BadParameter("give one amount for all columns, or column=amount for each", param_hint="--within")
    return {name: amount for name, _, amount in (each.rpartition("=") for each in within)}


def _connect(
    db: str,
    policy: Path | None,
    ledger: str | None,
    analyst: str | None,
    purpose: str | None = None,
    *,
    steward: bool = False,
) -> Connection:
    from dpsql.session import connect

    chosen = policy or policy_beside(db)
    return connect(db, policy=chosen, ledger=ledger, analyst=analyst, purpose=purpose, steward=steward)


def _text(sql: str | None, file: Path | None) -> str:
    """The query, from the argument, a file or standard input."""
    if (sql is None) == (file is None):
        raise typer.BadParameter("give one query: as text, as - for standard input, or with --file", param_hint="SQL")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise typer.BadParameter(f"there is no file {file}", param_hint="--file") from None
        except (OSError, UnicodeDecodeError):
            raise typer.BadParameter(f"{file} cannot be read as text", param_hint="--file") from None
    return sys.stdin.read() if sql == "-" else str(sql)


def main() -> None:
    """The entry point."""
    survive_any_encoding()
    app()


if __name__ == "__main__":
    main()
