"""dpsql: plain SQL in, differentially private answers with error bars out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.errors import (
    BudgetExceeded,
    DatabaseError,
    DataError,
    EngineError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    LedgerError,
    NotSupportedError,
    OperationalError,
    ParseError,
    PolicyError,
    ProgrammingError,
    UnboundedColumn,
    UnsupportedQuery,
    Warning,  # noqa: A004 - the name is PEP 249's
)
from dpsql.interfaces.frame.accessor import register as _register

if TYPE_CHECKING:
    from dpsql import audit, local, mechanisms
    from dpsql.answers.result import Result
    from dpsql.interfaces.connect import connect
    from dpsql.interfaces.dbapi import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from dpsql.interfaces.frame.private_frame import PrivateFrame
    from dpsql.interfaces.frame.protection import protect
    from dpsql.options import Within
    from dpsql.policy import Policy
    from dpsql.session import Connection

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections, not cursors."""
paramstyle = "qmark"
"""The style to begin with; `:name`, `%s`, `%(name)s` and `$1` are read as well."""
__version__ = "0.1.0"

_LAZY = {
    "connect": ("dpsql.interfaces.connect", "connect"), "Connection": ("dpsql.session", "Connection"),
    "Policy": ("dpsql.policy", "Policy"), "Result": ("dpsql.answers.result", "Result"), "audit": ("dpsql.audit", None),
    "local": ("dpsql.local", None), "mechanisms": ("dpsql.mechanisms", None),
    "Within": ("dpsql.options", "Within"), "protect": ("dpsql.interfaces.frame.protection", "protect"),
    "PrivateFrame": ("dpsql.interfaces.frame.private_frame", "PrivateFrame"),
    "load_ipython_extension": ("dpsql.interfaces.magic", "load_ipython_extension"),
    "unload_ipython_extension": ("dpsql.interfaces.magic", "unload_ipython_extension"),
} | {
    name: ("dpsql.interfaces.dbapi", name)
    for name in (
        "STRING", "BINARY", "NUMBER", "DATETIME", "ROWID", "Date", "Time", "Timestamp", "DateFromTicks",
        "TimeFromTicks", "TimestampFromTicks", "Binary",
    )
}  # fmt: skip

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "BudgetExceeded", "Connection", "DataError",
    "DatabaseError", "Date", "DateFromTicks", "EngineError", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "LedgerError", "NotSupportedError", "OperationalError", "ParseError", "Policy", "PolicyError",
    "PrivateFrame", "ProgrammingError", "Result", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks",
    "UnboundedColumn", "UnsupportedQuery", "Warning", "Within", "apilevel", "audit", "connect", "local", "mechanisms",
    "paramstyle", "protect", "threadsafety",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The heavy parts are imported when they are first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    from importlib import import_module

    _register()  # pandas may have been imported since
    module, attribute = _LAZY[name]
    loaded = import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)


_register()
