"""Uniform, Bernoulli, Bernoulli(exp(-x)) and geometric draws follow their laws, at every size of number."""

from __future__ import annotations

import math
import os
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql.errors import InternalError
from dpsql.mechanisms import sampler
from dpsql.mechanisms import sampler as entropy

ALARM = 1e-9


def _binomial(hits: int, size: int, p: float) -> bool:
    return bool(stats.binomtest(hits, size, p).pvalue > ALARM)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100, 4095, 4096, 4097])
def test_small_uniform_draws_are_uniform(n: int) -> None:
    counts = np.bincount(sampler.uniform(n, 60_000), minlength=n)
    assert counts.size == n
    assert n == 1 or stats.chisquare(counts).pvalue > ALARM


@pytest.mark.parametrize("n", [2**28, 2**28 + 1, 3 * 2**40, 2**61 + 2**60 + 1, 2**62 - 1, 2**62])
def test_large_uniform_draws_are_uniform(n: int) -> None:
    drawn = sampler.uniform(n, 40_000)
    assert drawn.min() >= 0
    assert drawn.max() < n
    cells = [int(z) * 50 // n for z in drawn]
    assert stats.chisquare(np.bincount(cells, minlength=50)).pvalue > ALARM
    last_digit = np.bincount(drawn % 3, minlength=3)
    assert stats.chisquare(last_digit).pvalue > ALARM


def test_there_is_no_modulo_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 16-bit word once: each value below n must own the same number of words, the rest are redrawn."""
    every = np.arange(2**16, dtype=np.uint16)
    fallback = np.zeros(2**16, np.uint16)
    for n in (3, 1000, 4093):
        answers = iter([every, fallback])
        monkeypatch.setattr(sampler, "random_words", lambda count, bits, a=answers: next(a)[:count])
        counts = np.bincount(sampler.uniform(n, 2**16), minlength=n)
        block = (2**16 - 1) // n
        assert np.all(counts[1:] == block)
        assert counts[0] == 2**16 - block * (n - 1)


def test_each_draw_may_have_its_own_bound() -> None:
    n = np.tile(np.array([1, 2, 5, 2**31 + 11, 2**62], np.int64), 20_000)
    drawn = sampler.uniform(n, n.size).reshape(-1, 5)
    assert np.all(drawn < n.reshape(-1, 5))
    assert stats.chisquare(np.bincount(drawn[:, 2], minlength=5)).pvalue > ALARM
    assert _binomial(int((drawn[:, 3] < (2**31 + 11) // 3).sum()), 20_000, 1 / 3)
    assert _binomial(int((drawn[:, 4] < 2**60).sum()), 20_000, 1 / 4)


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(999, 1000), Fraction(2**61 + 5, 2**62), Fraction(7, 2**40)])
def test_bernoulli(p: Fraction) -> None:
    hits = int(sampler.bernoulli(p.numerator, p.denominator, 50_000).sum())
    assert _binomial(hits, 50_000, float(p))


def test_bernoulli_is_certain_at_both_ends() -> None:
    for den in (1, 5, 2**12, 2**30, 2**62):
        assert not sampler.bernoulli(0, den, 1000).any()
        assert sampler.bernoulli(den, den, 1000).all()


RATIOS = [
    (0, 1), (1, 1), (1, 2), (1, 1000), (999, 1000), (5, 2), (17, 3), (2**61 + 1, 2**62), (2**62 - 1, 2**62),
    (2**62, 2**61 + 12345), (2**40, 2**38), (9, 1), (2**62, 2**60 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("num", "den"), RATIOS)
def test_bernoulli_exp(num: int, den: int) -> None:
    hits = int(sampler.bernoulli_exp(num, den, 60_000).sum())
    p = math.exp(-num / den)
    assert _binomial(hits, 60_000, p)
    assert p < 0.05 or not _binomial(hits, 60_000, p * 0.7)


def test_bernoulli_exp_of_enormous_exponents_is_false() -> None:
    assert not sampler.bernoulli_exp(2**63 - 1, 1, 5000).any()
    assert not sampler.bernoulli_exp(2**62, 1000, 5000).any()


def test_bernoulli_exp_takes_one_ratio_for_each_draw() -> None:
    num = np.tile(np.array([0, 1, 3, 2**50, 7 * 2**40], np.int64), 30_000)
    den = np.tile(np.array([9, 3, 2, 2**51, 2**42], np.int64), 30_000)
    hits = sampler.bernoulli_exp(num, den, num.size).reshape(-1, 5).sum(axis=0)
    for hit, x in zip(hits, (0, 1 / 3, 3 / 2, 1 / 2, 7 / 4), strict=True):
        assert _binomial(int(hit), 30_000, math.exp(-x))


def test_neighbouring_draws_are_independent() -> None:
    drawn = sampler.bernoulli_exp(1, 1, 120_000).reshape(-1, 2)
    both, first, second = (int(x.sum()) for x in (drawn.all(axis=1), drawn[:, 0], drawn[:, 1]))
    table = [[both, first - both], [second - both, 60_000 - first - second + both]]
    assert stats.chi2_contingency(table).pvalue > ALARM


def test_geometric_law() -> None:
    size = 200_000
    drawn = sampler.geometric(size)
    expected = [math.exp(-v) * -math.expm1(-1) * size for v in range(8)]
    expected.append(size - sum(expected))
    counts = np.bincount(np.minimum(drawn, 8), minlength=9)
    assert stats.chisquare(counts, expected).pvalue > ALARM


def test_the_table_of_cells_is_the_decision_of_every_cell() -> None:
    table = sampler._cell_table()
    assert [sampler._decide(cell, 16) for cell in range(2**16)] == table.tolist()
    assert 10 <= np.count_nonzero(table == sampler._UNDECIDED) <= 16


def test_a_decided_cell_lies_between_two_powers_of_e() -> None:
    table = sampler._cell_table().astype(int)
    for cell in [*range(200), *range(200, 2**16, 97)]:
        if table[cell] != sampler._UNDECIDED:
            with localcontext(prec=50):
                v = Decimal(int(table[cell]))
                assert Decimal(cell + 1) / 2**16 <= (-v).exp()
                assert Decimal(cell) / 2**16 >= (-v - 1).exp()


@pytest.mark.parametrize("bits", [16, 80, 144])
def test_bounds_on_powers_of_e_are_right_and_tight(bits: int) -> None:
    for v in range(60):
        lower, upper = sampler.exp_bounds(v, bits)
        with localcontext(prec=120):
            exact = Decimal(2) ** bits * Decimal(-v).exp()
        assert lower <= exact <= upper
        assert upper - lower <= 1


def test_undecided_cells_follow_the_geometric_law_given_the_cell() -> None:
    """The slow path: within the cell that holds 1/e, V >= 1 on exactly the part of the cell below 1/e."""
    cell = int(2**16 / math.e)
    share = 2**16 / math.e - cell
    above = sum(sampler._refine(cell, 16) >= 1 for _ in range(20_000))
    assert _binomial(above, 20_000, share)


def test_the_slow_path_alone_gives_the_geometric_law() -> None:
    size = 20_000
    drawn = np.array([sampler._refine(0, 0) for _ in range(size)])
    expected = [math.exp(-v) * -math.expm1(-1) * size for v in range(6)]
    expected.append(size - sum(expected))
    assert stats.chisquare(np.bincount(np.minimum(drawn, 6), minlength=7), expected).pvalue > ALARM


def test_a_draw_that_cannot_be_represented_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "random_words", lambda count, bits: np.zeros(count, f"u{bits // 8}"))
    monkeypatch.setattr(sampler, "MAX_GEOMETRIC", 400)
    with pytest.raises(InternalError, match="64-bit"):
        sampler.geometric(1)


@pytest.mark.parametrize("n", [0, -1, 2**62 + 1])
def test_bounds_out_of_range_are_refused(n: int) -> None:
    with pytest.raises(InternalError):
        sampler.uniform(n, 1)
    with pytest.raises(InternalError):
        sampler.bernoulli(1, n, 1)
    with pytest.raises(InternalError):
        sampler.bernoulli_exp(1, n, 1)


def test_probabilities_out_of_range_are_refused() -> None:
    for num in (-1, 3):
        with pytest.raises(InternalError):
            sampler.bernoulli(num, 2, 1)
    with pytest.raises(InternalError):
        sampler.bernoulli_exp(-1, 2, 1)


def test_no_draws_are_no_trouble() -> None:
    assert sampler.uniform(5, 0).size == 0
    assert sampler.uniform(np.array([], np.int64), 0).size == 0
    assert sampler.bernoulli_exp(1, 2, 0).size == 0
    assert sampler.geometric(0).size == 0


def test_only_the_operating_system_is_asked_for_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    """With constant bytes every draw is constant: there is no other source and no seed."""
    monkeypatch.setattr(os, "urandom", lambda count: b"\x5a" * count)
    entropy._buffer.clear()
    drawn = sampler.uniform(1000, 5000)
    entropy._buffer.clear()
    assert np.unique(drawn).size == 1
