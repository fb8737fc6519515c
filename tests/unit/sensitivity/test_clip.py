"""A vector's clip: the grid on which it lies, what one unit may change, and by what it is chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpsql.sensitivity.clip import (
    CLIP_BITS,
    MEAN_CUT,
    RATE_CUT,
    Clip,
    Norm,
    Vector,
    chosen_clip,
    clip_at,
    largest_in,
    norms_of,
    read_norms,
)
from dpsql.sensitivity.clip_choice import NormHistogram, choose_clip

VECTOR = Vector("l2", (0, None, -3), 20, 1_000, True, False)


@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, 2.0**10, 999.0])
def test_the_bound_is_the_norm_on_a_grid_that_leaves_it_its_bits(norm: float) -> None:
    made = clip_at(VECTOR, norm)
    steps = [e - s for e, s in zip(made.exponents, VECTOR.scales, strict=True) if e is not None and s is not None]
    assert made.exponents[1] is None and len(set(steps)) == 1
    assert 2**CLIP_BITS <= made.bound < 2 ** (CLIP_BITS + 1)
    assert norm * 2.0 ** steps[0] - 1 < made.bound <= norm * 2.0 ** steps[0]


def test_a_clip_is_at_least_one_unit_of_norms() -> None:
    assert clip_at(VECTOR, 0.01) == clip_at(VECTOR, 1.0)


@pytest.mark.parametrize(
    ("norm", "reach", "l1"), [("l1", 9, 7), ("l2", 1, 7), ("l2", 4, 14), ("l2", 5, 21), ("l2", 0, 7)]
)
def test_what_one_unit_changes(norm: Norm, reach: int, l1: int) -> None:
    claim = Clip(norm, 7, (0,)).claim(reach)
    assert (claim.linf, claim.l1, claim.l2) == (7, l1, 7)


def histogram() -> NormHistogram:
    counts = np.zeros(60)
    counts[1:25] = 2_000 * 0.6 ** np.arange(24)
    return NormHistogram(1, counts, None, 5.0, None)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("matters", [1.0, RATE_CUT, MEAN_CUT])
@pytest.mark.parametrize("declared", [True, False])
def test_a_clip_is_chosen_for_the_cells_the_noise_and_what_is_shown(norm: Norm, matters: float, declared: bool) -> None:
    vector = replace(VECTOR, norm=norm, left=matters, declared=declared, limit=8)
    mechanism = "laplace" if norm == "l1" else "gaussian"
    for noise in (1.0, 3.0, 9.0, 27.0):
        expected = choose_clip(
            histogram(), groups=20, noise_per_clip=noise, mechanism=mechanism, cap=8.0 if declared else None,
            cut_matters=matters,
        )  # fmt: skip
        assert chosen_clip(vector, histogram(), noise) == clip_at(vector, expected.clip, expected)


def test_where_nothing_was_searched_the_clip_is_the_limit() -> None:
    assert chosen_clip(VECTOR, None, 1.0) == clip_at(VECTOR, 1_000)


@pytest.mark.parametrize("declared", [True, False])
def test_where_nothing_was_found_the_clip_is_a_guess_up_to_the_limit(declared: bool) -> None:
    """A count far above the limit that may be noise, and one that may not: the limit holds unless units were found."""
    counts = np.zeros(60)
    for seen, found in ((15.0, False), (500.0, True)):
        counts[40] = seen
        made = chosen_clip(replace(VECTOR, declared=declared), NormHistogram(1, counts, None, 5.0, None), 0.01)
        assert made.choice is not None and made.choice.found == found
        assert made.choice.clip <= 1_000 or (found and not declared)


def test_private_keys_make_the_number_of_cells_depend_on_the_spread() -> None:
    counts = np.zeros(60)
    counts[1:25] = 2_000 * 0.6 ** np.arange(24)
    seen = NormHistogram(1, counts, 0.9 * counts, 5.0, 15.0)
    few, many = (chosen_clip(replace(VECTOR, private=p), seen, 10.0).choice for p in (False, True))
    assert few is not None and many is not None and few.clip != many.clip


@pytest.mark.parametrize("bucket", range(12))
def test_a_bucket_ends_at_a_half_octave(bucket: int) -> None:
    assert largest_in(bucket) == math.floor(2 ** (bucket / 2) + 1e-9)


@pytest.mark.parametrize(("norm", "cells"), [("l1", 9), ("l2", 1)])
def test_without_spreads_a_unit_counts_once(norm: Norm, cells: int) -> None:
    norms = norms_of(norm, cells)
    assert (norms.count, norms.spread, norms.claim.l1, norms.claim.l2) == (1, 0, 1, 1)
    seen = read_norms(norms, np.arange(4.0), None, 3.0)
    assert list(seen.counts) == [0, 1, 2, 3] and seen.spreads is None and (seen.sd, seen.spread_sd) == (3.0, None)


def test_counts_and_spreads_of_a_unit_have_a_common_norm() -> None:
    norms = norms_of("l2", 9)
    assert math.hypot(norms.count, norms.spread) <= norms.claim.l2 < math.hypot(norms.count, norms.spread) + 1
    seen = read_norms(norms, np.full(4, 10.0 * norms.count), np.full(4, 3.0 * norms.spread), 6.0)
    assert seen.spreads is not None and list(seen.counts) == [10] * 4 and list(seen.spreads) == [3] * 4
    assert (seen.sd, seen.spread_sd) == (6 / norms.count, 6 / norms.spread)
