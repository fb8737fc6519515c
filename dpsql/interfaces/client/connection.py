"""A connection to a dpsql server: `dpsql.connect("dpsql://ana@host:5433/shop")`. No data is on this machine.

Results and explanations are the same objects as in process; what takes the plan or the released tables to compute is
asked of the server, which is free.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import unquote, urlsplit

from sqlglot import exp

from dpsql.answers.explain import Explanation
from dpsql.answers.finish import AnswerTable
from dpsql.answers.result import Clipped, Result
from dpsql.answers.way_out import WayOut
from dpsql.budget import Cost
from dpsql.budget.status import AccountStatus, BudgetStatus, Purchase
from dpsql.errors import Error, InterfaceError, Pep249Errors
from dpsql.interfaces.client.json_codec import TOLD, pack, read, unpack, with_ranks
from dpsql.interfaces.client.transport import ServerStream
from dpsql.options import QueryKeywords, QueryOptions
from dpsql.plan.plan import Output, Plan
from dpsql.sql import Parameters, known_dialect, read_setting

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.interfaces.dbapi import Cursor

Ask = Callable[..., dict[str, Any]]
"""Asks a question about the same query: its name, and further words."""


@dataclass(frozen=True, slots=True)
class RemoteExplanation(Explanation):
    """What a query would do and cost: `print` it."""

    _ask: Ask | None = field(default=None, repr=False, compare=False)

    def expected_error(self, confidence: float = 0.95, n: float | None = None) -> dict[str, float | None]:
        """For each output column with noise, the half width of its interval in every row, at this price."""
        assert self._ask is not None
        return self._ask("expected_error", confidence=confidence, n=n)

    def __str__(self) -> str:
        from dpsql.answers.render import format_explanation

        return format_explanation(self)

    __repr__ = __str__


def explanation_of(said: dict[str, Any], ask: Ask) -> RemoteExplanation:
    """What the server said, as an object; `ask` reaches the same query at the same price."""

    def made(said: dict[str, Any], ask: Ask, others: dict[str, RemoteExplanation]) -> RemoteExplanation:
        told = {name: read(said[name]) for name in TOLD}
        told["releases"] = with_ranks(told["releases"], lambda *place: float(ask("rank_error", place=place)["rank"]))
        return RemoteExplanation(**told, alternatives=others, plan=None, bill=None, _ask=ask)

    def with_other(name: str) -> Ask:
        return lambda call, **words: ask(call, **words | {"mechanism": name})

    others = {name: made(other, with_other(name), {}) for name, other in said["alternatives"].items()}
    return made(said, ask, others)


# results and connections ---------------------------------------------------------------------------------------------

SCHEME = "dpsql://"
PORT = 5433


@dataclass(frozen=True)
class RemoteResult(Result):
    """An answer of a server's: the same values; its error bars are asked of the server, which has what they need."""

    _bars_of: Callable[[float, bool], pd.DataFrame] | None = field(default=None, repr=False, compare=False)
    _way_out: WayOut | None = field(default=None, repr=False, compare=False)

    @property
    def way_out(self) -> WayOut | None:
        """What to ask instead, where the answer is mostly noise."""
        return self._way_out

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pd.DataFrame:
        """For every noisy output column, `<name>_low` and `<name>_high`, row by row as in `df()`; free."""
        assert self._bars_of is not None
        return self._bars_of(confidence, simultaneous)

    def bars(self, confidence: float = 0.95) -> list[list[tuple[float, float]] | None]:
        """For each column, by its place, the interval in each row; None if it has no noise."""
        asked = self.intervals(confidence)
        ends = [asked.iloc[:, place].astype(float).tolist() for place in range(asked.shape[1])]
        pairs = iter(zip(ends[::2], ends[1::2], strict=True))
        return [list(zip(*next(pairs), strict=True)) if output.noisy else None for output in self.plan.outputs]


