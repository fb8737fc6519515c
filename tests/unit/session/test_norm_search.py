"""The search for norms before a query: what it costs whom, and what comes of it where it finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.options import QueryOptions

COUNT = "SELECT k, count(*) FROM t GROUP BY k"
PART = "SELECT k, count(*) FROM t WHERE k IN ('a', 'b') GROUP BY k"


def connect(folder: Path, analyst: str, units: int = 2_000, **more: Any) -> dpsql.Connection:
    path = folder / "d.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as raw:
            made = (
                "SELECT range % ? AS u, chr(97 + CAST(range % 4 AS INTEGER)) AS k, 3e18 + range AS x FROM range(3 * ?)"
            )
            raw.execute(f"CREATE TABLE t AS {made}", [units, units])
    policy = {
        "dataset": "d",
        "search": True,
        "budget": {"epsilon": 20, "delta": 1e-6, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 9}}},
        "tables": {"t": {"unit": "u", "columns": {"k": {"values": ["a", "b", "c", "d"]}, "x": {}}}},
        **more,
    }
    return dpsql.connect(path, policy=policy, ledger=folder / "d.ledger", analyst=analyst)


def charged(db: dpsql.Connection) -> list[tuple[str | None, bool]]:
    """Who was charged, and whether that was for a search."""
    return [(e.analyst, "a private search" in e.text) for e in db.ledger.log() if e.kind == "charge"]


def spent(db: dpsql.Connection, analyst: str | None) -> int:
    return db.ledger.spent(analyst).rho


@pytest.mark.parametrize("replay", [True, False])
def test_what_others_asked_changes_no_price(tmp_path: Path, replay: bool) -> None:
    with connect(tmp_path, "bob", replay=replay) as db:
        before = [db.explain(sql).cost for sql in (COUNT, PART)]
    with connect(tmp_path, "ana", replay=replay) as db:
        db.query(COUNT)
    with connect(tmp_path, "bob", replay=replay) as db:
        assert [db.explain(sql).cost for sql in (COUNT, PART)] == before


@pytest.mark.parametrize("sql", [COUNT, PART])
def test_whoever_is_shown_a_clip_is_counted_the_search_that_found_it(tmp_path: Path, sql: str) -> None:
    with connect(tmp_path, "ana") as db:
        db.query(COUNT)
        whole = spent(db, "ana")
    with connect(tmp_path, "bob") as db:
        db.query(sql)
        assert spent(db, "bob") >= whole * 0.999


def test_without_replay_a_search_is_made_once_and_read_by_whoever_it_was_counted(tmp_path: Path) -> None:
    for analyst in ("ana", "bob", "ana", "bob"):
        with connect(tmp_path, analyst, replay=False) as db:
            clip = next(iter(db.query(COUNT).released.values())).priced.bounded.clip
            assert clip is not None and clip.choice is not None
    with connect(tmp_path, "ana", replay=False) as db:
        assert charged(db) == [("ana", True), ("ana", False), ("bob", False), ("ana", False), ("bob", False)]


@pytest.mark.parametrize("replay", [True, False])
def test_a_part_of_what_was_asked_is_searched_only_where_it_is_asked_anew(tmp_path: Path, replay: bool) -> None:
    with connect(tmp_path, "ana", replay=replay) as db:
        for sql in (COUNT, PART):
            assert db.query(sql).replayed == (replay and sql == PART)
        assert charged(db) == [("ana", True), ("ana", False)] * (1 if replay else 2)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_search_that_finds_nothing_leaves_the_limit_and_an_answer_that_is_kept(
    tmp_path: Path, mechanism: str
) -> None:
    with connect(tmp_path, "ana", units=1) as db:
        first = db.query(COUNT, mechanism=mechanism)
        clip = next(iter(first.released.values())).priced.bounded.clip
        assert clip is not None and clip.choice is not None and not clip.choice.found
        assert db.query(COUNT, mechanism=mechanism).replayed


def test_a_product_beyond_all_doubles_has_no_usual_value(tmp_path: Path) -> None:
    product = "x"
    for _ in range(5):
        product = f"({product} * {product})"
    with connect(tmp_path, "ana") as db:
        assert db.query(f"SELECT avg(least(greatest({product}, 0), 10)), count(*) FROM t").fetchall()


def test_an_accuracy_allows_for_what_the_clip_cuts_off() -> None:
    """A quarter of the rows are of a few heavy units: the bar of an answer within ± 6,000 is no wider than that."""
    random_numbers = np.random.default_rng(7)
    rows = np.minimum((random_numbers.pareto(1.8, 20_000) * 1.5 + 1).astype(int), 300)
    frame = pd.DataFrame({"customer": np.repeat(np.arange(20_000), rows)})
    policy = {
        "dataset": "heavy",
        "budget": {"epsilon": 8, "delta": 1e-6},
        "tables": {"orders": {"unit": "customer", "columns": {}}},
    }
    with dpsql.connect({"orders": frame}, policy=policy, ledger=":memory:") as db:
        answer = db.query("SELECT count(*) AS n FROM orders", accuracy=6_000)
        bar = answer.intervals(0.95)
        [[n]] = answer.fetchall()
        assert max(n - bar.n_low[0], bar.n_high[0] - n) <= 6_000


def heavy() -> dpsql.Connection:
    """Counts of units of which a few have many rows."""
    random_numbers = np.random.default_rng(8)
    rows = np.minimum((random_numbers.pareto(2, 4_000) * 2 + 1).astype(int), 300)
    frame = pd.DataFrame({"customer": np.repeat(np.arange(4_000), rows), "k": np.arange(rows.sum()) ** 2 % 3 > 0})
    policy = {
        "dataset": "heavy",
        "budget": {"epsilon": 100, "delta": 1e-6},
        "tables": {"orders": {"unit": "customer", "columns": {"k": {}}}},
    }
    return dpsql.connect({"orders": frame}, policy=policy, ledger=":memory:")


@pytest.mark.parametrize("accuracy", [1_500, "15%"])
def test_the_search_for_an_accuracy_does_not_cost_a_part_of_all_that_is_left(accuracy: float | str) -> None:
    with heavy() as db:
        answer = db.query("SELECT count(*) AS n FROM orders", accuracy=accuracy)
        assert answer.cost.epsilon < 5
        assert db.query("SELECT count(*) AS n FROM orders", accuracy=accuracy).replayed


def test_an_accuracy_is_judged_by_the_most_exact_search_that_is_known() -> None:
    sql, sds = "SELECT count(*) AS n FROM orders", []
    with heavy() as db:
        for options in (QueryOptions(epsilon=3), QueryOptions(epsilon=9), QueryOptions(accuracy=700)):
            draft, _ = db.conductor.draft(db._question(sql, None, options))
            db.conductor.search_first(draft)
            draft, _ = db.conductor.draft(db._question(sql, None, options))
            found = draft.bounded[0].clipped[0].found
            assert found is not None
            sds.append(found.sd)
    assert sds[1] < sds[0] / 1.9 and sds[2] == sds[1]


def test_a_group_whose_bar_is_wider_than_foreseen_is_told() -> None:
    """What is cut off is foreseen to be the same in all groups; the larger one bears twice as much as the smaller."""
    with heavy() as db:
        sql, goal = "SELECT k, count(*) AS n FROM orders GROUP BY k", 400
        answer = db.query(sql, accuracy=goal)
        bars = answer.intervals(0.95)
        shown = zip(answer.df().n, bars.n_low, bars.n_high, strict=True)
        missed = sum(max(n - low, high - n) > goal for n, low, high in shown)
        assert [note for note in answer.notes if "missed" in note] == (
            [next(note for note in answer.notes if f"n ± {goal} (95%) is missed in {missed} of" in note)]
            if missed
            else []
        )
