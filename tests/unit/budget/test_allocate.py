"""What a query asks for is what it is charged: every share of it is paid for, once, and nothing is left over."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import dpsql
from dpsql.budget import FREE, epsilon_for, rho_for
from dpsql.budget.pricing import (
    ENDS,
    GAUSSIAN_STEPS,
    LAPLACE_STEPS,
    TOTAL,
    UNIT_STEPS,
    Portion,
    Priced,
    _scale,
    _unit_noise,
    charge_of,
    cost_of,
    price_release,
)
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, threshold
from dpsql.mechanisms.exact_numbers import UNIT
from dpsql.sensitivity.claim import one_coordinate

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-4},
    "limits": {"epsilon": 100, "delta": 1e-4},
    "tables": {
        "t": {
            "unit": "id",
            "max_rows_per_unit": 5,
            "max_groups_per_unit": 3,
            "columns": {
                "k": {},
                "kind": {"values": ["a", "b", "c"]},
                "x": {"min": -3, "max": 100},
                "n": {"min": 0, "max": 15},
            },
        },
    },
}  # fmt: skip
ONE, TWO = "SELECT k, count(*) AS n FROM t GROUP BY k", "SELECT k, sum(x) AS s FROM t GROUP BY k"
QUERIES = {
    "one count": ("SELECT count(*) FROM t", 0),
    "several statistics": ("SELECT kind, count(*), sum(x), avg(x), count(DISTINCT n) FROM t GROUP BY kind", 0),
    "units": ("SELECT kind, count(DISTINCT id), sum(x) FROM t GROUP BY kind", 0),
    "private keys": (TWO, 1),
    "two selections": (f"SELECT n, s FROM ({ONE}) AS a JOIN ({TWO}) AS b USING (k)", 2),
    "choices": ("SELECT kind, median(x), max(n), mode(kind), count(*) FROM t GROUP BY kind", 0),
    "choices of private groups": ("SELECT k, median(x), count(*) FROM t GROUP BY k", 1),
    "a tree": (f"SELECT count(*), {', '.join(f'quantile_cont(n, 0.{q})' for q in range(1, 10))} FROM t", 0),
    "choices and a tree": (
        f"SELECT sum(x), count(DISTINCT kind), median(x), max(x), {', '.join(f'quantile_cont(n, 0.{q})' for q in range(1, 10))} FROM t",
        0,
    ),
    "a nested result": ("SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t)", 0),
}
EPSILON, DELTA = Fraction(3, 4), Fraction(1, 10**6)


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    import pandas as pd

    rows = pd.DataFrame({"id": [1, 2], "k": ["p", "q"], "kind": ["a", "b"], "x": [1.5, 2.5], "n": [1, 2]})
    with dpsql.connect({"t": rows}, policy=POLICY, ledger=":memory:") as connection:
        yield connection


def priced(db: dpsql.Connection, sql: str, mechanism: str) -> tuple[Priced, ...]:
    return db.prepare(sql, epsilon=float(EPSILON), delta=float(DELTA), mechanism=mechanism).bill.releases


def test_the_queries_have_all_that_is_paid_for(db: dpsql.Connection) -> None:
    made = [each for sql, _ in QUERIES.values() for each in priced(db, sql, "gaussian")]
    assert all(
        any(map(bool, parts)) for parts in zip(*((p.noised, p.selection, p.chosen, p.trees) for p in made), strict=True)
    )
    assert len(priced(db, QUERIES["two selections"][0], "laplace")) == 2
    [every] = priced(db, QUERIES["choices and a tree"][0], "laplace")
    assert [len(parts) for parts in (every.bounded.shares, every.chosen, every.trees)] == [2, 2, 1]


@pytest.mark.parametrize("name", QUERIES)
def test_gaussian_noise_is_charged_what_was_asked_for(db: dpsql.Connection, name: str) -> None:
    sql, selections = QUERIES[name]
    charge = charge_of(priced(db, sql, "gaussian"))
    slack = DELTA / 2 if selections else Fraction(0)
    asked = rho_for(EPSILON, DELTA - slack)
    assert charge is not None and charge.epsilon is None
    assert asked * Fraction(99, 100) < charge.rho * UNIT <= asked
    assert charge.delta * UNIT == slack


@pytest.mark.parametrize("name", QUERIES)
def test_laplace_noise_is_charged_what_was_asked_for(db: dpsql.Connection, name: str) -> None:
    sql, selections = QUERIES[name]
    releases = priced(db, sql, "laplace")
    charge = charge_of(releases)
    assert charge is not None
    assert charge.delta * UNIT == (DELTA if selections else 0)
    if selections:
        assert charge.epsilon is None
    else:
        assert charge.epsilon is not None
        assert EPSILON * Fraction(99, 100) < charge.epsilon * UNIT <= EPSILON


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", QUERIES)
def test_each_share_has_the_least_noise_that_its_portion_buys(db: dpsql.Connection, name: str, mechanism: str) -> None:
    for each in priced(db, QUERIES[name][0], mechanism):
        _spends_its_portions(each, mechanism)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", QUERIES)
def test_each_share_has_its_own_portion_where_they_differ(db: dpsql.Connection, name: str, mechanism: str) -> None:
    """As an accuracy asks for them: each portion is another one, and none is taken for its neighbour's."""
    for each in priced(db, QUERIES[name][0], mechanism):
        parts = tuple(part * (place + 1) for place, part in enumerate(each.portion.parts))
        portion = Portion(mechanism, sum(parts, Fraction(0)), parts, each.portion.tail, exact=True)
        made = price_release(each.bounded, portion)
        assert len(made.chosen) == len(each.chosen) and len(made.trees) == len(each.trees)
        _spends_its_portions(made, mechanism)


