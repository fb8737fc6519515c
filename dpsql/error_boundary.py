"""The errors that leave a query: only dpsql's own, with the SQL text that they point into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpsql.errors import Error, InternalError, ParseError
from dpsql.steward_log import failed

UNEXPECTED = "dpsql failed on this query, and stopped it: a fault of dpsql"


@contextmanager
def error_boundary(sql: str) -> Iterator[None]:
    """Give errors the text that they point into, and replace every other exception by an `InternalError`."""
    try:
        yield
    except Error as error:
        if error.sql is None:
            error.sql = sql
        raise
    except RecursionError:
        raise ParseError("the query is nested too deeply", hint="split it into CTEs") from None
    except Exception as problem:
        failed("a query failed unexpectedly", problem)
        raise InternalError(UNEXPECTED, hint="the steward's log has the kind of failure; please report it") from None
