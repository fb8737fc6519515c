"""The steward's commands on a policy: init, check, prepare and bounds."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from dpsql.interfaces.cli.arguments import Database, Ledger, PolicyFile, open_connection
from dpsql.interfaces.cli.terminal import other_ledger, policy_beside, problems, screen, waiting
from dpsql.progress import bar

if TYPE_CHECKING:
    from dpsql.engines.duckdb.prepare import Written
    from dpsql.session import Connection


def init(
    db: Database,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="The file to write. Default: policy.yaml beside DB."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="NAME", help="The account in the ledger. Default: the name of the file."),
    ] = None,
) -> None:
    """For the steward: draft a policy from a database."""
    from dpsql.engines.open_engine import shown
    from dpsql.interfaces import steward_tasks

    with waiting("reading the database"):
        name = dataset or Path(db.partition("?")[0]).stem
        written, observed = steward_tasks.draft(db, policy or policy_beside(db), name)
    command = f"dpsql check {quote(shown(db))} --policy {quote(str(written))}"
    typer.echo(f"{written}: the draft. Review every line, then run `{command}`.")
    typer.echo(
        f"{observed}: the true minima, maxima and values, for you only (mode 0600). Delete it when you are done."
    )


def check(db: Database, policy: PolicyFile = None, ledger: Ledger = None) -> None:
    """For the steward: verify what the policy declares, and record in the ledger what holds."""
    from dpsql.interfaces import steward_tasks
    from dpsql.interfaces.cli.output import findings_table

    with waiting("checking the database"), open_connection(db, policy, ledger, None, steward=True) as session:
        checked = steward_tasks.check(session)
    screen().print(findings_table(checked.findings))
    screen().print(f"ledger: {checked.ledger}", soft_wrap=True, highlight=False)
    screen().print(f"facts verified for this version of the data: {checked.recorded}")
    if (other := other_ledger(db, session.policy.dataset, checked.ledger)) is not None:
        warning = (
            f"there is another ledger of {session.policy.dataset} beside the database: {other}. A dataset must have"
            " only one ledger; with two, its budget can be spent twice"
        )
        problems().print(warning, style="bold yellow", soft_wrap=True, highlight=False)
    if not checked.ok:
        problems().print("fix what is marked ✗, in the policy or in the data", style="bold red")
        raise typer.Exit(1)


def prepare(db: Database, policy: PolicyFile = None, ledger: Ledger = None) -> None:
    """For the steward: write copies of tables in which each unit is bounded already, for faster queries."""
    from dpsql.interfaces import steward_tasks

    with open_connection(db, policy, ledger, None, steward=True) as session:
        with bar(problems()) as progress:
            written = steward_tasks.prepare(session, progress)
        for each in written:
            mode = session.policy.tables[each.table].prepare or ""
            screen().print(_describe_copy(each, mode, session), soft_wrap=True)


def bounds(
    db: Database, policy: PolicyFile = None, ledger: Ledger = None,
    search: Annotated[
        bool, typer.Option("--search", help="Run the searches that have not been run yet. They are charged.")
    ] = False,
) -> None:  # fmt: skip
    """For the steward: show the bounds that private searches found, as lines to copy into the policy."""
    from dpsql.interfaces import steward_tasks

    with waiting("searching"), open_connection(db, policy, ledger, None, steward=True) as session:
        lines = list(steward_tasks.found(session, search=search))
    for line in lines:
        typer.echo(line)


def _describe_copy(each: Written, mode: str, session: Connection) -> str:
    """Describe a prepared copy. The figures are exact, for the steward only."""
    rows = session.policy.rows_per_unit(each.table)
    if not each.over_units:
        return (
            f"{each.table}: {each.rows:,} rows; no unit has more than {rows:,}. No row was down-weighted or left out."
        )
    share = f"{each.over_rows / each.rows:.1%}"
    head = f"{each.table}: {each.rows:,} rows; {each.over_units:,} units have more than {rows:,} ({share} of the rows)"
    if mode == "weigh":
        return f"{head}. Their rows are down-weighted in each query, as without a copy."
    lost = f"{each.left_out / each.rows:.1%}"
    biased = each.left_out > 0.05 * each.rows
    advice = " This biases answers: raise max_rows_per_unit, or write `prepare: weigh`." if biased else ""
    return f"{head}. {each.left_out:,} rows ({lost}) were left out.{advice}"
