"""The samplers word by word: random words are chosen by the test, so that each comparison is met at its very edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.mechanisms import discrete_noise as laplace
from dpsql.mechanisms import gaussian, sampler

Script = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Answer requests for random words by these lists, one after the other; the requests are noted."""

    def use(*answers: list[int]) -> list[tuple[int, int]]:
        asked: list[tuple[int, int]] = []
        left = list(answers)

        def words(count: int, bits: int) -> NDArray[np.unsignedinteger]:
            asked.append((count, bits))
            answer = np.array(left.pop(0), dtype=f"u{bits // 8}")
            answer.setflags(write=False)
            assert answer.size == count
            return answer

        monkeypatch.setattr(sampler, "random_words", words)
        return asked

    return use


BOUNDS = [(3, 16), (4096, 16), (4097, 32), (2**28, 32), (2**28 + 1, 64), (10**18 + 9, 64), (2**62, 64)]


@pytest.mark.parametrize(("n", "bits"), BOUNDS)
def test_each_value_has_a_block_of_words_and_the_rest_are_drawn_again(n: int, bits: int, script: Script) -> None:
    block = (2**bits - 1) // n
    asked = script([0, block - 1, block, block * n - 1, block * n, 2**bits - 1], [block * n, block * 2], [block])
    assert sampler.uniform(n, 6).tolist() == [0, 0, 1, n - 1, 1, 2]
    assert asked == [(6, bits), (2, bits), (1, bits)]


