"""The two filters: what they admit, to the unit, and what they say is left."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.budget import (
    FREE,
    UNIT,
    Caps,
    Charge,
    Spent,
    admits,
    delta_for,
    limits,
    pure_charge,
    remaining,
    rho_for,
    spent_as,
    zcdp_charge,
)
from dpsql.errors import ProgrammingError

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
    assert spent_as(PURE, spent).epsilon == 1
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


def test_an_untouched_account_has_its_caps_left() -> None:
    left = remaining(CAPS, Spent())
    assert (left.epsilon, left.delta) == (3, 1e-6)
    assert left.rho == pytest.approx(float(rho_for(3, 5e-7)))
    assert remaining(PURE, Spent()).epsilon == 1
    assert spent_as(CAPS, Spent()) == FREE


def test_a_fully_spent_account_shows_its_caps_as_spent_and_nothing_left() -> None:
    spent = Spent().after(zcdp_charge(rho_for(3, 5e-7), 5e-7))
    assert spent_as(CAPS, spent).epsilon == 3
    assert spent_as(CAPS, spent).delta == 1e-6
    assert remaining(CAPS, spent).epsilon == 0


@given(st.lists(st.floats(1e-4, 0.2), max_size=20), st.sampled_from([None, 1e-8, 1e-6]))
@settings(max_examples=60, deadline=None)
def test_what_is_left_can_be_spent_in_one_query_and_hardly_more(rhos: list[float], delta: float | None) -> None:
    spent = spend(CAPS, [zcdp_charge(rho) for rho in rhos])
    left = remaining(CAPS, spent, delta)
    if left.delta == 0 < left.epsilon:
        assert admits(CAPS, spent, pure_charge(left.epsilon))
    elif left.epsilon:
        at = 5e-7 if delta is None else delta
        assert admits(CAPS, spent, zcdp_charge(rho_for(left.epsilon, at)))
        assert left.epsilon == 3 or not admits(CAPS, spent, zcdp_charge(rho_for(left.epsilon * 1.00001, at)))


def test_the_better_filter_is_shown() -> None:
    spent = Spent().after(pure_charge(2))
    assert spent_as(CAPS, spent).epsilon == 2
    assert remaining(CAPS, spent).epsilon == pytest.approx(1)
    many = spend(CAPS, [pure_charge(0.01)] * 300)
    assert spent_as(CAPS, many).epsilon < 3
    assert remaining(CAPS, many).epsilon > 1


def test_an_impure_past_under_a_cap_lowered_to_pure_is_infinite() -> None:
    spent = Spent().after(zcdp_charge(0.01))
    assert spent_as(PURE, spent).epsilon == math.inf
    assert remaining(PURE, spent).epsilon == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (1, 1), (1, -1e-9)])
def test_meaningless_caps_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ProgrammingError, match="cap on"):
        Caps(epsilon, delta)
