"""The server's log: one JSON object a line, about who did what and how it went. No SQL, no parameter, no value."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from dpsql.steward_log import places

log = logging.getLogger("dpsql.server")


def note(event: str, *, level: int = logging.INFO, **words: str | float | bool | None) -> None:
    """Write a line; words are names of the policy's and users' files, numbers, and codes of ours."""
    if log.isEnabledFor(level):
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        log.log(level, json.dumps({"at": at, "event": event, **words}, ensure_ascii=False))


def failed(failure: BaseException) -> None:
    """What nobody expected: its kind; where it was is told to those who debug."""
    note("failure", level=logging.ERROR, kind=type(failure).__name__)
    log.debug("at %s", places(failure))
