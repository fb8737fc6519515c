"""A share of a budget is a charge: shares that add up to the whole are all admitted, and what is left can be asked for."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.budget import Caps, Charge, Spent, limits, pure_rho, remaining
from dpsql.budget.accountant import admits
from dpsql.budget.costs import share_down, share_left, share_spent, share_text
from dpsql.budget.shares import largest_share, share_of, share_price
from dpsql.mechanisms.exact_numbers import UNIT, exact, units_up
from dpsql.options import read_share

CAPS = (Caps(8, Decimal("1e-6")), Caps(3), Caps(Decimal("0.7"), Decimal("1e-9")), Caps(100, Decimal("0.01")))
PERCENT = Fraction(1, 100)


def dearest(caps: Caps, share: Fraction, mechanism: str) -> Charge:
    """The most that a query at this share may be charged."""
    price = share_price(caps, share)
    if price.rho is None:
        return Charge(units_up(pure_rho(price.epsilon)), 0, units_up(price.epsilon))
    rho = price.rho if mechanism == "gaussian" else pure_rho(price.epsilon)
    return Charge(units_up(rho), units_up(price.delta / 2))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.parametrize("parts", [3, 7, 100, 999])
def test_shares_that_add_up_to_the_whole_are_all_admitted(caps: Caps, parts: int, mechanism: str) -> None:
    charge, spent = dearest(caps, Fraction(1, parts), mechanism), Spent()
    for _ in range(parts):
        assert admits(caps, spent, charge)
        spent = spent.after(charge)
    if mechanism == "gaussian" or caps.delta == 0:
        assert not admits(caps, spent, charge)
        assert 1 - PERCENT**9 < share_of(limits(caps), spent) <= 1


@pytest.mark.parametrize("caps", CAPS)
def test_a_share_rounds_towards_the_budget_not_beyond_it(caps: Caps) -> None:
    for share in (Fraction(1, 3), Fraction(2, 7), Fraction(1)):
        assert share_of(limits(caps), dearest(caps, share, "gaussian")) <= share
        assert share_of(limits(caps), dearest(caps, share, "gaussian")) > share - PERCENT**9


@pytest.mark.parametrize("caps", CAPS[:1] + CAPS[2:])
def test_delta_rides_along_and_never_binds_first(caps: Caps) -> None:
    charge = dearest(caps, 7 * PERCENT, "gaussian")
    half = limits(caps).delta
    assert abs(Fraction(charge.delta, half) - 7 * PERCENT) < PERCENT**9
    assert Fraction(charge.delta, half) <= 7 * PERCENT


def test_the_limit_of_a_query_is_a_share_too() -> None:
    caps = Caps(8, Decimal("1e-6"))
    assert largest_share(caps, Fraction(8), Fraction(Decimal("1e-6"))) == 1
    most = largest_share(caps, Fraction(2), Fraction(Decimal("1e-6")))
    price = share_price(caps, most).rho
    assert price is not None
    assert most < Fraction(1, 4)
    assert remaining(caps, Spent(), Decimal("1e-6")).rho - float(price) >= 0
    assert largest_share(Caps(3), Fraction(1), Fraction(0)) == Fraction(1, 3)
    assert largest_share(caps, Fraction(1), Fraction(0)) == Fraction(pure_rho(1)) / (limits(caps).rho or 0) / UNIT


@pytest.mark.parametrize("text", ["2%", " 2 %", "2.0%", "1e-3%", "100%"])
def test_a_share_is_read_as_it_is_written(text: str) -> None:
    assert read_share(text) == Fraction(Decimal(text.strip().removesuffix("%").strip())) / 100


@pytest.mark.parametrize(
    "text", ["2", "%", "0%", "-1%", "101%", "nan%", "inf%", "1e99999999%", "9" * 50 + "%", 2, None]
)
def test_anything_else_is_not_a_share(text: Any) -> None:
    with pytest.raises(dpsql.InterfaceError, match="is not a share of the budget") as caught:
        read_share(text)
    assert '"2%"' in str(caught.value.hint)


def test_shares_as_people_see_them() -> None:
    assert share_text(0.01) == "1.00%"
    assert share_text(Fraction(85, 10_000)) == "0.85%"
    assert share_text(Fraction(1, 30_000)) == "0.0033%"
    assert share_text(0) == "0.00%"
    assert share_down(Fraction(2, 3)) == "66.66%"
    assert share_down(Fraction(2, 30_000)) == "0.0066%"
    for spent in (0, 0.1, 0.7, 0.9, Fraction(1, 3), 0.99996, 1):
        spent_text, left = share_spent(spent), share_left(spent)
        assert Decimal(spent_text[:-1]) + Decimal(left[:-1]) == 100
        assert Decimal(left[:-1]) <= 100 - 100 * exact(spent)
    assert share_left(Fraction(3, 2)) == "0.00%" and share_spent(Fraction(3, 2)) == "150.00%"


# through a connection ------------------------------------------------------------------------------------------------

SQL = "SELECT count(*) AS n FROM t"


def connect(delta: float = 1e-6, **more: Any) -> dpsql.Connection:
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 8, "delta": delta, **more.pop("budget", {})},
        "tables": {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"x": {"min": 0, "max": 10}, "k": {}}}},
        **more,
    }
    rows = pd.DataFrame({"u": range(60), "x": [1.0] * 60, "k": [f"k{i % 2}" for i in range(60)]})
    return dpsql.connect({"t": rows}, policy=policy, ledger=":memory:", analyst="ana")


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_ten_tenths_are_answered_and_no_more(delta: float) -> None:
    with connect(delta) as db:
        costs = [db.query(f"{SQL} WHERE x > {i}", price="10%").cost.share for i in range(10)]
        assert costs == pytest.approx([0.1] * 10, rel=1e-5)
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(f"{SQL} WHERE x < 5", price="0.01%")


@pytest.mark.parametrize(
    "sql", [SQL, "SELECT k, count(*) AS n FROM t GROUP BY k", "SELECT k, median(x) FROM t GROUP BY k"]
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_query_costs_at_most_what_was_asked(sql: str, mechanism: str) -> None:
    with connect() as db:
        foreseen = db.explain(sql, price="20%", mechanism=mechanism).cost
        cost = db.query(sql, price="20%", mechanism=mechanism).cost
        assert cost == foreseen
        assert cost.share is not None
        assert cost.share <= 0.2
        assert mechanism == "laplace" or cost.share > 0.2 - 1e-4


def test_every_way_to_name_a_price_is_the_same_query() -> None:
    with connect() as db:
        cost = db.query(SQL, price="2%").cost
        assert db.query(f"{SQL} /*+ price(2%) */").replayed
        assert db.settle("SET dpsql.price = '2%'")
        assert db.query(SQL).replayed
        assert db.explain(SQL).cost == cost
        assert db.settle("SET dpsql.epsilon = 0.5")
        assert db.explain(SQL).cost.epsilon == 0.5
        assert db.settle("SET dpsql.price = 2%")
        assert db.explain(SQL).cost == cost
        assert db.explain(SQL, epsilon=0.5).cost.epsilon == 0.5
        assert db.settle("RESET dpsql.price")


def test_two_prices_are_refused() -> None:
    with connect() as db:
        with pytest.raises(dpsql.InterfaceError, match="two prices"):
            db.query(SQL, price="2%", epsilon=1)
        with pytest.raises(dpsql.ParseError, match="two hints give the price two values"):
            db.query(f"{SQL} /*+ price(2%) epsilon(1) */")
        with pytest.raises(dpsql.ParseError, match="not a share"):
            db.settle("SET dpsql.price = 2")


def test_a_price_above_the_limit_of_a_query_is_refused_and_the_limit_is_answered() -> None:
    with connect(limits={"epsilon": 1, "delta": 1e-7}) as db:
        with pytest.raises(dpsql.PolicyError, match="one query may cost up to") as caught:
            db.query(SQL, price="50%")
        most = str(caught.value.hint).split('"')[1]
        assert db.query(SQL, price=most).cost.share == pytest.approx(float(read_share(most)), rel=1e-5)


def test_a_share_is_of_the_analysts_own_budget() -> None:
    with connect(budget={"analysts": {"ana": {"epsilon": 2}}}) as db:
        cost = db.query(SQL, price="100%").cost
        assert cost.share == pytest.approx(1, rel=1e-5)
        assert cost.rho < 0.2
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(f"{SQL} WHERE x > 1", price="1%")


def test_an_accuracy_costs_at_most_the_price() -> None:
    with connect() as db:
        assert (db.query(SQL, accuracy=20, price="5%").cost.share or 1) <= 0.05
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(SQL, accuracy=1, price="0.1%")