@pytest.mark.parametrize(("n", "bits"), BOUNDS)
def test_a_coin_is_heads_for_the_blocks_of_its_numerator(n: int, bits: int, script: Script) -> None:
    block = (2**bits - 1) // n
    for num in (1, n // 2, n - 1):
        script([0, block * num - 1, block * num, block * n - 1, block * n], [block * num - 1])
        assert sampler.bernoulli(num, n, 5).tolist() == [True, True, False, False, True]


def test_words_are_as_long_as_the_largest_bound_needs_and_each_draw_keeps_its_own(script: Script) -> None:
    blocks = [(2**32 - 1) // n for n in (2, 5000)]
    asked = script([blocks[0] * 2 - 1, blocks[1] * 5000 - 1, blocks[0] * 2, blocks[1] * 5000], [blocks[0], blocks[1]])
    assert sampler.uniform(np.array([2, 5000, 2, 5000]), 4).tolist() == [1, 4999, 1, 1]
    assert asked == [(4, 32), (2, 32)]
    asked = script([blocks[1] * 5000, 0, blocks[0] * 2], [blocks[1] * 5000, 0], [blocks[1] * 7])
    assert sampler.uniform(np.array([5000, 5000, 2]), 3).tolist() == [7, 0, 0]
    assert asked == [(3, 32), (2, 32), (1, 32)]


@pytest.mark.parametrize(("least", "most"), [(1, 2**62)])
def test_bounds_reach_from_1_to_2_to_the_62(least: int, most: int, script: Script) -> None:
    script([0], [0])
    assert sampler.uniform(least, 1).tolist() == [0]
    assert sampler.uniform(most, 1).tolist() == [0]
    for wrong in (least - 1, most + 1, np.array([1, least - 1]), np.array([1, most + 1])):
        with pytest.raises(InternalError, match="outside its range"):
            sampler.uniform(wrong, 1)


def test_the_ranges_of_draws_multiply_to_what_64_bits_hold() -> None:
    """X = U + tV stays below 2**62 for every scale of Laplace noise; σ of Gaussian noise has 24 bits."""
    assert sampler.LIMIT == 2**62 == sampler.MAX_GEOMETRIC * laplace.LIMIT
    assert sampler.MAX_GEOMETRIC == 2**22
    assert gaussian.LIMIT == 2**24
    assert sampler._refine(2**15, 16) == 0


@pytest.mark.parametrize("rounds", range(6))
def test_the_alternating_series_asks_for_x_and_then_for_x_over_2_and_over_3(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads for so many coins x/k, then tails: the draw is true where the first tails came at an odd k."""
    asked: list[tuple[int, int]] = []

    def coin(num: int | NDArray[np.int64], den: int, size: int) -> NDArray[np.bool_]:
        asked.extend([(int(np.max(num)), int(den))] * size)
        return np.full(size, sum(pair == (5, 7) for pair in asked) <= rounds)

    monkeypatch.setattr(sampler, "bernoulli", coin)
    [found] = sampler.bernoulli_exp_fraction(np.array([5]), 7).tolist()
    assert found is (rounds % 2 == 0)
    expected = [(5, 7)]
    for k in range(2, rounds + 2):
        expected += [(1, k), (5, 7)]
    assert asked == expected


def test_a_coin_1_over_k_that_fails_ends_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = iter([[True, True], [False, True], [False]])
    monkeypatch.setattr(sampler, "bernoulli", lambda num, den, size: np.array(next(coins))[:size])
    assert sampler.bernoulli_exp_fraction(np.array([3, 4]), np.array([7, 9])).tolist() == [False, False]


@pytest.mark.parametrize(("num", "den"), [(0, 5), (4, 5), (5, 5), (14, 5), (17, 5), (2**62 + 3, 2**60)])
def test_an_exponent_is_split_into_whole_steps_and_a_fraction(
    num: int, den: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A geometric draw must reach the whole part; only then is the fraction asked, with its own denominator."""
    whole, rest = divmod(num, den)
    asked: list[tuple[list[int], list[int]]] = []

    def fraction(num: NDArray[np.int64], den: int | NDArray[np.int64]) -> NDArray[np.bool_]:
        asked.append((num.tolist(), np.broadcast_to(den, num.size).tolist()))
        return np.arange(num.size) % 2 == 0

    monkeypatch.setattr(sampler, "bernoulli_exp_fraction", fraction)
    monkeypatch.setattr(sampler, "geometric", lambda size: np.array([whole - 1, whole, whole + 1, 10**6])[:size])
    for dens in (den, np.full(4, den)):
        found = sampler.bernoulli_exp(np.full(4, num), dens, 4).tolist()
        if whole:
            assert found == [False, True, False, True]
            assert asked[-1] == ([rest] * 3, [den] * 3)
        else:
            assert found == [True, False, True, False]
            assert asked[-1] == ([rest] * 4, [den] * 4)


@pytest.mark.parametrize("bits", [16, 32, 80, 208])
def test_bounds_on_a_power_of_e_are_the_whole_numbers_around_it(bits: int) -> None:
    with localcontext(prec=150):
        for v in range(1, 40):
            power = Decimal(2) ** bits * Decimal(-v).exp()
            assert sampler.exp_bounds(v, bits) == (math.floor(power), math.ceil(power))
    assert sampler.exp_bounds(0, bits) == (2**bits, 2**bits)


@pytest.mark.parametrize("precision", [0, 1, 5, 48, 112])
def test_the_inverse_of_e_lies_between_two_neighbours(precision: int) -> None:
    with localcontext(prec=150):
        exact = Decimal(2) ** precision / Decimal(1).exp()
    assert sampler._inverse_e(precision) == (math.floor(exact), math.ceil(exact))


@pytest.mark.parametrize("place", range(1, 6))
def test_bits_are_drawn_by_64_until_they_decide(place: int, script: Script) -> None:
    """With the first one in the highest bit of such a word u is a power of two, and V the logarithm of its inverse."""
    asked = script(*[[0]] * (place - 1), [2**63])
    assert sampler._refine(0, 16) == math.floor((16 + 64 * (place - 1) + 1) * math.log(2))
    assert asked == [(1, 64)] * place


def test_a_word_is_put_behind_the_bits_that_are_there(script: Script) -> None:
    cell = math.floor(2**16 / math.e)
    edge = math.floor(Fraction(2**80) / Fraction(math.e)) - (cell << 64)
    for word, drawn in ((0, 1), (edge - 2**40, 1), (edge + 2**40, 0), (2**64 - 1, 0)):
        script([word])
        assert sampler._refine(cell, 16) == drawn


def test_a_draw_is_refused_from_so_many_bits_on_whatever_they_would_say(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MAX_GEOMETRIC", 16 + 3 * 64)
    script([0], [2**63])
    assert sampler._refine(0, 16) == math.floor((16 + 64 + 1) * math.log(2))
    script([0], [0], [2**63])
    with pytest.raises(InternalError, match="64-bit"):
        sampler._refine(0, 16)


def test_each_undecided_cell_is_refined_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell is undecided where a power of 1/e lies in it."""
    edges = [math.floor(2**16 * math.exp(-v)) for v in range(1, 16)]
    cells = np.arange(2**16, dtype=np.uint16)
    refined: list[tuple[int, int]] = []
    monkeypatch.setattr(sampler, "random_words", lambda count, bits: cells)
    monkeypatch.setattr(sampler, "_refine", lambda prefix, bits: (refined.append((prefix, bits)), 77)[1])
    drawn = sampler.geometric(2**16)
    assert refined == [(edge, 16) for edge in sorted(set(edges))]
    assert np.flatnonzero(drawn == 77).tolist() == sorted(set(edges))
    decided = drawn != 77
    expected = np.ceil(-np.log((cells[decided] + 0.5) / 2**16)) - 1
    assert np.array_equal(drawn[decided], expected)


@pytest.mark.parametrize("scale", [Fraction(5), Fraction(5, 4)])
def test_a_laplace_draw_is_put_together_from_its_parts(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """U below t that is kept, t times V, in steps of s, with a sign; a negative zero is dropped."""
    t, s = scale.as_integer_ratio()
    kept = np.array([True, False, True, True, True])
    monkeypatch.setattr(laplace, "uniform", lambda n, size: np.array([0, 1, 4, 4, 0])[:size] if n == t else None)
    monkeypatch.setattr(laplace, "bernoulli_exp_fraction", lambda num, den: kept if den == t else None)
    monkeypatch.setattr(laplace, "geometric", lambda size: np.array([0, 3, 3, 0])[:size])
    monkeypatch.setattr(laplace, "random_bits", lambda size: np.array([True, True, False, False])[:size])
    x = (4 + 3 * t) // s
    assert laplace.DiscreteLaplace(scale).propose(5).tolist() == [-x, x, 0]


@pytest.mark.parametrize("den", [0, -1, 2**62 + 1])
@pytest.mark.parametrize("wrap", [int, lambda den: np.array([den])])
def test_a_denominator_out_of_range_is_refused_before_anything_is_drawn(
    den: int, wrap: Callable[[int], int], script: Script
) -> None:
    asked = script()
    for num in (0, 1, 2**63 - 1):
        with pytest.raises(InternalError, match="outside its range"):
            sampler.bernoulli_exp(num, wrap(den), 1)
        with pytest.raises(InternalError, match="outside its range"):
            sampler.bernoulli(min(num, 1), wrap(den), 1)
    for num in (-1, -(2**62)):
        with pytest.raises(InternalError, match="outside its range"):
            sampler.bernoulli_exp(num, 2, 1)
    with pytest.raises(InternalError, match="outside its range"):
        sampler.bernoulli(3, 2, 1)
    assert asked == []
