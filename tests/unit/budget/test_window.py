"""Calendar windows: where they begin and end, and which of two promises is the stricter one."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budget import Caps
from dpsql.budget.window import EVERY, begins, renews, stricter
from dpsql.errors import ProgrammingError
from dpsql.policy.scalars import WINDOWS

DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))


def test_the_policy_and_the_ledger_know_the_same_windows() -> None:
    assert EVERY == WINDOWS


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
    assert (begins(day, every), renews(day, every)) == (first, after)


@given(DAYS, st.sampled_from(EVERY))
def test_windows_follow_each_other_without_gap_or_overlap(day: date, every: str) -> None:
    first, after = begins(day, every), renews(day, every)
    assert first <= day < after
    assert begins(first, every) == begins(after - timedelta(days=1), every) == first
    assert begins(after, every) == after


@given(DAYS, st.sampled_from([None, *EVERY]), st.sampled_from([None, *EVERY]))
def test_the_stricter_window_holds_both(day: date, one: str | None, other: str | None) -> None:
    both = stricter(one, other)
    assert both == stricter(other, one)
    assert stricter(one, one) == one
    for each in (one, other):
        if both is not None and each is not None:
            assert begins(day, both) <= begins(day, each) and renews(day, each) <= renews(day, both)
    if both is None and one is not None and other is not None:
        assert "week" in (one, other)


def test_other_windows_are_refused() -> None:
    with pytest.raises(ProgrammingError, match="no window 'fortnight'"):
        Caps(1, 0, "fortnight")
    assert [Caps(1, 0, every).every for every in (None, *EVERY)] == [None, *EVERY]
