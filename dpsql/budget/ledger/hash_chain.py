"""The hash chain: the hash of each entry covers all entries before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from dpsql.errors import LedgerError

ROOT = sha256(b"dpsql ledger 2").digest()
"""The hash that the first entry is chained to."""

Entry = tuple[int, str, str, str, bytes]
"""An entry: its number, its kind, its gist (a JSON array: what adds up), its body (a JSON object: the rest, for
people) and its hash. The gist stands apart so that a ledger of thousands is added up without reading every body."""


def entry_hash(head: bytes, number: int, kind: str, gist: str, body: str) -> bytes:
    """The hash of the entry that follows `head`.

    JSON in ASCII has no line break and a kind no space, so no part can be shifted into the next.
    """
    return sha256(head + f"{number} {kind} {gist}\n{body}".encode()).digest()


def next_entry(head: bytes, number: int, kind: str, gist: list[Any], body: dict[str, Any]) -> Entry:
    """The entry that comes after number `number`, whose hash is `head`."""
    short, rest = _json(gist), _json(body)
    return number + 1, kind, short, rest, entry_hash(head, number + 1, kind, short, rest)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


# the timestamps of entries: never earlier than the entry before

TOLERANCE = timedelta(minutes=1)
"""How far the clock may be behind the last entry (clock skew, NTP steps) before writes are refused."""


def now() -> datetime:
    """The current time (UTC), to the millisecond."""
    read = datetime.now(UTC)
    return read.replace(microsecond=read.microsecond // 1000 * 1000)


def entry_time(last: datetime | None) -> datetime:
    """The time for the next entry: now, or that of the last entry while the clock is a little behind it.

    A clock that was set back further is refused: the log would lie about when, and anything that renews with
    the calendar could be had twice.
    """
    time = now()
    if last is None:
        return time
    if last - time > TOLERANCE:
        raise LedgerError(
            f"the clock says {time:%Y-%m-%d %H:%M:%S} UTC, but the last entry was written at {last:%Y-%m-%d %H:%M:%S}"
            " UTC; nothing was charged",
            hint="correct the clock. If it was ahead before and is correct now, the steward runs"
            " `dpsql ledger accept-clock LEDGER --by NAME`",
        )
    return max(time, last)
