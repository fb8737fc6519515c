"""What failed: the errors that may leave a query, and the steward's log, which by default holds no value of the data.

An engine prints raw values in its messages. They are omitted at every log level, because many
programs log everything. To include them, set DPSQL_LOG_VALUES=yes and keep the log as private as the data.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.errors import Error, InternalError, ParseError

VALUES = "DPSQL_LOG_VALUES"

log = logging.getLogger("dpsql.steward")


def failed(what: str, problem: BaseException) -> None:
    """Note a failure: the kind of the error and the places that it passed, which say nothing about data."""
    log.error("%s: %s", what, type(problem).__name__)
    log.debug("at %s", places(problem))
    if os.environ.get(VALUES) == "yes":
        log.error("the engine said: %s", problem)


def places(problem: BaseException) -> str:
    """The files, lines and functions of a traceback, without the error's own words."""
    steps = traceback.extract_tb(problem.__traceback__)
    return ", ".join(f"{Path(step.filename).name}:{step.lineno} {step.name}" for step in steps)


# the boundary of a query ----------------------------------------------------------------------------------------------
# The errors that leave a query: only dpsql's own, with the SQL text that they point into.


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
