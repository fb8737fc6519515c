"""The interactive shell: SQL up to `;`, and commands that begin with a backslash. An error never ends the session.

Line editing has a history in a private file, and completes SQL keywords, tables and columns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError

from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.cli.output import answer_table, budget_table, cell, footer, new_table, rows_as_lines
from dpsql.interfaces.cli.terminal import complain, printable, screen, waiting
from dpsql.interfaces.visible_tables import TableInfo, visible_tables
from dpsql.options import QueryOptions
from dpsql.policy.identifiers import fold
from dpsql.sql.text_limits import MAX_LENGTH, limit_text

if TYPE_CHECKING:
    from dpsql.session import Connection

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


# the shell -----------------------------------------------------------------------------------------------------------

HELP = """\
SELECT …;            answer a query, with error bars and cost; it may span lines and ends with a semicolon
\\explain SELECT …;   what the query would do, cost and miss by; spends nothing
\\budget              caps, spent, left; \\budget details shows them in ε, δ and ρ
\\tables              the tables there are, also \\dt
\\d TABLE             the columns of a table, and what the policy says of them
\\price [SHARE]       what each of the next queries may cost, as \\price 2%; without a share, show it
SET dpsql.price = '2%';   the same in SQL, also dpsql.epsilon, delta and mechanism; RESET ALL; undoes it
\\timing              show how long each query takes, or no longer
\\x                   show each row as lines, one for each column, or as a table again
\\help                this text, also \\? or help
\\q                   leave, also exit, quit or Ctrl-D; Ctrl-C drops the line"""


WITHOUT_BACKSLASH = ("help", "exit", "quit")


class Shell:
    """One session over one connection."""

    def __init__(self, db: Connection, *, nonnegative: bool = False) -> None:
        self.db, self.nonnegative = db, nonnegative
        self.failed = self.done = False
        self._timed = self._rows_as_lines = False
        self._buffer = ""
        self._commands: dict[str, Callable[[str], None]] = {
            "budget": self._budget, "tables": self._tables, "dt": self._tables, "d": self._describe,
            "price": self._price, "epsilon": self._epsilon, "timing": self._timing, "x": self._expanded,
            "help": self._help, "?": self._help, "h": self._help,
            "q": self._quit, "quit": self._quit, "exit": self._quit,
        }  # fmt: skip

    def run(self) -> bool:
        """Read until the end of input; whether everything was answered."""
        names = {name for table in visible_tables(self.db) for name in _names(table)}
        with line_editing(names | {f"\\{command}" for command in ("explain", *self._commands)}):
            if sys.stdin.isatty():
                screen().print("dpsql shell: end a query with ;  \\help for help, \\q to leave", markup=False)
            while not self.done:
                self._step()
        return not self.failed

    def _step(self) -> None:
        try:
            self.feed(input(self._prompt()))
        except KeyboardInterrupt:
            self._buffer = ""
            screen().print("^C")
        except EOFError:
            self._end()

    def _prompt(self) -> str:
        if not sys.stdin.isatty():
            return ""
        return "  ...> " if self._buffer.strip() else "dpsql> "

    def _end(self) -> None:
        """At the end of a script a last query may do without its semicolon; at a terminal Ctrl-D drops it."""
        self.done = True
        if sys.stdin.isatty():
            screen().print()
        else:
            self.drop()

    def drop(self) -> None:
        """Ask what was written so far, as far as it goes."""
        text, self._buffer = self._buffer, ""
        if text.strip():
            self._guarded(self._statement, text)

    def feed(self, line: str) -> None:
        """One more line of input; no SQL begins a line with a backslash, so commands work within a query, too."""
        text = line.strip()
        word = text.partition(" ")[0].rstrip(";")
        if self._buffer.strip().startswith("\\explain") and word.startswith("\\"):
            pending, self._buffer = self._buffer, ""
            self._guarded(self._statement, pending)
        if text.rstrip(";").strip().lower() in WITHOUT_BACKSLASH and not self._buffer.strip():
            text = word = f"\\{text.rstrip(';').strip().lower()}"
        if word.startswith("\\") and word != "\\explain":
            self._guarded(self._command, text.rstrip(";"))
            return
        if len(self._buffer) + len(line) > MAX_LENGTH:
            self._guarded(limit_text, self._buffer + line)
            self._buffer = ""
            return
        if ";" not in line:
            self._buffer += f"{line}\n"
            return
        *statements, self._buffer = split(f"{self._buffer}{line}\n")
        for statement in statements:
            self._guarded(self._statement, statement)

    def _guarded(self, action: Callable[[str], None], text: str) -> None:
        try:
            action(text)
        except Error as error:
            self.failed = True
            complain(error)
        except KeyboardInterrupt:
            self.failed = True
            screen().print("stopped; what was charged stays charged, and a stored answer is replayed free")

    def _command(self, line: str) -> None:
        name, _, rest = line[1:].partition(" ")
        action = self._commands.get(name)
        if action is None:
            raise InterfaceError(f"there is no command \\{printable(name)}", hint="\\help lists the commands")
        action(rest.strip())

    def _statement(self, text: str) -> None:
        text = text.strip()
        if text.startswith("\\explain"):
            self._explain(text.removeprefix("\\explain").strip())
        elif text and not self.db.settle(text):
            self._query(text)

    def _query(self, sql: str) -> None:
        with waiting("querying the database"):
            began = perf_counter()
            result = self.db.query(sql, nonnegative=self.nonnegative)
            seconds = perf_counter() - began
            table = rows_as_lines(result) if self._rows_as_lines else answer_table(result)
        screen().print(table)
        screen().print(footer(result), style="dim", markup=False)
        if self._timed:
            screen().print(f"time: {1000 * seconds:,.0f} ms", style="dim", markup=False)

    def _explain(self, sql: str) -> None:
        screen().print(str(self.db.explain(sql)), markup=False, soft_wrap=True)

    def _budget(self, how: str) -> None:
        screen().print(budget_table(self.db.budget(), details=how == "details"))

    def _tables(self, _: str) -> None:
        table = new_table()
        for title in ("table", "rows", "columns"):
            table.add_column(title)
        for each in visible_tables(self.db):
            table.add_row(cell(each.name), cell(each.owner), cell(", ".join(column.name for column in each.columns)))
        screen().print(table)

    def _timing(self, _: str) -> None:
        self._timed = not self._timed
        screen().print(f"timing is {'on' if self._timed else 'off'}", markup=False)

    def _expanded(self, _: str) -> None:
        self._rows_as_lines = not self._rows_as_lines
        screen().print(f"rows as lines: {'on' if self._rows_as_lines else 'off'}", markup=False)

    def _describe(self, name: str) -> None:
        if not name:
            self._tables(name)
            return
        tables = {fold(each.name): each for each in visible_tables(self.db)}
        found = tables.get(fold(name.strip('"')))
        if found is None:
            known = ", ".join(each.name for each in tables.values())
            raise InterfaceError(f"there is no table {printable(name)}", hint=f"tables: {known}")
        table = new_table(title=cell(f"{found.name} ({found.owner})"), title_justify="left")
        for title in ("column", "type", "what is declared"):
            table.add_column(title)
        for column in found.columns:
            table.add_row(cell(column.name), cell(column.type), cell(column.note))
        screen().print(table)

    def _price(self, share: str) -> None:
        if share:
            self.db.ask(QueryOptions(price=share).over(self.db.asked))
        self._show_price()

    def _epsilon(self, value: str) -> None:
        if value:
            self.db.ask(QueryOptions(epsilon=_positive(value)).over(self.db.asked))
        self._show_price()

    def _show_price(self) -> None:
        asked, default = self.db.asked, self.db.policy.defaults.epsilon
        chosen = asked.price or (f"epsilon {default} (the policy's default)" if asked.epsilon is None else None)
        screen().print(f"price = {chosen or f'epsilon {asked.epsilon:g}'}", markup=False)

    def _help(self, _: str) -> None:
        screen().print(HELP, markup=False)

    def _quit(self, _: str) -> None:
        self.done = True


def split(text: str) -> list[str]:
    """The complete statements, then what is left; a semicolon in quotes or a comment ends nothing."""
    command = len(text) - len(text.lstrip()) + len("\\explain") if text.lstrip().startswith("\\explain") else 0
    try:
        tokens = tokenize(text[command:], dialect="duckdb")
    except TokenError:
        return [text]
    parts, begin = [], 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            end = command + token.start
            parts.append(text[begin:end])
            begin = end + 1
    return [*parts, text[begin:]]


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InterfaceError(f"{printable(text)} is not a valid epsilon", hint="write a number above 0: \\epsilon 0.2")
    return value


def _names(table: TableInfo) -> list[str]:
    return [table.name, *(column.name for column in table.columns)]
