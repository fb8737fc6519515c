"""The hash chain: the hash of each entry covers all entries before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from dpsql.budget.costs import Cost
from dpsql.budget.ledger.interface import ErrorBar, LogEntry
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


# log lines and exported records ---------------------------------------------------------------------------------------
# Ledger entries as log lines and as exported records: who, what, when and at what cost, without data or salt.


def read_log_entry(entry: Entry) -> LogEntry:
    """The entry as a line of the steward's log."""
    number, kind, gist, body = entry[0], entry[1], json.loads(entry[2]), json.loads(entry[3])
    cost = read_cost(body) if "cost" in body else None
    who = gist[0] if kind in ("charge", "replay") else None
    at, last = datetime.fromisoformat(body["at"]), {"charge": 4, "replay": 3}.get(kind, len(gist))
    return LogEntry(number, at, kind, who, _text(kind, gist, body), cost, gist[last] if len(gist) > last else None)


def read_cost(body: dict[str, Any]) -> Cost:
    """The cost as it was shown to the analyst."""
    return Cost(*map(float, body["cost"]))


def write_error(error: ErrorBar | None) -> dict[str, Any]:
    """The expected error of the first statistic, for the body of a charge."""
    return {} if error is None else {"error": [error.of, repr(error.half), error.noise]}


def read_error(body: dict[str, Any]) -> ErrorBar | None:
    """The same, read back; older entries do not have it."""
    if "error" not in body:
        return None
    of, half, noise = body["error"]
    return ErrorBar(of, float(half), noise)


def export_entry(entry: Entry) -> dict[str, Any]:
    """The whole entry but the secret salt. The chain's hash is there, so exports can be compared."""
    number, kind, gist, body, digest = entry
    told = json.loads(gist)
    shown = told[:1] if kind == "account" else told
    return {"number": number, "kind": kind, "gist": shown, **json.loads(body), "hash": digest.hex()}


def _text(kind: str, gist: list[Any], body: dict[str, Any]) -> str:
    match kind:
        case "charge":
            return str(body["sql"])
        case "fact":
            return f"{gist[0]}: {gist[1]} (data version {gist[2]})"
        case "account":
            return f"account of dataset '{gist[0]}'"
        case "release":
            return f"release of entry {gist[0]}"
        case "replay":
            return f"replay of entry {gist[1]}" + (
                f", release {gist[2]}" if len(gist) > 2 and gist[2] is not None else ""
            )
        case "caps":
            return f"{_caps(*gist)}; by {body['by']}"
        case "restore":
            return f"restored from {body['source']}; {body['told']}; by {body['by']}"
        case "version":
            return f"data version {gist[0]}; by {body['by']}"
        case "migrate":
            return f"migrated from version {body['version']}; by {body['by']}"
        case _:
            return f"{kind}; by {body['by']}"


def _caps(who: str | None, epsilon: str, delta: str, purpose: str | None = None, every: str | None = None) -> str:
    whose = f"{who or 'the dataset'}{f' for {purpose}' if purpose else ''}"
    return f"caps of {whose}: ε = {_short(epsilon)}, δ = {_short(delta)}{f', every {every}' if every else ''}"


def _short(number: str) -> str:
    top, _, bottom = number.partition("/")
    return f"{int(top) / int(bottom or 1):g}"
