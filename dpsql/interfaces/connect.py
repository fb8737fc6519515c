"""`dpsql.connect`: a dataset on this machine, or a server's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from dpsql.engines.open_engine import Source
    from dpsql.interfaces.client.connection import RemoteConnection
    from dpsql.policy import Policy
    from dpsql.session import Connection


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
