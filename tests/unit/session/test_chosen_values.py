"""Chosen values through the whole flow: one query for all of them, replay, parts of earlier releases, price, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, datetime

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.answers.chosen_values import chosen_values, grid_of
from dpsql.budget.pricing import charge_of
from dpsql.mechanisms.exact_numbers import UNIT

POLICY = {
    "dataset": "shop",
    "search": False,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "limits": {"epsilon": 10},
    "defaults": {"epsilon": 1, "delta": 1e-8},
    "tables": {
        "visits": {
            "unit": "row",
            "columns": {"minutes": {"min": 0, "max": 120}, "page": {"values": ["home", "shop"]}, "agent": {}},
        }
    },
}


def connect(rows: int = 2_000, **policy: object) -> dpsql.Connection:
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE visits AS SELECT (i * 7919) % 121 AS minutes, CASE WHEN i % 3 = 0 THEN 'home' ELSE 'shop' END "
        f"AS page, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS agent FROM range({rows}) AS t(i)"
    )
    return dpsql.connect(database, policy=POLICY | policy, ledger=":memory:")


def test_median_min_max_and_a_count_in_one_query() -> None:
    with connect() as db:
        result = db.query("SELECT median(minutes), min(minutes), max(minutes), count(*) FROM visits", epsilon=10)
        [(median, low, high, count)] = result.fetchall()
        assert result.types == ("DOUBLE", "BIGINT", "BIGINT", "BIGINT")
        assert 0 <= low <= 120 and 0 <= high <= 120 and 0 <= median <= 120
        assert abs(count - 2_000) < 500
        ends = result.intervals()
        assert ends["median(minutes)_low"][0] <= median <= ends["median(minutes)_high"][0]
        assert ends["median(minutes)_high"][0] - ends["median(minutes)_low"][0] < 40 and ends["count(*)_low"][0] < count
        assert (ends["min(minutes)_low"][0], ends["min(minutes)_high"][0]) == (0, low)
        assert (ends["max(minutes)_low"][0], ends["max(minutes)_high"][0]) == (high, 120)
        assert not any("median(minutes)" in note for note in result.notes)
        assert any("the value below which about" in note for note in result.notes)


def test_an_empty_table_has_an_answer_of_the_same_shape() -> None:
    with connect(0) as empty, connect() as full:
        sql = "SELECT page, median(minutes), mode(page) FROM visits GROUP BY page"
        one, two = empty.query(sql), full.query(sql)
        assert [row[0] for row in one.fetchall()] == [row[0] for row in two.fetchall()]
        assert all(row[1] is None or 0 <= row[1] <= 120 for row in one.fetchall())
        assert all(row[2] in (None, "home", "shop") for row in one.fetchall())
        assert (one.types, one.cost) == (two.types, two.cost)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregate", ["median(minutes)", "max(minutes)", "mode(page)"])
def test_a_group_with_too_few_values_is_null_and_the_notes_tell(mechanism: str, aggregate: str) -> None:
    sql = f"SELECT page, {aggregate} AS v FROM visits GROUP BY page"
    with connect(0) as empty:
        results = [empty.query(sql, epsilon=1 + i / 100, mechanism=mechanism) for i in range(20)]
    shown = [row[1] for result in results for row in result.fetchall()]
    assert sum(value is not None for value in shown) <= 8, "an empty group has a value in 2.5% of cases"
    result = next(each for each in results if each.fetchall()[0][1] is None)
    assert any(f"{aggregate} is NULL in" in note and "too few values" in note for note in result.notes)
    assert all(math.isnan(end) for end in result.intervals().iloc[0])
    with connect(20_000) as full:
        assert all(row[1] is not None for row in full.query(sql, epsilon=10, mechanism=mechanism).fetchall()[:2])


def test_the_interval_of_a_quantile_is_replayed_and_widens_with_the_confidence() -> None:
    with connect() as db:
        sql = "SELECT page, median(minutes) AS m FROM visits GROUP BY page"
        first, again = db.query(sql), db.query(sql)
        assert again.replayed and again.intervals().equals(first.intervals())
        part = db.query("SELECT median(minutes) AS m FROM visits WHERE page = 'home' GROUP BY page")
        assert part.replayed and part.intervals().iloc[0].tolist() == first.intervals().iloc[0].tolist()
        widths = [
            (found["m_high"] - found["m_low"]).sum()
            for found in (first.intervals(confidence) for confidence in (0.5, 0.95, 0.999))
        ]
        assert widths[0] <= widths[1] <= widths[2] and widths[0] < widths[2]
        assert first.bars()[1] is not None and first.bars()[1][0][0] == first.intervals()["m_low"][0]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_interval_of_a_quantile_is_part_of_its_price(mechanism: str) -> None:
    with connect() as db:
        asked = {"epsilon": 1.0, "delta": 1e-8, "mechanism": mechanism}
        [priced] = db.prepare("SELECT median(minutes) FROM visits", **asked).bill.releases
        [bare] = [replace(each, ends=None, total=None) for each in priced.chosen]
        whole, part = (charge_of([each]) for each in (priced, replace(priced, chosen=(bare,))))
        assert whole is not None and part is not None
        if mechanism == "laplace":
            assert 0.999 < whole.epsilon * UNIT <= 1 and part.epsilon * UNIT == pytest.approx(0.77, rel=1e-3)
        else:
            rho = float(priced.price)
            assert 0.999 * rho < whole.rho * UNIT <= rho * 1.000001
            assert float(part.rho * UNIT) == pytest.approx(0.6 * rho, rel=1e-3)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_choice_is_replayed_in_every_spelling(mechanism: str) -> None:
    with connect() as db:
        first = db.query("SELECT page, median(minutes) AS m FROM visits GROUP BY page", mechanism=mechanism)
        for spelt in ("quantile_cont(minutes, 0.5)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY minutes)"):
            again = db.query(f"SELECT page, {spelt} AS m FROM visits GROUP BY 1 ORDER BY m", mechanism=mechanism)
            assert again.replayed and set(again.fetchall()) == set(first.fetchall())
        assert not db.query(
            "SELECT page, quantile_cont(minutes, 0.4) FROM visits GROUP BY 1", mechanism=mechanism
        ).replayed


def test_a_part_of_an_earlier_release_is_the_same_choice_and_no_other_aggregate_is_told_by_it() -> None:
    with connect() as db:
        first = db.query("SELECT page, median(minutes), max(minutes), sum(minutes) FROM visits GROUP BY page")
        part = db.query("SELECT page, max(minutes) FROM visits GROUP BY page")
        assert part.replayed and part.fetchall() == [(row[0], row[2]) for row in first.fetchall()]
        home = db.query("SELECT page, median(minutes) FROM visits WHERE page = 'home' GROUP BY page")
        assert home.replayed and home.fetchall() == [first.fetchall()[0][:2]]
        for other in ("min(minutes)", "mode(minutes)", "quantile_disc(minutes, 0.5)", "count(*)", "avg(minutes)"):
            assert not db.query(f"SELECT page, {other} FROM visits GROUP BY page").replayed, other


def test_a_choice_costs_what_was_asked_and_is_pure_where_all_noise_is() -> None:
    with connect(budget={"epsilon": 2}, limits={"epsilon": 2}, defaults={"epsilon": 1}) as db:
        cost = db.query("SELECT median(minutes), count(*) FROM visits", epsilon=1, delta=0).cost
        assert (cost.epsilon, cost.delta) == (1.0, 0.0)
        db.query("SELECT mode(page) FROM visits", epsilon=1, delta=0)
        with pytest.raises(dpsql.BudgetExceeded):
            db.query("SELECT min(minutes) FROM visits", epsilon=0.01, delta=0)


def test_private_groups_are_chosen_for_only_where_they_are_shown() -> None:
    with connect() as db:
        rows = db.query("SELECT agent, median(minutes) FROM visits GROUP BY agent", epsilon=10).fetchall()
        assert {row[0] for row in rows} <= {"a", "b"}
        assert all(0 <= row[1] <= 120 for row in rows)


def test_an_accuracy_is_about_columns_with_error_bars() -> None:
    with connect() as db:
        with pytest.raises(dpsql.Error, match="off in its rank"):
            db.query("SELECT median(minutes) AS m FROM visits", accuracy=5)
        with pytest.raises(dpsql.Error, match="no column m with noise"):
            db.query("SELECT count(*) AS n, median(minutes) AS m FROM visits", accuracy={"m": 5})
        result = db.query("SELECT count(*) AS n, median(minutes) AS m FROM visits", accuracy={"n": 50})
        ends = result.intervals()
        assert ends["n_high"][0] - ends["n_low"][0] <= 100


def test_explain_tells_the_grid_and_the_rank() -> None:
    with connect() as db:
        plan = db.explain("SELECT median(minutes) FROM visits", epsilon=1, mechanism="laplace")
        [choice] = plan.releases[0].choices
        assert (choice.mechanism, choice.cells, choice.lowest, choice.highest) == ("exponential", 121, 0, 120)
        assert choice.sensitivity == 0.5 and choice.scale == pytest.approx(1 / 0.77)
        assert choice.expected_error(0.95) == pytest.approx(math.log(121 / 0.05) / 0.77, abs=0.5)
        assert plan.expected_error() == {"median(minutes)": None}
        assert "one of 121 values, 0 to 120" in str(plan)


@pytest.mark.parametrize(
    ("aggregate", "kind", "ends"),
    [
        ("median(day)", "TIMESTAMP", [datetime(2020, 1, 1), datetime(2020, 1, 30)]),
        ("min(day)", "DATE", [date(2020, 1, 1), date(2020, 1, 30)]),
        ("median(n)", "DOUBLE", [0.0, 9.0]),
        ("max(n)", "BIGINT", [0, 9]),
    ],
)
def test_the_cells_of_a_choice_are_values_of_its_own_type(aggregate: str, kind: str, ends: list[object]) -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE births (day DATE, n BIGINT)")
    columns = {"day": {"min": "2020-01-01", "max": "2020-01-30"}, "n": {"min": 0, "max": 9}}
    policy = POLICY | {"tables": {"births": {"unit": "row", "columns": columns}}}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as db:
        prepared = db.prepare(f"SELECT {aggregate} FROM births", epsilon=1.0, mechanism="laplace")
        [priced] = prepared.bill.releases
        [source], [made] = priced.bounded.sources, priced.bounded.release.aggregates
        cells = np.array([0, grid_of(priced, source).cells - 1])
        values = chosen_values(priced, source, made, [cells]).tolist()
    assert prepared.types == (kind,)
    assert values == ends and [type(each) for each in values] == [type(each) for each in ends]


@pytest.mark.parametrize(("column", "half"), [("x", 0.5 / 2**16), ("n", 0.0)])
def test_the_interval_of_a_quantile_from_a_tree_holds_the_whole_cell(column: str, half: float) -> None:
    """Next to no noise: what is left is that a cell of a fine grid stands for all values in it."""
    data = duckdb.connect()
    data.execute("CREATE TABLE points AS SELECT (i + 0.5) / 3001 AS x, i % 256 AS n FROM range(3001) AS t(i)")
    columns = {"x": {"min": 0, "max": 1}, "n": {"min": 0, "max": 255}}
    policy = POLICY | {
        "tables": {"points": {"unit": "row", "columns": columns}},
        "budget": {"epsilon": 1e6, "delta": 1e-6},
    }
    places = ", ".join(f"quantile_cont({column}, {i / 100}) AS q{i}" for i in range(1, 100))
    with dpsql.connect(data, policy=policy | {"limits": {"epsilon": 1e6}}, ledger=":memory:") as db:
        result = db.query(f"SELECT {places} FROM points", epsilon=1e6, delta=0)
        ends, row = result.intervals(), result.fetchall()[0]
    for i, value in enumerate(row, start=1):
        low, high = ends[f"q{i}_low"][0], ends[f"q{i}_high"][0]
        assert (value - low, high - value) == pytest.approx((half, half), rel=1e-3)
