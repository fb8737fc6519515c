"""Randomized response with chosen coins, its estimate in rationals, and what its accuracy is the inverse of."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import CoinResponse, RandomizedResponse, randomized_response


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.01, 1, 7])
def test_truth_and_lies_are_a_law_with_the_ratio_of_epsilon(epsilon: float, k: int) -> None:
    response = RandomizedResponse(epsilon, values=range(k))
    assert response.truth + (k - 1) * response.lie == pytest.approx(1, rel=1e-14, abs=0)
    assert response.truth / response.lie == pytest.approx(math.exp(epsilon), rel=1e-13, abs=0)
    assert response.factor == pytest.approx((math.exp(epsilon) + k - 1) / (math.exp(epsilon) - 1), rel=1e-9, abs=0)
    assert response.law(1).masses == {v: response.truth if v == 1 else response.lie for v in range(k)}


@pytest.mark.parametrize("k", [2, 3, 10])
def test_coins_tell_the_truth_on_heads_and_any_value_on_tails(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    coin = CoinResponse(values=range(k))
    assert coin.lie == 1 / (2 * k)
    assert coin.truth == 1 / 2 + 1 / (2 * k)
    assert coin.epsilon == pytest.approx(math.log(coin.truth / coin.lie))
    monkeypatch.setattr(randomized_response, "random_bits", lambda size: np.arange(size) % 2 == 0)
    monkeypatch.setattr(randomized_response, "uniform", lambda n, size: np.full(size, n - 1))
    assert coin.answers(np.array([0, 0, 1, 1])).tolist() == [0, k - 1, 1, k - 1]


def test_values_are_yes_and_no_unless_others_are_named() -> None:
    assert RandomizedResponse(1).values == CoinResponse().values == (False, True)
    assert RandomizedResponse(1, values=["a", "b"]).values == ("a", "b")


def test_a_move_is_kept_if_it_is_none_or_by_a_coin_and_else_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five people who say 2 of 0, 1, 2, 3: a move of 3 leads around to 1."""
    moves = iter([[0, 1, 3, 2, 0], [0, 3], [2]])
    coins = iter([[False, True, False, False, True], [False, False], [True]])
    asked: list[tuple[int, int, int]] = []

    def coin(num: int, den: int, size: int) -> np.ndarray[Any, Any]:
        asked.append((num, den, size))
        return np.array(next(coins))

    monkeypatch.setattr(randomized_response, "uniform", lambda n, size: np.array(next(moves)) if n == 4 else None)
    monkeypatch.setattr(randomized_response, "bernoulli_exp", coin)
    response = RandomizedResponse(0.75, values=range(4))
    assert response.answers(np.full(5, 2)).tolist() == [2, 3, 2, 0, 2]
    assert asked == [(3, 4, 5), (3, 4, 2), (3, 4, 1)]


def test_answers_and_shares_belong_to_their_values() -> None:
    sure = RandomizedResponse(500, values=("a", "b", "c"))
    assert sure.release_all("abcab") == list("abcab")
    assert sure.release_all([]) == []
    assert sure.release("c") == "c"
    found = sure.estimate("aab", beta=0.5)
    assert [found[v].share for v in "abc"] == pytest.approx([2 / 3, 1 / 3, 0])


@pytest.mark.parametrize("response", [RandomizedResponse(1, values=["a", "b", "c"]), CoinResponse()])
def test_the_estimate_undoes_the_noise_and_its_interval_is_the_accuracy(response: Any) -> None:
    first, *others = response.values
    answers = [first] * 70 + [others[0]] * 30
    found = response.estimate(answers)
    for value, share in found.items():
        count = answers.count(value) / 100
        assert response.lie + (response.truth - response.lie) * share.share == pytest.approx(count)
        assert share.high - share.share == pytest.approx(response.accuracy(0.05, 100))
        assert share.share - share.low == pytest.approx(response.accuracy(0.05, 100))
    assert found[first].share > found[others[0]].share
    wide = response.estimate(answers, beta=0.001)[first]
    assert wide.high - wide.share == pytest.approx(response.accuracy(0.001, 100))


def test_answers_that_are_none_or_of_other_values_have_no_estimate() -> None:
    for wrong in ([], ["maybe"], [True, False, "maybe"], [None]):
        with pytest.raises(ProgrammingError, match="no answers, or some"):
            RandomizedResponse(1).estimate(wrong)
    assert RandomizedResponse(1).estimate([True])[True].share > 1


@pytest.mark.parametrize("n", [1, 2, 1000])
@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.9])
def test_the_accuracy_is_hoeffdings_bound_and_has_two_inverses(n: int, beta: float) -> None:
    response = RandomizedResponse(2, values=range(5))
    alpha = response.accuracy(beta, n)
    assert 2 * math.exp(-2 * n * (alpha / response.factor) ** 2) == pytest.approx(beta, rel=1e-9, abs=0)
    assert response.people_for(alpha * (1 + 1e-9), beta) == n
    assert response.people_for(alpha * (1 - 1e-9), beta) == n + 1
    assert response.epsilon_for(alpha, beta, n) == pytest.approx(2, rel=1e-9, abs=0)


@pytest.mark.parametrize("n", [0, -1, 1.0, True, "5"])
def test_answers_are_counted_from_1_on(n: Any) -> None:
    with pytest.raises(ProgrammingError, match="at least 1, not"):
        RandomizedResponse(1).accuracy(0.05, n)


def test_an_accuracy_that_the_truth_itself_would_miss_has_no_epsilon() -> None:
    response = RandomizedResponse(1)
    truthful = math.sqrt(math.log(2 / 0.05) / 200)
    assert response.epsilon_for(truthful * (1 + 1e-6), 0.05, 100) > 10
    for wrong in (response.accuracy(0.05, 100) / response.factor, truthful * (1 - 1e-9), truthful / 2):
        with pytest.raises(ProgrammingError, match="even if all are true"):
            response.epsilon_for(wrong, 0.05, 100)


def test_an_epsilon_is_sampled_as_it_is_or_rounded_down_to_40_binary_places() -> None:
    fine = Fraction(2**40 + 1, 2**40)
    for kept in (1, 0.1, fine, Fraction(1, 2**40 - 1)):
        assert RandomizedResponse(kept).rate == (Fraction(1, 10) if kept == 0.1 else kept)
    assert RandomizedResponse(Fraction(1, 2**40 + 1) + 1).rate == 1
    assert RandomizedResponse(fine + Fraction(1, 2**41)).rate == fine


@pytest.mark.parametrize("epsilon", [Fraction(1, 2**42), 500.5, 0, -1])
def test_an_epsilon_that_is_rounded_to_nothing_or_beyond_500_is_refused(epsilon: Any) -> None:
    assert RandomizedResponse(Fraction(3, 2**41)).rate == Fraction(1, 2**40)
    assert RandomizedResponse(500).rate == 500
    with pytest.raises(ProgrammingError, match="epsilon"):
        RandomizedResponse(epsilon)


@pytest.mark.parametrize("values", ["ab", ["a"], [], ["a", "b", "a"], (True, 1)])
def test_two_or_more_different_values_are_needed(values: Any) -> None:
    for make in (lambda: RandomizedResponse(1, values=values), lambda: CoinResponse(values=values)):
        with pytest.raises(ProgrammingError, match="two or more different values"):
            make()
