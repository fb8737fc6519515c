"""Choices in detail: the noise they take, the law added up over all noise, the accuracy by its definition."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpsql.errors import InternalError, ProgrammingError, UnsupportedQuery
from dpsql.mechanisms import Exponential, ExponentialLaw, Laplace, NoisyMax, exponential
from dpsql.mechanisms.sampler import LIMIT
from dpsql.mechanisms.textbook import exponential_mechanism as noisy_max
from dpsql.mechanisms.textbook.exponential_mechanism import score_grid, scored

QUIET = 10**5
"""At this ε no noise of whole steps is anything but nothing, and no worse candidate is chosen."""


@pytest.mark.parametrize(
    ("sensitivity", "grid", "steps"),
    [(1, 1, 1), (1, Fraction(1, 4), 4), (2.5, 1, 3), (7, 2, 4), (0.1, Fraction(1, 10), 2)],
)
def test_the_noise_is_for_twice_the_steps_unless_all_scores_move_in_one_direction(
    sensitivity: float, grid: float, steps: int
) -> None:
    assert NoisyMax(sensitivity, 0.5, grid=grid).noise.scale == 4 * steps
    assert NoisyMax(sensitivity, 0.5, grid=grid, monotone=True).noise.scale == 2 * steps
    assert Exponential(sensitivity, 0.5, grid=grid).choice.scale == 4 * steps
    assert Exponential(sensitivity, 0.5, grid=grid, monotone=True).choice.scale == 2 * steps
    assert NoisyMax(sensitivity, 0.5, grid=grid).step == Exponential(sensitivity, 0.5, grid=grid).step == Fraction(grid)


@pytest.mark.parametrize(("part", "steps"), [(Fraction(9, 10), 2**8), (Fraction(6, 5), 2**7)])
def test_without_a_grid_the_scale_keeps_room_to_be_drawn(part: Fraction, steps: int) -> None:
    """A scale of 2**38 steps for noisy max, which needs twice as much, and of 2**39 for one number."""
    assert NoisyMax(1, 1 / (part * 2**30)).step == Fraction(1, steps)
    assert Laplace(1, 1 / (part * 2**31)).step == Fraction(1, steps)


@pytest.mark.parametrize("mechanism", [NoisyMax(1, QUIET, grid=1), Exponential(1, QUIET, grid=1)])
def test_the_best_wins_and_of_equals_in_noisy_scores_the_earlier(mechanism: Any) -> None:
    assert mechanism.release("abc", [1, 3, 2]) == "b"
    assert mechanism.release("abc", [-3, -2, -1]) == "c"
    assert mechanism.release(["x"], [0]) == "x"
    assert mechanism.release("abc", [0, 2**80, -5]) == "b"
    if isinstance(mechanism, NoisyMax):
        assert mechanism.release("abc", [1, 3, 3]) == "b"


def brute(scores: list[int], scale: Fraction) -> list[float]:
    """How often each wins, over all noise of three or fewer candidates."""
    z = np.arange(-24, 25)
    mass = np.exp(-np.abs(z) / float(scale))
    mass /= mass.sum()
    wins = [0.0] * len(scores)
    for noise in product(range(z.size), repeat=len(scores)):
        noisy = [score + int(z[i]) for score, i in zip(scores, noise, strict=True)]
        wins[noisy.index(max(noisy))] += math.prod(float(mass[i]) for i in noise)
    return wins


@pytest.mark.parametrize("scores", [[0], [0, 0], [2, 0], [0, 3], [-1, -1], [0, 40]])
def test_the_law_is_the_sum_over_all_noise(scores: list[int]) -> None:
    mechanism = NoisyMax(1, 4, grid=1)
    assert mechanism.noise.scale == Fraction(1, 2)
    law = mechanism.law(range(len(scores)), scores)
    assert [law.masses[i] for i in range(len(scores))] == pytest.approx(brute(scores, Fraction(1, 2)), abs=1e-13)
    assert law.missing == pytest.approx(len(scores) * 1e-14, abs=0)


def test_the_law_of_three_gives_ties_to_the_earlier() -> None:
    law = NoisyMax(1, 4, grid=1).law("abc", [0, 0, 1]).masses
    q = math.exp(-2)
    mass = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-20, 21)}
    wins = [0.0] * 3
    for a, b, c in product(mass, repeat=3):
        noisy = [a, b, c + 1]
        wins[noisy.index(max(noisy))] += mass[a] * mass[b] * mass[c]
    assert [law[i] for i in range(3)] == pytest.approx(wins, abs=1e-12)


def test_a_law_is_added_up_over_a_million_steps_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = NoisyMax(1, 2, grid=1)
    assert mechanism.law("ab", [0, 10**5]).masses == {0: 0.0, 1: pytest.approx(1)}
    for far in (10**6 - 44, 10**6):
        with pytest.raises(ProgrammingError, match="too fine"):
            mechanism.law("ab", [0, far])
    monkeypatch.setattr(noisy_max, "_MOST", 100)
    assert sum(mechanism.law("ab", [0, 55]).masses.values()) == pytest.approx(1)
    for scores in ([0, 56], [56, 0], [-56, 0]):
        with pytest.raises(ProgrammingError, match="too fine"):
            mechanism.law("ab", scores)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(200)])
def test_the_probability_to_be_below_is_precise_in_both_tails(scale: Fraction) -> None:
    mechanism = NoisyMax(scale / 2, 1, grid=1) if scale >= 2 else NoisyMax(1, 4, grid=1)
    rate = float(1 / mechanism.noise.scale)
    xs = np.array([-60, -3, -1, 0, 1, 2, 7, 60])
    for x, found in zip(xs.tolist(), mechanism._below(xs).tolist(), strict=True):
        with localcontext(prec=60):
            q = (-Decimal(1) * mechanism.noise.scale.denominator / mechanism.noise.scale.numerator).exp()
            exact = q ** (1 - x) / (1 + q) if x <= 0 else 1 - q**x / (1 + q)
        assert found == pytest.approx(float(exact), rel=1e-12, abs=0), (x, rate)


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.7])
def test_the_accuracy_of_noisy_max_is_the_sum_of_two_least_distances(size: int, beta: float) -> None:
    mechanism = NoisyMax(1, 0.5, grid=Fraction(1, 2))
    above = mechanism.noise.survival
    a = next(w for w in range(10**4) if above(w + 1) <= beta / 2 * (1 - 1e-11))
    b = next(w for w in range(10**4) if 1 - (1 - above(w + 1)) ** size <= beta / 2 * (1 - 1e-9))
    assert mechanism.accuracy(beta, size) == (a + b) / 2


@pytest.mark.parametrize("mechanism", [NoisyMax(2, 1, grid=Fraction(1, 64)), Exponential(2, 1)])
@pytest.mark.parametrize("alpha", [3, 50])
def test_the_epsilon_of_an_accuracy_is_the_least(mechanism: Any, alpha: float) -> None:
    epsilon = mechanism.epsilon_for(alpha, 0.05, 10)
    make = type(mechanism)
    assert make(2, epsilon, grid=mechanism.grid).accuracy(0.05, 10) <= alpha
    assert make(2, epsilon * (1 - 1e-5), grid=mechanism.grid).accuracy(0.05, 10) > alpha
    with pytest.raises(ProgrammingError, match="alpha"):
        mechanism.epsilon_for(0, 0.05, 10)


@pytest.mark.parametrize("size", [1, 7])
def test_the_accuracy_of_the_exponential_mechanism_is_the_scale_times_a_logarithm(size: int) -> None:
    mechanism = Exponential(3, 0.5, grid=Fraction(1, 2))
    assert mechanism.accuracy(0.25, size) == pytest.approx(2 * 3 / 0.5 * math.log(size * 4), rel=1e-12, abs=0)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "3"])
def test_candidates_are_counted_from_1_on(wrong: Any) -> None:
    for mechanism in (NoisyMax(1, 1), Exponential(1, 1)):
        with pytest.raises(ProgrammingError, match="at least 1, not"):
            mechanism.accuracy(0.05, wrong)


def test_qualities_are_whole_steps_rounded_down() -> None:
    assert scored("abc", [0.5, -0.5, 7], Fraction(1)) == [0, -1, 7]
    assert scored([1, 2], lambda each: each / 4, Fraction(1, 8)) == [2, 4]
    for candidates, quality in (("ab", [1]), ("a", [1, 2]), ("", [])):
        with pytest.raises(ProgrammingError, match=f"{len(candidates)} candidates with {len(quality)} qualities"):
            scored(candidates, quality, Fraction(1))


@pytest.mark.parametrize("sensitivity", [Fraction(1), Fraction(3, 2), Fraction(2), Fraction(1, 1000), Fraction(10**9)])
def test_the_grid_of_scores_is_a_power_of_two_and_the_sensitivity_has_at_least_2_to_the_16_steps(
    sensitivity: Fraction,
) -> None:
    step = score_grid(sensitivity)
    assert math.frexp(float(step))[0] == 0.5
    assert 2**16 <= sensitivity / step < 2**17
    assert Exponential(sensitivity, 1).step == step


# the exponential law --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spread", "places"), [(3, 2**20), (3 * 2**20 - 1, 2**20), (3 * 2**20 + 1, 2**19), (3 * 2**30 + 1, 2**9)]
)
def test_a_scale_keeps_its_twenty_binary_places_below_2_to_the_40(spread: int, places: int) -> None:
    law = ExponentialLaw.for_epsilon(spread, Fraction(3))
    assert law.scale == Fraction(math.ceil(Fraction(spread, 3) * places), places)
    assert law.epsilon(spread) == spread / law.scale <= 3
    assert law.rho(spread) == (spread / law.scale) ** 2 / 8


def test_a_scale_that_cannot_be_drawn_is_refused() -> None:
    assert ExponentialLaw.for_epsilon(LIMIT - 1, Fraction(1)).scale == LIMIT - 1
    with pytest.raises(UnsupportedQuery, match="almost random"):
        ExponentialLaw.for_epsilon(LIMIT, Fraction(1))


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 4), Fraction(2**40 + 1, 2**20), Fraction(LIMIT - 1)])
@pytest.mark.parametrize("far", [0, 5, 2**41, 2**42 - 1, 2**50, 2**62, 2**63 - 1])
def test_a_score_is_so_many_whole_scales_above_the_least_and_a_rest(scale: Fraction, far: int) -> None:
    for lowest in (0, -17) if far < 2**62 else (0,):
        scores = np.array([lowest + far, lowest, lowest + far // 3], dtype=np.int64)
        whole, rest = ExponentialLaw(scale)._exponents(scores)
        for v, r, above in zip(whole.tolist(), rest.tolist(), (far, 0, far // 3), strict=True):
            assert 0 <= r < scale.numerator
            assert v + Fraction(r, scale.numerator) == above / scale


def test_tops_are_the_least_whole_numbers_above_the_powers_of_e() -> None:
    tops = exponential._tops()
    assert tops.tolist()[:32] == [math.ceil(2**32 * math.exp(-v)) for v in range(32)]
    assert tops[32] == 1
    assert exponential._bounds(31, 32) == (0, 1) == exponential._bounds(32, 32) == exponential._bounds(10**9, 32)
    assert exponential._bounds(0, 32) == (2**32, 2**32)
    assert exponential._bounds(40, 96) == (math.floor(2**96 * math.exp(-40)), math.ceil(2**96 * math.exp(-40)))


def test_each_value_of_the_draw_stands_for_a_run_a_cell_and_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other: all cells of a run, each with as many prefixes as its top."""
    law, sizes, scores = ExponentialLaw(Fraction(5)), np.array([2, 1, 3]), np.array([107, 100, 100 + 33 * 5 + 2])
    tops = [math.ceil(2**32 * math.exp(-1)), 2**32, 1]
    seen: list[tuple[int, ...]] = []

    def below(prefix: int, v: int) -> bool:
        seen.append((prefix, v))
        return len(seen) % 2 == 1

    def fraction(num: np.ndarray[Any, Any], den: int) -> np.ndarray[Any, Any]:
        seen.append((*num.tolist(), den))
        return np.array([True])

    monkeypatch.setattr(exponential, "_below", below)
    monkeypatch.setattr(exponential, "bernoulli_exp_fraction", fraction)
    start = 0
    for run, (size, top, v, r) in enumerate(zip([2, 1, 3], tops, [1, 0, 33], [2, 0, 2], strict=True)):
        for place in range(size):
            for prefix in {0, top - 1}:
                seen.clear()
                total = 2 * tops[0] + tops[1] + 3
                monkeypatch.setattr(
                    exponential,
                    "uniform",
                    lambda n, count, total=total, x=start + place * top + prefix: (
                        [x] if (n, count) == (total, 1) else []
                    ),
                )
                assert law.choose(sizes, scores) == (run, place)
                assert seen == [(prefix, v), (r, 5)]
        start += size * top


