"""The divergence is right, with an error bound that holds: against point by point sums in many digits."""

from __future__ import annotations

import math
from contextlib import nullcontext
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    FiniteLaw,
    Laplace,
    Noise,
    RandomizedResponse,
    ShiftedLaw,
    delta_between,
    epsilon_between,
    gaussian_delta,
    hockey_stick,
)


def point_by_point(noise: Noise, shift: int, epsilon: float) -> Decimal:
    power = 1 if isinstance(noise, DiscreteLaplace) else 2
    rate = 1 / (power * noise.scale**power)
    reach = math.ceil(noise.scale * (90 if power == 1 else 30)) + shift
    with localcontext(prec=50):
        masses = {
            z: (-Decimal(abs(z) ** power) * rate.numerator / rate.denominator).exp() for z in range(-reach, reach + 1)
        }
        total, factor = sum(masses.values()), Decimal(epsilon).exp()
        terms = (masses.get(z - shift, Decimal(0)) - factor * masses[z] for z in range(-reach + shift, reach + 1))
        return sum((t for t in terms if t > 0), Decimal(0)) / total


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplace(Fraction(2)),
        DiscreteLaplace(Fraction(1, 4)),
        DiscreteGaussian(Fraction(3)),
        DiscreteGaussian(Fraction(25, 4)),
    ],
)
@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0, 2.5])
def test_the_divergence_of_shifted_noise(noise: Noise, shift: int, epsilon: float) -> None:
    found = hockey_stick(ShiftedLaw(noise, shift), ShiftedLaw(noise, 0), epsilon)
    truth = float(point_by_point(noise, shift, epsilon))
    assert found.low <= truth <= found.high
    assert found.value == pytest.approx(truth, rel=1e-9, abs=1e-15)


def test_a_fine_grid_has_the_divergence_of_the_continuous_law() -> None:
    noise = DiscreteGaussian(Fraction(2**20))
    found = hockey_stick(ShiftedLaw(noise, 2**18), ShiftedLaw(noise, 0), 0.5)
    assert found.value == pytest.approx(gaussian_delta(0.25, 1, 0.5), rel=1e-9)


def test_the_divergence_is_the_same_in_both_directions_of_a_shift() -> None:
    mechanism = Laplace(1, 1, grid=1)
    assert hockey_stick(mechanism.law(3), mechanism.law(5), 0.3) == hockey_stick(
        mechanism.law(5), mechanism.law(3), 0.3
    )


def test_the_least_epsilon_of_a_pair() -> None:
    mechanism = Laplace(1, 1, grid=1)
    assert epsilon_between(mechanism.law(0), mechanism.law(1), 0) == pytest.approx(1, abs=1e-6)
    response = RandomizedResponse(2)
    assert epsilon_between(response.law(True), response.law(False), 0) == pytest.approx(2, abs=1e-6)


def test_a_pair_that_no_epsilon_makes_alike_has_none() -> None:
    one, two = FiniteLaw({0: 0.5, 1: 0.5}), FiniteLaw({0: 1.0})
    assert {epsilon_between(one, two, 0.4), epsilon_between(two, one, 0)} == {math.inf}
    assert max(epsilon_between(one, two, 0.5), epsilon_between(one, one, 0)) < 1e-9
    likely = FiniteLaw({0: 1 - 1e-12, 1: 1e-12})
    assert epsilon_between(likely, one, 0) == pytest.approx(math.log(0.5e12))
    assert epsilon_between(FiniteLaw({0: 1.0, 1: 1e-200}), one, 0) == pytest.approx(200 * math.log(10) + math.log(0.5))


def test_a_law_has_steps_of_one_unless_another_grid_is_named() -> None:
    assert ShiftedLaw(DiscreteLaplace(Fraction(1)), 3) == Laplace(1, 1, grid=1).law(3)
    assert ShiftedLaw(DiscreteLaplace(Fraction(1)), 3, Fraction(2)) == Laplace(2, 1, grid=2).law(6)


def test_laws_of_different_mechanisms_are_not_compared() -> None:
    with pytest.raises(ProgrammingError, match="two mechanisms"):
        delta_between(Laplace(1, 1).law(0), Laplace(1, 2).law(0), 1)
    assert delta_between(Laplace(1, 1).law(0), Laplace(1, 1).law(0), 500).value == 0
    for epsilon in (-1e-9, 500.001):
        with pytest.raises(ProgrammingError, match="between 0 and 500"):
            delta_between(Laplace(1, 1).law(0), Laplace(1, 1).law(0), epsilon)


@pytest.mark.parametrize(("wrong", "allowed"), [(2.0**-30, True), (2.0**-29, False)])
def test_rounding_below_nothing_is_forgiven_and_no_more(wrong: float, allowed: bool) -> None:
    with nullcontext() if allowed else pytest.raises(ProgrammingError):
        FiniteLaw({0: 1.0, 1: -wrong})
