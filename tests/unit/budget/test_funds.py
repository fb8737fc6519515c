"""What (ε, δ) buys, how it is shared, and the grid of each noise: by hand-made bounds, without a query."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dpsql.budget import FREE, Charge, Cost, epsilon_for, pure_charge, pure_rho, rho_for, zcdp_charge
from dpsql.budget.pricing import (
    Funds,
    Portion,
    Priced,
    _root,
    _scale,
    _steps,
    allocate,
    charge_of,
    choose_mechanism,
    cost_of,
    equally,
    fund,
    parts_of,
    spend,
)
from dpsql.budget.shares import Price
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpsql.mechanisms.exact_numbers import UNIT, exact, float_up
from dpsql.mechanisms.zcdp_conversion import laplace_rho
from dpsql.sensitivity.bound import Bounded, Statistic
from dpsql.sensitivity.claim import Claim, one_coordinate
from dpsql.sensitivity.quantile_tree import Tree
from dpsql.sensitivity.selection import select_keys

EPSILON, DELTA = Fraction(3, 4), Fraction(1, 10**6)
PAIR = Claim(None, 5, 7, 6, 2)


def bounded(*sizes: int, keys: int = 0, trees: int = 0, mechanism: str = "laplace") -> Bounded:
    """A release of statistics that a unit moves by so much; with private keys in so many groups, and with trees."""
    statistics = tuple(Statistic(f"s{i}", cast(Any, None), Fraction(1), one_coordinate(n)) for i, n in enumerate(sizes))
    shares = tuple(((i,), each.claim) for i, each in enumerate(statistics))
    selection = select_keys(keys, mechanism) if keys else None
    grown = tuple(Tree(f"t{i}", 0, 2, 1, 1, 1) for i in range(trees))
    private = (cast(Any, SimpleNamespace(values=None)),) if keys else ()
    return Bounded(cast(Any, None), "by hand", private, (), statistics, shares, (), None, selection, trees=grown)


@pytest.mark.parametrize(
    ("asked", "delta", "chosen"),
    [
        ("auto", DELTA, "gaussian"),
        ("auto", Fraction(0), "laplace"),
        ("laplace", DELTA, "laplace"),
        ("laplace", Fraction(0), "laplace"),
        ("gaussian", DELTA, "gaussian"),
        ("gaussian", Fraction(0), None),
    ],
)
def test_noise_is_gaussian_where_a_delta_is_allowed_unless_it_is_asked_for(
    asked: str, delta: Fraction, chosen: str | None
) -> None:
    if chosen is None:
        with pytest.raises(UnsupportedQuery, match="needs delta > 0"):
            choose_mechanism(asked, delta)
    else:
        assert choose_mechanism(asked, delta) == chosen


@pytest.mark.parametrize("keys", [0, 3])
def test_thresholds_take_all_of_delta_from_laplace_noise_and_half_from_gaussian(keys: int) -> None:
    releases = [bounded(1), bounded(1, keys=keys)]
    assert fund(releases, Price(EPSILON, DELTA), "laplace") == Funds(
        "laplace", EPSILON, DELTA if keys else Fraction(0), Fraction(0)
    )
    slack = DELTA / 2 if keys else Fraction(0)
    rest = DELTA - slack
    assert fund(releases, Price(EPSILON, DELTA), "gaussian") == Funds("gaussian", rho_for(EPSILON, rest), slack, rest)


def test_private_keys_need_delta_and_declared_ones_do_not() -> None:
    with pytest.raises(UnsupportedQuery, match="needs delta > 0"):
        fund([bounded(1), bounded(1, keys=1)], Price(EPSILON, Fraction(0)), "laplace")
    assert fund([bounded(1)], Price(EPSILON, Fraction(0)), "laplace").price == EPSILON


def test_costs_out_of_one_fund_add_up_in_the_currency_of_its_noise() -> None:
    one, two = Cost(0.1, 1e-9, 0.01), Cost(0.2, 2e-9, 0.03)
    laplace = Funds("laplace", EPSILON, DELTA, Fraction(0))
    gaussian = Funds("gaussian", EPSILON, DELTA / 4, DELTA / 2)
    assert laplace.plus(one, two) == Cost(0.1 + 0.2, 1e-9 + 2e-9, 0.01 + 0.03)
    assert gaussian.plus(one, two) == Cost(epsilon_for(0.04, DELTA / 2), float(DELTA * 3 / 4), 0.04)
    for funds in (laplace, gaussian):
        assert funds.plus(one, FREE) == one == funds.plus(FREE, one)
        assert funds.plus(FREE, FREE) == FREE
    assert laplace.epsilon(Fraction(1, 7)) == Fraction(1, 7)
    assert gaussian.epsilon(Fraction(1, 7)) == exact(epsilon_for(Fraction(1, 7), DELTA / 2))


def test_a_price_is_shared_equally_by_every_statistic_tree_and_selection() -> None:
    releases = [bounded(1, 2), bounded(), bounded(1, keys=3), bounded(1, trees=2)]
    assert list(map(parts_of, releases)) == [2, 0, 2, 3]
    seventh = EPSILON / 7
    assert equally(releases, EPSILON) == ((seventh,) * 2, (), (seventh,) * 2, (seventh,) * 3)
    assert equally([bounded()], EPSILON) == ((),)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_query_of_public_keys_alone_is_free_whatever_was_asked(mechanism: str) -> None:
    bill = allocate([bounded(), bounded()], Price(EPSILON, DELTA), mechanism)
    assert [priced.free for priced in bill.releases] == [True, True]
    assert bill.cost == FREE and charge_of(bill.releases) is None
    assert bill.releases[0] == Priced(bounded(), (), Portion(mechanism))
    assert (Portion(mechanism).whole, Portion(mechanism).tail, Portion(mechanism).exact) == (0, 0, False)
    for each in (bounded(1), bounded(keys=1), bounded(trees=1)):
        [priced] = allocate([each], Price(EPSILON, DELTA), mechanism).releases
        assert not priced.free and not priced.portion.exact
        assert priced.portion.tail == (
            0 if priced.selection is None else fund([each], Price(EPSILON, DELTA), mechanism).slack
        )
        assert priced.selection is None or (priced.selection.shift, priced.selection.claim.l1) == (0, 1)
        both = allocate([bounded(), each], Price(EPSILON, DELTA), mechanism).releases
        assert [one.free for one in both] == [True, False] and both[1] == priced


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_what_is_spent_is_what_the_portions_say_and_the_delta_of_the_funds(mechanism: str) -> None:
    releases = [bounded(3, keys=2, mechanism=mechanism), bounded(2, 5, trees=1), bounded(keys=1, mechanism=mechanism)]
    parts = (
        (Fraction(1, 50), Fraction(1, 60)),
        (Fraction(1, 70), Fraction(1, 80), Fraction(1, 90)),
        (Fraction(1, 99),),
    )
    funds = fund(releases, Price(EPSILON, DELTA), mechanism)
    bill, whole = spend(releases, parts, funds), sum(part for each in parts for part in each)
    assert (bill.mechanism, bill.epsilon, bill.delta) == (mechanism, funds.epsilon(whole), DELTA)
    for priced, each in zip(bill.releases, parts, strict=True):
        tail = Fraction(0) if priced.bounded.public else funds.slack / 2
        assert priced.portion == Portion(mechanism, whole, each, tail, exact=True)
        assert priced.price == sum(each)
    assert [priced.tail for priced in bill.releases] == [funds.slack / 2, 0, funds.slack / 2]
    charge = charge_of(bill.releases)
    assert charge is not None and charge.delta == zcdp_charge(1, funds.slack).delta and charge.epsilon is None


def exact_price(priced: Priced, mechanism: str) -> tuple[Fraction, Fraction | None]:
    """The ρ and the ε of all that a release draws, from its noise and its claims."""
    drawn = [(each.noise, each.joint) for each in (*priced.noised, *priced.trees)]
    drawn += [(priced.selection.noise, priced.selection.joint)] if priced.selection else []
    if mechanism == "gaussian":
        return sum((Fraction(c.l2**2) / (2 * n.scale**2) for n, c in drawn), Fraction(0)), None
    return sum((laplace_rho(c.l1, n.scale) for n, c in drawn), Fraction(0)), sum(
        (c.l1 / n.scale for n, c in drawn), Fraction(0)
    )


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("keys", [0, 3])
def test_the_charge_and_the_cost_of_a_part_are_those_of_its_own_noise(mechanism: str, keys: int) -> None:
    releases = [bounded(3, 5, keys=keys, mechanism=mechanism), bounded(2, trees=1)]
    bill = allocate(releases, Price(EPSILON, DELTA), mechanism)
    for part in (bill.releases[:1], bill.releases[1:]):
        [priced] = part
        rho, pure = exact_price(priced, mechanism)
        slack = fund(releases, Price(EPSILON, DELTA), mechanism).slack if priced.selection else Fraction(0)
        charge: Charge = pure_charge(pure, rho) if pure is not None and not slack else zcdp_charge(rho, slack)
        assert charge_of(part) == charge
        told, up = cost_of(bill, part), float_up(charge.rho * UNIT)
        if pure is None:
            assert told == Cost(epsilon_for(up, DELTA / 2), float(DELTA / 2 + slack), up)
        else:
            assert told == Cost(float(pure), float(slack), up)
    whole = cost_of(bill, bill.releases)
    spent = fund(releases, Price(EPSILON, DELTA), mechanism).slack
    assert (whole.epsilon, whole.delta) == (float(EPSILON), float(spent if mechanism == "laplace" else DELTA))
    assert charge_of(()) is None and cost_of(bill, ()) == FREE


def test_a_pure_event_pays_the_price_of_its_laplace_noise_not_that_of_any_event() -> None:
    charge = charge_of(allocate([bounded(100)], Price(Fraction(1), Fraction(0)), "laplace").releases)
    assert charge is not None and charge.epsilon == pure_charge(1).epsilon
    assert charge.rho < pure_charge(1, pure_rho(1) * Fraction(9, 10)).rho


def test_a_root_is_the_largest_of_its_grid_that_is_no_more() -> None:
    step = Fraction(1, 2**60)
    for square in (
        Fraction(9, 4),
        Fraction(10**12 + 1, 7),
        Fraction(1, 10**20),
        *(Fraction(n, 11) for n in range(1, 31)),
    ):
        root = _root(square)
        assert root**2 <= square < (root + step) ** 2 and root % step == 0


@pytest.mark.parametrize("each", [Fraction(1, 3), Fraction(7), Fraction(2), Fraction(1, 10**9)])
@pytest.mark.parametrize("claim", [one_coordinate(1), one_coordinate(14), PAIR, Claim(3, 4, 12, 7, 3)])
def test_the_steps_of_a_scale_are_enough_for_its_norm_and_at_most_one_too_many(claim: Claim, each: Fraction) -> None:
    assert _steps(claim, each, "laplace") - 1 < claim.l1 / each <= _steps(claim, each, "laplace")
    steps = _steps(claim, each, "gaussian")
    assert (steps - 1) ** 2 <= Fraction(claim.l2**2) / (2 * each) < steps**2


LIMITS = {"laplace": 2**36, "gaussian": 2**22}
SIZES = (1, 5, 2**20 - 1, 2**32, 2**32 + 1, 3 * 2**33, 2**40 + 7, 2**53)
PRICES = (Fraction(10**9), Fraction(1), Fraction(1, 1000), Fraction(1, 10**9), Fraction(1, 10**15), Fraction(1, 10**25))


@pytest.mark.parametrize("mechanism", LIMITS)
@pytest.mark.parametrize("reach", [1, 3])
def test_the_grid_is_the_finest_on_which_noise_and_totals_fit(mechanism: str, reach: int) -> None:
    """2**36 steps of Laplace noise and 2**22 of Gaussian, and 2**32 for one unit: totals of a billion stay in 62 bits."""
    refused = 0
    edges = [Fraction(2**20, 2**36), Fraction(2**40, 2 * (2**22 - 1) ** 2)]
    for size, each in [*product(SIZES, PRICES), *((2**20, edge) for edge in edges)]:
        claim = one_coordinate(size) if reach == 1 else Claim(reach, size, 2 * size, size + size // 2, reach)
        coarse = [claim.coarser(shift) for shift in range(claim.l1.bit_length())]
        fits = [_steps(c, each, mechanism) < LIMITS[mechanism] and c.l1 <= 2**32 for c in coarse]
        if not any(fits):
            refused += 1
            with pytest.raises(UnsupportedQuery, match="too large to draw"):
                _scale(claim, each, mechanism)
            continue
        noise, shift = _scale(claim, each, mechanism)
        assert shift == fits.index(True)
        l1, l2 = coarse[shift].l1, coarse[shift].l2
        laplace = mechanism == "laplace"
        assert noise == (DiscreteLaplace.for_epsilon(l1, each) if laplace else DiscreteGaussian.for_rho(l2, each))
    assert 0 < refused < len(SIZES) * len(PRICES) / 2
