"""What all laws share: the search for the smallest integer, scales that can be drawn, draws in portions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteLaplace
from dpsql.mechanisms.discrete_noise import CHUNK, MAX_DENOMINATOR, Noise, check_scale, finest, smallest


@pytest.mark.parametrize("start", range(-4, 5))
def test_the_smallest_integer_from_a_start_on_is_found(start: int) -> None:
    for least in [*range(start - 3, start + 40), start + 10**6 + 1]:
        assert smallest(lambda x, least=least: x >= least, start) == max(start, least)  # type: ignore[misc]


@pytest.mark.parametrize("least", [0, 1, 2, 3, 1000, 2**40, 10**30])
def test_a_search_asks_no_more_than_twice_for_each_binary_digit_and_never_below_its_start(least: int) -> None:
    asked: list[int] = []
    assert smallest(lambda x: asked.append(x) is None and x >= least) == least
    assert min(asked) == 0
    assert len(asked) <= 2 * least.bit_length() + 2


class _Counting(Noise):
    """A law whose proposals are numbered, and of which only some are accepted."""

    def __init__(self, share: int) -> None:
        self.share, self.proposed, self.next = share, [], 0

    def propose(self, n: int) -> NDArray[np.int64]:
        self.proposed.append(n)
        accepted = np.arange(self.next, self.next + n // self.share)
        self.next += n // self.share
        return accepted

    def survival(self, x: int) -> float:
        """P[Z >= x] of a law with 0.25 at −1 and 1, and 0.5 at 0."""
        return 1.0 if x < 0 else 0.75 if x == 0 else 0.25 if x == 1 else 0.0

    def variance(self) -> float:
        raise NotImplementedError

    def loss(self, z: int, shift: int) -> Fraction:
        raise NotImplementedError


@pytest.mark.parametrize("n", [0, 1, 2, 40, CHUNK, 2 * CHUNK + 5])
@pytest.mark.parametrize("share", [1, 3, 15])
def test_draws_are_the_accepted_proposals_in_their_order_and_in_portions(n: int, share: int) -> None:
    """None is lost, none is handed out twice, and no portion is larger than the cache likes."""
    noise = _Counting(share)
    drawn = noise.sample(n)
    assert drawn.dtype == np.int64
    assert drawn.shape == (n,)
    assert np.all(np.diff(drawn) >= 1)
    assert n == 0 or drawn[0] == 0
    assert all(16 < each <= CHUNK for each in noise.proposed)
    if share == 1:
        assert drawn.tolist() == list(range(n))


@pytest.mark.parametrize(
    ("missed", "wide"), [(0.49, 1), (0.4999999999, 1), (0.5000001, 0), (0.75, 0), (0.01, 1), (1e-15, 1)]
)
def test_the_reach_is_the_least_width_that_is_missed_no_more_often(missed: float, wide: int) -> None:
    assert _Counting(1).reach(missed) == wide


def test_the_cdf_is_the_share_of_what_is_no_larger() -> None:
    assert [_Counting(1).cdf(x) for x in (-2, -1, 0, 1)] == [0.0, 0.25, 0.75, 1.0]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_a_half_width_is_the_reach_of_what_is_left(confidence: float) -> None:
    noise = DiscreteLaplace(Fraction(100))
    assert noise.half_width(confidence) == noise.reach(1 - confidence)
    assert noise.half_width(confidence) == pytest.approx(-100 * math.log(1 - confidence), abs=1)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_a_confidence_lies_strictly_between_0_and_1(confidence: float) -> None:
    with pytest.raises(InternalError, match="strictly between 0 and 1"):
        DiscreteLaplace(Fraction(1)).half_width(confidence)


@pytest.mark.parametrize("limit", [2, 10, 2**24])
def test_a_scale_that_can_be_drawn_has_a_small_numerator_and_a_power_of_two_below(limit: int) -> None:
    for denominator in (1, 2, 4, 2**19, 2**20):
        check_scale(Fraction(1, denominator), limit)
    check_scale(Fraction(limit - 1), limit)
    for wrong in (limit, limit + 1, 0, -1):
        with pytest.raises(InternalError, match="out of range"):
            check_scale(Fraction(wrong), limit)
    for denominator in (3, 5, 6, 2**20 - 1, 2**20 + 1, 2**21, 2**30):
        with pytest.raises(InternalError, match="power of two"):
            check_scale(Fraction(1, denominator), limit)


@pytest.mark.parametrize("limit", [2, 3, 100, 2**20, 2**30])
@pytest.mark.parametrize("wanted", [Fraction(1, 3), Fraction(1), Fraction(5, 4), Fraction(99), Fraction(10**7, 3)])
def test_the_finest_scale_is_the_least_above_the_wanted_one_that_can_be_drawn(wanted: Fraction, limit: int) -> None:
    found = finest(lambda s: math.ceil(wanted * s), limit)
    places = [2**k for k in range(21) if math.ceil(wanted * 2**k) < limit] or [1]
    assert found == min(Fraction(math.ceil(wanted * s), s) for s in places)
    assert MAX_DENOMINATOR == 2**20


def test_a_width_that_is_missed_exactly_as_often_as_allowed_is_wide_enough() -> None:
    noise = DiscreteLaplace(Fraction(3))
    for w in (0, 1, 7, 40):
        assert noise.reach(2 * noise.tail(w + 1)) == w
        assert noise.reach(math.nextafter(2 * noise.tail(w + 1), 0)) == w + 1
