"""Prices, thresholds and conversions in many digits: on the safe side, and no further than their rounding."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpsql.errors import InternalError, ProgrammingError
from dpsql.mechanisms import DiscreteLaplace, selection_weights, threshold
from dpsql.mechanisms.exact_numbers import UNIT
from dpsql.mechanisms.threshold import exposure
from dpsql.mechanisms.zcdp_conversion import _margin, _root, delta_for, epsilon_for, laplace_rho, pure_rho, rho_for

# the price of Laplace noise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [1, 2, 7])
@pytest.mark.parametrize("scale", ["1/3", "1", "5/2", "9"])
def test_the_price_is_the_mean_loss_rounded_up_to_a_unit(l1: int, scale: str) -> None:
    """Added up over the noise: the loss of a shift by l1 at z is (|z − l1| − |z|)/scale."""
    s = Fraction(scale)
    with localcontext(prec=70):
        q = (-Decimal(s.denominator) / s.numerator).exp()
        masses = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-1500, 1501)}
        mean = sum((abs(z - l1) - abs(z)) * mass for z, mass in masses.items())
        exact = Fraction(mean) / s
    price = laplace_rho(l1, s)
    assert (price / UNIT).denominator == 1
    assert exact < price < exact + UNIT * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("l1", "scale"),
    [
        (1, Fraction(10**9)),
        (10**9, Fraction(10**9, 3)),
        (1, Fraction(1, 10**11)),
        (10**100, Fraction(10**100)),
        (10**60, Fraction(10**49)),
        (10**30, Fraction(10**300)),
        (3 * 10**90, Fraction(10**100, 7)),
        (10**100, Fraction(7 * 10**99, 3)),
        (10**40, Fraction(7 * 10**40, 3)),
    ],
)
def test_the_price_of_extremes_is_the_formula_in_a_thousand_digits(l1: int, scale: Fraction) -> None:
    with localcontext(prec=1000, Emin=-(10**15)):
        rate = Decimal(scale.denominator) / scale.numerator
        q = (-rate).exp()
        exact = Fraction((l1 - 2 * q * (1 - (-rate * l1).exp()) / (1 - q * q)) * rate)
    price = laplace_rho(l1, scale)
    assert exact < price < exact + UNIT * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(30)])
def test_any_pure_mechanism_costs_epsilon_times_a_hyperbolic_tangent(epsilon: Fraction) -> None:
    with localcontext(prec=70):
        e = Decimal(epsilon.numerator) / epsilon.denominator
        exact = Fraction(e * (e.exp() - 1) / (e.exp() + 1))
    assert exact < pure_rho(epsilon) < exact + UNIT * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("l1", "scale"), [(0, 1), (Fraction(3, 2), 1), (1.5, 1), (Fraction(1, 2), 1), (1, 0), (1, -1), (-1, -1)]
)
def test_noise_for_no_whole_number_of_steps_has_no_price(l1: int, scale: int) -> None:
    with pytest.raises(ProgrammingError, match="no Laplace noise"):
        laplace_rho(l1, Fraction(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 10**13), Fraction(10**310)])
def test_noise_for_an_absurd_epsilon_has_no_price(scale: Fraction) -> None:
    with pytest.raises(ProgrammingError, match="epsilon"):
        laplace_rho(1, scale)


# Laplace noise --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(1023, 64)])
@pytest.mark.parametrize("shift", [-5, 0, 1, 7])
def test_the_loss_is_the_logarithm_of_the_ratio_of_two_probabilities(scale: Fraction, shift: int) -> None:
    for z in (-9, -1, 0, 1, 4, 30):
        assert DiscreteLaplace(scale).loss(z, shift) == Fraction(abs(z) - abs(z - shift)) / scale


@pytest.mark.parametrize(
    ("l1", "epsilon"), [(1, Fraction(1, 2)), (1, Fraction(1, 10**6)), (2, Fraction(3)), (7, Fraction(50))]
)
def test_a_scale_is_the_least_that_costs_no_more(l1: int, epsilon: Fraction) -> None:
    noise = DiscreteLaplace.for_epsilon(l1, epsilon)
    assert noise.epsilon(l1) == l1 / noise.scale <= epsilon
    assert noise.scale == Fraction(math.ceil(l1 / epsilon * 2**20), 2**20) or l1 / epsilon * 2**20 >= 2**40


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(3, 2), Fraction(20)])
def test_the_variance_of_laplace_noise_is_its_mean_square(scale: Fraction) -> None:
    with localcontext(prec=50):
        q = (-Decimal(scale.denominator) / scale.numerator).exp()
        squares = 2 * sum(z * z * (1 - q) / (1 + q) * q**z for z in range(1, 1200))
    assert DiscreteLaplace(scale).variance() == pytest.approx(float(squares), rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [Fraction(1, 2**20), Fraction(1, 2), Fraction(7), Fraction(2**40 - 1)])
def test_the_tail_of_laplace_noise_is_a_bound_and_tight(scale: Fraction) -> None:
    noise, reach = DiscreteLaplace(scale), math.ceil(scale)
    for x in (-40 * reach, -reach, -1, 0, 1, 2, reach, 30 * reach, 600 * reach):
        with localcontext(prec=60):
            exact = _tail(scale, x)
            assert exact <= Decimal(noise.tail(x)) <= exact * (1 + Decimal("1e-12")) + Decimal("1e-321")
    assert noise.survival(10**9 * reach) == 0.0 < noise.tail(10**9 * reach) == 2.0**-1070


@pytest.mark.parametrize(("l1", "epsilon"), [(0, 1), (-1, 1), (1, 0), (1, -1), (0, 0)])
def test_no_scale_is_for_nothing(l1: int, epsilon: int) -> None:
    with pytest.raises(InternalError, match="positive sensitivity and a positive epsilon"):
        DiscreteLaplace.for_epsilon(l1, Fraction(epsilon))


# thresholds -----------------------------------------------------------------------------------------------------------------


def _tail(scale: Fraction, x: int) -> Decimal:
    q = (-Decimal(scale.denominator) / scale.numerator).exp()
    return q**x / (1 + q) if x > 0 else 1 - q ** (1 - x) / (1 + q)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(37, 4)])
@pytest.mark.parametrize("weights", [(1,), (0,), (5, 3, 2), (1, 1, 1, 1), (3, 9, 1), (2, 2, 8), (4, 0)])
@pytest.mark.parametrize("delta", [0.4999, 0.01, 1e-9])
def test_a_threshold_is_the_least_that_hides_every_number_of_groups(
    scale: Fraction, weights: tuple[int, ...], delta: float
) -> None:
    def shown(at: int) -> Decimal:
        with localcontext(prec=60):
            return max(1 - (1 - _tail(scale, at - w)) ** g for g, w in enumerate(weights, start=1))

    least = threshold(DiscreteLaplace(scale), weights, delta)
    assert shown(least) <= Decimal(delta) < shown(least - 1)


@pytest.mark.parametrize("gap", [-3, 0, 1, 5, 40])
@pytest.mark.parametrize("groups", [1, 2, 30])
def test_an_exposure_is_an_upper_bound_and_tight(gap: int, groups: int) -> None:
    noise = DiscreteLaplace(Fraction(2))
    with localcontext(prec=60):
        exact = 1 - (1 - _tail(Fraction(2), gap)) ** groups
        assert exact <= Decimal(exposure(noise, gap, groups)) <= exact * (1 + Decimal("1e-11"))


def test_an_exposure_of_exactly_delta_is_allowed() -> None:
    noise = DiscreteLaplace(Fraction(2))
    for gap in (3, 20):
        assert threshold(noise, (5,), exposure(noise, gap, 1)) == 5 + gap


def test_a_key_that_is_always_shown_is_exposed() -> None:
    noise = DiscreteLaplace(Fraction(2))
    assert noise.tail(-1000) == 1.0
    assert exposure(noise, -1000, 3) == 1.0


def test_an_exposure_has_a_slack_for_its_own_rounding() -> None:
    noise = DiscreteLaplace(Fraction(2))
    for gap in (3, 20):
        alone = -math.expm1(5 * math.log1p(-noise.tail(gap)))
        assert exposure(noise, gap, 5) / alone - 1 == pytest.approx(2.0**-48, rel=0.2, abs=0)


@pytest.mark.parametrize("delta", [0.0, 0.5, -0.1, 0.7, math.nan])
def test_a_threshold_is_for_a_delta_below_a_half(delta: float) -> None:
    for weights, chance in (((1,), delta), ((), 0.1), ((1, -1), 0.1)):
        with pytest.raises(InternalError, match="a threshold needs"):
            threshold(DiscreteLaplace(Fraction(1)), weights, chance)


def test_weights_have_twenty_bits_unless_others_are_asked_for() -> None:
    assert selection_weights(4) == (2**20, 741455, 605395, 2**19)
    assert selection_weights(1, 3) == (8,)


# conversions ----------------------------------------------------------------------------------------------------------------


def _log_delta(rho: Fraction, epsilon: Fraction) -> Decimal:
    """The least log δ over all orders, in sixty digits, by a search of its own."""
    r, e = (Decimal(x.numerator) / x.denominator for x in (rho, epsilon))

    def at(log_x: Decimal) -> Decimal:
        x = log_x.exp()
        return x * ((x + 1) * r - e + (x / (x + 1)).ln()) - (x + 1).ln()

    low, high = Decimal(-60), Decimal(100)
    for _ in range(260):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if at(a) < at(b) else (a, high)
    return at(low)


CASES = [(Fraction(1), Fraction(5)), (Fraction(1, 10), Fraction(1)), (Fraction(1, 1000), Fraction(1, 2))]


@pytest.mark.parametrize(("rho", "epsilon"), CASES)
def test_the_conversions_are_the_best_order_and_round_to_the_safe_side(rho: Fraction, epsilon: Fraction) -> None:
    """To a part in 10**14: no order is better, and no rounding makes it smaller."""
    with localcontext(prec=60):
        best = _log_delta(rho, epsilon).exp()
        assert best <= Decimal(repr(delta_for(rho, epsilon))) <= best * (1 + Decimal("1e-14"))
        delta = Fraction(best)
    assert epsilon <= Fraction(repr(epsilon_for(rho, delta))) <= epsilon * (1 + Fraction(1, 10**14))
    assert rho * (1 - Fraction(1, 10**14)) <= rho_for(epsilon, delta) <= rho


@pytest.mark.parametrize("crossing", [1e-20, 1e-3, 1.0, 77.0, 1e30])
def test_a_root_is_found_to_the_last_digits_from_below(crossing: float) -> None:
    found = float(_root(lambda x: math.log(x) - math.log(crossing)))
    assert found == pytest.approx(crossing, rel=1e-12, abs=0)


@pytest.mark.parametrize("x", ["1e-26", "1e-5", "1", "1e20"])
@pytest.mark.parametrize("terms", [("0", "0"), ("1e10", "3"), ("2", "700")])
def test_the_margin_is_far_more_than_the_rounding_of_eighty_digits(x: str, terms: tuple[str, str]) -> None:
    """One term is divided by x: that it is off by one in its eightieth digit is covered a thousand million times."""
    place, one, two = Decimal(x), Decimal(terms[0]), Decimal(terms[1])
    rounding = Decimal("1e-80") * (1 + one + two + (1 + two) / place)
    margin = _margin(place, one, two)
    assert margin > rounding * 10**9
    assert margin < Decimal("1e-69") * (1 + 1 / place) * (1 + one + two)


def test_a_delta_below_all_floats_is_the_least_that_is_told() -> None:
    """e^−740 where the bound is smaller, and the bound itself where it is not."""
    rho = Fraction(1, 100)
    for epsilon, least in ((Fraction(54, 10), False), (Fraction(56, 10), True)):
        with localcontext(prec=60):
            exponent = _log_delta(rho, epsilon)
        assert (exponent < -740) is least
        told = delta_for(rho, epsilon)
        with localcontext(prec=60):
            bound = (-Decimal(740) if least else exponent).exp()
            assert bound * Decimal("0.999") <= Decimal(told) <= bound * Decimal("1.01")


def test_nothing_is_promised_beyond_a_delta_of_1() -> None:
    assert delta_for(1000, 0) == 1.0
    assert epsilon_for(Fraction(1, 10**12), 0.9) == 0.0


@pytest.mark.parametrize("wrong", [-1, math.nan, 1e300])
def test_a_spent_rho_is_nothing_or_positive(wrong: float) -> None:
    assert epsilon_for(0, 0.5) == delta_for(0, 0) == 0.0
    with pytest.raises(ProgrammingError, match="rho"):
        epsilon_for(wrong, 0.5)
    with pytest.raises(ProgrammingError, match="rho"):
        delta_for(wrong, 1)
    with pytest.raises(ProgrammingError, match="epsilon"):
        delta_for(1, wrong)
