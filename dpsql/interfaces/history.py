"""Line editing for the shell: history in a private file, and completion of SQL words, tables and columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

WORDS = (
    "select", "from", "where", "group", "by", "having", "order", "limit", "offset", "distinct", "with", "as", "and",
    "or", "not", "in", "is", "null", "between", "like", "ilike", "case", "when", "then", "else", "end", "count", "sum",
    "avg", "filter", "over", "partition", "union", "all", "join", "left", "right", "full", "inner", "on", "using",
    "asc", "desc", "cast", "interval", "date", "timestamp", "extract", "date_trunc", "coalesce", "greatest", "least",
    "round", "true", "false",
)  # fmt: skip
LONGEST = 2_000
"""Lines of history that are kept."""


def history_file() -> Path:
    """Where the history is kept: DPSQL_HISTORY, or the user's own state directory."""
    named = os.environ.get("DPSQL_HISTORY")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(named) if named else Path(state) / "dpsql" / "history"


def complete(text: str, names: Iterable[str]) -> list[str]:
    """What the word might become: SQL words in the case in which they are typed, names as they are spelled."""
    words = [word.upper() if text.isupper() else word for word in WORDS]
    return sorted({each for each in [*words, *names] if each.lower().startswith(text.lower())})


@contextmanager
def line_editing(names: Iterable[str]) -> Iterator[None]:
    """Completion and history for `input()`, where the platform has readline."""
    readline = _readline()
    if readline is None:
        yield
        return
    known, file = list(names), history_file()
    readline.set_completer(lambda text, state: dict(enumerate(complete(text, known))).get(state))
    readline.set_completer_delims(" \t\n,()=<>+-*/;'\"")
    bind = "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    readline.parse_and_bind(bind)
    readline.clear_history()
    with suppress(OSError):
        readline.read_history_file(str(file))
    try:
        yield
    finally:
        with suppress(OSError):
            _save(readline, file)


def _save(readline: ModuleType, file: Path) -> None:
    """Queries are the analyst's own business: the file is readable by nobody else, from its first byte on."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
    file.chmod(0o600)
    readline.set_history_length(LONGEST)
    readline.write_history_file(str(file))


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
