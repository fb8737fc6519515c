"""The commands of analysts: query, explain, budget, shell, functions and refusals."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dpsql.interfaces.cli.arguments import (
    Accuracy,
    Analyst,
    Clipped,
    Database,
    Delta,
    Details,
    Epsilon,
    File,
    Format,
    Ledger,
    Noise,
    Nonnegative,
    PolicyFile,
    Price,
    Purpose,
    Query,
    open_connection,
    parse_accuracy,
    read_query,
)
from dpsql.interfaces.cli.terminal import screen, waiting
from dpsql.options import QueryOptions


def query(
    db: Database, sql: Query = None, file: File = None, policy: PolicyFile = None, ledger: Ledger = None,
    analyst: Analyst = None, purpose: Purpose = None, price: Price = None, epsilon: Epsilon = None,
    delta: Delta = None, mechanism: Noise = None, within: Accuracy = None,
    form: Annotated[Format, typer.Option("--format", help="table, csv or json.")] = Format.TABLE,
    nonnegative: Nonnegative = False, clipped: Clipped = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show all notes, not only the first.")] = False,
    details: Details = False,
) -> None:  # fmt: skip
    """Answer a query, with error bars and its cost."""
    from dpsql.interfaces.cli import output

    text = read_query(sql, file)
    with waiting("querying the database"), open_connection(db, policy, ledger, analyst, purpose) as session:
        result = session.query(
            text,
            price=price,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            accuracy=parse_accuracy(within),
            nonnegative=nonnegative,
            clipped=clipped,
        )
        shown = {Format.TABLE: output.answer_table, Format.CSV: output.to_csv, Format.JSON: output.to_json}[form](
            result
        )
        below = output.footer(result, notes=notes, details=details)
    if form is Format.TABLE:
        screen().print(shown)
        screen().print(below, style="dim", markup=False)
    else:
        typer.echo(str(shown).removesuffix("\n"))


def explain(
    db: Database, sql: Query = None, file: File = None, policy: PolicyFile = None, ledger: Ledger = None,
    analyst: Analyst = None, purpose: Purpose = None, price: Price = None, epsilon: Epsilon = None,
    delta: Delta = None, mechanism: Noise = None, within: Accuracy = None,
    engine_sql: Annotated[bool, typer.Option("--sql", help="Show the SQL that the database would run.")] = False,
    clipped: Clipped = False,
) -> None:  # fmt: skip
    """Show what a query would do, what it would cost and how accurate it would be. Spends nothing."""
    text = read_query(sql, file)
    with open_connection(db, policy, ledger, analyst, purpose) as session:
        plan = session.explain(
            text,
            price=price,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            accuracy=parse_accuracy(within),
            clipped=clipped,
        )
    typer.echo(plan.sql if engine_sql else str(plan))


def budget(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None, analyst: Analyst = None, purpose: Purpose = None,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE, details: Details = False,
) -> None:  # fmt: skip
    """Show the budget: caps, spent and remaining, for everyone and, with --analyst, for that analyst."""
    from dpsql.interfaces.cli import output

    if form is Format.CSV:
        raise typer.BadParameter("a budget is printed as table or json", param_hint="--format")
    with open_connection(db, policy, ledger, analyst, purpose, steward=analyst is None) as session:
        status = session.budget()
    if form is Format.JSON:
        typer.echo(output.budget_json(status))
    else:
        screen().print(output.budget_table(status, details=details))


def shell(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None, analyst: Analyst = None,
    purpose: Purpose = None, price: Price = None, epsilon: Epsilon = None, delta: Delta = None,
    mechanism: Noise = None, nonnegative: Nonnegative = False,
) -> None:  # fmt: skip
    """Start an interactive shell with history and completion, or run a script of queries from standard input."""
    from dpsql.interfaces.cli.shell import Shell

    with open_connection(db, policy, ledger, analyst, purpose) as session:
        session.ask(QueryOptions(epsilon, delta, mechanism, price=price).over(session.asked))
        answered = Shell(session, nonnegative=nonnegative).run()
    if not (answered or sys.stdin.isatty()):
        raise typer.Exit(1)


def functions() -> None:
    """List the functions and forms that may be used below an aggregate."""
    from dpsql.interfaces.cli.function_list import listing
    from dpsql.interfaces.cli.output import cell, new_table

    table = new_table(show_header=False)
    for group, forms in listing().items():
        table.add_row(cell(group, "bold"), cell("  ".join(forms)))
    screen().print(table)


def refusals() -> None:
    """Print, as a page of Markdown, why queries are refused and what to write instead."""
    from dpsql.refusals import page

    typer.echo(page(), nl=False)
