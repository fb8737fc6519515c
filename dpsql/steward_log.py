"""The steward's log: what failed, of which kind, and where in dpsql. By default it holds no value of the data.

An engine prints raw values in its messages. They are omitted at every log level, because many
programs log everything. To include them, set DPSQL_LOG_VALUES=yes and keep the log as private as the data.
"""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path

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
