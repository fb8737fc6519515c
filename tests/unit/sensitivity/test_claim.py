"""A claim after the floor to a coarser grid: never less than what a unit can move, and no larger than it must be."""

from __future__ import annotations

import random
from math import sqrt

import pytest

from dpsql.sensitivity.claim import Claim, one_coordinate


@pytest.mark.parametrize(
    ("claim", "shift", "expected"),
    [
        (Claim(None, 8, 8, 8, 3), 0, Claim(None, 8, 8, 8, 3)),
        (Claim(None, 8, 8, 8, 3), 2, Claim(None, 2, 5, 4, 3)),
        (Claim(2, 9, 9, 9, 4), 3, Claim(2, 2, 6, 4, 4)),
        (Claim(None, 9, 9, 9, 5), 3, Claim(None, 2, 7, 5, 5)),
        (one_coordinate(8), 2, Claim(1, 2, 2, 2, 1)),
        (one_coordinate(9), 2, Claim(1, 3, 3, 3, 1)),
    ],
)
def test_the_claim_on_a_coarser_grid(claim: Claim, shift: int, expected: Claim) -> None:
    assert claim.coarser(shift) == expected


@pytest.mark.parametrize("reach", [1, 2, 5])
@pytest.mark.parametrize("shift", [1, 3])
def test_no_floored_vector_moves_further(reach: int, shift: int) -> None:
    rng = random.Random(reach + shift)
    for _ in range(300):
        move = [rng.randint(-12, 12) for _ in range(reach)]
        l1 = sum(map(abs, move))
        l2 = sqrt(sum(m * m for m in move))
        claim = Claim(None, max(map(abs, move)), l1, -int(-l2 // 1), reach).coarser(shift)
        start = [rng.randint(-100, 100) for _ in range(reach)]
        moved = [abs((s + m >> shift) - (s >> shift)) for s, m in zip(start, move, strict=True)]
        assert max(moved) <= claim.linf and sum(moved) <= claim.l1
        assert sqrt(sum(m * m for m in moved)) <= claim.l2 + 1e-9


def test_many_small_moves_may_each_cross_an_edge() -> None:
    claim = Claim(None, 1, 4, 2, 4).coarser(4)
    moved = [(16 >> 4) - (15 >> 4)] * 4
    assert sum(moved) == 4 <= claim.l1
    assert sqrt(sum(m * m for m in moved)) == 2 <= claim.l2


def test_one_coordinate_moves_by_its_size_in_every_norm() -> None:
    assert one_coordinate(7) == Claim(1, 7, 7, 7, 1)
