"""The time of an entry: a clock that is a little behind is waited for, one that was set back is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from dpsql.budget.ledger import entries as hash_chain
from dpsql.errors import LedgerError

LAST = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("now", "stamped"),
    [
        (LAST + MOMENT, LAST + MOMENT),
        (LAST, LAST),
        (LAST - MOMENT, LAST),
        (LAST - timedelta(minutes=1), LAST),
        (LAST - timedelta(minutes=1) - MOMENT, None),
        (LAST - timedelta(days=400), None),
    ],
)
def test_an_entry_is_never_before_the_one_that_it_follows(
    now: datetime, stamped: datetime | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "now", lambda: now)
    assert hash_chain.entry_time(None) == now
    if stamped is not None:
        assert hash_chain.entry_time(LAST) == stamped
    else:
        with pytest.raises(LedgerError, match="nothing was charged"):
            hash_chain.entry_time(LAST)


@pytest.mark.parametrize(("micro", "milli"), [(0, 0), (999, 0), (1_000, 1_000), (987_654, 987_000), (999_999, 999_000)])
def test_the_time_of_an_entry_is_in_utc_and_cut_to_the_millisecond(
    micro: int, milli: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(2026, 3, 1, 12, microsecond=micro, tzinfo=tz)

    monkeypatch.setattr(hash_chain, "datetime", Clock)
    assert hash_chain.now() == LAST.replace(microsecond=milli)
    assert hash_chain.now().tzinfo is UTC
