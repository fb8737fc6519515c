"""Errors as PostgreSQL reports them: SQLSTATE, position and hint."""

from __future__ import annotations

from dpsql.errors import (
    BudgetExceeded,
    EngineError,
    Error,
    InterfaceError,
    InternalError,
    LedgerError,
    ParseError,
    PolicyError,
    UnboundedColumn,
    UnsupportedQuery,
)
from dpsql.interfaces.server.wire import ErrorResponse

_STATES: list[tuple[type[Error], str]] = [
    (BudgetExceeded, "53400"),
    (UnboundedColumn, "0A000"),
    (UnsupportedQuery, "0A000"),
    (PolicyError, "42501"),
    (LedgerError, "58030"),
    (EngineError, "58000"),
    (InternalError, "XX000"),
    (InterfaceError, "22023"),
]
_PARSE = {"there is no table": "42P01", "there is no column": "42703", "is ambiguous": "42702"}


class StatementError(Exception):
    """An error of one statement, as it is sent to the client."""

    def __init__(self, fault: ErrorResponse | bytes) -> None:
        super().__init__()
        if isinstance(fault, bytes):
            self.encoded, self.state = fault, "catalogue"
        else:
            self.encoded, self.state = fault.encode(), fault.state


def error_response(error: Error, start: int = 0) -> ErrorResponse:
    """The error of a statement that begins at `start` in what the client sent."""
    position = None if error.span is None else start + error.span.start + 1
    return ErrorResponse(error.message, _state(error), error.hint, position, kind=type(error).__name__)


def _state(error: Error) -> str:
    if isinstance(error, ParseError):
        return next((state for words, state in _PARSE.items() if words in error.message), "42601")
    return next((state for kind, state in _STATES if isinstance(error, kind)), "XX000")


def wrong_password(user: str) -> ErrorResponse:
    """The same for a name that does not exist, in PostgreSQL's words: tools look for them to point at the field."""
    said = f'password authentication failed for user "{user}"'
    return ErrorResponse(said, "28P01", "the name or the password is wrong", severity="FATAL")


def no_database(wrong: str, right: str) -> ErrorResponse:
    """Another name than the dataset's, in PostgreSQL's words too."""
    return ErrorResponse(f'database "{wrong}" does not exist', "3D000", f"it is called {right}", severity="FATAL")


UNEXPECTED = ErrorResponse("the server failed unexpectedly; see the steward's log", "XX000")
CANCELLED = ErrorResponse(
    "the query was cancelled; what it was charged stays charged", "57014", "ask again: it is replayed"
)
TIMED_OUT = ErrorResponse("the query took longer than the steward allows", "57014", "ask for less at a time")
SHUTTING_DOWN = ErrorResponse("the server is shutting down", "57P01", severity="FATAL")
CHANGED = ErrorResponse("the steward changed or removed this user", "57P01", "connect again", severity="FATAL")
TOO_MANY = ErrorResponse(
    "too many connections of this account", "53300", "close some, or ask the steward for more", severity="FATAL"
)
EVICTED = ErrorResponse("too many clients are logging in", "53300", "connect again", severity="FATAL")
IDLE = ErrorResponse("the connection was idle for too long", "57P05", "connect again", severity="FATAL")
NEEDS_TLS = ErrorResponse(
    "this server accepts TLS connections only", "28000", "connect with sslmode=require", severity="FATAL"
)
IN_FAILED = ErrorResponse("the transaction failed, commands are ignored until it ends", "25P02", "send ROLLBACK")
BOTH = ErrorResponse(
    "one query cannot read both tables of the dataset and the catalogue", "0A000", "ask two queries, one for each"
)
COPY = ErrorResponse("COPY is not supported: rows are private", "0A000", "ask for an aggregate with SELECT")
STATEMENTS = ErrorResponse("too many statements in one message", "54000", "send fewer at a time")
NO_STATEMENT = ErrorResponse("there is no such prepared statement", "26000", "prepare it first")
NO_PORTAL = ErrorResponse("there is no such portal", "34000", "bind the statement first")
TOO_MUCH = ErrorResponse(
    "this connection has too many prepared statements, portals or settings",
    "54000",
    "close some statements and portals",
)
FULL = ErrorResponse(
    "too many answers are waiting to be read", "53200", "read or close the open ones; nothing was charged"
)
