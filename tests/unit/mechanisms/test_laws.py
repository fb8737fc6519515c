"""The laws that need no mechanism, each compared with the divergence of mechanisms that obey it."""

from __future__ import annotations

import math
from functools import reduce
from itertools import pairwise

import pytest
from scipy import stats

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import (
    FiniteLaw,
    Guarantee,
    NameAndShame,
    RandomizedResponse,
    advanced,
    basic,
    curve_delta,
    curve_epsilon,
    curve_rho,
    default_delta,
    delta_between,
    delta_for,
    delta_for_risk,
    epsilon_for,
    global_sensitivity,
    group,
    local_sensitivity,
    parallel,
    pure_curve,
    pure_rho,
    repeated,
    somebody_is_shamed,
    together,
    zcdp_curve,
)
from dpsql.mechanisms.textbook.rdp import ORDERS


def repeated_response(epsilon: float, k: int, truth: bool) -> FiniteLaw:
    """How many of k answers are yes: it tells as much as the answers themselves."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    yes = p if truth else 1 - p
    return FiniteLaw({i: float(stats.binom.pmf(i, k, yes)) for i in range(k + 1)})


def test_post_processing_never_grows() -> None:
    response = RandomizedResponse(1, values=range(6))
    one, two = response.law(0), response.law(5)
    for epsilon in (0, 0.3, 0.9):
        before = delta_between(one, two, epsilon)
        after = delta_between(one.after(lambda v: v in (0, 1)), two.after(lambda v: v in (0, 1)), epsilon)
        assert after.value <= before.value + 1e-15
    assert delta_between(one.after(lambda v: "x"), two.after(lambda v: "x"), 0).value < 1e-15


def test_group_privacy() -> None:
    assert group(Guarantee(0.5, 1e-6), 3) == Guarantee(1.5, 3 * math.exp(1.0) * 1e-6)
    assert group(Guarantee(0.5), 3) == Guarantee(1.5, 0)
    shame = NameAndShame(0.01)
    two = delta_between(shame.law(["a", "b"]), shame.law(["x", "y"]), 0)
    assert 0.019 < two.value <= group(Guarantee(0, 0.01), 2).delta


def test_basic_composition_is_tight_for_pure_privacy() -> None:
    response, k = RandomizedResponse(0.4), 4
    one, two = (reduce(FiniteLaw.beside, [response.law(t)] * k) for t in (True, False))
    whole = basic([Guarantee(0.4)] * k)
    assert delta_between(one, two, whole.epsilon).value < 1e-15
    assert delta_between(one, two, 0.99 * whole.epsilon).low > 0


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 100), (0.05, 1000), (0.3, 40)])
def test_advanced_composition_holds_and_beats_basic(epsilon: float, k: int) -> None:
    total = advanced(Guarantee(epsilon), k, 1e-6)
    expected = math.sqrt(2 * k * math.log(1e6)) * epsilon + k * epsilon * (math.exp(epsilon) - 1)
    assert total.epsilon == pytest.approx(min(expected, k * epsilon))
    assert total.epsilon <= k * epsilon
    pair = repeated_response(epsilon, k, True), repeated_response(epsilon, k, False)
    assert delta_between(*pair, total.epsilon).value <= total.delta + 1e-12


def test_advanced_composition_adds_up_the_deltas() -> None:
    assert advanced(Guarantee(0.01, 1e-9), 1000, 1e-6).delta == pytest.approx(1000e-9 + 1e-6)


def test_parallel_composition_counts_the_parts_that_a_unit_is_in() -> None:
    """Orders by month: a customer is in up to twelve parts, so a partition of rows is none of units."""
    months = [Guarantee(0.5, 1e-9)] * 12
    assert parallel(months) == Guarantee(0.5, 1e-9)
    assert parallel(months, parts_per_unit=12) == basic(months)
    assert parallel([Guarantee(1), Guarantee(0.2), Guarantee(0.5)], parts_per_unit=2) == Guarantee(1.5)


def test_renyi_curves_agree_with_the_ledgers_conversion() -> None:
    for rho, delta in ((0.02436, 1e-6), (0.5, 1e-5)):
        assert curve_epsilon(zcdp_curve(rho), delta) == pytest.approx(epsilon_for(rho, delta), rel=2e-3)
        assert curve_epsilon(zcdp_curve(rho), delta) >= epsilon_for(rho, delta) - 1e-9
    assert curve_delta(zcdp_curve(0.1), 2) == pytest.approx(delta_for(0.1, 2), rel=0.05)
    assert curve_rho(zcdp_curve(0.3)) == pytest.approx(0.3)
    assert curve_rho(pure_curve(1)) == pytest.approx(float(pure_rho(1)), rel=2e-3)


def test_a_renyi_curve_bounds_what_it_stands_for() -> None:
    curve, k = repeated(pure_curve(0.2), 50), 50
    assert together(*[pure_curve(0.2)] * 50)(3.0) == pytest.approx(curve(3.0))
    epsilon = curve_epsilon(curve, 1e-5)
    pair = repeated_response(0.2, k, True), repeated_response(0.2, k, False)
    assert delta_between(*pair, epsilon).value <= 1e-5
    assert epsilon < advanced(Guarantee(0.2), k, 1e-5).epsilon


def test_name_and_shame_is_0_delta_private_and_shames() -> None:
    shame, n = NameAndShame(0.1), 4
    one, two = shame.law(["a", "b", "c", "d"]), shame.law(["a", "b", "c", "x"])
    assert delta_between(one, two, 0).value == pytest.approx(0.1)
    assert delta_between(one, two, 5).value == pytest.approx(0.1)
    assert 1 - one.masses[(None,) * n] == pytest.approx(somebody_is_shamed(n, 0.1))
    shown = sum(any(record is not None for record in shame.release(range(n))) for _ in range(2000))
    assert stats.binomtest(shown, 2000, 1 - 0.9**n).pvalue > 1e-6


def test_choosing_delta() -> None:
    n = 1_000_000
    assert n * default_delta(n) == pytest.approx(n**-0.1)
    assert somebody_is_shamed(n, delta_for_risk(n, 0.01)) == pytest.approx(0.01)
    with pytest.raises(ProgrammingError, match="above 1"):
        default_delta(n, power=1)


def test_sensitivities_by_search() -> None:
    """A count, a sum, a mean, a histogram, a median: the claims of the notes."""
    assert global_sensitivity(lambda rows: sum(r > 1 for r in rows), range(3), 3).value == 1
    assert global_sensitivity(sum, range(5), 3).value == 4
    assert global_sensitivity(sum, range(5), 3, neighbours="add-remove").value == 4
    from fractions import Fraction

    assert global_sensitivity(lambda rows: Fraction(sum(rows), len(rows)), (0, 1), 4).value == Fraction(1, 4)
    cells = range(3)
    histogram = lambda rows: [rows.count(c) for c in cells]  # noqa: E731
    assert global_sensitivity(histogram, cells, 3, neighbours="add-remove").value == 1
    assert global_sensitivity(histogram, cells, 3).value == 2
    assert global_sensitivity(histogram, cells, 3, norm=2).value == pytest.approx(math.sqrt(2))
    median = lambda rows: sorted(rows)[1]  # noqa: E731
    assert global_sensitivity(median, (0, 5, 10), 3).value == 10
    assert local_sensitivity(median, (5, 5, 5), (0, 5, 10)).value == 0
    found = global_sensitivity(max, (0, 7), 2)
    assert found.pair is not None and abs(max(found.pair[0]) - max(found.pair[1])) == found.value == 7  # fmt: skip


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1e-9, 0), (math.inf, 0), (math.nan, 0), (1, -1e-9), (1, 1.0000001), (1, 2)]
)
def test_what_no_mechanism_can_have_is_no_guarantee(epsilon: float, delta: float) -> None:
    with pytest.raises(ProgrammingError, match="no guarantee"):
        Guarantee(epsilon, delta)
    assert (Guarantee(0, 0), Guarantee(700, 1)) == (Guarantee(0.0, 0.0), Guarantee(700.0, 1.0))


def test_a_delta_of_one_is_the_most_and_no_epsilon_the_least() -> None:
    """What adds up to more is cut there, in every law."""
    half = Guarantee(0.1, 0.5)
    assert {group(half, 3).delta, basic([half] * 3).delta, parallel([half] * 3, 3).delta} == {1.0}
    assert {advanced(Guarantee(0.001, 0.5), 1000, 1e-6).delta, group(Guarantee(500, 1e-9), 3).delta} == {1.0}
    assert curve_delta(zcdp_curve(100), 0) == 1.0 == curve_delta(zcdp_curve(1e6), 0)
    assert curve_epsilon(zcdp_curve(1e-6), 0.5) == 0.0 < curve_epsilon(zcdp_curve(1e-6), 1e-6) < 0.01


def test_what_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="at least 1"):
        group(Guarantee(1), 0)
    with pytest.raises(ProgrammingError, match="slack"):
        advanced(Guarantee(1), 10, 0)
    with pytest.raises(ProgrammingError, match="too many"):
        global_sensitivity(sum, range(100), 10)
    with pytest.raises(ProgrammingError, match="at least 2"):
        somebody_is_shamed(1, 0.1)


def test_the_orders_reach_from_just_above_1_to_16_385() -> None:
    assert (ORDERS[0], ORDERS[-1]) == (1 + 2**-10, 1 + 2**14)
    assert max(b / a for a, b in pairwise(order - 1 for order in ORDERS)) < 1.05


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_number_of_releases_is_at_least_1(wrong: object) -> None:
    assert repeated(pure_curve(0.2), 1)(3.0) == pure_curve(0.2)(3.0)
    with pytest.raises(ProgrammingError, match="at least 1"):
        repeated(pure_curve(0.2), wrong)  # type: ignore[arg-type]
