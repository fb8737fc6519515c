"""The laws of composition, by their formulas in another arithmetic and at the edges of what they take."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import (
    Guarantee,
    NameAndShame,
    advanced,
    basic,
    curve_delta,
    curve_epsilon,
    curve_rho,
    default_delta,
    delta_for_risk,
    group,
    parallel,
    pure_curve,
    repeated,
    somebody_is_shamed,
    together,
    zcdp_curve,
)
from dpsql.mechanisms.sampler import LIMIT
from dpsql.mechanisms.textbook.rdp import ORDERS

COUNTS = [0, -1, 1.0, 2.5, True, "2", None]


def test_a_guarantee_is_pure_unless_a_delta_is_named() -> None:
    assert Guarantee(0.5) == Guarantee(0.5, 0.0)


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("one", [Guarantee(0.25, 1e-6), Guarantee(0, 1e-3), Guarantee(3, 1e-30), Guarantee(2)])
def test_k_people_have_k_times_the_epsilon_and_every_step_adds_at_most_the_last_delta(one: Guarantee, k: int) -> None:
    with localcontext(prec=40):
        delta = k * (Decimal(one.epsilon) * (k - 1)).exp() * Decimal(one.delta)
    assert group(one, k).epsilon == pytest.approx(k * one.epsilon, rel=1e-15, abs=0)
    assert group(one, k).delta == pytest.approx(min(1.0, float(delta)), rel=1e-12, abs=0)
    steps = math.fsum(math.exp(j * one.epsilon) * one.delta for j in range(k))
    assert min(1.0, steps) <= group(one, k).delta * (1 + 1e-12)


def test_a_factor_that_no_float_holds_leaves_a_delta_of_1() -> None:
    """From e^700 on nothing is promised beside the ε; below that the formula is."""
    assert group(Guarantee(699.5, 1e-305), 2).delta == pytest.approx(2 * math.exp(699.5) * 1e-305)
    assert group(Guarantee(700, 1e-305), 2) == Guarantee(1400, 1.0)
    assert group(Guarantee(1000, 1e-305), 2) == Guarantee(2000, 1.0)
    assert group(Guarantee(1000), 2) == Guarantee(2000, 0.0)


@pytest.mark.parametrize("k", [1, 5, 100, 10_000])
@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("slack", [1e-9, 0.1, 0.9])
def test_advanced_composition_is_the_better_of_its_formula_and_the_basic_one(
    k: int, epsilon: float, slack: float
) -> None:
    with localcontext(prec=40):
        e, d = Decimal(epsilon), Decimal(slack)
        formula = (2 * k * (1 / d).ln()).sqrt() * e + k * e * (e.exp() - 1)
    found = advanced(Guarantee(epsilon, 1e-12), k, slack)
    if formula < k * e:
        assert found.epsilon == pytest.approx(float(formula), rel=1e-12, abs=0)
        assert found.delta == pytest.approx(k * 1e-12 + slack, rel=1e-12, abs=0)
    else:
        assert found == basic([Guarantee(epsilon, 1e-12)] * k)


@pytest.mark.parametrize("epsilon", [0.0, 700.0, 720.0, 1e300])
def test_where_nothing_is_gained_no_slack_is_paid(epsilon: float) -> None:
    assert advanced(Guarantee(epsilon, 0.125), 3, 1e-3) == basic([Guarantee(epsilon, 0.125)] * 3)


def test_parts_cost_as_much_as_the_largest_that_one_unit_is_in() -> None:
    """The largest ε and the largest δ, which need not be of the same parts."""
    parts = [Guarantee(0.5, 0.125), Guarantee(2, 0.0625), Guarantee(1, 0.25)]
    assert parallel(parts) == Guarantee(2, 0.25) == parallel(parts, 1)
    assert parallel(parts, 2) == Guarantee(3, 0.375)
    assert parallel(parts, 3) == parallel(parts, 4) == basic(parts) == Guarantee(3.5, 0.4375)
    assert parallel([Guarantee(1, 0.7)] * 2, 2) == Guarantee(2, 1.0)


@pytest.mark.parametrize("wrong", COUNTS)
def test_numbers_of_people_releases_and_parts_are_whole_and_at_least_1(wrong: object) -> None:
    one = Guarantee(1, 0.125)
    assert group(one, 1) == advanced(one, 1, 0.5) == parallel([one], 1) == one
    for law in (lambda k: group(one, k), lambda k: advanced(one, k, 0.5), lambda k: parallel([one], k)):
        with pytest.raises(ProgrammingError, match="at least 1"):
            law(wrong)


# Rényi ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 4, 40])
@pytest.mark.parametrize("order", [1.25, 2.0, 5.5, 64.0])
def test_the_curve_of_pure_privacy_is_the_divergence_of_randomized_response(epsilon: float, order: float) -> None:
    with localcontext(prec=60):
        p = 1 / (1 + (-Decimal(epsilon)).exp())
        q, a = 1 - p, Decimal(order)
        divergence = (p**a * q ** (1 - a) + q**a * p ** (1 - a)).ln() / (a - 1)
    assert pure_curve(epsilon)(order) == pytest.approx(float(divergence), rel=1e-9, abs=0)


def test_the_curve_of_pure_privacy_ends_at_epsilon_even_where_no_float_holds_its_powers() -> None:
    assert pure_curve(5000)(1000.0) == pytest.approx(5000, rel=1e-6)
    curve = [pure_curve(1)(order) for order in ORDERS]
    assert all(a < b for a, b in pairwise(curve))
    assert 0.999 < curve[-1] < 1


@pytest.mark.parametrize("rho", [0.001, 0.1, 3])
@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.3])
def test_a_curve_gives_the_best_epsilon_of_all_orders_and_the_best_delta(rho: float, delta: float) -> None:
    for curve in (zcdp_curve(rho), pure_curve(rho)):
        epsilons = [
            curve(a) + math.log((a - 1) / a) - math.log(delta) / (a - 1) - math.log(a) / (a - 1) for a in ORDERS
        ]
        assert curve_epsilon(curve, delta) == pytest.approx(max(0.0, min(epsilons)), rel=1e-9, abs=1e-12)
        for epsilon in (0, 0.5, 2):
            logs = [(a - 1) * (curve(a) - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1) for a in ORDERS]
            assert curve_delta(curve, epsilon) == pytest.approx(min(1.0, math.exp(min(logs))), rel=1e-9, abs=0)


def test_the_rho_of_a_curve_is_its_steepest_slope() -> None:
    assert curve_rho(lambda order: order * (7 - order) if order < 7 else 0.0) == pytest.approx(
        7 - ORDERS[0], rel=1e-12, abs=0
    )
    assert curve_rho(lambda order: 2.0 * order) == pytest.approx(2)
    assert curve_rho(lambda order: order * order) == pytest.approx(1 + 2**14, rel=1e-12, abs=0)
    assert curve_rho(lambda order: -order * order) == pytest.approx(-1 - 2**-10, rel=1e-12, abs=0)


def test_curves_of_several_releases_add_up() -> None:
    both = together(zcdp_curve(0.25), pure_curve(2), zcdp_curve(1))
    assert both(3.0) == pytest.approx(0.75 + pure_curve(2)(3.0) + 3.0)
    assert repeated(zcdp_curve(0.25), 4)(3.0) == pytest.approx(3.0)
    assert together()(3.0) == 0


# δ -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 50])
@pytest.mark.parametrize("delta", [Fraction(1, 4), Fraction(1, 1000)])
def test_somebody_is_shamed_unless_nobody_is(n: int, delta: Fraction) -> None:
    chance = float(1 - (1 - delta) ** n)
    assert somebody_is_shamed(n, delta) == pytest.approx(chance, rel=1e-12, abs=0)
    assert delta_for_risk(n, chance) == pytest.approx(float(delta), rel=1e-8, abs=0)


def test_the_usual_delta_is_a_power_of_the_number_of_people() -> None:
    assert default_delta(1024) == pytest.approx(2.0**-11, rel=1e-15, abs=0)
    assert default_delta(1024, power=2) == 2.0**-20
    assert default_delta(1024, power=1.0001) == pytest.approx(2.0**-10.001)
    for power in (1, 0.5, -2, math.inf, math.nan):
        with pytest.raises(ProgrammingError, match="a power above 1"):
            default_delta(1024, power=power)


@pytest.mark.parametrize("wrong", [1, 0, -5, 2.0, True, "3", None])
def test_people_are_counted_from_2_on(wrong: object) -> None:
    assert somebody_is_shamed(2, 0.5) == 0.75
    for law in (lambda n: somebody_is_shamed(n, 0.5), default_delta, lambda n: delta_for_risk(n, 0.5)):
        with pytest.raises(ProgrammingError, match="at least 2"):
            law(wrong)


def test_the_law_of_name_and_shame_has_every_choice_of_people() -> None:
    masses = NameAndShame(0.25).law(["a", "b"]).masses
    assert masses == {(None, None): 0.5625, (None, "b"): 0.1875, ("a", None): 0.1875, ("a", "b"): 0.0625}


@pytest.mark.parametrize(
    ("delta", "drawn"),
    [
        (0.25, Fraction(1, 4)),
        (Fraction(LIMIT - 1, LIMIT), Fraction(LIMIT - 1, LIMIT)),
        (Fraction(LIMIT, LIMIT + 1), Fraction(LIMIT - 1, LIMIT)),
    ],
)
def test_records_are_published_by_coins_of_the_exact_probability(
    delta: float | Fraction, drawn: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def coins(num: int, den: int, size: int) -> np.ndarray:
        asked.append((num, den, size))
        return np.array([True, False, True])

    monkeypatch.setattr("dpsql.mechanisms.textbook.name_and_shame.bernoulli", coins)
    assert NameAndShame(delta).release(["a", "b", "c"]) == ["a", None, "c"]
    assert asked == [(drawn.numerator, drawn.denominator, 3)]
