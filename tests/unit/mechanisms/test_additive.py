"""Values on a grid: rounding never moves a unit by more steps than the noise is made for."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import InternalError, ProgrammingError
from dpsql.mechanisms import DiscreteGaussian, Gaussian, Laplace, gaussian_delta, histogram
from dpsql.mechanisms.discrete_noise import LIMIT, check_scale, finest
from dpsql.mechanisms.textbook.additive import FINE, fine_grid, least_positive
from dpsql.mechanisms.textbook.gaussian_mechanism import _suffices

GRIDS = st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(7, 64), Fraction(5)])
VALUES = st.lists(st.fractions(-50, 50, max_denominator=40), min_size=1, max_size=5)


@given(grid=GRIDS, here=VALUES, data=st.data())
def test_rounding_adds_less_than_a_step_for_each_coordinate_touched(
    grid: Fraction, here: list[Fraction], data: st.DataObject
) -> None:
    there = data.draw(st.lists(st.fractions(-50, 50, max_denominator=40), min_size=len(here), max_size=len(here)))
    moved = [abs(math.floor(a / grid) - math.floor(b / grid)) for a, b in zip(here, there, strict=True)]
    m = sum(a != b for a, b in zip(here, there, strict=True))
    l1, l2 = sum(abs(a - b) for a, b in zip(here, there, strict=True)), math.dist(here, there)
    if m:
        assert sum(moved) <= math.ceil(l1 / grid) + m - 1
        assert math.hypot(*moved) <= l2 / float(grid) + math.sqrt(m) + 1e-9


@pytest.mark.parametrize("touched", [1, 2, 5])
def test_the_noise_covers_the_rounding(touched: int) -> None:
    laplace = Laplace(1, 1, grid=Fraction(1, 8), touched=touched)
    assert laplace.noise.epsilon(8 + touched - 1) <= 1
    assert laplace.noise.epsilon(8 + touched) > 1
    gaussian = Gaussian(1, 1, 1e-6, touched=touched)
    steps = float(1 / gaussian.step) + (math.sqrt(touched) if touched > 1 else 0)
    assert gaussian_delta(steps, float(gaussian.noise.scale), 1) <= 1e-6 * (1 + 1e-9)


def test_two_coordinates_of_discrete_gaussian_noise_meet_the_claim_point_by_point() -> None:
    """The transfer from the continuous law, on a grid that is coarse enough to add up: sigma of 12 steps."""
    sigma, epsilon, touched = 12, 0.5, 2
    z = np.arange(-9 * sigma, 9 * sigma + 1)
    mass = np.exp(-(z**2) / (2 * sigma**2))
    mass /= mass.sum()
    for shift in ((3, 4), (5, 0), (-4, 3)):
        here = np.outer(*(np.interp(z - s, z, mass, left=0, right=0) for s in shift))
        found = np.maximum(0, here - math.exp(epsilon) * np.outer(mass, mass)).sum()
        there, back = touched / (8 * sigma**2), 18 * touched / sigma**2
        bound = math.exp(there) * gaussian_delta(5, sigma, epsilon - there - back)
        assert found <= bound
        assert found == pytest.approx(gaussian_delta(5, sigma, epsilon), rel=0.05)


def test_a_coarse_grid_is_refused_where_a_unit_moves_several_coordinates() -> None:
    with pytest.raises(ProgrammingError, match="too coarse"):
        Gaussian(1, 1, 1e-6, grid=1, touched=2)


def test_whole_numbers_are_on_every_grid_that_divides_them_and_others_need_touched() -> None:
    Laplace(1, 1, grid=1).release([1, 2, 3])
    Laplace(1, 1).release(np.array([1, 2, 3]))
    for values in ([0.5, 1.5], [Fraction(1, 2), Fraction(3, 2)], [Decimal("0.5"), Decimal(1)]):
        with pytest.raises(ProgrammingError, match="touched"):
            Laplace(1, 1).release(values)
        assert len(Laplace(1, 1, touched=2).release(values)) == 2
    with pytest.raises(ProgrammingError, match="touched"):
        Laplace(1, 1, grid=2).release([1, 2])


def test_what_comes_out() -> None:
    assert isinstance(Laplace(1, 1, grid=1).release(3), int)
    assert isinstance(Laplace(1, 1).release(3), float)
    assert isinstance(Laplace(1, 1, grid=Decimal("0.01")).release(Decimal("3.14")), float)
    assert Laplace(1, 1, grid=1).release([1, 2]).dtype.kind == "i"
    assert Laplace(1, 1000, grid=1).release(10**30) == 10**30
    assert isinstance(Gaussian(1, 1, 1e-6).noise, DiscreteGaussian)


def test_a_histogram_has_every_declared_cell_and_no_other() -> None:
    noisy = histogram(["ann"] * 500 + ["bob"] * 300 + ["zoe"], cells=["ann", "bob", "cid"], epsilon=1)
    assert list(noisy) == ["ann", "bob", "cid"]
    assert abs(noisy["ann"] - 500) < 40 and abs(noisy["cid"]) < 40  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"), list(product([0, -1, math.inf, math.nan, "1", True, None], ["sensitivity", "epsilon"]))
)
def test_wrong_parameters_are_refused(wrong: object, said: str) -> None:
    with pytest.raises(ProgrammingError, match=said):
        Laplace(**{"sensitivity": 1, "epsilon": 1, said: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, "x", None])
def test_wrong_values_are_refused(wrong: object) -> None:
    with pytest.raises(ProgrammingError, match="finite numbers"):
        Laplace(1, 1).release(wrong)  # type: ignore[call-overload]


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ProgrammingError, match="beta"):
        Laplace(1, 1).accuracy(1.0)
    with pytest.raises(ProgrammingError, match="at least 1"):
        Laplace(1, 1).accuracy(0.05, k=0)
    with pytest.raises(ProgrammingError, match="touched"):
        Laplace(1, 1, touched=0)
    with pytest.raises(ProgrammingError, match="more than can be drawn"):
        Laplace(1, 1e-13)
    with pytest.raises(ProgrammingError, match="no sigma that can be drawn"):
        Gaussian(1, 0, 1e-9)
    with pytest.raises(ProgrammingError, match="no form"):
        Gaussian(1, 1, 1e-6, form="best")  # type: ignore[arg-type]
    with pytest.raises(ProgrammingError, match="delta"):
        Gaussian(1, 1, 0)


@pytest.mark.parametrize("wanted", [2.0**-20, 1e-5, 2.0**-10, 1 / 3, 1.0, 77.7, 2.0**20])
def test_the_least_number_that_is_enough_is_found_and_is_enough(wanted: float) -> None:
    found = least_positive(lambda tried: tried >= wanted)
    assert wanted <= found <= wanted * (1 + 1e-9)


def test_nothing_below_a_millionth_is_tried_and_nothing_above_a_million() -> None:
    assert least_positive(lambda _: True) == 2**-20
    with pytest.raises(ProgrammingError, match="no sigma is enough"):
        least_positive(lambda tried: tried > 2**20, "sigma")


@pytest.mark.parametrize(("sensitivity", "step"), [(2049, 1), (2048, 1), (2047, Fraction(2047, 2048))])
def test_a_grid_is_a_power_of_two_where_the_sensitivity_has_many_steps_and_else_a_part_of_it(
    sensitivity: int, step: Fraction
) -> None:
    assert fine_grid(Fraction(sensitivity, 2), float(FINE), 2**30) == step


@pytest.mark.parametrize("epsilon", [*np.geomspace(1e-10, 1e-4, 40).tolist(), 2.0**-31, 2.0**-29, 1.5 * 2.0**-30])
@pytest.mark.parametrize("size", [1, 0.1, 3e7])
def test_a_small_epsilon_has_the_finest_grid_on_which_its_noise_can_be_drawn(epsilon: float, size: float) -> None:
    """Half of what the sampler draws at most, so that rounding fits too; and at most 1024 steps for a unit."""
    mechanism = Laplace(size, epsilon)
    steps = Fraction(size) / mechanism.step
    assert steps in [2**halvings for halvings in range(11)]
    assert mechanism.noise.scale <= LIMIT // 2 * Fraction(10**9 + 1, 10**9) or steps == 1
    assert 2 * mechanism.noise.scale > LIMIT // 2 or steps == 1024


@pytest.mark.parametrize(
    ("scale", "limit", "denominator"), [(1, 2**20, 2**19), (1, 2**20 + 1, 2**20), (3, 96, 16), (3, 97, 32)]
)
def test_a_scale_has_the_most_binary_places_with_a_numerator_below_its_limit(
    scale: int, limit: int, denominator: int
) -> None:
    """At the limit itself a place is given up: a law refuses such a numerator."""
    asked: list[int] = []
    found = finest(lambda s: (asked.append(s), scale * s)[1], limit)
    assert (found, asked[-1]) == (scale, denominator)
    check_scale(Fraction(limit - 1), limit)
    for wrong in (limit, 0, -1):
        with pytest.raises(InternalError, match="out of range"):
            check_scale(Fraction(wrong), limit)


@pytest.mark.parametrize("touched", [2, 100, 50_000])
@pytest.mark.parametrize("sigma", [2**12, 2**20])
@pytest.mark.parametrize("epsilon", [0, 0.5, 5])
def test_the_price_of_a_grid_for_several_coordinates_is_that_of_the_theorem(
    touched: int, sigma: int, epsilon: float
) -> None:
    """There costs k/8σ² and back 18k/σ², of ε or about as much of δ; and what lies beyond 12σ, for each coordinate."""
    there, back = touched / (8 * sigma**2), 18 * touched / sigma**2
    far = touched * 1e-31 * math.exp(epsilon)
    added = gaussian_delta(sigma, sigma, epsilon) + math.expm1(there) + math.exp(epsilon) * math.expm1(back)
    left = epsilon - there - back
    moved = math.exp(there) * gaussian_delta(sigma, sigma, left) if left >= 0 else 1.0
    delta = min(added, moved, 1.0) + far
    meets = partial(_suffices, Fraction(sigma), steps=Fraction(sigma), touched=touched, epsilon=Fraction(epsilon))
    assert meets(delta=delta * (1 + 1e-12))
    assert not meets(delta=delta * (1 - 1e-6))


def test_fewer_than_4096_steps_are_too_coarse_for_several_coordinates() -> None:
    meets = partial(_suffices, steps=Fraction(1), touched=2, epsilon=Fraction(1), delta=0.5)
    assert meets(Fraction(2**12))
    with pytest.raises(ProgrammingError, match="too coarse"):
        meets(Fraction(2**12 - 1))
