"""The two filters: what they admit, to the unit, and what they say is left."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.budget import (
    FREE,
    UNIT,
    Caps,
    Charge,
    Cost,
    Spent,
    admits,
    delta_for,
    epsilon_for,
    limits,
    more_like,
    pure_charge,
    remaining,
    rho_for,
    spent_as,
    zcdp_charge,
)
from dpsql.budget.accountant import FilterLimits, _affordable, _shaved, laplace_within
from dpsql.errors import ProgrammingError
from dpsql.mechanisms.exact_numbers import exact, float_down, float_up, units_down
from dpsql.mechanisms.zcdp_conversion import pure_rho

CAPS = Caps(3, 1e-6)
PURE = Caps(1, 0)


def spend(caps: Caps, charges: list[Charge]) -> Spent:
    """The sums after asking for each in turn; what is refused is not spent."""
    spent = Spent()
    for charge in charges:
        if admits(caps, spent, charge):
            spent = spent.after(charge)
    return spent


def test_spending_exactly_the_cap_is_allowed_and_one_unit_more_is_not() -> None:
    rho = rho_for(3, 1e-6 / 2)
    whole = zcdp_charge(rho, 5e-7)
    assert admits(CAPS, Spent(), whole)
    assert not admits(CAPS, Spent(), Charge(whole.rho + 1, 0))
    assert not admits(CAPS, Spent(), Charge(1, whole.delta + 1))
    assert not admits(CAPS, Spent().after(whole), Charge(1))


def test_ten_pure_queries_at_a_tenth_spend_exactly_one() -> None:
    spent = Spent()
    for _ in range(10):
        assert admits(PURE, spent, pure_charge(0.1))
        spent = spent.after(pure_charge(0.1))
    assert spent_as(PURE, spent, 0).epsilon == 1
    assert not admits(PURE, spent, Charge(1, 0, 1))


def test_without_delta_only_pure_events_are_admitted() -> None:
    assert admits(PURE, Spent(), pure_charge(1))
    assert not admits(PURE, Spent(), zcdp_charge(1e-9))


def test_the_pure_side_admits_what_the_zcdp_side_would_not() -> None:
    big = pure_charge(2.9)
    assert big.rho > (limits(CAPS).rho or 0)
    spent = Spent().after(big)
    assert admits(CAPS, Spent(), big)
    assert admits(CAPS, spent, pure_charge(0.1))
    assert not admits(CAPS, spent, pure_charge(0.11))
    assert not admits(CAPS, spent, zcdp_charge(1e-9))


def test_the_zcdp_side_goes_on_where_the_pure_one_ends() -> None:
    spent, small = Spent(), pure_charge(0.01)
    while admits(CAPS, spent, small):
        spent = spent.after(small)
    assert spent.epsilon is not None
    assert spent.epsilon * UNIT > 3
    assert not limits(CAPS).pure_holds(spent)
    assert limits(CAPS).zcdp_holds(spent)


def test_one_impure_event_ends_the_pure_side_for_good() -> None:
    spent = Spent().after(zcdp_charge(1e-6))
    assert spent.epsilon is None
    assert not admits(CAPS, spent, pure_charge(2.9))
    assert spent.after(pure_charge(0.1)).epsilon is None


@given(st.integers(0, 2**32), st.sampled_from([CAPS, PURE, Caps(0.1, 1e-9), Caps(20, 1e-3)]))
@settings(max_examples=80, deadline=None)
def test_adaptive_spending_never_leaves_both_promises(seed: int, caps: Caps) -> None:
    """The adversary tries the largest thing that fits, of a random kind, again and again."""
    rng, spent = random.Random(seed), Spent()
    for _ in range(40):
        epsilon = float(caps.epsilon) * rng.choice([1, 0.5, 0.1, 0.01]) * rng.random() + 1e-6
        pure = rng.random() < 0.5
        charge = pure_charge(epsilon) if pure else zcdp_charge(epsilon**2 / 8, 1e-10 * rng.random() + 1e-20)
        if admits(caps, spent, charge):
            spent = spent.after(charge)
    holds_purely = spent.epsilon is not None and spent.epsilon * UNIT <= caps.epsilon
    half = float(caps.delta) / 2
    loss = delta_for(spent.rho * UNIT, caps.epsilon) if spent.rho else 0.0
    assert holds_purely or (loss <= half * (1 + 1e-9) and spent.delta * UNIT <= half * (1 + 1e-9))


def test_an_untouched_account_has_its_cap_left() -> None:
    left = remaining(CAPS, Spent(), 5e-7)
    assert left.epsilon == pytest.approx(3)
    assert (left.delta, left.rho) == (5e-7, pytest.approx(float(rho_for(3, 5e-7))))
    assert remaining(CAPS, Spent(), 1e-8).epsilon > 3 > remaining(CAPS, Spent(), 1e-6).epsilon
    assert remaining(CAPS, Spent(), 0).epsilon == 3
    assert remaining(PURE, Spent(), 0).epsilon == 1
    assert spent_as(CAPS, Spent(), 1e-8) == FREE


@pytest.mark.parametrize("delta", [0, 1e-8, 1e-6])
def test_a_fully_spent_account_has_spent_all_that_it_had_and_nothing_is_left(delta: float) -> None:
    spent = Spent().after(zcdp_charge(rho_for(3, 5e-7), 5e-7))
    told = spent_as(CAPS, spent, delta)
    assert told.epsilon == pytest.approx(remaining(CAPS, Spent(), min(delta, 5e-7) or 5e-7).epsilon)
    assert told.delta == min(delta or 1, 5e-7) + 5e-7
    assert remaining(CAPS, spent, delta) == FREE


@given(st.lists(st.floats(1e-4, 0.2), max_size=20), st.sampled_from([5e-7, 1e-8, 1e-6]))
@settings(max_examples=60, deadline=None)
def test_what_is_left_can_be_asked_of_gaussian_noise_and_hardly_more(rhos: list[float], delta: float) -> None:
    spent = spend(CAPS, [zcdp_charge(rho) for rho in rhos])
    left = remaining(CAPS, spent, delta)
    if left.epsilon:
        assert admits(CAPS, spent, zcdp_charge(rho_for(left.epsilon, delta)))
        assert not admits(CAPS, spent, zcdp_charge(rho_for(left.epsilon * 1.00001, delta)))
    told = spent_as(CAPS, spent, delta)
    assert told.delta + left.delta <= 1e-6 * (1 + 1e-12)
    assert told.rho + left.rho == pytest.approx(limits(CAPS).rho * float(UNIT))


@given(st.lists(st.floats(1e-4, 0.4), max_size=30), st.booleans(), st.sampled_from([CAPS, PURE, Caps(0.3, 1e-9)]))
@settings(max_examples=60, deadline=None)
def test_what_is_left_can_be_asked_of_laplace_noise_and_hardly_more(
    prices: list[float], impure: bool, caps: Caps
) -> None:
    spent = spend(caps, [*([zcdp_charge(1e-5)] if impure else []), *map(pure_charge, prices)])
    left = remaining(caps, spent, 0).epsilon
    if left:
        assert admits(caps, spent, pure_charge(left))
    assert not admits(caps, spent, pure_charge(max(left * 1.00001, 1e-6)))


@given(st.lists(st.floats(1e-3, 0.4), max_size=9), st.floats(1e-3, 1), st.sampled_from(["pure", "zcdp", "keys"]))
@settings(max_examples=60, deadline=None)
def test_so_many_more_of_the_same_are_admitted(prices: list[float], price: float, kind: str) -> None:
    charge = {"pure": pure_charge(price), "zcdp": zcdp_charge(price / 50), "keys": zcdp_charge(price / 50, 3e-8)}[kind]
    spent = spend(CAPS, [pure_charge(each) for each in prices])
    for _ in range(more_like(CAPS, spent, charge)):
        assert admits(CAPS, spent, charge)
        spent = spent.after(charge)
    assert not admits(CAPS, spent, charge)
    assert more_like(CAPS, spent, charge) == 0


def test_nothing_more_is_admitted_where_a_cap_was_lowered_below_what_is_spent() -> None:
    spent = Spent().after(zcdp_charge(0.1, 1e-7))
    assert more_like(PURE, spent, pure_charge(0.1)) == 0
    assert more_like(Caps(3, 1e-8), spent, zcdp_charge(1e-9)) == 0
    assert remaining(Caps(3, 1e-8), spent, 1e-9) == FREE


def test_the_better_filter_is_shown() -> None:
    spent = Spent().after(pure_charge(2))
    assert spent_as(CAPS, spent, 1e-8).epsilon == 2
    assert remaining(CAPS, spent, 0).epsilon == pytest.approx(1)
    many = spend(CAPS, [pure_charge(0.01)] * 300)
    assert spent_as(CAPS, many, 1e-8).epsilon < 3
    assert remaining(CAPS, many, 1e-8).epsilon > 1


def test_one_query_is_shown_as_it_was_priced() -> None:
    spent = Spent().after(zcdp_charge(rho_for(0.5, 1e-8)))
    assert spent_as(CAPS, spent, 1e-8).epsilon == pytest.approx(0.5)
    assert spent_as(CAPS, spent, 1e-8).delta == 1e-8


def test_an_impure_past_under_a_cap_lowered_to_pure_is_infinite() -> None:
    spent = Spent().after(zcdp_charge(0.01))
    assert spent_as(PURE, spent, 0).epsilon == math.inf
    assert remaining(PURE, spent, 0).epsilon == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (1, 1), (1, -1e-9)])
def test_meaningless_caps_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ProgrammingError, match="cap on"):
        Caps(epsilon, delta)


@pytest.mark.parametrize(("delta", "epsilon"), list(product([1e-12, 5e-7], [1.5e-9, 1e-4, 1.0, 30.0])))
def test_what_is_affordable_fits_and_hardly_less_is_told(delta: float, epsilon: float) -> None:
    rho = rho_for(epsilon, exact(delta))
    assert rho_for(_affordable(rho, exact(delta)), exact(delta)) <= rho
    assert _affordable(rho, exact(delta)) == pytest.approx(epsilon, rel=1e-5)
    assert laplace_within(pure_rho(epsilon)) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("rho", [1e-7 * 1.37**n for n in range(40)])
def test_what_is_affordable_is_the_most_to_the_eleventh_digit(rho: float) -> None:
    left, more = exact(rho), Fraction(10**11 + 1, 10**11)
    told = laplace_within(left)
    assert pure_rho(told) <= left < pure_rho(exact(told) * more)
    told = _affordable(left, exact(1e-8))
    assert rho_for(told, 1e-8) <= left < rho_for(exact(told) * more, 1e-8)


def test_less_than_a_billionth_is_nothing() -> None:
    assert _affordable(rho_for(0.9e-9, exact(5e-7)), exact(5e-7)) == 0.0 == laplace_within(pure_rho(0.9e-9))


def test_an_account_begins_with_nothing_spent_and_caps_with_no_delta_and_no_window() -> None:
    assert Caps(1) == Caps(1, 0, None) and Spent() == Spent(0, 0, 0)
    assert limits(Caps(1)) == FilterLimits(units_down(exact(1)), None, 0)
    assert limits(CAPS) == FilterLimits(units_down(exact(3)), units_down(rho_for(3, 5e-7)), units_down(exact(5e-7)))


@pytest.mark.parametrize("rho", [3, None])
def test_a_filter_holds_up_to_its_limit_and_no_further(rho: int | None) -> None:
    limit = FilterLimits(5, rho, 2)
    pure = {(e, limit.pure_holds(Spent(99, 99, e))) for e in (None, 0, 4, 5, 6)}
    assert pure == {(None, False), (0, True), (4, True), (5, True), (6, False)}
    holding = {(r, d) for r in range(6) for d in range(5) for e in (None, 9) if limit.zcdp_holds(Spent(r, d, e))}
    assert holding == (set() if rho is None else set(product(range(4), range(3))))


@pytest.mark.parametrize("caps", [CAPS, PURE])
def test_as_many_more_of_the_same_as_are_admitted_one_after_the_other_wherever_the_account_stands(caps: Caps) -> None:
    """At each limit, just below and just above it, also where a cap was lowered since."""
    limit, other = limits(caps), limits(CAPS)
    e, r, d = limit.epsilon, other.rho or 0, other.delta
    spends = [Spent(*each) for each in product((0, 1, r, r + 1), (0, 1, d, d + 1), (None, 0, e // 2, e, e + 1))]
    charges = [Charge(each, delta) for each in (r // 3, r // 3 + 1, r, r + 1) for delta in (0, d // 2, d, d + 1)]
    charges += [
        Charge(each, 0, pure) for each in (r // 3, r // 3 + 1, r + 1) for pure in (e // 3, e // 3 + 1, e, e + 1)
    ]
    for start, charge in product(spends, charges):
        admitted, spent = 0, start
        while admits(caps, spent, charge):
            admitted, spent = admitted + 1, spent.after(charge)
        assert more_like(caps, start, charge) == admitted, (start, charge)


def test_what_is_left_of_rho_and_delta_is_what_was_not_spent_while_the_filter_holds() -> None:
    limit = limits(CAPS)
    rho, delta = limit.rho or 0, limit.delta
    left = remaining(CAPS, Spent(rho // 4, delta // 5, None), 1e-8)
    assert (left.rho, left.delta) == (float_down((rho - rho // 4) * UNIT), float_down((delta - delta // 5) * UNIT))
    assert remaining(CAPS, Spent(rho, 0, None), 1e-8).delta == 5e-7
    for spent in (Spent(rho + 1, 0, None), Spent(0, delta + 1, None)):
        assert remaining(CAPS, spent, 1e-8) == remaining(CAPS, spent, 0) == FREE
    assert remaining(CAPS, Spent(rho + 1, 0, limit.epsilon // 3), 0).epsilon == float_down(
        (limit.epsilon - limit.epsilon // 3) * UNIT
    )
    assert remaining(PURE, Spent(1, 0, limits(PURE).epsilon + 1), 0) == FREE


def test_what_was_spent_is_told_by_the_filter_that_says_less_and_as_everything_where_none_applies() -> None:
    rho = pure_charge(0.5).rho
    pure = spent_as(PURE, Spent().after(pure_charge(0.5)), 0)
    assert (pure.epsilon, pure.delta, pure.rho) == (0.5, 0.0, float_up(rho * UNIT))
    impure = Spent().after(zcdp_charge(0.01, 1e-8))
    assert spent_as(PURE, impure, 0) == Cost(math.inf, 1.0, 0.01)
    told = spent_as(CAPS, impure, 1e-8)
    assert told == Cost(epsilon_for(Fraction(1, 100), Fraction(1, 10**8)), 2e-8, 0.01)
    assert spent_as(CAPS, impure, 0) == spent_as(CAPS, impure, 1e-6)


@pytest.mark.parametrize("rho", [0, 1e-30])
def test_next_to_no_rho_affords_nothing(rho: float) -> None:
    assert _affordable(exact(rho), exact(1e-8)) == 0.0 == laplace_within(exact(rho))


@pytest.mark.parametrize("rho", [1e-3, 1.0, 50.0, 1e4])
def test_a_large_rho_affords_its_laplace_noise_too(rho: float) -> None:
    told = exact(laplace_within(exact(rho)))
    assert pure_rho(told) <= rho < pure_rho(told * Fraction(10**11 + 1, 10**11))


@pytest.mark.parametrize("most", [0.25, 0.25 * 0.9999999999995, 0.25 * 0.9999995, 0.25 * 0.99, 1e-9])
def test_what_is_a_little_too_much_is_made_smaller_until_it_fits(most: float) -> None:
    """Not at all where it fits, else by a trillionth or a millionth; what fits only far below is not looked for."""
    told = _shaved(0.25, lambda epsilon: epsilon <= most)
    assert told <= most and told in (0.0, 0.25, 0.25 * (1 - 1e-12), 0.25 * (1 - 1e-6))
    assert told == {0.25: 0.25, 0.25 * 0.9999999999995: 0.25 * (1 - 1e-12)}.get(most, told)
    assert (told == 0.0) == (most < 0.249)


@pytest.mark.parametrize(("epsilon", "told"), [(1e-9, 0.0), (1.001e-9, 1.001e-9), (0.0, 0.0)])
def test_a_billionth_and_less_is_nothing(epsilon: float, told: float) -> None:
    assert _shaved(epsilon, lambda _: True) == told
