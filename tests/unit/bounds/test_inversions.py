"""What follows for an operand from what is known of a function's value: found by trying the moments around."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from dpsql.bounds.calendar import truncated
from dpsql.bounds.domain import Domain, interval, number
from dpsql.bounds.predicates import inverted
from dpsql.expressions.expression import Call, Column, Literal
from dpsql.expressions.types import BIGINT, DATE, DOUBLE, TIMESTAMP, Type

TICK = timedelta(microseconds=1)


def _between(low: Any, high: Any) -> Domain:
    return Domain(low, high, nullable=False, nan=True, origin=("WHERE",))


@pytest.mark.parametrize("type_", [DATE, TIMESTAMP])
@pytest.mark.parametrize("year", [-1, 0, 1, 1969, 1970, 2024, 9998, 9999, 10_000])
def test_a_year_bounds_its_moments(type_: Type, year: int) -> None:
    """As far as the calendar goes."""
    call = Call(BIGINT, op="part", args=(Column(type_, name="d"),), option="year")
    found = inverted(call, _between(year, year))
    assert found is not None and found[0] == call.args[0]
    first = date(year, 1, 1) if 1 <= year <= 9999 else None
    last = date(year + 1, 1, 1) if 0 <= year <= 9998 else None
    if type_ is DATE:
        wanted = (None if first is None else number(first), None if last is None else number(last) - 1)
    else:
        ends = [None if d is None else number(datetime(d.year, 1, 1)) for d in (first, last)]
        wanted = (ends[0], None if ends[1] is None else ends[1] - 1)
    assert found[1] == Domain(*wanted, nullable=False, origin=("WHERE",))


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
@pytest.mark.parametrize(
    "moment", [datetime(2023, 12, 31, 23, 59, 59), datetime(2024, 2, 1), datetime(1969, 12, 31, 5, 6, 7)]
)
def test_the_start_of_a_period_bounds_its_moments(unit: str, moment: datetime) -> None:
    """Also where the bound is no start of one: it lies in the last period that can be."""
    call = Call(TIMESTAMP, op="date_trunc", args=(Column(TIMESTAMP, name="t"),), option=unit)
    found = inverted(call, _between(number(moment), number(moment)))
    assert found is not None and found[1].lower == number(moment) and found[1].upper is not None
    last = datetime(1970, 1, 1) + int(found[1].upper) * TICK
    assert truncated(last, unit) == truncated(moment, unit) < truncated(last + TICK, unit)
    assert (found[1].nullable, found[1].origin) == (False, ("WHERE",))
    of_days = inverted(
        Call(TIMESTAMP, op="date_trunc", args=(Column(DATE, name="d"),), option=unit),
        _between(number(moment), number(moment)),
    )
    assert of_days is not None and of_days[1].upper == number(last.date())
    assert of_days[1].lower == number(moment.date()) + (moment.time() != datetime.min.time())


def test_the_last_period_of_the_calendar_has_no_end() -> None:
    call = Call(TIMESTAMP, op="date_trunc", args=(Column(TIMESTAMP, name="t"),), option="month")
    assert inverted(call, _between(None, number(datetime(9999, 12, 1)))) == (
        call.args[0],
        Domain(nullable=False, origin=("WHERE",)),
    )
    assert inverted(call, _between(None, 10**18)) == (call.args[0], Domain(nullable=False, origin=("WHERE",)))
    assert inverted(call, _between(5, None)) == (call.args[0], Domain(5, None, nullable=False, origin=("WHERE",)))


@pytest.mark.parametrize(
    "at", [datetime(2024, 1, 1), datetime(2024, 1, 1, 12), datetime(9000, 1, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23)]
)
def test_a_cast_to_a_moment_bounds_the_day_or_the_moment(at: datetime) -> None:
    """To the microsecond, also where floats have no microseconds any more."""
    place = number(at)
    same = inverted(Call(TIMESTAMP, op="cast", args=(Column(TIMESTAMP, name="t"),)), _between(place, place))
    assert same is not None and (same[1].lower, same[1].upper) == (place, place)
    day = inverted(Call(TIMESTAMP, op="cast", args=(Column(DATE, name="d"),)), _between(place, place))
    midnight = at.time() == datetime.min.time()
    assert day is not None and (day[1].lower, day[1].upper) == (number(at.date()) + (not midnight), number(at.date()))


@pytest.mark.parametrize("op", ["add", "sub"])
def test_a_constant_that_is_added_is_taken_away(op: str) -> None:
    call = Call(BIGINT, op=op, args=(Column(BIGINT, name="x"), Literal(BIGINT, value=3)))
    moved = -3 if op == "add" else 3
    for low, high in ((1, 5), (None, 5), (1, None)):
        wanted = Domain(
            None if low is None else low + moved,
            None if high is None else high + moved,
            nullable=False,
            origin=("WHERE",),
        )
        assert inverted(call, _between(low, high)) == (call.args[0], wanted)


@pytest.mark.parametrize(
    "call",
    [
        Column(BIGINT, name="x"),
        Call(DOUBLE, op="add", args=(Column(DOUBLE, name="x"), Literal(BIGINT, value=3))),
        Call(BIGINT, op="add", args=(Literal(BIGINT, value=3), Column(BIGINT, name="x"))),
        Call(BIGINT, op="mul", args=(Column(BIGINT, name="x"), Literal(BIGINT, value=3))),
        Call(BIGINT, op="part", args=(Column(DATE, name="d"),), option="month"),
        Call(DATE, op="cast", args=(Column(TIMESTAMP, name="t"),)),
        Call(TIMESTAMP, op="cast", args=(Column(BIGINT, name="x"),)),
    ],
)
def test_of_other_expressions_nothing_follows(call: Any) -> None:
    assert inverted(call, _between(1, 5)) is None


def test_nothing_follows_where_the_value_may_be_null() -> None:
    call = Call(BIGINT, op="add", args=(Column(BIGINT, name="x"), Literal(BIGINT, value=3)))
    assert inverted(call, interval(1, 5, nullable=True)) is None
