"""Choices: the exponential mechanism over any set and report-noisy-max have their law and their epsilon."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from scipy import stats

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import DiscreteLaplace, Exponential, NoisyMax, delta_between

SETTINGS = [
    Exponential(1, 1),
    Exponential(2, 0.5, monotone=True),
    NoisyMax(1, 1, grid=1),
    NoisyMax(1, 2, monotone=True, grid=Fraction(1, 4)),
]


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_the_law_is_the_one_that_is_drawn(mechanism: Exponential | NoisyMax) -> None:
    scores = [3, 1, 3, 0.5]
    law = mechanism.law("abcd", scores).masses
    drawn = Counter(mechanism.release("abcd", scores) for _ in range(1500))
    assert sum(law.values()) == pytest.approx(1)
    assert stats.chisquare([drawn[c] for c in "abcd"], [1500 * law[i] for i in range(4)]).pvalue > 1e-6


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_every_pair_of_neighbours_meets_epsilon(mechanism: Exponential | NoisyMax) -> None:
    worst, size = 0.0, int(mechanism.sensitivity)
    moves = (0, size) if mechanism.monotone else (-size, 0, size)
    for scores in ([0, 0, 0], [2, 1, 0], [0, 5, 5]):
        here = mechanism.law("abc", scores)
        for change in product(moves, repeat=3):
            there = mechanism.law("abc", [s + c for s, c in zip(scores, change, strict=True)])
            assert delta_between(here, there, mechanism.epsilon).low == 0
            worst = max(worst, *(abs(math.log(here.masses[i] / there.masses[i])) for i in range(3)))
    assert worst > 0.5 * float(mechanism.epsilon)


def test_half_the_noise_would_be_seen() -> None:
    """Noisy max with the scale of the monotone case, on scores that move both ways."""
    mechanism = NoisyMax(1, 1, grid=1)
    object.__setattr__(mechanism, "noise", DiscreteLaplace.for_epsilon(1, Fraction(1)))
    here, there = mechanism.law("ab", [8, 0]), mechanism.law("ab", [7, 1])
    assert delta_between(here, there, 1).low > 1e-5


def test_candidates_may_be_anything_and_quality_a_function() -> None:
    assert Exponential(1, 50).release([{"x": 1}, {"x": 9}], lambda each: each["x"]) == {"x": 9}
    assert NoisyMax(1, 50).release([(1,), (9,)], lambda each: each[0]) == (9,)
    assert Exponential(Fraction(1, 1000), 1).release(["a", "b"], [0.1, 10.0]) == "b"


def test_wrong_candidates_are_refused() -> None:
    for mechanism in (Exponential(1, 1), NoisyMax(1, 1)):
        with pytest.raises(ProgrammingError, match="candidates"):
            mechanism.release([], [])
        with pytest.raises(ProgrammingError, match="2 candidates with 1"):
            mechanism.release(["a", "b"], [1])
        with pytest.raises(ProgrammingError, match="finite"):
            mechanism.release(["a"], [math.nan])
        with pytest.raises(ProgrammingError, match="at least 1"):
            mechanism.accuracy(0.05, size=0)
    with pytest.raises(ProgrammingError, match="too fine"):
        NoisyMax(1, 1).law("ab", [1, 2])


@pytest.mark.parametrize("far", [2**62 - 1, 2**62, 2**63, 2**80])
def test_scores_at_the_edge_of_64_bits_do_not_wrap_around(far: int) -> None:
    """The better one is far beyond any doubt; a difference that wrapped around would make it the worse one."""
    for candidates in ([-far, far], [far, -far]):
        assert Exponential(1, 1, grid=1).release(candidates, lambda each: each) == far


@pytest.mark.parametrize("far", [1, 700, 10**6])
def test_the_law_of_candidates_that_are_far_apart_is_still_a_law(far: int) -> None:
    law = Exponential(1, 2, monotone=True, grid=1).law([0, far], lambda each: each)
    assert law.masses[1] == pytest.approx(1 / (1 + math.exp(-2 * far)))
    assert sum(law.masses.values()) == pytest.approx(1)
