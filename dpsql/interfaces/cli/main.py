"""`dpsql`: the command line. Each command imports the heavy modules that it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpsql.errors import Error
from dpsql.interfaces.cli import audit_command, ledger_commands, policy_commands, query_commands, server_commands
from dpsql.interfaces.cli.terminal import complain, problems, screen, survive_any_encoding


class ErrorReportingGroup(TyperGroup):
    """All commands. A refusal is printed as message, caret and hint, and ends with exit code 1.

    Of an unexpected exception only the type is printed, because its text could contain private values.
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
    cls=ErrorReportingGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Plain SQL in, differentially private answers with error bars out.",
)  # fmt: skip


def _version(requested: bool) -> None:
    if requested:
        from dpsql import __version__

        typer.echo(f"dpsql {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plain SQL in, differentially private answers with error bars out."""


@app.command()
def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the example shop in this new folder.")
    ] = None,
) -> None:
    """See dpsql at work on a made-up shop: five questions, a repeated one and a refusal."""
    from dpsql.interfaces.cli.demo import run_demo

    run_demo(screen(), keep)


app.command("query")(query_commands.query)
app.command("explain")(query_commands.explain)
app.command("budget")(query_commands.budget)
app.command("shell")(query_commands.shell)
app.command("functions")(query_commands.functions)
app.command("refusals")(query_commands.refusals)
app.command("init")(policy_commands.init)
app.command("check")(policy_commands.check)
app.command("prepare")(policy_commands.prepare)
app.command("bounds")(policy_commands.bounds)
app.command("serve")(server_commands.serve)
app.command("audit")(audit_command.audit)
app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(ledger_commands.data, name="data")
app.add_typer(server_commands.users, name="user")


def main() -> None:
    """Run the command line."""
    survive_any_encoding()
    app()
