"""Calendar windows: where they begin and end, and which of two promises is the stricter one."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budget import Caps
from dpsql.budget.calendar_windows import CALENDAR_WINDOWS, next_window_start, stricter_window, window_start
from dpsql.errors import ProgrammingError
from dpsql.policy.policy_values import WINDOWS

DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))


def test_the_policy_and_the_ledger_know_the_same_windows() -> None:
    assert WINDOWS == CALENDAR_WINDOWS


@pytest.mark.parametrize(
    ("every", "first", "after"),
    [
        ("day", date(2026, 11, 18), date(2026, 11, 19)),
        ("week", date(2026, 11, 16), date(2026, 11, 23)),
        ("month", date(2026, 11, 1), date(2026, 12, 1)),
        ("quarter", date(2026, 10, 1), date(2027, 1, 1)),
        ("year", date(2026, 1, 1), date(2027, 1, 1)),
    ],
)
def test_the_window_of_a_wednesday_in_november(every: str, first: date, after: date) -> None:
    day = date(2026, 11, 18)
    assert (window_start(day, every), next_window_start(day, every)) == (first, after)


@given(DAYS, st.sampled_from(WINDOWS))
def test_windows_follow_each_other_without_gap_or_overlap(day: date, every: str) -> None:
    first, after = window_start(day, every), next_window_start(day, every)
    assert first <= day < after
    assert window_start(first, every) == window_start(after - timedelta(days=1), every) == first
    assert window_start(after, every) == after


@given(DAYS, st.sampled_from([None, *WINDOWS]), st.sampled_from([None, *WINDOWS]))
def test_the_stricter_window_holds_both(day: date, one: str | None, other: str | None) -> None:
    both = stricter_window(one, other)
    assert both == stricter_window(other, one)
    assert stricter_window(one, one) == one
    for each in (one, other):
        if both is not None and each is not None:
            assert window_start(day, both) <= window_start(day, each) and next_window_start(
                day, each
            ) <= next_window_start(day, both)
    if both is None and one is not None and other is not None:
        assert "week" in (one, other)


def test_other_windows_are_refused() -> None:
    with pytest.raises(ProgrammingError, match="unknown window 'fortnight'"):
        Caps(1, 0, "fortnight")
    assert [Caps(1, 0, every).every for every in (None, *WINDOWS)] == [None, *WINDOWS]
