"""The ends of the interval around a quantile: how far a unit moves their scores, and how often they miss."""

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT
from dpsql.mechanisms import ExponentialLaw
from dpsql.sensitivity.choice import Choice, Histogram
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.interval_ends import BEYOND, STEEPNESS, EndsLaw, choose_ends, ends_scored, ends_spread, rungs

CELLS = 24
LAW = EndsLaw(ExponentialLaw(Fraction(9)), 7)


def scores_of(choice: Choice, law: EndsLaw, middle: int, weights: Sequence[int]) -> tuple[list[int], list[int]]:
    held = [cell for cell, weight in enumerate(weights) if weight]
    lower, upper = ends_scored(
        choice, law, middle, len(weights), np.array(held, np.int64), np.array([weights[c] for c in held], np.int64)
    )
    return [int(x) for x in lower], [int(x) for x in upper]


def moved(choice: Choice, law: EndsLaw, middle: int, before: Sequence[int], after: Sequence[int]) -> int:
    """The length of the interval in which the moves of all pairs of rungs lie."""
    lengths = []
    for one, two in zip(*(scores_of(choice, law, middle, each) for each in (before, after)), strict=True):
        moves = [b - a for a, b in zip(one, two, strict=True)]
        lengths.append(max(moves) - min(moves))
    return sum(lengths)


@pytest.mark.parametrize("at", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 100)])
def test_a_unit_moves_the_scores_of_both_ends_by_no_more_than_their_spread(at: Fraction) -> None:
    choice, rng, most, furthest = Choice("c", 0, "quantile", at), random.Random(7), 3, 0
    for _ in range(3_000):
        scale = Fraction(rng.choice([1, 9, 40, 400]))
        law, middle = EndsLaw(ExponentialLaw(scale), 7), rng.randrange(CELLS)
        before = [rng.choice([0, 0, 0, 1, 5, 20]) for _ in range(CELLS)]
        after = list(before)
        for _ in range(most):
            after[rng.randrange(CELLS)] += 1
        furthest = max(furthest, moved(choice, law, middle, before, after))
    assert furthest <= ends_spread(choice, most)
    assert furthest > ends_spread(choice, most) * 0.6


def test_the_spread_is_that_of_the_theorem() -> None:
    assert STEEPNESS == 2 and Fraction(5, 2) == BEYOND
    assert ends_spread(Choice("c", 0, "quantile", Fraction(1, 2)), 5) == 5 * (3 + 2 + 2)
    assert ends_spread(Choice("c", 0, "quantile", Fraction(9, 10)), 1) == 27 + 18 + 9
    assert ends_spread(Choice("c", 0, "quantile", Fraction(1, 10)), 1) == 27 + 18 + 9
    assert EndsLaw(ExponentialLaw(Fraction(9)), 7).beyond == 11


@pytest.mark.parametrize("cells", [1, 2, 5, 93, 65_532])
def test_rungs_grow_by_half_octaves_to_beyond_the_grid(cells: int) -> None:
    distances, tickets = rungs(cells)
    assert distances[0] == 0 and distances[1] == 1 and distances[-1] >= 4 * cells and min(tickets) >= 1
    assert all(before < after <= max(before + 1, 1.5 * before + 1) for before, after in pairwise(distances.tolist()))
    assert tickets[0] == tickets[1] == 1024
    assert len(distances) == len(tickets) < 50


def chances(law: EndsLaw, cells: int, scores: Sequence[int]) -> np.ndarray:
    exponents = np.array(scores, float) / float(law.law.scale)
    chance = rungs(cells)[1] * np.exp(exponents.min() - exponents)
    return np.asarray(chance / chance.sum())


@pytest.mark.parametrize("data", ["even", "ties", "gap", "one", "skewed"])
def test_the_upper_end_is_below_the_quantile_as_rarely_as_is_proved(data: str) -> None:
    weights = {
        "even": [1] * 200, "ties": [40 if cell % 40 == 0 else 0 for cell in range(200)],
        "gap": [9] * 12 + [0] * 176 + [9] * 12, "one": [0] * 100 + [300] + [0] * 99,
        "skewed": [round(60 / (1 + cell)) for cell in range(200)],
    }[data]  # fmt: skip
    choice, law = Choice("c", 0, "quantile", Fraction(1, 2)), EndsLaw(ExponentialLaw(Fraction(16)), 7)
    sums = np.cumsum(weights)
    quantile, (distances, tickets) = int(np.searchsorted(sums, sums[-1] / 2)), rungs(200)
    for middle in range(0, 200, 7):
        lower, upper = scores_of(choice, law, middle, weights)
        for scores, side in ((upper, 1), (lower, -1)):
            ends = np.clip(middle + side * distances, 0, 199)
            missed = float(chances(law, 200, scores)[side * (ends - quantile) < 0].sum())
            best = tickets[np.array(scores) == 0].sum()
            bound = np.exp(-STEEPNESS * law.beyond / float(law.law.scale)) * tickets.sum() / best
            assert best > 0 and missed <= bound + 1e-12


def test_a_group_that_is_too_small_has_the_ends_of_the_grid() -> None:
    choice, law = Choice("c", 0, "quantile", Fraction(1, 2)), EndsLaw(ExponentialLaw(Fraction(1_000)), 7)
    for weights in ([0] * 50, [1] * 50):
        lower, upper = scores_of(choice, law, 20, weights)
        distances = rungs(50)[0]
        assert all(score == 0 for score, far in zip(upper, distances, strict=True) if far >= 29)
        assert all(score == 0 for score, far in zip(lower, distances, strict=True) if far >= 20)
        assert min(upper[:5]) > 2_400 and min(lower[:5]) > 2_400


def test_ends_are_drawn_around_the_middle_and_stay_on_the_grid() -> None:
    choice, law = Choice("c", 0, "quantile", Fraction(1, 2)), EndsLaw(ExponentialLaw(Fraction(4)), 7)
    cells = np.arange(0, 400, 4)
    drawn = [choose_ends(choice, law, 201, 400, cells, np.full(100, 5)) for _ in range(300)]
    assert all(0 <= low <= 201 <= high < 400 for low, high in drawn)
    held = sum(low <= 200 <= high for low, high in drawn)
    assert held > 280
    assert choose_ends(choice, law, 0, 1, np.array([0]), np.array([9])) == (0, 0)


def test_the_weight_of_all_groups_moves_by_what_a_unit_adds_to_the_histogram() -> None:
    """In L2 over 5 groups, so by up to √5 times as much in L1; a row moves one group."""
    grid = Grid(Column(BIGINT, name="n"), Domain())
    assert Histogram(grid, "rows", None, 1, 1).total_claim(5) == Claim(None, 1, 1, 1, 1)
    assert Histogram(grid, "rows", None, 4, 12).total_claim(5) == Claim(None, 12, 12, 12, 5)
    assert Histogram(grid, "rows", None, 4, 12, "l2").total_claim(5) == Claim(None, 12, 36, 12, 5)
