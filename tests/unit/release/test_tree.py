"""Trees of counts: least squares, the deviation of a rank, coverage of the intervals, and what a wrong width would do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql.answers.tree_quantiles import _deviations, cumulated, quantile_cells, quantile_ends, reach
from dpsql.budget.pricing import Noised
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpsql.sensitivity.quantile_tree import BRANCHES, Tree, counted, errs_less, height_of

DECILES = [Fraction(i, 10) for i in range(1, 10)]


def tree(height: int) -> Tree:
    return Tree("t", 0, height, 1, 1, 1)


def grown(height: int, cells: np.ndarray) -> np.ndarray:
    where, weights = np.unique(cells, return_counts=True)
    return counted(tree(height), 0, where, weights.astype(np.int64))


@pytest.mark.parametrize(("cells", "height"), [(1, 1), (16, 1), (17, 2), (256, 2), (4096, 3), (2**16, 4)])
def test_the_height_is_the_least_that_holds_all_cells(cells: int, height: int) -> None:
    assert height_of(cells) == height


@pytest.mark.parametrize("height", [1, 2, 3, 4])
def test_without_noise_the_quantile_is_the_cell_of_its_rank(height: int) -> None:
    rng = np.random.default_rng(height)
    size = BRANCHES**height - 3
    data = np.sort((rng.beta(2, 5, 1_000) * size).astype(np.int64))
    nodes = grown(height, data)[None, :]
    for at in [*DECILES, Fraction(1, 3), Fraction(9999, 10000)]:
        wanted = data[-(-at.numerator * 1_000 // at.denominator) - 1]
        assert quantile_cells(tree(height), size, nodes, at) == [wanted]


def test_totals_beyond_64_bits_do_not_overflow() -> None:
    cells, weights = np.arange(16, dtype=np.int64), np.full(16, 2**62, dtype=np.int64)
    assert counted(tree(2), 0, cells, weights).max() == 2**62


def test_the_estimates_are_least_squares_and_their_deviations_are_known() -> None:
    """Against the normal equations, and the covariance of the linear map itself."""
    leaves = np.eye(BRANCHES**2)
    design = np.vstack([leaves.reshape(BRANCHES, BRANCHES, -1).sum(axis=1), leaves])
    nodes = np.random.default_rng(1).normal(size=len(design)) * 10
    solved = np.linalg.lstsq(design, nodes, rcond=None)[0]
    assert np.allclose(cumulated(tree(2), nodes), np.cumsum(solved))
    linear = np.stack([cumulated(tree(2), unit) for unit in np.eye(len(design))], axis=1)
    for at in (Fraction(1, 10), Fraction(1, 2)):
        error = linear - float(at) * linear[-1]
        assert np.allclose(np.sqrt((error**2).sum(axis=1)), _deviations(2, at))


def covered(law: str, height: int, factor: float) -> float:
    """How often seeded noise leaves the true decile inside its 95% interval, with noise `factor` times what is said."""
    rng = np.random.default_rng(7)
    size, hits = BRANCHES**height, []
    data = np.sort((rng.beta(2, 5, 5_000) * size).astype(np.int64))
    exact, scale = grown(height, data), Fraction(6)
    noise = DiscreteLaplace(scale) if law == "laplace" else DiscreteGaussian(scale)
    noised = Noised(noise, 0, tree(height).claim, tree(height).claim)
    draw = rng.laplace if law == "laplace" else rng.normal
    nodes = exact + np.rint(draw(0.0, factor * float(scale), (150, len(exact)))).astype(np.int64)
    for at in DECILES:
        low, high = quantile_ends(tree(height), noised, size, nodes, at, 0.95)
        true = data[-(-at.numerator * len(data) // at.denominator) - 1]
        hits.append((low <= true) & (true <= high))
    return float(np.mean(hits))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("height", [2, 3])
def test_intervals_cover_as_often_as_they_say_and_more_noise_is_noticed(law: str, height: int) -> None:
    assert covered(law, height, 1.0) >= 0.95
    assert covered(law, height, 2.5) < 0.95


def test_a_tree_stands_in_where_it_errs_less() -> None:
    """Few quantiles of a fine grid are better chosen one by one; Laplace noise gains from a tree much sooner."""
    many = [Fraction(i, 100) for i in range(1, 100)]
    assert errs_less(many, 4, "gaussian") and errs_less(many, 4, "laplace")
    assert not errs_less(DECILES, 4, "gaussian") and not errs_less(DECILES, 4, "laplace")
    assert errs_less(DECILES, 3, "laplace") and errs_less(DECILES, 1, "gaussian")
    assert not errs_less(DECILES, 2, "gaussian") and not errs_less(DECILES[:3], 2, "laplace")


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_the_reach_is_the_wider_of_one_noise_and_of_a_sum_of_many(confidence: float) -> None:
    """Sums of Gaussian noise are Gaussian; those of Laplace noise lie between its own law and the Gaussian one."""
    noises = {
        law: Noised(law, 0, tree(1).claim, tree(1).claim)
        for law in (DiscreteLaplace(Fraction(900)), DiscreteGaussian(Fraction(900)))
    }
    laplace, gaussian = (reach(noised, confidence) for noised in noises.values())
    normal = stats.norm.ppf((1 + confidence) / 2)
    assert gaussian == pytest.approx(900 * normal)
    assert laplace == pytest.approx(900 * max(stats.laplace.ppf((1 + confidence) / 2), normal * np.sqrt(2)))