def _spends_its_portions(each: Priced, mechanism: str) -> None:
    bounded, parts = each.bounded, iter(each.portion.parts)
    for share, _ in bounded.shares:
        portion = next(parts)
        for index in share:
            _costs(each.noised[index], portion)
    for chosen in each.chosen:
        portion, laws = next(parts), [(chosen.law, chosen.spread)]
        assert chosen.total is not None and (chosen.ends is not None) == (chosen.choice.kind == "quantile")
        _costs(chosen.total, portion * TOTAL[mechanism])
        left = [1 - TOTAL[mechanism]]
        if chosen.ends is not None:
            laws.append((chosen.ends.law, chosen.ends.spread))
            left = [1 - TOTAL[mechanism] - ENDS[mechanism], ENDS[mechanism]]
        for (law, spread), part in zip(laws, left, strict=True):
            cost = law.epsilon(spread) if mechanism == "laplace" else law.rho(spread)
            assert portion * part * Fraction(99, 100) < cost <= portion * part
    for tree in each.trees:
        _costs(tree, next(parts))
    if each.selection is not None:
        _costs(each.selection, next(parts))
        assert bounded.selection is not None
        assert each.threshold == threshold(each.selection.noise, bounded.selection.weights, float(each.tail))
    assert next(parts, None) is None


def _costs(noised: Any, portion: Fraction) -> None:
    """All but a hundredth of the portion, and no more."""
    noise = noised.noise
    if isinstance(noise, DiscreteGaussian):
        cost = noise.rho(noised.joint.l2)
    else:
        assert isinstance(noise, DiscreteLaplace)
        cost = noise.epsilon(noised.joint.l1)
    assert portion * Fraction(99, 100) < cost <= portion


def test_a_choice_beside_gaussian_noise_costs_what_was_asked(db: dpsql.Connection) -> None:
    """Alone, too: ε stands for ρ at the δ of the query. Its noisy total is Gaussian, so the event is not pure."""
    bill = db.prepare("SELECT median(x) FROM t", epsilon=float(EPSILON), delta=float(DELTA), mechanism="gaussian").bill
    charge, asked = charge_of(bill.releases), rho_for(EPSILON, DELTA)
    assert (bill.cost.epsilon, bill.cost.delta) == (float(EPSILON), float(DELTA))
    assert charge is not None and charge.epsilon is None
    assert asked * Fraction(99, 100) < charge.rho * UNIT <= asked


def test_a_public_list_of_keys_costs_nothing(db: dpsql.Connection) -> None:
    [each] = priced(db, "SELECT kind FROM t GROUP BY kind", "gaussian")
    assert each.free and charge_of([each]) is None


