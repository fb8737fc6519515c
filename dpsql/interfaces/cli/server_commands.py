"""`dpsql serve` and `dpsql user`: the server, and who may connect to it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from dpsql.errors import InterfaceError
from dpsql.interfaces.cli.terminal import policy_beside

users = typer.Typer(no_args_is_help=True, help="Manage the users of `dpsql serve`.")
UsersFile = Annotated[Path, typer.Option("--users", metavar="FILE", help="The file of users.")]


@users.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name to connect with.")],
    file: UsersFile = Path("users.yaml"),
    analyst: Annotated[
        str | None, typer.Option("--analyst", metavar="NAME", help="Whose account pays; default: NAME's.")
    ] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="For what, where the policy lists purposes.")] = None,
    stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")] = False,
) -> None:
    """Add a user, or give one a new password. The file keeps a SCRAM verifier, never the password."""
    from dpsql.interfaces.server.scram import Verifier
    from dpsql.interfaces.server.users import User, add_user

    password = (
        typer.get_text_stream("stdin").readline().rstrip("\n")
        if stdin
        else typer.prompt("password", hide_input=True, confirmation_prompt=True)
    )
    if len(password) < 8:
        raise InterfaceError("a password must have at least 8 characters", hint="choose a longer one")
    new = add_user(file, User(name, Verifier.of(password), analyst or name, purpose))
    typer.echo(f"{file}: {'added' if new else 'changed'} {name}. A running server reloads it on SIGHUP.")


@users.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="NAME")], file: UsersFile = Path("users.yaml")) -> None:
    """Remove a user from the file."""
    from dpsql.interfaces.server.users import remove_user

    remove_user(file, name)
    typer.echo(f"{file}: removed {name}. A running server reloads it on SIGHUP.")


@users.command("list")
def show(file: UsersFile = Path("users.yaml")) -> None:
    """List the users and whose account pays."""
    from dpsql.interfaces.server.users import read_users

    for user in read_users(file).values():
        typer.echo(f"{user.name}: {user.analyst}{f' ({user.purpose})' if user.purpose else ''}")


def serve(
    db: Annotated[
        str, typer.Argument(metavar="DB", help="A DuckDB file, opened read-only; or postgresql://user@host/database.")
    ],
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Default: policy.yaml beside DB.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="LEDGER", help="A file, or postgresql://… that servers share.")
    ] = None,
    file: UsersFile = Path("users.yaml"),
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 takes a free one.")] = 5433,
    steward_port: Annotated[
        int | None, typer.Option("--steward-port", help="/healthz and /metrics, on loopback only.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", metavar="PEM")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="PEM")] = None,
    connections: Annotated[int, typer.Option("--max-connections")] = 300,
    idle: Annotated[float, typer.Option("--idle", help="Seconds until an idle client is disconnected.")] = 3600,
    statement: Annotated[float, typer.Option("--statement", help="Seconds that one query may take.")] = 120,
    isolate: Annotated[bool, typer.Option("--isolate", help="Open DB in a process of its own.")] = False,
) -> None:
    """Serve the dataset as a PostgreSQL server: for BI tools, editors, drivers and notebooks."""
    from dpsql.interfaces.server.server_limits import ServerLimits
    from dpsql.interfaces.server.startup import ServerFiles, serve_at

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    limits = ServerLimits(connections=connections, idle=idle, statement=statement)
    chosen = policy or policy_beside(db)
    pem = None if certificate is None and key is None else (certificate, key)
    if pem is not None and None in pem:
        raise InterfaceError("a certificate needs its key", hint="give --certificate and --key")
    place = ServerFiles(db, chosen, ledger, file, host, port, steward_port, pem, isolate)  # type: ignore[arg-type]
    asyncio.run(serve_at(place, limits))