class RemoteConnection(Pep249Errors):
    """An analyst's connection to a server: PEP 249, plus `query`, `explain` and `budget`."""

    def __init__(self, line: ServerStream, dialect: str = "duckdb") -> None:
        self.dialect, self.asked = known_dialect(dialect), QueryOptions()
        self._line, self._turn, self._closed = line, threading.RLock(), False

    def query(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Result:
        """Answer a query privately, as `Connection.query` does."""
        said = self._ask("query", sql, parameters=parameters, **_checked(options))
        rows = [tuple(unpack(value) for value in row) for row in said["rows"]]
        columns, types = tuple(said["columns"]), tuple(said["types"])
        outputs = tuple(Output(name, noisy) for name, noisy in zip(columns, said["noisy"], strict=True))
        number = said["number"]
        return RemoteResult(
            columns,
            types,
            Cost(**said["cost"]),
            said["replayed"],
            said["mechanism"],
            tuple(said["notes"]),
            tuple(Clipped(*map(unpack, each)) for each in said["clipped"]),
            tuple(said["wholes"]),
            AnswerTable(columns, types, rows),
            Plan((), exp.Select(), (), outputs, None),
            {},
            {},
            None,
            self.budget,
            lambda confidence, together: self._intervals(number, confidence, together),
            None if said["way_out"] is None else WayOut(**said["way_out"]),
        )

    def explain(
        self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]
    ) -> RemoteExplanation:
        """Explain what the query would do and cost, at most. Touches no private data and spends nothing."""
        asked = {"parameters": parameters, **_checked(options)}
        setting = self.asked

        def ask(call: str, **words: Any) -> dict[str, Any]:
            return self._ask(call, sql, setting=setting, **asked | words)

        return explanation_of(ask("explain"), ask)

    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        said = self._ask("budget")
        accounts = {name: _account(said[name]) for name in ("dataset", "analyst", "purpose")}
        buys = None if said["buys"] is None else Purchase(**said["buys"])
        return BudgetStatus(**(said | accounts | {"buys": buys}))

    def tables(self) -> dict[str, list[list[str]]]:
        """The tables that exist for this analyst: of each column the name, the type, and what the policy says."""
        return dict(self._ask("tables"))

    def settle(self, sql: str) -> bool:
        """Take in `SET dpsql.price = '2%'` (or epsilon, delta, mechanism, dialect) or `RESET`; whether it was one."""
        asked = read_setting(sql, self.asked)
        if asked is not None:
            before, self.asked = self.asked, asked
            try:
                self._ask("settle")
            except Error:
                self.asked = before
                raise
        return asked is not None

    def cursor(self) -> Cursor:
        """A PEP 249 cursor."""
        from dpsql.interfaces.dbapi import Cursor

        self._open()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: every charge is durable by itself."""
        self._open()

    def rollback(self) -> None:
        """Nothing can be undone: what was released was released."""
        self._open()

    def close(self) -> None:
        """Close the connection."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._line.close()

    def _intervals(self, number: int, confidence: float, together: bool) -> pd.DataFrame:
        import pandas as pd

        said = self._ask("intervals", number=number, confidence=confidence, simultaneous=together)
        listed = enumerate(zip(said["values"], said["dtypes"], strict=True))
        values = {i: pd.Series([unpack(v) for v in column], dtype=dtype) for i, (column, dtype) in listed}
        frame = pd.DataFrame(values)
        frame.columns = pd.Index(said["columns"])
        return frame

    def _ask(
        self, call: str, sql: str | None = None, setting: QueryOptions | None = None, **words: Any
    ) -> dict[str, Any]:
        self._open()
        asked = setting or self.asked
        asked = replace(asked, dialect=asked.dialect or self.dialect)
        words["asked"] = (asked.epsilon, asked.delta, asked.mechanism, asked.dialect, asked.price)
        said = {name: pack(value) for name, value in ({"sql": sql} | words).items() if value is not None}
        quoted = json.dumps(said).replace("'", "''")
        try:
            with self._turn:
                found: dict[str, Any] = json.loads(self._line.ask(f"SELECT dpsql.{call}('{quoted}')"))
                return found
        except Error as error:
            error.sql = sql
            raise

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._closed

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("this connection is closed", hint="open one with dpsql.connect(…)")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checked(options: QueryKeywords) -> dict[str, Any]:
    """Return the options as they were given; the constructor refuses names that do not exist."""
    QueryOptions(**options)
    return {**options}


def _account(said: dict[str, Any] | None) -> AccountStatus | None:
    if said is None:
        return None
    costs = {name: Cost(**said[name]) for name in ("caps", "whole", "spent", "remaining")}
    return AccountStatus(**(said | costs | {"renews": unpack(said["renews"])}))


def connect_to(
    address: str,
    *,
    password: str | None = None,
    certificate: str | os.PathLike[str] | None = None,
    dialect: str = "duckdb",
) -> RemoteConnection:
    """Open `dpsql://user@host:port/dataset`. The password is given, in the address, or in DPSQL_PASSWORD."""
    parts = urlsplit(address)
    try:
        port = parts.port or PORT
    except ValueError:
        port = 0
    dataset = unquote(parts.path.strip("/"))
    if not (parts.username and parts.hostname and dataset and port) or parts.query:
        raise InterfaceError("this is not the address of a dpsql server", hint="write dpsql://ana@host:5433/shop")
    user = unquote(parts.username)
    secret = password or (unquote(parts.password) if parts.password else os.environ.get("DPSQL_PASSWORD"))
    if secret is None:
        raise InterfaceError(f"the password of {user} is missing", hint="give password=…, or set DPSQL_PASSWORD")
    where = None if certificate is None else Path(certificate)
    return RemoteConnection(ServerStream(parts.hostname, port, user, dataset, secret, where), dialect)
