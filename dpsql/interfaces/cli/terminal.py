"""The terminal: standard output and standard error, and the default places of the policy and the ledger."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.progress import spinner

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def screen() -> Console:
    """Answers: standard output."""
    from rich.console import Console

    return Console(highlight=False)


def problems() -> Console:
    """Complaints and spinners: standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    """Text without control characters: a group key from the data must not move the cursor or ring the bell."""
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)


def complain(error: Error) -> None:
    """Print an error, without wrapping, so that the caret stays below its clause."""
    problems().print(complaint(error), soft_wrap=True)


def complaint(error: Error) -> Text:
    """Message, caret and hint."""
    from rich.text import Text

    text = Text(printable(str(error)))
    text.stylize("bold red", 0, len(printable(error.message)))
    text.highlight_regex(r"(?m)^ *\^+$", "red")
    text.highlight_regex(r"(?m)^hint:", "bold green")
    return text


def survive_any_encoding() -> None:
    """A terminal that knows no ± shows a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def waiting(text: str) -> AbstractContextManager[None]:
    """A spinner on standard error once the work takes longer than a second; nothing where that is no terminal."""
    return spinner(problems(), text)


# default files -------------------------------------------------------------------------------------------------------


def policy_beside(database: str) -> Path:
    """Beside the file; for a database server, in this folder."""
    return Path("policy.yaml") if "://" in database else Path(database).parent / "policy.yaml"


def other_ledger(database: str, dataset: str, used: str) -> Path | None:
    """A ledger beside the database file that has the dataset's name and is not the one in use."""
    beside = Path(database).parent / f"{dataset}.ledger"
    return beside if "://" not in database and beside.exists() and beside.resolve() != Path(used).resolve() else None
