"""A spinner for work that takes more than a second: rich's in a terminal, a line of its own in a notebook.

In scripts and pipes nothing is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpsql.cancellation import run_after
from dpsql.notebook_html import element, page, text

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
R = TypeVar("R")
CHILD = "JPY_PARENT_PID"
"""Set by Jupyter for its kernels, and so for what they start."""
PATIENCE = 1.0
"""Seconds after which it appears."""
SPINNER = (
    "<style>@keyframes dpsql-turn{to{transform:rotate(360deg)}}.dpsql .turn{display:inline-block;width:.75em;"
    "height:.75em;border:2px solid var(--dp-track);border-top-color:var(--dp-fill);border-radius:50%;"
    "margin-right:.6em;vertical-align:-.05em;animation:dpsql-turn 1s linear infinite}</style>"
)


def waiting(said: str) -> Context[None]:
    """A spinner for people at a prompt (a notebook, IPython or Python's own); nothing elsewhere."""
    if _notebook():
        return _after_a_while(*_in_notebook(said))
    if not _at_prompt():
        return nullcontext()
    from rich.console import Console

    return spinner(Console(stderr=True, highlight=False), said)


def with_spinner(said: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function, so that a spinner shows while it works."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def waited(*args: P.args, **kwargs: P.kwargs) -> R:
            with waiting(said):
                return function(*args, **kwargs)

        return waited

    return decorate


def spinner(console: Console, said: str) -> Context[None]:
    """A spinner, if the console is a terminal; `!dpsql …` in a notebook looks like one and keeps every line."""
    if not console.is_terminal or CHILD in os.environ:
        return nullcontext()
    status = console.status(said)
    return _after_a_while(status.start, status.stop)


@contextmanager
def bar(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is worked on, as it is told: what, and how many steps of how many are behind."""
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=console, transient=True, disable=not console.is_terminal or CHILD in os.environ) as shown:

        def told(said: str, done: int, of: int) -> None:
            if said not in tasks:
                tasks[said] = shown.add_task(said, total=of)
            shown.update(tasks[said], completed=done)

        yield told


@contextmanager
def _after_a_while(start: Callable[[], object], stop: Callable[[], object]) -> Iterator[None]:
    try:
        with run_after(PATIENCE, start):
            yield
    finally:
        stop()


def _in_notebook(said: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """A line that appears and is gone when the work is done."""
    tools: Any = import_module("IPython.display")
    shown: list[Any] = []
    line = page(SPINNER + element("p", element("span", "", "turn") + text(f"{said} …"), "dim"))

    def start() -> None:
        shown.append(tools.display(tools.HTML(line), display_id=True))

    def stop() -> None:
        for handle in shown:
            handle.update(tools.HTML(""))

    return start, stop


def _notebook() -> bool:
    shell = _shell()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _at_prompt() -> bool:
    return _shell() is not None or hasattr(sys, "ps1")


def _shell() -> object | None:
    """The running IPython, which is not imported to find out."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
