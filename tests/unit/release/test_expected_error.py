"""The inverse of an accuracy: which error a price gives, before anything is touched."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpsql

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 50, "delta": 1e-6},
    "replay": False,
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10, "nulls": False}}}},
}
SQL = "SELECT count(*) AS n, sum(x) AS s, avg(x) AS a, sum(x) / count(*) AS r FROM t"


@pytest.fixture
def db() -> dpsql.Connection:
    frame = pd.DataFrame({"u": np.arange(4_000), "x": np.tile([4.0, 6.0], 2_000)})
    return dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_counts_sums_and_averages_err_as_expected(db: dpsql.Connection, mechanism: str) -> None:
    plan = db.explain(SQL, epsilon=0.5, mechanism=mechanism)
    expected = plan.expected_error(0.9, n=4_000)
    bars = db.query(SQL, epsilon=0.5, mechanism=mechanism).intervals(0.9)
    for name in "nsa":
        width = (bars[f"{name}_high"][0] - bars[f"{name}_low"][0]) / 2
        assert width == pytest.approx(expected[name], rel=0.05, abs=0.5 if name != "a" else 0)
    assert expected["r"] is None


def test_an_average_needs_n_and_errs_less_with_more_rows_and_a_higher_price(db: dpsql.Connection) -> None:
    plan = db.explain(SQL, epsilon=0.5)
    assert plan.expected_error(0.95)["a"] is None
    few, many = (plan.expected_error(n=n)["a"] for n in (1_000, 10_000))
    dear = db.explain(SQL, epsilon=2).expected_error(n=1_000)["a"]
    assert few is not None and many is not None and dear is not None
    assert many == pytest.approx(few / 10, rel=0.05)
    assert dear < few / 3
    assert plan.expected_error(0.99)["n"] > plan.expected_error(0.9)["n"]  # type: ignore[operator]


def test_accuracy_and_expected_error_are_inverse(db: dpsql.Connection) -> None:
    for mechanism in ("laplace", "gaussian"):
        plan = db.explain("SELECT sum(x) AS s FROM t", accuracy=dpsql.Within(700, 0.9), mechanism=mechanism)
        assert plan.expected_error(0.9)["s"] == pytest.approx(700, rel=1e-4)


@pytest.mark.parametrize(("confidence", "n"), [(0, None), (1, None), (0.95, 0), (0.95, -3)])
def test_nonsense_is_refused(db: dpsql.Connection, confidence: float, n: float | None) -> None:
    with pytest.raises(dpsql.InterfaceError, match="no expected error"):
        db.explain(SQL).expected_error(confidence, n)
