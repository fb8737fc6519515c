"""A search of the same query with fewer conditions serves where one of its own would cost more than it buys."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpsql

ALL = "SELECT k, count(*) FROM t GROUP BY k"
SOME = "SELECT k, count(*) FROM t WHERE x < 40 GROUP BY k"
FEW = "SELECT k, count(*) FROM t WHERE x < 40 AND y > 10 GROUP BY k"


def connect(folder: Path, rows: int, analyst: str = "ana", units: int = 3_997) -> dpsql.Connection:
    """Each unit has so many rows in one of four groups."""
    path = folder / "d.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as raw:
            raw.execute(
                "CREATE TABLE t AS SELECT range % ? AS u, chr(97 + CAST(range % ? % 4 AS INTEGER)) AS k, "
                "range * 7 % 100 AS x, range * 13 % 101 AS y FROM range(? * ?)",
                [units, units, units, rows],
            )
    policy = {
        "dataset": "d",
        "search": True,
        "budget": {"epsilon": 20, "delta": 1e-6, "analysts": {"ana": {"epsilon": 9}, "bob": {"epsilon": 9}}},
        "tables": {"t": {"unit": "u", "columns": {"k": {"values": ["a", "b", "c", "d"]}, "x": {}, "y": {}}}},
    }
    return dpsql.connect(path, policy=policy, ledger=folder / "d.ledger", analyst=analyst)


def searches(db: dpsql.Connection) -> int:
    return sum("a private search" in entry.text for entry in db.ledger.log() if entry.kind == "charge")


def wider(db: dpsql.Connection, sql: str, epsilon: float | None = None) -> bool:
    (clip,) = db.explain(sql, epsilon=epsilon).releases[0].clips
    return clip.wider


@pytest.mark.parametrize("sql", [SOME, FEW])
def test_where_no_smaller_clip_is_possible_none_is_searched_for(tmp_path: Path, sql: str) -> None:
    with connect(tmp_path, rows=1) as db:
        db.query(ALL)
        before = db.explain(sql).cost
        answer = db.query(sql)
        assert searches(db) == 1
        assert wider(db, sql)
        assert answer.cost.rho <= before.rho
        assert any("fewer conditions" in note for note in answer.notes)
        assert db.query(sql).replayed


def test_where_a_condition_may_leave_less_of_each_unit_a_query_has_a_search_of_its_own(tmp_path: Path) -> None:
    with connect(tmp_path, rows=40) as db:
        db.query(ALL)
        whole = db.explain(ALL).releases[0].statistics[0].sensitivity
        db.query(SOME)
        assert searches(db) == 2
        assert not wider(db, SOME)
        assert db.explain(SOME).releases[0].statistics[0].sensitivity < whole


def test_a_query_whose_own_search_would_find_too_little_takes_the_clip_of_the_wider_one(tmp_path: Path) -> None:
    with connect(tmp_path, rows=6, units=601) as db:
        db.query(ALL, epsilon=1)
        assert wider(db, SOME, epsilon=0.15)
        db.query(SOME, epsilon=0.15)
        assert searches(db) == 1


def test_what_another_searched_for_is_not_known(tmp_path: Path) -> None:
    with connect(tmp_path, rows=1) as db:
        db.query(ALL)
    with connect(tmp_path, rows=1, analyst="bob") as db:
        assert db.explain(SOME).releases[0].clips[0].units is None
        db.query(SOME)
        assert searches(db) == 2


def test_other_keys_or_statistics_have_other_norms(tmp_path: Path) -> None:
    with connect(tmp_path, rows=1) as db:
        db.query(ALL)
        for sql in (
            "SELECT count(*) FROM t WHERE x < 40",
            "SELECT k, count(DISTINCT x) FROM t WHERE x < 40 GROUP BY k",
        ):
            assert not any(clip.wider for release in db.explain(sql).releases for clip in release.clips)
