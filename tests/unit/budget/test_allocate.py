"""What a query asks for is what it is charged: every share of it is paid for, once, and nothing is left over."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import dpsql
from dpsql.budget import rho_for
from dpsql.budget.allocate import Priced, charge_of
from dpsql.errors import UnsupportedQuery
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, threshold
from dpsql.mechanisms.exact import UNIT

POLICY: dict[str, Any] = {
    "dataset": "d",
    "budget": {"epsilon": 1000, "delta": 1e-4},
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
    return db.prepare(sql, float(EPSILON), float(DELTA), mechanism).bill.releases


def test_the_queries_have_all_that_is_paid_for(db: dpsql.Connection) -> None:
    made = [each for sql, _ in QUERIES.values() for each in priced(db, sql, "gaussian")]
    assert all(
        any(map(bool, parts)) for parts in zip(*((p.noised, p.selection, p.chosen, p.trees) for p in made), strict=True)
    )
    assert len(priced(db, QUERIES["two selections"][0], "laplace")) == 2


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
        bounded, parts = each.bounded, iter(each.portion.parts)
        for share, _ in bounded.shares:
            portion = next(parts)
            for index in share:
                _costs(each.noised[index], portion)
        for chosen in each.chosen:
            portion, law = next(parts), chosen.law
            cost = law.epsilon(chosen.spread) if mechanism == "laplace" else law.rho(chosen.spread)
            assert portion * Fraction(99, 100) < cost <= portion
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
        db.prepare(QUERIES[name][0], float(EPSILON), 0, "laplace")
