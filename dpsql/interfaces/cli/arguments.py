"""Arguments and options that several commands share, and how a command opens its connection."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsql.interfaces.cli.terminal import policy_beside

if TYPE_CHECKING:
    from dpsql.session import Connection


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Mechanism(StrEnum):
    """The noise distribution."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


Database = Annotated[
    str,
    typer.Argument(
        metavar="DB", help="A DuckDB file (opened read-only), a folder of files, or postgresql://user@host/database."
    ),
]
Query = Annotated[str | None, typer.Argument(metavar="SQL", help="The query, or - to read it from standard input.")]
File = Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from this file.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy file. Default: policy.yaml beside DB.")
]
Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The ledger: a file or postgresql://…. Default: <dataset>.ledger beside the policy.",
    ),
]
Analyst = Annotated[str | None, typer.Option("--analyst", metavar="NAME", help="The analyst whose account is charged.")]
Purpose = Annotated[
    str | None,
    typer.Option("--purpose", metavar="NAME", help="The purpose of the query, if the policy lists purposes."),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="SHARE",
        help="What the whole query may cost, as a share of your budget: 2%. Default: the policy's default.",
    ),
]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="For experts: epsilon, in place of a price.")]
Delta = Annotated[
    float | None, typer.Option("--delta", help="Delta for the whole query. Default: the policy's default.")
]
Details = Annotated[bool, typer.Option("--details", help="Show costs and budgets in ε, δ and ρ, too.")]
Accuracy = Annotated[
    list[str] | None,
    typer.Option(
        "--within", "--accuracy", metavar="AMOUNT",
        help="Pay only as much as this accuracy needs: 100, 2%, or n=100 for one column (may be repeated).",
    ),
]  # fmt: skip
Noise = Annotated[
    Mechanism | None, typer.Option("--mechanism", help="The noise distribution. Default: the policy's default.")
]
Clipped = Annotated[
    bool, typer.Option("--clipped", help="Spend part of the price on estimating how much the bounds cut off.")
]
Nonnegative = Annotated[bool, typer.Option("--nonnegative", help="Show negative counts as zero.")]


def parse_accuracy(within: list[str] | None) -> str | dict[str, str] | None:
    """Read `--within`: one amount for all columns, or `column=amount` for some."""
    if not within:
        return None
    if len(within) == 1 and "=" not in within[0]:
        return within[0]
    if any("=" not in each for each in within):
        raise typer.BadParameter("give one amount for all columns, or column=amount for each", param_hint="--within")
    return {name: amount for name, _, amount in (each.rpartition("=") for each in within)}


def open_connection(
    db: str,
    policy: Path | None,
    ledger: str | None,
    analyst: str | None,
    purpose: str | None = None,
    *,
    steward: bool = False,
) -> Connection:
    """Open the database with the policy that was given, or the one beside it."""
    from dpsql.session import connect

    chosen = policy or policy_beside(db)
    return connect(db, policy=chosen, ledger=ledger, analyst=analyst, purpose=purpose, steward=steward)


def read_query(sql: str | None, file: Path | None) -> str:
    """Return the query from the argument, a file or standard input."""
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
