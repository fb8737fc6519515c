"""Public groups that exist: the claim of their weights, noise for every key, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any

import duckdb
import numpy as np
import pytest
from unlocked import sealed

import dpsql
from dpsql.answers import noise_stage
from dpsql.audit import trace
from dpsql.budget.pricing import GHOST
from dpsql.sensitivity.selection import existing_groups

KEYS = 40
SQL = "SELECT count(*) FROM (SELECT DISTINCT k FROM t) AS g"
NUMBERS = "SELECT count(*), min(n), max(s) FROM (SELECT k, count(*) AS n, sum(x) AS s FROM t GROUP BY k) AS g"
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {"t": {"unit": "id", "max_rows_per_unit": 200, "columns": {
        "k": {"min": 0, "max": KEYS - 1, "nulls": False}, "x": {"min": 0, "max": 9, "nulls": False}}}},
}  # fmt: skip


def _opened(rows: Sequence[tuple[int, int]], raw: duckdb.DuckDBPyConnection, **policy: Any) -> dpsql.Connection:
    """A row for each unit and key, and each of them twice."""
    raw.execute("CREATE TABLE t (id INT, k INT, x INT)")
    units, keys = (list(each) for each in zip(*rows, *rows, strict=True))
    raw.execute("INSERT INTO t SELECT unnest(?), unnest(?), 5", [units, keys])
    return dpsql.connect(raw, policy={**POLICY, **policy}, ledger=":memory:", steward=True)


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with duckdb.connect() as raw, _opened([(u, u % 5) for u in range(3000)], raw) as made:
        yield made


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", [SQL, NUMBERS])
def test_a_unit_adds_no_more_than_is_claimed_however_many_groups_it_has(mechanism: str, sql: str) -> None:
    others = [(100, key) for key in range(0, KEYS, 2)]
    for groups in (1, 3, KEYS):
        mine = [(1, key) for key in range(groups)]
        found = []
        for rows in (others, [*others, *mine]):
            with duckdb.connect() as raw, _opened(rows, raw) as db:
                [release] = trace(db, sql, salt=b"salt", epsilon=1, mechanism=mechanism)
                found.append(next(each for each in release.statistics if each.name == "selection"))
        added = np.array(found[1].values) - np.array(found[0].values)
        assert found[0].l1 is not None and found[0].l2 is not None
        assert 0 < np.abs(added).sum() <= found[0].l1 and 0 < (added**2).sum() <= found[0].l2 ** 2
        one = existing_groups(KEYS, mechanism).one
        assert set(added[:groups]) == {one // groups if mechanism == "laplace" else isqrt(one**2 // groups)}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_key_gets_noise_and_hardly_any_without_units_is_shown(db: dpsql.Connection, mechanism: str) -> None:
    [priced] = db.prepare(SQL, epsilon=1, mechanism=mechanism).bill.releases
    keys = tuple((key,) for key in range(KEYS))
    nobody, times = sealed(keys, (), np.zeros(KEYS, np.int64)), 600
    ghosts = np.mean([len(noise_stage.add_noise(priced, nobody).keys) > 0 for _ in range(times)])
    assert GHOST / 4 < ghosts < GHOST * 2
    assert priced.threshold is not None
    level = np.full(KEYS, priced.threshold, np.int64)
    at_the_threshold = sealed(keys, (), level)
    shown = np.mean([len(noise_stage.add_noise(priced, at_the_threshold).keys) for _ in range(50)])
    assert 0.4 * KEYS < shown < 0.65 * KEYS


def test_groups_are_counted_within_the_price_of_the_query(db: dpsql.Connection) -> None:
    alone = db.explain("SELECT k, count(*) FROM t GROUP BY k", epsilon=1)
    beside = db.explain("SELECT avg(n) FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g", epsilon=1)
    assert alone.cost.epsilon == beside.cost.epsilon == 1
    assert alone.releases[0].threshold is None and 0 < (beside.releases[0].threshold or 0) < 100
    assert "shown: groups with at least about" in str(beside)


def test_a_budget_without_delta_will_do() -> None:
    with duckdb.connect() as raw, _opened([(u, u % 5) for u in range(900)], raw, budget={"epsilon": 50}) as db:
        assert db.query(SQL, epsilon=10).fetchall() == [(5,)]
        assert db.query(SQL, epsilon=10).cost.delta == 0


def test_what_exists_is_decided_once_and_kept(db: dpsql.Connection) -> None:
    assert db.query(SQL, epsilon=2).fetchall() == [(5,)]
    again = db.query("SELECT max(k) FROM (SELECT k FROM t GROUP BY k) AS g", epsilon=2)
    assert again.replayed and again.fetchall() == [(4,)]


def test_a_table_of_all_groups_is_no_answer_about_those_that_exist(db: dpsql.Connection) -> None:
    assert len(db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=5)) == KEYS
    made = db.query("SELECT count(*) FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g", epsilon=5)
    assert not made.replayed and made.fetchall() == [(5,)]
    assert len(db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=5)) == KEYS
