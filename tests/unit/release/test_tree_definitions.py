"""Quantiles from a tree of counts, against their definitions written out cell by cell."""

from __future__ import annotations

import random
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from dpsql.answers.tree_quantiles import _deviations, cumulated, quantile_cells, quantile_ends, rank_width
from dpsql.budget.pricing import Noised
from dpsql.mechanisms import DiscreteGaussian
from dpsql.sensitivity.quantile_tree import BRANCHES, Tree

ONE = Tree("t", 0, 1, 1, 1, 1)
PLACES = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(1)]


def noised(scale: int, shift: int = 0) -> Noised:
    return Noised(DiscreteGaussian(Fraction(scale)), shift, ONE.claim, ONE.claim)


def deviation(cell: int, at: Fraction) -> float:
    """Of the noise of (leaves up to `cell`) − at·(all 16 leaves), each with variance 1."""
    return sqrt((cell + 1) * (1 - at) ** 2 + (BRANCHES - cell - 1) * at**2)


def leaves_of(seed: int) -> list[list[int]]:
    """Noisy leaves, among them groups that seem to be empty or less, and such as rise, fall, and have steps."""
    rng = random.Random(seed)
    drawn = [[rng.randint(-spread, spread) + up for _ in range(BRANCHES)] for spread in (1, 5, 40) for up in (-9, 0, 9)]
    return [*drawn, [0] * BRANCHES, [-50] * BRANCHES, [50] * BRANCHES, [500] + [0] * 15, [0] * 15 + [500]]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("cells", [1, 2, 9, 15, 16])
def test_a_quantile_is_the_first_cell_whose_levelled_sum_reaches_its_rank(at: Fraction, cells: int) -> None:
    for leaves in leaves_of(cells):
        sums = [sum(leaves[: cell + 1]) for cell in range(BRANCHES)]
        rank = at * max(sums[-1], 0)
        levelled = [Fraction(max(sums[: cell + 1]) + min(sums[cell:]), 2) for cell in range(cells)]
        wanted = next((cell for cell, level in enumerate(levelled) if level >= rank), cells - 1)
        assert quantile_cells(ONE, cells, np.array([leaves]), at) == [wanted]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("cells", [1, 9, 16])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_ends_are_the_cells_beyond_which_the_noise_would_stray_too_far(
    at: Fraction, cells: int, confidence: float
) -> None:
    far = 3 * stats.norm.ppf((1 + confidence) / 2)
    groups = leaves_of(cells)
    lows, highs = quantile_ends(ONE, noised(3), cells, np.array(groups), at, confidence)
    for leaves, low, high in zip(groups, lows, highs, strict=True):
        above = [sum(leaves[: cell + 1]) - at * sum(leaves) for cell in range(BRANCHES)]
        wide = [far * deviation(cell, at) + 1e-6 for cell in range(BRANCHES)]
        first = next((cell for cell in range(BRANCHES) if above[cell] >= -wide[cell]), 0)
        last = max((cell + 1 for cell in range(BRANCHES) if above[cell] < wide[cell]), default=0)
        assert (low, high) == (min(first, cells - 1), min(last, cells - 1))


def test_no_group_has_no_ends() -> None:
    low, high = quantile_ends(ONE, noised(3), 16, np.empty((0, 16)), Fraction(1, 2), 0.95)
    assert len(low) == len(high) == len(quantile_cells(ONE, 16, np.empty((0, 16)), Fraction(1, 2))) == 0


@pytest.mark.parametrize(("short", "met"), [(0, True), (5, True), (15, False), (30, False)])
def test_a_rank_is_met_if_it_is_missed_by_a_billionth_and_not_by_more(short: int, met: bool) -> None:
    """Sums are floats: what rounding may take away must not move a quantile, and nothing more is given away."""
    half = 10**10
    leaves = [half - short, half + short, *[0] * 14]
    assert quantile_cells(ONE, 16, np.array([leaves]), Fraction(1, 2)) == [0 if met else 1]
    leaves = [0, half + short, *[0] * 13, half - short]
    nothing = Noised(DiscreteGaussian(Fraction(1, 2**20)), 0, ONE.claim, ONE.claim)
    _, high = quantile_ends(ONE, nothing, 16, np.array([leaves]), Fraction(1, 2), 0.95)
    assert high == [15 if short < 20 else 1]
    leaves = [0, half - short, *[0] * 13, half + short]
    low, _ = quantile_ends(ONE, nothing, 16, np.array([leaves]), Fraction(1, 2), 0.95)
    assert low == [1 if short < 20 else 15]


def test_rounding_is_allowed_for_also_where_noise_left_less_than_nothing() -> None:
    half, nothing = 10**10, Noised(DiscreteGaussian(Fraction(1, 2**20)), 0, ONE.claim, ONE.claim)
    leaves = [-5 * half, 4 * half, half, *[0] * 12, -2 * half]
    low, _ = quantile_ends(ONE, nothing, 16, np.array([leaves]), Fraction(1, 2), 0.95)
    assert low == [1]
    _, high = quantile_ends(ONE, nothing, 16, np.array([[-half, *[0] * 15]]), Fraction(1), 0.95)
    assert high == [15]


@pytest.mark.parametrize("at", PLACES)
def test_the_deviation_of_a_tree_of_one_level_is_that_of_sums_of_leaves(at: Fraction) -> None:
    wanted = [deviation(cell, at) for cell in range(BRANCHES)]
    assert _deviations(1, at) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("height", [2, 3])
def test_what_is_left_of_the_noise_adds_up_to_nothing_on_every_path(height: int) -> None:
    """The normal equations of least squares: on the way from the root to a leaf all residuals cancel."""
    sizes = [BRANCHES**level for level in range(1, height + 1)]
    levels = [np.random.default_rng(height + size).normal(size=size) * 9 for size in sizes]
    leaves = np.diff(cumulated(Tree("t", 0, height, 1, 1, 1), np.concatenate(levels)), prepend=0.0)
    left = np.zeros(sizes[-1])
    for size, level in zip(sizes, levels, strict=True):
        left += np.repeat(level - leaves.reshape(size, -1).sum(axis=1), sizes[-1] // size)
    assert np.abs(left).max() < 1e-9


@pytest.mark.parametrize(("at", "widest"), [(Fraction(1, 2), 2.0), (Fraction(1, 10), 3.6), (Fraction(1), 15**0.5)])
@pytest.mark.parametrize(("shift", "one"), [(0, 1), (3, 1), (0, 4), (5, 2**30)])
def test_the_width_of_a_rank_is_in_rows_and_the_widest_of_all_cells(
    at: Fraction, widest: float, shift: int, one: int
) -> None:
    tree = Tree("t", 0, 1, 1, one, one)
    wanted = 7 * stats.norm.ppf(0.95) * widest * 2**shift / one
    assert rank_width(tree, noised(7, shift), at, 0.9) == pytest.approx(wanted)
