"""The last digit of a conversion: what its margin does not cover is not promised, and what it covers need not be.

At one order each bound is linear in ε or ρ. A change of these far below a float's digits leaves the order as it is, so
a test can put the bound as near to a unit, or to a float, as it likes, and see on which side the answer falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpsql.mechanisms import zcdp_conversion
from dpsql.mechanisms.exact_numbers import UNIT
from dpsql.mechanisms.zcdp_conversion import laplace_rho

DIGITS = 200
COVERED, NOT_COVERED = Decimal("0.99e-70"), Decimal("1.01e-70")
"""In parts of (1 + 1/x)·(1 + the terms), of which 10**-70 is the margin."""


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Decimal]:
    """The order that was found last, less one."""
    found: list[Decimal] = []
    search = zcdp_conversion._root
    monkeypatch.setattr(zcdp_conversion, "_root", lambda increasing: (found.append(search(increasing)), found[-1])[1])
    for cached in (zcdp_conversion._rho_for, zcdp_conversion._epsilon_for, zcdp_conversion._delta_for):
        cached.cache_clear()
    return lambda: found[-1]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


CASES = [(Fraction(1), Fraction(1, 10**6)), (Fraction(1, 4), Fraction(1, 10)), (Fraction(9), Fraction(1, 10**12))]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_a_rho_that_the_margin_does_not_cover_is_a_unit_less(
    epsilon: Fraction, delta: Fraction, order: Callable[[], Decimal]
) -> None:
    units = zcdp_conversion.rho_for(epsilon, delta) / UNIT
    with localcontext(prec=DIGITS):
        x, log_delta = order(), _decimal(delta).ln()
        paid = log_delta + (x + 1).ln()
        here = (paid / x + _decimal(epsilon) + ((x + 1) / x).ln()) / (x + 1)
        whole = (1 + 1 / x) * (1 + _decimal(epsilon) + abs(paid))
        for part, given in ((COVERED, units - 1), (NOT_COVERED, units), (-COVERED, units - 1)):
            wanted = units.numerator * _decimal(UNIT) + part * whole
            moved = epsilon + Fraction((wanted - here) * (x + 1))
            assert float(moved) == float(epsilon)
            assert zcdp_conversion.rho_for(moved, delta) == given * UNIT
            assert order() == x


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_an_epsilon_that_the_margin_does_not_cover_is_a_float_more(
    rho: Fraction, delta: Fraction, order: Callable[[], Decimal]
) -> None:
    told = zcdp_conversion.epsilon_for(rho, delta)
    above = math.nextafter(told, math.inf)
    with localcontext(prec=DIGITS):
        for part, given in ((0, above), (-COVERED, above), (-NOT_COVERED, told), (COVERED, above)):
            x = order()
            paid = _decimal(delta).ln() + (x + 1).ln()
            here = (x + 1) * _decimal(rho) + (x / (x + 1)).ln() - paid / x
            whole = (1 + 1 / x) * (1 + (x + 1) * _decimal(rho) + abs(paid))
            rho += Fraction((Decimal(repr(told)) + part * whole - here) / (x + 1))
            found = zcdp_conversion.epsilon_for(rho, delta)
            if part:  # the first step brings the bound to the float, where the order is another
                assert order() == x
                assert found == given


@pytest.mark.parametrize(("rho", "epsilon"), [(Fraction(1, 10), Fraction(2)), (Fraction(1), Fraction(7))])
def test_a_delta_that_the_margin_does_not_cover_is_a_float_more(
    rho: Fraction, epsilon: Fraction, order: Callable[[], Decimal]
) -> None:
    """The margin of its logarithm is that of the rate, times the order; e to its power is rounded once more."""
    told = zcdp_conversion.delta_for(rho, epsilon)
    above = math.nextafter(told, math.inf)
    with localcontext(prec=DIGITS):
        for part, given in ((0, above), (-COVERED, above), (-NOT_COVERED, told), (COVERED, above)):
            x = order()
            here = x * ((x + 1) * _decimal(rho) - _decimal(epsilon) + (x / (x + 1)).ln()) - (x + 1).ln()
            whole = 1 + (x + 1) * (1 + 1 / x) * (1 + (x + 1) * _decimal(rho) + _decimal(epsilon))
            epsilon += Fraction((here - Decimal(repr(told)).ln() - part * whole) / x)
            found = zcdp_conversion.delta_for(rho, epsilon)
            if part:  # the first step brings the bound to the float, where the order is another
                assert order() == x
                assert found == given


def _price(l1: int, scale: Fraction) -> Decimal:
    rate = Decimal(scale.denominator) / scale.numerator
    q = (-rate).exp()
    return (l1 - 2 * q * (1 - (-rate * l1).exp()) / (1 - q * q)) * rate


@pytest.mark.parametrize(("l1", "scale"), [(1, Fraction(2)), (7, Fraction(1, 3)), (50, Fraction(100))])
def test_a_price_within_its_margin_below_a_unit_is_a_unit_more(l1: int, scale: Fraction) -> None:
    """A margin of 10**-50: what lies nearer to a unit than that is charged the next one."""
    units = laplace_rho(l1, scale) / UNIT
    with localcontext(prec=DIGITS):
        for part, given in (("0.99e-50", units + 1), ("1.01e-50", units), ("-0.5e-50", units + 1)):
            wanted, moved = units.numerator * _decimal(UNIT) - Decimal(part), scale
            for _ in range(4):
                step = moved / 10**60
                slope = (_price(l1, moved + step) - _price(l1, moved)) / _decimal(step)
                moved += Fraction((wanted - _price(l1, moved)) / slope)
            assert abs(_price(l1, moved) - wanted) < Decimal("1e-60")
            assert laplace_rho(l1, moved) == given * UNIT
