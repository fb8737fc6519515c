"""The buckets of a search for bounds: half octaves with a sign, zero, and years; what lies in them, rounded outwards."""

from __future__ import annotations

from datetime import date

import pytest

from dpsql.expressions.types import BIGINT, DATE, DOUBLE, TIMESTAMP, Type
from dpsql.search.bounds_search import LEAST, MOST, OFFSET, YEARS, largest_of, lower_edge, middle_of


@pytest.mark.parametrize("half_octave", [LEAST, LEAST + 1, -1, 0, 1, 17, MOST])
@pytest.mark.parametrize("type_", [BIGINT, DOUBLE])
def test_a_bucket_holds_half_an_octave_and_one_below_zero_mirrors_it(half_octave: int, type_: Type) -> None:
    bucket, low, high = half_octave + OFFSET, 2 ** (half_octave / 2), 2 ** ((half_octave + 1) / 2)
    least, largest = float(lower_edge(bucket, type_)), float(largest_of(bucket, type_))  # type: ignore[arg-type]
    assert 0.99 * low < least <= low * (1 + 1e-12)
    assert high * (1 - 1e-12) <= largest < 1.01 * high
    assert middle_of(bucket) == pytest.approx((low * high) ** 0.5)
    assert (float(lower_edge(-bucket, type_)), float(largest_of(-bucket, type_))) == (-largest, -least)  # type: ignore[arg-type]
    assert middle_of(-bucket) == -middle_of(bucket)


def test_nothing_is_in_a_bucket_of_its_own_and_the_smallest_numbers_are_in_the_next() -> None:
    assert LEAST + OFFSET == 1
    assert (lower_edge(0, DOUBLE), middle_of(0), largest_of(0, DOUBLE)) == (0, 0.0, 0)


@pytest.mark.parametrize("type_", [DATE, TIMESTAMP])
@pytest.mark.parametrize("year", [YEARS[0], 1970, YEARS[1]])
def test_a_bucket_of_dates_is_a_year(type_: Type, year: int) -> None:
    assert (lower_edge(year, type_), largest_of(year, type_)) == (date(year, 1, 1), date(year, 12, 31))
