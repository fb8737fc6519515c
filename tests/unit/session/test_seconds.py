"""A query that takes longer than the policy allows is stopped, says what every failure says, and stays charged."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

TABLES = {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 1}}}}
QUICK = "SELECT count(*) FROM t"
ENDLESS = "SELECT sum(a.x) FROM t a JOIN t b ON a.u = b.u AND a.x + b.x <> 1.5"
"""One unit with very many rows, each joined with each: hours of work."""


def connect(seconds: int | None) -> dpsql.Connection:
    data = duckdb.connect(config={"threads": 1})
    data.execute("CREATE TABLE t AS SELECT 1 AS u, i / 2e6 AS x FROM range(1000000) r(i)")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 10, "delta": 1e-6},
        "limits": {"seconds": seconds},
        "tables": TABLES,
    }
    return dpsql.connect(data, policy=policy, ledger=":memory:")


def test_a_query_that_takes_too_long_is_stopped_and_stays_charged() -> None:
    with connect(1) as db:
        with pytest.raises(dpsql.EngineError) as stopped:
            db.query(ENDLESS, epsilon=1)
        assert str(stopped.value) == dpsql.EngineError.TEXT
        assert db.budget().dataset.spent.epsilon == pytest.approx(1)
        assert len(db.query(QUICK, epsilon=1)) == 1, "the next query is not stopped"
        assert db.budget().dataset.spent.epsilon > 1.2


@pytest.mark.parametrize("seconds", [None, 600])
def test_a_query_in_time_is_answered(seconds: int | None) -> None:
    with connect(seconds) as db:
        assert len(db.query(QUICK, epsilon=1)) == 1


@pytest.mark.parametrize("seconds", [0, -1, "soon", True, 1.5])
def test_a_limit_is_a_whole_number_of_seconds(seconds: object) -> None:
    with pytest.raises(dpsql.PolicyError, match=r"limits\.seconds"):
        dpsql.connect(duckdb.connect(), ledger=":memory:", policy={
            "dataset": "d", "search": False, "budget": {"epsilon": 10}, "limits": {"seconds": seconds}, "tables": TABLES})  # fmt: skip
