"""The time of an entry: never before the entry that it follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dpsql.errors import LedgerError

TOLERANCE = timedelta(minutes=1)
"""How far a clock may be behind the last entry (hosts that differ, a step of NTP) without being refused."""


def now() -> datetime:
    """The time of this machine, to the millisecond."""
    read = datetime.now(UTC)
    return read.replace(microsecond=read.microsecond // 1000 * 1000)


def stamp(last: datetime | None) -> datetime:
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
            hint="set the clock right; if it was ahead before and is right now, the steward runs"
            " `dpsql ledger accept-clock LEDGER --by NAME`",
        )
    return max(time, last)
