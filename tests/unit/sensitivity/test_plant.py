"""When a tree stands in place of choices: enough quantiles, few enough nodes, public groups, and a smaller error."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import pi, sqrt
from statistics import fmean

import numpy as np
import pytest

from dpsql.bounds.domain import interval
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT
from dpsql.sensitivity.choice import Choice, Histogram
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.grid import make_grid
from dpsql.sensitivity.quantile_tree import Tree, counted, errs_less, plant


def histogram(cells: int, name: str = "x") -> Histogram:
    grid = make_grid(Column(BIGINT, name=name), interval(1, cells))
    assert grid is not None and grid.cells == cells
    return Histogram(grid, "rows", None, 4, 20)


def quantiles(many: int, histogram: int = 0) -> list[Choice]:
    return [Choice("q", histogram, "quantile", Fraction(i + 1, many + 1)) for i in range(many)]


@pytest.mark.parametrize(
    ("cells", "many", "groups", "planted"),
    [
        (16, 3, 1, False),
        (16, 4, 1, True),
        (16, 4, None, False),
        (16, 4, 8192, True),
        (16, 4, 8193, False),
        (256, 9, 481, True),
        (256, 9, 482, False),
    ],
)
def test_a_tree_is_planted_for_four_quantiles_if_all_groups_together_have_few_enough_nodes(
    cells: int, many: int, groups: int | None, planted: bool
) -> None:
    found = plant([histogram(cells)], quantiles(many), groups, "laplace")
    height = 1 if cells == 16 else 2
    assert found == ([Tree("tree of x", 0, height, groups, 4, 20)] if planted else [])


def test_a_tree_is_planted_only_where_it_errs_less() -> None:
    deciles = quantiles(9)
    assert len(plant([histogram(256)], deciles, 1, "laplace")) == 1
    assert plant([histogram(256)], deciles, 1, "gaussian") == []


def test_a_tree_counts_the_quantiles_of_its_own_histogram() -> None:
    other = [replace(c, kind="least") for c in quantiles(1)]
    both = [histogram(16, "x"), histogram(9, "y")]
    assert plant(both, [*quantiles(3, 0), *other, *quantiles(3, 1)], 2, "laplace") == []
    assert plant(both, [*quantiles(3, 0), *quantiles(4, 1)], 2, "laplace") == [Tree("tree of y", 1, 1, 2, 4, 20)]
    assert [t.histogram for t in plant(both, [*quantiles(5, 0), *quantiles(4, 1)], 2, "laplace")] == [0, 1]


ABSOLUTE = 0.8


def expected_error(height: int, mechanism: str) -> float:
    """Of a rank from a tree: on each level a sum of j of the 16 nodes below one, of which j/16 of the whole is known."""
    variance = fmean(j - j * j / 16 for j in range(16))
    node = sqrt(2) * height if mechanism == "laplace" else sqrt(height)
    return ABSOLUTE * node * sqrt(height * variance)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("height", [1, 2, 3, 4])
@pytest.mark.parametrize("below", [False, True])
def test_a_tree_errs_less_exactly_from_where_the_choices_err_more(mechanism: str, height: int, below: bool) -> None:
    """Of m choices of one quantile q, with q or 1 − q, whichever is larger, as the scale of the error of each."""
    tree = expected_error(height, mechanism)
    for many in (*range(2, 40), 100, 200, 300):
        each = 2 * many if mechanism == "laplace" else sqrt(many)
        side = tree / each
        if not 0.51 < side < 0.99:
            continue
        for factor, less in ((1 + 1e-6, True), (1 - 1e-6, False)):
            place = Fraction(side * factor).limit_denominator(10**9)
            assert errs_less([1 - place if below else place] * many, height, mechanism) == less
            places = [place + Fraction(1, 200), place - Fraction(1, 200)] * (many // 2) + [place] * (many % 2)
            assert errs_less(places, height, mechanism) == less
    assert abs(ABSOLUTE - sqrt(2 / pi)) < 0.003


@pytest.mark.parametrize(
    ("height", "groups", "one", "most", "reach"),
    [(2, 3, 1, 1, 2), (2, 3, 1, 5, 272 * 3), (2, 3, 5, 5, 272 * 3), (1, 1, 2, 2, 16), (3, 1, 1, 1, 3)],
)
def test_a_unit_of_one_row_is_in_one_node_a_level_and_any_other_may_be_in_all(
    height: int, groups: int, one: int, most: int, reach: int
) -> None:
    claim = Tree("t", 0, height, groups, one, most).claim
    assert claim.reach == reach and claim.l0 is None
    assert (claim.linf, claim.l1) == (most, most * height)
    assert (claim.l2 - 1) ** 2 < height * most**2 <= claim.l2**2
    assert isinstance(claim, Claim)


@pytest.mark.parametrize("weight", [2**58 - 1, 2**58, 2**58 + 1, 2**62])
def test_no_total_overflows_and_none_is_above_what_noise_can_be_added_to(weight: int) -> None:
    cells, weights = np.arange(16, dtype=np.int64), np.full(16, weight, dtype=np.int64)
    tree = Tree("t", 0, 2, 1, 1, 1)
    for shift in (0, 3):
        nodes = counted(tree, shift, cells, weights).tolist()
        assert nodes[0] == min(16 * weight >> shift, 2**62)
        assert nodes[16:32] == [min(weight >> shift, 2**62)] * 16
        assert sum(nodes[1:16]) == sum(nodes[32:]) == 0
