"""The exponential mechanism: its exact law, run by run and cell by cell, its price, its refusals."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.mechanisms import ExponentialLaw
from dpsql.mechanisms.exponential import _below
from dpsql.mechanisms.sampler import LIMIT, exp_bounds

DRAWS = 6_000
ALARM = 1e-11
"""A right law is rejected less than once in 10**9 times in each test, whatever the number of cells."""


def _law(sizes: list[int], scores: list[int], scale: Fraction) -> dict[tuple[int, int], float]:
    """The probability of every cell, in floats."""
    least = min(scores)
    weights = [math.exp(-float((s - least) / scale)) for s in scores]
    total = math.fsum(w * n for w, n in zip(weights, sizes, strict=True))
    return {(i, j): weights[i] / total for i, n in enumerate(sizes) for j in range(n)}


def _drawn(law: ExponentialLaw, sizes: list[int], scores: NDArray[np.int64]) -> Counter[tuple[int, int]]:
    widths = np.array(sizes, dtype=np.int64)
    return Counter(law.choose(widths, scores) for _ in range(DRAWS))


def _fits(drawn: Counter[tuple[int, int]], law: dict[tuple[int, int], float]) -> bool:
    assert set(drawn) <= set(law)
    return all(stats.binomtest(drawn[cell], DRAWS, p).pvalue > ALARM for cell, p in law.items())


CASES = [
    ([1, 1], [0, 1], Fraction(1)),
    ([1, 3, 1, 2], [3, 0, 2, 7], Fraction(2)),
    ([5, 1, 20], [40, 39, 41], Fraction(3, 4)),
    ([2, 1, 4], [10**12, 10**12 + 5 * 10**11, 10**12 + 10**11], Fraction(3 * 10**11)),
    ([1] * 12, list(range(12)), Fraction(2**20 + 1, 2**19)),
]


@pytest.mark.parametrize(("sizes", "scores", "scale"), CASES)
def test_each_cell_is_chosen_with_its_own_probability(sizes: list[int], scores: list[int], scale: Fraction) -> None:
    drawn = _drawn(ExponentialLaw(scale), sizes, np.array(scores, dtype=np.int64))
    assert _fits(drawn, _law(sizes, scores, scale))
    assert not _fits(drawn, _law(sizes, scores, scale / 2))


def test_scores_beyond_64_bits_have_the_same_law() -> None:
    scale, unit = Fraction(2**61), 2**62
    drawn = _drawn(ExponentialLaw(scale), [1, 2, 1], np.array([5 * unit, 5 * unit + unit // 2, 7 * unit], dtype=object))
    assert _fits(drawn, _law([1, 2, 1], [0, 1, 4], Fraction(1)))


def test_a_far_cell_in_a_large_crowd_is_weighed_as_a_near_one() -> None:
    """A run of 2**20 cells at a distance of 14 scales: each cell is rare, together they are not."""
    drawn = _drawn(ExponentialLaw(Fraction(1)), [1, 2**20], np.array([0, 14], dtype=np.int64))
    p = 1 / (1 + 2**20 * math.exp(-14))
    assert stats.binomtest(drawn[0, 0], DRAWS, p).pvalue > ALARM
    places = [place for (run, place), times in drawn.items() if run == 1 for _ in range(times)]
    assert stats.kstest(np.array(places) / 2**20, "uniform").pvalue > ALARM


@pytest.mark.parametrize("v", [0, 1, 20, 22, 23, 40, 10**9])
def test_the_prefix_of_a_draw_is_compared_with_the_power_itself(v: int) -> None:
    power = 2**32 * math.exp(-v)
    if v == 0:
        assert _below(2**32 - 1, 0)
    elif power > 2:
        assert _below(int(power) - 1, v) and not _below(int(power) + 1, v)
    elif power > 0.1:
        hits = sum(_below(0, v) for _ in range(DRAWS))
        assert stats.binomtest(hits, DRAWS, min(1.0, power)).pvalue > ALARM
    else:
        assert not _below(1, v)


@pytest.mark.parametrize("v", [1, 5, 20])
def test_a_prefix_that_decides_nothing_is_made_longer_by_64_bits(v: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix, _ = exp_bounds(v, 32)
    edge, _ = exp_bounds(v, 96)
    for word, below in (
        (edge - (prefix << 64) - 1, True),
        (edge - (prefix << 64) + 1, False),
        (0, True),
        (2**64 - 1, False),
    ):
        monkeypatch.setattr(
            "dpsql.mechanisms.exponential.random_words", lambda *_, word=word: np.array([word], np.uint64)
        )
        assert _below(prefix, v) is below


def test_a_wide_grid_with_one_good_cell_is_quick_to_choose_from() -> None:
    """No proposal is wasted on cells that are never chosen."""
    scores = np.full(2**17, 10**9, dtype=np.int64)
    scores[77] = 0
    assert ExponentialLaw(Fraction(1)).choose(np.ones(2**17, dtype=np.int64), scores) == (77, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(40)])
@pytest.mark.parametrize("spread", [1, 2, 199, 100 << 30])
def test_no_more_is_spent_than_asked_and_hardly_less(spread: int, epsilon: Fraction) -> None:
    law = ExponentialLaw.for_epsilon(spread, epsilon)
    assert epsilon * (1 - Fraction(1, 2**10)) < law.epsilon(spread) <= epsilon
    assert law.rho(spread) == law.epsilon(spread) ** 2 / 8


def test_the_price_bounds_every_divergence() -> None:
    """All scores of three cells in a small box, and all moves by a spread: ε and ρ hold, and ε is reached."""
    law, worst = ExponentialLaw(Fraction(2)), 0.0
    epsilon, rho = float(law.epsilon(2)), float(law.rho(2))
    for scores in np.ndindex(4, 4, 4):
        for low in (-2, -1, 0):
            for moves in np.ndindex(3, 3, 3):
                moved = [s + low + d for s, d in zip(scores, moves, strict=True)]
                p, q = (np.array(list(_law([1, 1, 50], s, law.scale).values())) for s in (list(scores), moved))
                loss = np.log(p / q)
                worst = max(worst, float(np.abs(loss).max()))
                for order in (1.001, 1.5, 2, 4, 16):
                    divergence = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
                    assert divergence <= order * rho + 1e-9
    assert 0.9 * epsilon < worst <= epsilon + 1e-9


def test_opendp_chooses_by_the_same_law() -> None:
    """OpenDP's noisy maximum with Gumbel noise is the exponential mechanism: scale 2 and scores 0, 1, 3."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
    other = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=2.0, negate=True)
    theirs = Counter((int(other([0, 1, 3])), 0) for _ in range(DRAWS))
    law = _law([1, 1, 1], [0, 1, 3], Fraction(2))
    assert _fits(theirs, law)
    assert _fits(_drawn(ExponentialLaw(Fraction(2)), [1, 1, 1], np.array([0, 1, 3], dtype=np.int64)), law)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InternalError, match="nothing to choose"):
        ExponentialLaw(Fraction(1)).choose(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    for scale in (0, LIMIT):
        with pytest.raises(InternalError, match="out of range"):
            ExponentialLaw(Fraction(scale))
    assert ExponentialLaw(Fraction(LIMIT - 1)).scale == LIMIT - 1
    with pytest.raises(UnsupportedQuery, match="almost random"):
        ExponentialLaw.for_epsilon(2**61, Fraction(1, 10))


@pytest.mark.parametrize("sizes", [[2**30], [2**29, 2**29], [2**32 + 1], [2**62, 2**62, 2**62, 2**62, 1]])
@pytest.mark.parametrize("far", [0, 40])
def test_more_cells_than_fit_are_refused_whatever_their_scores(sizes: list[int], far: int) -> None:
    """Neither does a sum wrap around and pass, nor does the refusal tell of the scores."""
    scores = np.arange(len(sizes), dtype=np.int64) * far
    with pytest.raises(InternalError, match="too many cells"):
        ExponentialLaw(Fraction(1)).choose(np.array(sizes, dtype=np.int64), scores)
    run, place = ExponentialLaw(Fraction(1)).choose(np.array([2**30 - 1], dtype=np.int64), scores[:1])
    assert run == 0 and 0 <= place < 2**30 - 1
