"""Laws of finitely many outputs, and the error that a divergence admits."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Divergence,
    FiniteLaw,
    ShiftedLaw,
    delta_between,
    epsilon_between,
    hockey_stick,
)

EXACT = [
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)),
    (Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)),
    (Fraction(0), Fraction(1, 16), Fraction(15, 16)),
]


def law(masses: tuple[Fraction, ...], missing: float = 0.0) -> FiniteLaw:
    return FiniteLaw({i: float(p) for i, p in enumerate(masses) if p}, missing)


@pytest.mark.parametrize(("one", "two"), list(product(EXACT, repeat=2)))
@pytest.mark.parametrize("factor", [1, 1.5, 4])
def test_the_divergence_is_the_best_of_all_events(
    one: tuple[Fraction, ...], two: tuple[Fraction, ...], factor: float
) -> None:
    found = hockey_stick(law(one), law(two), math.log(factor))
    events = list(product((False, True), repeat=3))
    best = max(
        sum(float(p) - factor * float(q) for p, q, in_it in zip(one, two, event, strict=True) if in_it)
        for event in events
    )
    assert found.value == pytest.approx(best, abs=1e-15)
    assert found.low <= best <= found.high
    reach = sum(p + min(Fraction(factor) * q, 2 * p) for p, q in zip(one, two, strict=True))
    assert found.error == pytest.approx(float(reach) * 2.0**-40, rel=1e-12, abs=0)
    back = hockey_stick(law(two), law(one), math.log(factor))
    assert delta_between(law(one), law(two), math.log(factor)).value == max(found.value, back.value)


def test_what_is_missing_on_either_side_is_part_of_the_error() -> None:
    one, two = law((Fraction(1, 2), Fraction(1, 4)), 0.25), law((Fraction(1, 2), Fraction(3, 8)), 0.125)
    found = hockey_stick(one, two, math.log(2))
    assert found.error == pytest.approx(0.25 + 2 * 0.125, abs=1e-10)
    assert (found.low, found.high) == (0.0, found.value + found.error)
    assert one.beside(two).missing == 0.375
    assert one.after(str).missing == 0.25


def test_a_divergence_has_its_error_on_both_sides_and_is_never_negative() -> None:
    assert (Divergence(0.5, 0.125).low, Divergence(0.5, 0.125).high) == (0.375, 0.625)
    assert (Divergence(0.1, 0.5).low, Divergence(0.1, 0.5).high) == (0.0, 0.6)


def test_post_processing_and_pairs_add_and_multiply_probabilities() -> None:
    one = law((Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))
    assert one.after(lambda each: each == 0).masses == {True: 0.5, False: 0.5}
    assert one.after(lambda each: "x").masses == {"x": 1.0}
    two = FiniteLaw({"a": 0.25, "b": 0.75})
    assert one.beside(two).masses == {(i, v): p * q for i, p in one.masses.items() for v, q in two.masses.items()}


TOTAL = 2.0**-30


@pytest.mark.parametrize("total", [1 - TOTAL, 1.0, 1 + TOTAL])
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_probabilities_add_up_to_one_or_to_what_is_not_missing(total: float, missing: float) -> None:
    FiniteLaw({0: 0.5, 1: total - 0.5}, missing)
    FiniteLaw({0: 0.5, 1: 0.5 - missing - TOTAL}, missing)
    for wrong in (0.5 - missing - 2 * TOTAL, 0.5 + 2 * TOTAL):
        with pytest.raises(ProgrammingError, match="not probabilities"):
            FiniteLaw({0: 0.5, 1: wrong}, missing)


def test_a_negative_mass_is_none_even_if_the_total_is_right() -> None:
    for wrong in (2.0**-29, 0.25):
        with pytest.raises(ProgrammingError, match="not probabilities"):
            FiniteLaw({0: 1 + wrong, 1: -wrong})
    with pytest.raises(ProgrammingError, match="not probabilities"):
        FiniteLaw({0: 1.0, 1: 2.0**-29, 2: -(2.0**-29)})


@pytest.mark.parametrize("epsilon", [0, 0.25, 500])
def test_an_epsilon_from_0_to_500_is_compared_at(epsilon: float) -> None:
    one = FiniteLaw({0: 0.5, 1: 0.5})
    assert hockey_stick(one, one, epsilon).value == 0
    for wrong in (-0.001, 500.001):
        with pytest.raises(ProgrammingError, match="between 0 and 500"):
            hockey_stick(one, one, wrong)


def test_only_two_laws_of_one_kind_noise_and_step_are_compared() -> None:
    finite = FiniteLaw({0: 1.0})
    noise = DiscreteLaplace(Fraction(2))
    shifted = ShiftedLaw(noise, 0)
    for other in (
        finite,
        ShiftedLaw(noise, 0, Fraction(2)),
        ShiftedLaw(DiscreteLaplace(Fraction(3)), 0),
        ShiftedLaw(DiscreteGaussian(Fraction(2)), 0),
    ):
        for pair in ((shifted, other), (other, shifted)):
            with pytest.raises(ProgrammingError, match="two mechanisms"):
                hockey_stick(*pair, 1)
    assert hockey_stick(shifted, ShiftedLaw(noise, 0), 0) == Divergence(0.0, 0.0)


@pytest.mark.parametrize("shift", [1, 2, 5])
def test_noise_that_is_moved_by_its_epsilon_is_not_seen_and_by_more_it_is(shift: int) -> None:
    """Discrete Laplace noise of scale 4: the loss is at most shift/4, and reaches it."""
    noise = DiscreteLaplace(Fraction(4))
    pair = ShiftedLaw(noise, 10 - shift), ShiftedLaw(noise, 10)
    at = Fraction(shift, 4)
    assert hockey_stick(*pair, at).value == pytest.approx(0, abs=1e-15)
    assert hockey_stick(*pair, at + Fraction(1, 10**9)) == Divergence(0.0, 0.0)
    below = hockey_stick(*pair, at - Fraction(1, 100))
    q = math.exp(-0.25)
    assert below.value == pytest.approx((1 - math.exp(-0.01)) / (1 + q), rel=1e-9, abs=0)
    here, there = noise.survival(0), math.exp(at - Fraction(1, 100)) * noise.survival(shift)
    assert 0 < below.error < 2 * 2.0**-40
    assert below.error == pytest.approx(2.0**-40 * (here + there), rel=0.5, abs=0)
    assert epsilon_between(*pair, 0) == pytest.approx(shift / 4, abs=1e-6)


@pytest.mark.parametrize("delta", [0, 0.001, 0.1, 0.3])
def test_the_least_epsilon_needs_no_more_than_its_delta(delta: float) -> None:
    one, two = FiniteLaw({0: 0.75, 1: 0.25}), FiniteLaw({0: 0.25, 1: 0.75})
    found = epsilon_between(one, two, delta)
    assert found == pytest.approx(math.log((0.75 - delta) / 0.25), abs=1e-9)
    assert epsilon_between(one, two, 0.6) < 1e-9
    assert epsilon_between(one, FiniteLaw({0: 1.0}), 0.25) <= math.log(4)
    assert epsilon_between(one, FiniteLaw({0: 1.0}), 0.24) == math.inf


def test_a_mass_that_was_rounded_below_nothing_counts_for_the_error_with_its_size() -> None:
    tiny = 2.0**-31
    one, two = FiniteLaw({0: 1.0, 1: -tiny}), FiniteLaw({0: 1.0, 1: tiny})
    for pair, reach in (((one, one), 2 + 2 * tiny), ((two, one), 2 + 2 * tiny), ((one, two), 2 + 2 * tiny)):
        assert hockey_stick(*pair, 0).error / 2.0**-40 == pytest.approx(reach, rel=1e-14, abs=0)