def test_a_prefix_that_decides_nothing_is_decided_by_further_words() -> None:
    """The prefix that holds 2**32/e is below it as often as is its part below the power."""
    prefix = math.floor(2**32 / math.e)
    below = sum(exponential._below(prefix, 1) for _ in range(400))
    share = 2**32 / math.e - prefix
    assert abs(below - 400 * share) < 6 * math.sqrt(400 * share * (1 - share))
    assert exponential._below(prefix - 1, 1) is True
    assert exponential._below(prefix + 1, 1) is False
    assert (exponential._below(2**32 - 1, 0), exponential._below(2**32, 0)) == (True, False)


def test_a_draw_that_is_not_kept_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, kept, coins = iter([0, 2**32, 0]), iter([False, True, True]), iter([False, True])
    monkeypatch.setattr(exponential, "uniform", lambda n, count: [next(draws)])
    monkeypatch.setattr(exponential, "_below", lambda prefix, v: next(kept))
    monkeypatch.setattr(exponential, "bernoulli_exp_fraction", lambda num, den: [next(coins)])
    assert ExponentialLaw(Fraction(1)).choose(np.array([1, 1]), np.array([0, 1])) == (0, 0)
    assert next(draws, None) is next(kept, None) is next(coins, None) is None


@pytest.mark.parametrize("sizes", [[], [0], [1, 0], [2, -1]])
def test_every_run_has_a_cell(sizes: list[int]) -> None:
    with pytest.raises(InternalError, match="nothing to choose"):
        ExponentialLaw(Fraction(1)).choose(np.array(sizes, dtype=np.int64), np.zeros(len(sizes), dtype=np.int64))
