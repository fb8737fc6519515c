"""The weights by which units vote for private keys: their claims hold for every number of groups, and are reached."""

from __future__ import annotations

from math import sqrt

import pytest

from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.selection import SELECTION_BITS, select_keys


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [2, 3, 10, 50])
def test_no_unit_gives_more_than_is_claimed(groups: int, mechanism: str) -> None:
    made = select_keys(groups, mechanism)
    norms = [(g * w, sqrt(g) * w, w) for g, w in enumerate(made.weights, 1)]
    l1, l2, linf = (max(norm) for norm in zip(*norms, strict=True))
    assert made.groups == len(made.weights) == groups == made.claim.l0
    assert (made.claim.l1, made.claim.linf) == (l1, linf)
    assert l2 <= made.claim.l2 < l2 + 1
    assert made.one == made.weights[0] == 1 << SELECTION_BITS
    assert made.claim.reach == groups
    assert all(w > 0 for w in made.weights)


def test_laplace_noise_has_the_l1_norm_of_one_group_whatever_the_number() -> None:
    made = select_keys(10, "laplace")
    assert made.claim.l1 == made.one
    assert made.weights == tuple(made.one // g for g in range(1, 11))
    assert select_keys(10, "gaussian").claim.l1 > 3 * made.one


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_unit_with_one_group_gives_one(mechanism: str) -> None:
    assert select_keys(1, mechanism).claim == Claim(1, 1, 1, 1, 1)
    assert select_keys(1, mechanism).weights == (1,)


def test_the_weight_of_one_has_twelve_bits_to_be_divided() -> None:
    assert select_keys(3, "laplace").weights == (4096, 2048, 1365)
    assert select_keys(3, "gaussian").weights == (4096, 2896, 2364)
