"""COUNT(DISTINCT x) with a limit that is searched for: how useful it is, what it costs, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.interfaces.steward_tasks import found

MONTHS = "SELECT month, count(DISTINCT product) AS n FROM orders WHERE month >= 1 GROUP BY month ORDER BY month"
UNITS = 5_000


@pytest.fixture(scope="module")
def shop() -> Iterator[duckdb.DuckDBPyConnection]:
    """Units with a geometric number of rows, about eight, over twelve months and 20,000 products."""
    rng = np.random.default_rng(3)
    customer = np.repeat(np.arange(UNITS), rng.geometric(1 / 8, UNITS))
    rows = len(customer)
    frame = pd.DataFrame({  # noqa: F841
        "customer": customer, "month": rng.integers(1, 13, rows), "product": rng.integers(0, 20_000, rows),
        "kind": rng.choice(["a", "b", "c"], rows),
    })  # fmt: skip
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE orders (customer INT, month INT, product INT, kind VARCHAR)")
        raw.execute("INSERT INTO orders SELECT * FROM frame")
        yield raw


@contextmanager
def opened(raw: duckdb.DuckDBPyConnection, *, search: bool = True, **table: Any) -> Iterator[dpsql.Connection]:
    columns = {"customer": {}, "month": {"min": 1, "max": 12}, "product": {}, "kind": {"values": ["a", "b", "c"]}}
    policy = {
        "dataset": "shop", "search": search, "budget": {"epsilon": 100, "delta": "1e-6"},
        "tables": {"orders": {"unit": "customer", "columns": columns, **table}},
    }  # fmt: skip
    with dpsql.connect(raw, policy=policy, ledger=":memory:", steward=True) as db:
        yield db


def error(raw: duckdb.DuckDBPyConnection, *, search: bool, mechanism: str = "gaussian") -> tuple[float, float]:
    """The mean relative error of three answers, and how many of their bars hold the truth."""
    truth = np.array([n for _, n in raw.execute(MONTHS).fetchall()], dtype=float)
    errors, held = [], []
    for _ in range(3):
        with opened(raw, search=search) as db:
            answer = db.query(MONTHS, epsilon=0.5, delta=1e-8, mechanism=mechanism)
            values, bars = np.array([n for _, n in answer.fetchall()], dtype=float), answer.intervals(0.95)
            errors.append(np.abs(values - truth) / truth)
            held.append((bars["n_low"] <= truth) & (truth <= bars["n_high"]))
    return float(np.mean(errors)), float(np.mean(held))


def test_a_limit_that_is_found_makes_it_useful(shop: duckdb.DuckDBPyConnection) -> None:
    before, _ = error(shop, search=False)
    after, held = error(shop, search=True)
    assert before > 0.09
    assert after < 0.06 and after < before / 2
    assert held >= 0.85


def test_it_is_one_share_beside_a_sum_and_has_a_search_of_its_own(shop: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT month, count(*) AS rows, count(DISTINCT product) AS n FROM orders WHERE month >= 1 GROUP BY month"
    with opened(shop) as db:
        assert "first a private search" in str(db.explain(sql))
        answer = db.query(sql, epsilon=0.5, delta=1e-8)
        assert answer.cost.epsilon <= 0.5
        assert sum("a private search" in each.text for each in db.ledger.log() if each.kind == "charge") == 1
        told = db.explain(sql, epsilon=0.5, delta=1e-8)
        [release] = told.releases
        assert [list(clip.cut) for clip in release.clips] == [["count0"], ["distinct1"]]
        assert all(clip.units == pytest.approx(UNITS, rel=0.1) for clip in release.clips)
        assert db.query(sql, epsilon=0.5, delta=1e-8).replayed
        assert str(told).count("found by a private search") == 2
        assert sum("found by a private search" in line for line in found(db, search=False)) == 2


def test_what_was_found_serves_whatever_is_asked_beside(shop: duckdb.DuckDBPyConnection) -> None:
    """The search for one argument is the same alone and beside another of the same price."""
    both = "SELECT month, count(DISTINCT product) AS n, count(DISTINCT kind) AS k FROM orders WHERE month >= 1 GROUP BY month"
    with opened(shop) as db:
        one = db.prepare(MONTHS, epsilon=0.5, delta=1e-8).bill.releases[0].bounded
        two = db.prepare(both, epsilon=0.5, delta=1e-8).bill.releases[0].bounded
        assert [each.vector.limit for each in two.clipped] == [each.vector.limit for each in one.clipped] + [
            pytest.approx(np.sqrt(3 * 3 * 12))
        ]
        db.query(both, epsilon=4, delta=1e-8)
        again = db.explain(MONTHS, epsilon=0.5, delta=1e-8)
        assert "found by a private search" in str(again)


def test_few_values_need_no_search(shop: duckdb.DuckDBPyConnection) -> None:
    with opened(shop) as db:
        told = db.explain("SELECT count(DISTINCT kind = 'a') FROM orders")
        assert told.releases[0].statistics[0].sensitivity == 2
        assert "private search" not in str(told)


def test_a_list_of_values_limits_what_is_cut(shop: duckdb.DuckDBPyConnection) -> None:
    """Of three values a group loses three at most: noise for one pair of each unit is best, and the bars know it."""
    sql = "SELECT month, count(DISTINCT kind) AS n FROM orders WHERE month >= 1 GROUP BY month"
    with opened(shop) as db:
        answer = db.query(sql, epsilon=0.5, delta=1e-8)
        [of] = next(iter(answer.released.values())).priced.bounded.clipped
        assert of.clip is not None and of.clip.choice is not None
        assert of.clip.choice.clip == 1.0 and of.clip.choice.cut_upper <= 3 * 12
        values, bars = np.array([n for _, n in answer.fetchall()], dtype=float), answer.intervals(0.95)
        noise = (values - bars["n_low"]).max()
        assert (bars["n_high"] <= np.maximum(values, 3) + noise + 1).all()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_part_of_an_earlier_release_answers(shop: duckdb.DuckDBPyConnection, mechanism: str) -> None:
    with opened(shop) as db:
        sql = "SELECT month, sum(month), count(DISTINCT product) AS n FROM orders WHERE month >= 1 GROUP BY month"
        whole = db.query(sql, epsilon=2, delta=1e-8, mechanism=mechanism)
        part = db.query(MONTHS, epsilon=1, delta=1e-8, mechanism=mechanism)
        assert part.replayed
        assert dict(part.fetchall()) == {month: n for month, _, n in whole.fetchall()}
