"""The price of discrete Laplace noise against numeric Rényi divergences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.zcdp_conversion import laplace_rho, pure_rho

ORDERS = [1.000001, 1.001, 1.1, 1.5, 2, 3, 5, 10, 50, 1000]
CASES = [
    (1, "1"),
    (2, "2"),
    (50, "50"),
    (1, "10"),
    (3, "1/2"),
    (7, "5/3"),
    (20, "3"),
    (100, "1000"),
    (4, "30"),
]


def renyi(order: float, steps: int, scale: float) -> float:
    """The divergence of order α between the law and its shift, summed far into both tails."""
    reach = steps + int(800 * scale) + 50
    z = np.arange(-reach, reach + 1)
    log_p = -np.abs(z) / scale + math.log(math.tanh(1 / (2 * scale)))
    log_q = -np.abs(z - steps) / scale + math.log(math.tanh(1 / (2 * scale)))
    return float(logsumexp(order * log_p + (1 - order) * log_q) / (order - 1))


@pytest.mark.parametrize(("l1", "scale"), CASES)
def test_every_order_stays_below_the_price(l1: int, scale: str) -> None:
    rho = float(laplace_rho(l1, Fraction(scale)))
    for order in ORDERS:
        slack = 1e-12 * (1 + 1 / (order - 1))
        assert renyi(order, l1, float(Fraction(scale))) <= order * rho + slack


@pytest.mark.parametrize(("l1", "scale"), CASES)
def test_the_price_is_the_smallest_one(l1: int, scale: str) -> None:
    order = 1 + 1e-5
    divergence = renyi(order, l1, float(Fraction(scale))) / order
    assert divergence > 0.999 * float(laplace_rho(l1, Fraction(scale)))


@pytest.mark.parametrize("scale", ["1/2", "3", "20"])
def test_a_vector_within_the_l1_bound_pays_no_more(scale: str) -> None:
    rho = float(laplace_rho(6, Fraction(scale)))
    for shifts in ([6], [5, 1], [3, 3], [2, 2, 2], [1] * 6, [4, 1]):
        for order in ORDERS[2:]:
            total = sum(renyi(order, shift, float(Fraction(scale))) for shift in shifts)
            assert total <= order * rho * (1 + 1e-9)


@pytest.mark.parametrize(("l1", "scale", "rho"), [(1, 1, 0.462), (2, 2, 0.393), (50, 50, 0.3679)])
def test_known_prices_at_epsilon_one(l1: int, scale: int, rho: float) -> None:
    assert float(laplace_rho(l1, Fraction(scale))) == pytest.approx(rho, abs=2e-3 if rho > 0.4 else 6e-4)


@pytest.mark.parametrize("epsilon", ["1/1000000", "1/10", "1", "7", "100"])
@pytest.mark.parametrize("l1", [1, 2, 10, 2**21])
def test_it_lies_between_continuous_laplace_and_any_pure_mechanism(epsilon: str, l1: int) -> None:
    e = float(Fraction(epsilon))
    rho = float(laplace_rho(l1, l1 / Fraction(epsilon)))
    continuous = e + math.expm1(-e) if e > 1e-3 else e * e / 2 - e**3 / 6
    assert continuous * (1 - 1e-9) <= rho <= e * math.tanh(e / 2) * (1 + 1e-12)


def test_any_pure_mechanism() -> None:
    assert float(pure_rho(1)) == pytest.approx(math.tanh(0.5))
    assert pure_rho(0.5) == laplace_rho(1, Fraction(2))


def test_a_price_is_rounded_up() -> None:
    coarse = sum(pure_rho(1) for _ in range(3))
    assert coarse > Fraction(3 * 46211715726000975850231848364367, 10**32)


@pytest.mark.parametrize(("l1", "scale"), [(0, 1), (-1, 1), (1, 0), (1, -2)])
def test_meaningless_noise_is_refused(l1: int, scale: int) -> None:
    with pytest.raises(ProgrammingError):
        laplace_rho(l1, Fraction(scale))
