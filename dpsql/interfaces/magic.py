"""`%load_ext dpsql`, then `%dpsql connect shop.duckdb` and `%%dpsql` cells of SQL, in IPython and Jupyter.

Refusals are raised, so that a run of all cells stops; what IPython shows of them is message, caret and hint.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from dpsql.errors import InterfaceError
from dpsql.interfaces.cli.terminal import policy_beside
from dpsql.interfaces.frame.private_frame import PrivateFrame
from dpsql.session import Connection, connect

HELP = """\
%dpsql connect shop.duckdb [--policy FILE] [--ledger FILE] [--analyst NAME] [--purpose NAME]
%dpsql use NAME             go on with a connection or a private frame that is a variable
%dpsql SELECT …             answer one line of SQL; the result is in _
%dpsql explain SELECT …     what it would do and cost; spends nothing
%dpsql budget               caps, spent, left; .details has them in ε, δ and ρ
%dpsql tables               the tables there are
%%dpsql [--price 2%] [--epsilon E] [--delta D] [--mechanism M] [--within 5%] [--as NAME] [--explain]
SELECT …                    answer a cell of SQL; the result is in _, and in NAME"""
_VERBS = ("connect", "use", "explain", "budget", "tables", "close", "help")


class _Options(argparse.ArgumentParser):
    """Options whose mistakes are errors like others, and do not end the process."""

    def error(self, message: str) -> NoReturn:
        raise InterfaceError(f"%dpsql: {message}", hint="%dpsql help lists what can be written")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        self.error(message or "this cannot be parsed")


def _connecting() -> _Options:
    options = _Options(prog="%dpsql connect", add_help=False)
    options.add_argument("database")
    for name in ("policy", "ledger", "analyst", "purpose"):
        options.add_argument(f"--{name}")
    return options


def _asking() -> _Options:
    options = _Options(prog="%%dpsql", add_help=False)
    options.add_argument("--price")
    options.add_argument("--epsilon", type=float)
    options.add_argument("--delta", type=float)
    options.add_argument("--mechanism", choices=("auto", "laplace", "gaussian"))
    options.add_argument("--within", dest="accuracy")
    options.add_argument("--as", dest="name")
    options.add_argument("--explain", action="store_true")
    options.add_argument("--clipped", action="store_true")
    return options


class Magic:
    """One connection for the notebook, and what is done with it."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.source: Connection | PrivateFrame | None = None

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """`%dpsql …` and `%%dpsql …`."""
        if cell is not None:
            return self._cell(line, cell)
        verb, _, rest = line.strip().partition(" ")
        if verb.lower() in _VERBS or not verb:
            return getattr(self, f"_{verb.lower() or 'help'}")(rest.strip())
        return self._ask(line.strip(), {})

    def _cell(self, line: str, cell: str) -> Any:
        options = vars(_asking().parse_args(_words(line)))
        name, looking = options.pop("name"), options.pop("explain")
        if name is not None and not name.isidentifier():
            raise InterfaceError(f"{name!r} is not a valid variable name", hint="write --as answer")
        price = {key: value for key, value in options.items() if value not in (None, False)}
        price |= {"accuracy": _accuracy(price["accuracy"])} if "accuracy" in price else {}
        made = self._look(cell, price) if looking else self._ask(cell, price)
        if name is not None:
            self.shell.user_ns[name] = made
        return made

    def _ask(self, sql: str, price: dict[str, Any]) -> Any:
        source = self._source()
        if isinstance(source, PrivateFrame):
            return source.sql(sql, **price)
        return None if source.settle(sql) else source.query(sql, **price)

    def _look(self, sql: str, price: dict[str, Any]) -> Any:
        source = self._source()
        if isinstance(source, PrivateFrame):
            return source.explain().sql(sql, **price)
        return source.explain(sql, **price)

    def _connect(self, rest: str) -> None:
        options = _connecting().parse_args(_words(rest))
        policy = options.policy or policy_beside(options.database)
        opened = connect(
            options.database, policy=policy, ledger=options.ledger, analyst=options.analyst, purpose=options.purpose
        )
        self._close("")
        self.source = opened

    def _use(self, rest: str) -> None:
        found = self.shell.user_ns.get(rest)
        if not isinstance(found, Connection | PrivateFrame):
            raise InterfaceError(
                f"{rest or 'nothing'} is not a connection or a private frame",
                hint="db = dpsql.connect(…), then %dpsql use db",
            )
        self.source = found

    def _explain(self, rest: str) -> Any:
        return self._look(rest, {})

    def _budget(self, _: str) -> Any:
        return self._source().budget()

    def _tables(self, _: str) -> None:
        source = self._source()
        if isinstance(source, PrivateFrame):
            source.info()
            return
        from dpsql.interfaces.visible_tables import visible_tables

        for table in visible_tables(source):
            print(f"{table.name} ({table.owner})")
            for column in table.columns:
                print(f"  {column.name:<20} {column.type:<12} {column.note}".rstrip())

    def close(self) -> None:
        """Close the connection that the magic opened."""
        self._close("")

    def _close(self, _: str) -> None:
        if isinstance(self.source, Connection):
            self.source.close()
        self.source = None

    def _help(self, _: str) -> None:
        print(HELP)

    def _source(self) -> Connection | PrivateFrame:
        if self.source is None:
            raise InterfaceError(
                "there is no connection yet",
                hint="%dpsql connect shop.duckdb --analyst ana, or %dpsql use db for one of your own",
            )
        return self.source


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        raise InterfaceError("a quotation mark is not closed", hint="%dpsql help lists what can be written") from None


def _accuracy(text: str) -> Any:
    """`100`, `5%`, or one of these for a column: `n=100`."""
    name, equals, value = text.rpartition("=")
    read: Any = value if value.endswith("%") else _number(value)
    return {name: read} if equals else read


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InterfaceError(f"{text} is not an accuracy", hint="write --within 100, --within 5% or n=100") from None


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext dpsql` calls."""
    magic = Magic(shell)
    shell.register_magic_function(magic, magic_kind="line_cell", magic_name="dpsql")


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext dpsql` calls."""
    for kind in ("line", "cell"):
        magic = shell.magics_manager.magics[kind].pop("dpsql", None)
        if isinstance(magic, Magic):
            magic.close()
