"""How far one unit moves the scores of a choice: no further than is said, and as far as is said."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest

from dpsql.mechanisms import ExponentialLaw
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.choice import Choice, Runs, choice_of, reach, scored
from dpsql.sensitivity.quantile_tree import BRANCHES, Tree, counted, height_of

LAW = ExponentialLaw(Fraction(4))
CELLS = 6
KINDS = [("quantile", Fraction(1, 2)), ("quantile", Fraction(9, 10)), ("quantile", Fraction(1, 10)),
         ("quantile", Fraction(0)), ("least", Fraction(1, 2)), ("greatest", Fraction(1, 2)), ("mode", Fraction(1, 2))]  # fmt: skip


def _scores(choice: Choice, weights: list[int]) -> list[int]:
    held = [cell for cell, weight in enumerate(weights) if weight]
    runs: Runs = scored(choice, LAW, CELLS, np.array(held, np.int64), np.array([weights[c] for c in held], np.int64))
    made = [0] * CELLS
    for start, size, score in zip(runs.starts, runs.sizes, runs.scores, strict=True):
        made[start : start + size] = [int(score)] * int(size)
    assert sum(map(int, runs.sizes)) == CELLS
    return made


@pytest.mark.parametrize(("kind", "at"), KINDS)
def test_a_unit_moves_a_score_and_their_differences_as_far_as_is_said(kind: str, at: Fraction) -> None:
    choice, most, rng = Choice("c", 0, kind, at), 3, random.Random(1)  # type: ignore[arg-type]
    furthest = widest = 0
    for _ in range(2_000):
        before = [rng.choice([0, 0, 1, 5, 20]) for _ in range(CELLS)]
        after = list(before)
        for _ in range(most):
            after[rng.randrange(CELLS)] += 1
        moves = [b - a for a, b in zip(_scores(choice, before), _scores(choice, after), strict=True)]
        furthest, widest = max(furthest, *map(abs, moves)), max(widest, max(moves) - min(moves))
    assert furthest <= choice.sensitivity(most)
    assert widest <= choice.spread(most)
    if kind in ("quantile", "mode"):
        assert furthest == choice.sensitivity(most)


@pytest.mark.parametrize(("kind", "at"), [*KINDS, ("quantile", Fraction(2**40 - 1, 2**40))])
@pytest.mark.parametrize("bits", [0, 20, 58, 59, 60, 61, 62])
def test_scores_are_exact_however_heavy_the_cells_are(kind: str, at: Fraction, bits: int) -> None:
    """The arrays have 64 bits only, so from some weight on Python's own integers are taken."""
    choice, rng = Choice("c", 0, kind, at), random.Random(bits)  # type: ignore[arg-type]
    for _ in range(20):
        weights = [rng.choice([0, 1, 2**bits - 1, 2**bits]) for _ in range(CELLS)]
        total, upto = sum(weights), list(accumulate(weights))
        least = min(reach(LAW, CELLS), total)
        target = {"least": least, "greatest": 2 * total - least}.get(kind, at.numerator * total)
        ranks = [
            max(choice.parts * (e - w) - target, target - choice.parts * e, 0)
            for w, e in zip(weights, upto, strict=True)
        ]
        assert _scores(choice, weights) == ([-w for w in weights] if kind == "mode" else ranks)


@pytest.mark.parametrize("at", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_the_best_cell_holds_the_quantile(at: Fraction) -> None:
    rng = random.Random(2)
    for _ in range(200):
        weights = [rng.choice([0, 1, 2, 9]) for _ in range(CELLS - 1)] + [1]
        scores = _scores(Choice("c", 0, "quantile", at), weights)
        sums = np.cumsum([0, *weights])
        holds = [low <= at * int(sums[-1]) <= high for low, high in pairwise(map(int, sums))]
        assert [score == 0 for score in scores] == holds


def test_a_tree_counts_each_weight_once_on_each_level_and_claims_all_of_them() -> None:
    tree = Tree("t", 0, height_of(300), 2, 4, 20)
    assert (tree.height, tree.sizes, tree.nodes) == (3, (16, 256, 4096), 4368)
    assert (height_of(16), height_of(17), height_of(256), height_of(257)) == (1, 2, 2, 3)
    cells, weights = np.array([0, 17, 299], np.int64), np.array([3, 5, 7], np.int64)
    nodes = counted(tree, 0, cells, weights)
    levels = np.split(nodes, np.cumsum(tree.sizes)[:-1])
    assert [int(level.sum()) for level in levels] == [15, 15, 15]
    assert [np.flatnonzero(level).tolist() for level in levels] == [[0, 1], [0, 1, 18], [0, 17, 299]]
    assert counted(tree, 1, cells, weights).tolist() == (nodes >> 1).tolist()
    claim = tree.claim
    assert (claim.linf, claim.l1, claim.l2) == (20, 60, 35)
    assert (claim.l2 - 1) ** 2 < 3 * 20**2 <= claim.l2**2
    assert claim.reach == 4368 * 2
    assert [Tree("t", 0, height, 1, 4, 20).claim.l2 for height in (1, 2, 4)] == [20, 29, 40]
    assert Tree("t", 0, 3, 2, 1, 1).claim.reach == 3
    assert BRANCHES**tree.height >= 300


def test_a_sum_is_no_choice() -> None:
    assert choice_of(Aggregate("max", None), 3) == Choice("max(*)", 3, "greatest")
    with pytest.raises(ValueError, match="chooses nothing"):
        choice_of(Aggregate("sum", None), 0)
