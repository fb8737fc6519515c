"""The terminal: where answers and complaints go, and a spinner for work that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from dpsql.errors import Error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PATIENCE = 1.0
"""Seconds after which the spinner appears."""


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


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner on standard error once the work takes longer than a second; nothing where that is no terminal."""
    console = problems()
    if not console.is_terminal:
        yield
        return
    status = console.status(text)
    timer = Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
