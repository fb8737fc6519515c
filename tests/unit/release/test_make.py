"""Making the releases of a query: what was made before is replayed, the rest is charged once, and equals are one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import dpsql

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6},
    "defaults": {"epsilon": 0.5, "delta": 0},
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"x": {"min": 0, "max": 9}, "k": {"values": ["a", "b"], "nulls": False}}}},
}  # fmt: skip
FRAME = pd.DataFrame({"u": range(200), "x": [i % 10 for i in range(200)], "k": ["ab"[i % 2] for i in range(200)]})
COUNT, SUM = "SELECT k, count(*) AS n FROM t GROUP BY k", "SELECT k, sum(x) AS s FROM t GROUP BY k"


def opened(**changes: Any) -> dpsql.Connection:
    return dpsql.connect({"t": FRAME}, policy={**POLICY, **changes}, ledger=":memory:")


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    with opened() as connection:
        yield connection


def spent(db: dpsql.Connection) -> float:
    return db.budget().dataset.spent.epsilon


def test_a_release_is_charged_once_and_replayed_afterwards(db: dpsql.Connection) -> None:
    first = db.query(COUNT)
    assert not first.replayed and first.cost.epsilon == pytest.approx(0.5) and spent(db) == pytest.approx(0.5)
    again = db.query(COUNT + " ORDER BY n")
    assert again.replayed and again.cost.epsilon == 0 and spent(db) == pytest.approx(0.5)
    assert sorted(again.fetchall()) == sorted(first.fetchall())


def test_what_shows_public_keys_alone_is_neither_charged_nor_a_replay(db: dpsql.Connection) -> None:
    for _ in range(2):
        keys = db.query("SELECT DISTINCT k FROM t ORDER BY k")
        assert keys.fetchall() == [("a",), ("b",)]
        assert not keys.replayed and keys.cost.epsilon == 0 and spent(db) == 0


def test_a_query_of_which_one_part_is_free_is_a_replay_if_the_other_was_made(db: dpsql.Connection) -> None:
    both = f"SELECT a.k, n FROM (SELECT DISTINCT k FROM t) AS a JOIN ({COUNT}) AS b ON a.k = b.k ORDER BY 1"
    first = db.query(both)
    assert not first.replayed and first.cost.epsilon == pytest.approx(0.5)
    again = db.query(both + " DESC")
    assert again.replayed and again.fetchall() == first.fetchall()[::-1]


def test_only_what_is_missing_is_charged(db: dpsql.Connection) -> None:
    counted = dict(db.query(COUNT, epsilon=0.25).fetchall())
    both = db.query(f"SELECT k, n, NULL AS s FROM ({COUNT}) UNION ALL SELECT k, NULL, s FROM ({SUM})", epsilon=0.5)
    assert not both.replayed and both.cost.epsilon == pytest.approx(0.25) and spent(db) == pytest.approx(0.5)
    assert {k: n for k, n, _ in both.fetchall() if n is not None} == counted


def test_the_same_release_twice_in_one_query_is_made_once(db: dpsql.Connection) -> None:
    twice = db.query(f"SELECT a.n, b.n FROM ({COUNT}) AS a JOIN ({COUNT}) AS b ON a.k = b.k")
    assert all(one == two for one, two in twice.fetchall())
    assert spent(db) == pytest.approx(twice.cost.epsilon)
    again = db.query(f"SELECT a.n, b.n FROM ({COUNT}) AS a JOIN ({COUNT}) AS b ON a.k = b.k ORDER BY 1")
    assert again.replayed


def test_nothing_is_replayed_where_the_policy_forbids_it() -> None:
    with opened(replay=False) as db:
        answers = [db.query(COUNT, epsilon=0.2) for _ in range(3)]
        assert not any(each.replayed for each in answers)
        assert len({str(sorted(each.fetchall())) for each in answers}) == 3
        assert spent(db) == pytest.approx(0.6)


NESTED = (
    "SELECT count(*) AS m FROM t JOIN (SELECT k AS j, count(*) AS n FROM t GROUP BY k) AS r ON t.k = r.j AND t.x < r.n"
)


def test_a_release_over_what_was_released_before_is_a_replay_only_together_with_it(db: dpsql.Connection) -> None:
    first = db.query(NESTED)
    assert not first.replayed and abs(first.fetchall()[0][0] - 200) < 60
    again = db.query(NESTED + " ORDER BY m")
    assert again.replayed and again.fetchall() == first.fetchall()
    fresh = db.query(NESTED, epsilon=0.7)
    assert not fresh.replayed


def test_notes_are_said_once(db: dpsql.Connection) -> None:
    db.query("SELECT k, count(*) AS n, sum(x) AS s FROM t GROUP BY k", epsilon=1.0)
    both = db.query(f"SELECT k, n, NULL AS s FROM ({COUNT}) UNION ALL SELECT k, NULL, s FROM ({SUM})", epsilon=1.0)
    assert both.replayed
    assert len(both.notes) == len(set(both.notes))


def test_a_check_answers_nothing_but_itself(db: dpsql.Connection) -> None:
    checked = db.query(COUNT, epsilon=1.0, clipped=True)
    assert len(checked.clipped) == 1 and not checked.replayed
    assert db.query(COUNT, epsilon=1.0, clipped=True).replayed
    assert db.query(COUNT, epsilon=0.5).replayed
