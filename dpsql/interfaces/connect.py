"""`dpsql.connect`: a dataset on this machine, or a server's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

if TYPE_CHECKING:
    from dpsql.answers.explain import Explanation
    from dpsql.answers.result import Result
    from dpsql.budget.status import BudgetStatus
    from dpsql.engines.open_engine import Source
    from dpsql.interfaces.client.connection import RemoteConnection
    from dpsql.interfaces.dbapi import Cursor
    from dpsql.options import QueryKeywords
    from dpsql.policy import Policy
    from dpsql.session import Connection
    from dpsql.sql import Parameters


class QueryConnection(Protocol):
    """What a connection in this process and one to a server have in common, and all that interfaces may use of both."""

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""

    def query(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Result:
        """Answer a query privately."""

    def explain(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Explanation:
        """Explain what a query would do and cost. Spends nothing."""

    def budget(self) -> BudgetStatus:
        """Return caps, spent and remaining."""

    def settle(self, sql: str) -> bool:
        """Apply `SET dpsql.…` or `RESET`, and return whether the text was one of them."""

    def cursor(self) -> Cursor:
        """Return a PEP 249 cursor."""

    def commit(self) -> None:
        """Keep what was `SET`."""

    def rollback(self) -> None:
        """Undo what was `SET` since the last commit."""

    def close(self) -> None:
        """Close the connection."""


@overload
def connect(
    source: Source,
    *,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy,
    ledger: str | os.PathLike[str] | None = None,
    analyst: str | None = None,
    purpose: str | None = None,
    steward: bool = False,
    dialect: str = "duckdb",
    isolate: bool = False,
) -> Connection: ...


@overload
def connect(
    source: str,
    *,
    password: str | None = None,
    certificate: str | os.PathLike[str] | None = None,
    dialect: str = "duckdb",
) -> RemoteConnection: ...


def connect(source: Any, **words: Any) -> Any:
    """Open a dataset: a DuckDB file, a DuckDB connection, a mapping of names to frames and files, or a server's.

    With `"dpsql://ana@host:5433/shop"` the server (`dpsql serve`) has policy, ledger and data, and this side has
    `password=` and, unless the machine trusts it anyway, the server's `certificate=`.

    Otherwise `policy=` says what is private, and the ledger stands beside the policy file unless `ledger=` names
    another: a file, "postgresql://…" for one that servers share, or ":memory:" for a throw-away one, whose promise ends
    with the process (with a policy that is not a file it must). `analyst=` asks, or `steward=True` looks after it;
    `purpose` is one of those that the policy lists for the analyst; `dialect` is the SQL that queries are written in,
    "duckdb" or "postgres". With `isolate=True` a process of its own opens the data (a file), and this one never does.
    """
    if isinstance(source, str) and source.startswith("dpsql://"):
        from dpsql.errors import InterfaceError
        from dpsql.interfaces.client.connection import connect_to

        if unknown := set(words) - {"password", "certificate", "dialect"}:
            raise InterfaceError(
                f"a server has its own {' and '.join(sorted(unknown))}", hint="give password= and certificate= only"
            )
        return connect_to(source, **words)
    from dpsql.session import connect

    return connect(source, **words)
