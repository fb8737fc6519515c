"""Randomized response: the law that is drawn, to the last digit that can be tested, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import CoinResponse, RandomizedResponse

N = 400_000


@pytest.mark.parametrize(
    "response",
    [
        RandomizedResponse(1),
        RandomizedResponse(0.123456789012345678),
        RandomizedResponse(3, values=("abcde", "b")),
        CoinResponse(),
        CoinResponse(values=(1, 2, 3)),
    ],
)
def test_answers_have_their_law_and_not_another(response: RandomizedResponse | CoinResponse) -> None:
    k = len(response.values)
    answers = response.answers(np.full(N, k - 1))
    counts = np.bincount(answers, minlength=k)
    law = np.array([response.lie] * (k - 1) + [response.truth])
    assert stats.chisquare(counts, law * N).pvalue > 1e-6
    other = law * [*[1.05] * (k - 1), (1 - 1.05 * law[:-1].sum()) / law[-1]]
    assert stats.chisquare(counts, other * N).pvalue < 1e-6


def test_probabilities_are_those_of_the_notes() -> None:
    response = RandomizedResponse(1)
    assert response.truth == pytest.approx(math.e / (1 + math.e))
    assert RandomizedResponse(1, values=(1, 2, 3)).truth == pytest.approx(math.e / (math.e + 2))
    assert sum(RandomizedResponse(1, values=(1, 2, 3)).law(2).masses.values()) == pytest.approx(1)


def test_an_epsilon_of_many_digits_is_rounded_down() -> None:
    response = RandomizedResponse(1 / 3)
    assert response.rate <= 0.3333333333333333
    assert float(response.rate) == pytest.approx(1 / 3, abs=1e-11)


def test_the_estimate_is_near_and_sums_to_one() -> None:
    response = RandomizedResponse(1, values=("yes", "no", "never"))
    found = response.estimate(response.release_all(["yes"] * 6000 + ["no"] * 3000 + ["never"] * 1000))
    assert sum(each.share for each in found.values()) == pytest.approx(1)
    assert found["yes"].low < 0.6 < found["yes"].high
    assert response.release("no") in response.values


def test_what_is_refused() -> None:
    assert RandomizedResponse(500).rate == 500
    for wrong in (0, -1, math.nan, 500.001):
        with pytest.raises(ProgrammingError, match="epsilon"):
            RandomizedResponse(wrong)
    for values in ("yes", ["a"], ["a", "a"]):
        with pytest.raises(ProgrammingError, match="different values"):
            RandomizedResponse(1, values=values)
    with pytest.raises(ProgrammingError, match="not among the values"):
        RandomizedResponse(1).release("maybe")
    with pytest.raises(ProgrammingError, match="no answers"):
        RandomizedResponse(1).estimate([])
    with pytest.raises(ProgrammingError, match="at least 1"):
        RandomizedResponse(1).accuracy(0.05, n=0)