@pytest.mark.parametrize(("mechanism", "bits"), [("laplace", 30), ("gaussian", 20)])
def test_a_sum_is_on_a_grid_that_is_fine_beside_its_noise(db: dpsql.Connection, mechanism: str, bits: int) -> None:
    """A scale of so many steps at least: a coarser grid would round values by what shows beside their noise."""
    [each] = priced(db, "SELECT sum(x) FROM t", mechanism)
    assert all(2**bits <= noised.noise.scale for noised in each.noised)


@pytest.mark.parametrize("name", [name for name, (_, selections) in QUERIES.items() if selections])
def test_private_keys_are_refused_without_delta(db: dpsql.Connection, name: str) -> None:
    with pytest.raises(UnsupportedQuery, match="not known in advance: showing them needs delta > 0"):
        db.prepare(QUERIES[name][0], epsilon=float(EPSILON), delta=0, mechanism="laplace")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", ["two selections", "a nested result"])
def test_a_query_costs_what_was_asked_and_a_part_of_it_its_own_noise(
    db: dpsql.Connection, name: str, mechanism: str
) -> None:
    bill = db.prepare(QUERIES[name][0], epsilon=float(EPSILON), delta=float(DELTA), mechanism=mechanism).bill
    asked, tail = (float(EPSILON), float(DELTA)), bill.releases[0].tail
    whole, part, none = cost_of(bill, bill.releases), cost_of(bill, bill.releases[:1]), cost_of(bill, ())
    assert bill.cost == whole and none == FREE
    charge = charge_of(bill.releases[:1])
    assert charge is not None and part.rho == pytest.approx(charge.rho * float(UNIT))
    if mechanism == "laplace":
        assert (whole.epsilon, whole.delta) == (asked[0], asked[1] if tail else 0.0)
        assert part.epsilon == pytest.approx(float(bill.releases[0].price)) and part.epsilon < 0.7 * asked[0]
        assert part.delta == float(tail)
    else:
        assert (whole.epsilon, whole.delta) == asked
        assert (part.epsilon, part.delta) == (epsilon_for(part.rho, DELTA / 2), float(DELTA / 2 + tail))


CLAIMS = {
    "laplace": [(l1, Fraction(l1, LAPLACE_STEPS)) for l1 in (2**10, 3 * 2**8, UNIT_STEPS)],
    "gaussian": [(l1, Fraction(l1**2, 2 * (GAUSSIAN_STEPS - 1) ** 2)) for l1 in (2**10, 3 * 2**8)],
}


@pytest.mark.parametrize(("mechanism", "l1", "edge"), [(m, *each) for m, claims in CLAIMS.items() for each in claims])
def test_the_grid_is_the_finest_whose_scale_stays_below_its_limit(mechanism: str, l1: int, edge: Fraction) -> None:
    """At a scale of exactly so many steps the grid is coarser by one power of two; at any less it is not."""
    more = edge * Fraction(10**9 + 1, 10**9)
    assert [_scale(one_coordinate(l1), each, mechanism)[1] for each in (more, edge)] == [0, 1]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_unit_adds_at_most_so_many_steps_however_large_the_price(mechanism: str) -> None:
    for size, shift in ((UNIT_STEPS, 0), (UNIT_STEPS + 1, 1), (2 * UNIT_STEPS, 1), (2 * UNIT_STEPS + 1, 2)):
        assert _scale(one_coordinate(size), Fraction(10**30), mechanism)[1] == shift
    with pytest.raises(UnsupportedQuery, match="too large to draw"):
        _scale(one_coordinate(5), Fraction(1, 10**20), mechanism)


@pytest.mark.parametrize("price", [Fraction(1, 50), Fraction(1, 3), Fraction(2)])
def test_the_noise_of_a_clip_of_one_is_that_of_the_law(price: Fraction) -> None:
    """A clip of so many steps that the grid does not show."""
    steps = 2**20
    laplace = DiscreteLaplace.for_epsilon(steps, price).variance() ** 0.5 / steps
    gaussian = float(DiscreteGaussian.for_rho(2**6, price / 2**10).variance() ** 0.5) / 2**11
    assert _unit_noise(price, "laplace") == pytest.approx(laplace, rel=1e-3)
    assert _unit_noise(price, "gaussian") == pytest.approx(gaussian, rel=1e-3)
