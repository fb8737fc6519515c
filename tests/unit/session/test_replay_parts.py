"""Parts of earlier releases: fewer columns, fewer groups, a lower price; and what is no part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.answers.reuse import OF_MORE, OF_MORE_GROUPS

COLUMNS = {
    "x": {"min": 0, "max": 10, "nulls": False},
    "y": {"min": 0, "max": 10},
    "qty": {"min": 0, "max": 4, "nulls": False},
    "k": {"values": ["a", "b", "c"]},
    "sure": {"values": ["a", "b", "c"], "nulls": False},
    "z": {"min": 0, "max": 1},
    "note": {},
}
POLICY = {
    "dataset": "shop",
    "search": False,
    "budget": {"epsilon": 10_000, "delta": 1e-6},
    "defaults": {"epsilon": 0.5, "delta": 1e-8},
    "tables": {"t": {"unit": "person", "max_rows_per_unit": 5, "columns": COLUMNS}},
}
FRAME = pd.DataFrame(
    {
        "person": [i % 300 for i in range(1200)],
        "x": [float(i % 11) for i in range(1200)],
        "y": [float(i % 7) for i in range(1200)],
        "qty": [i % 5 for i in range(1200)],
        "k": ["abcd"[i % 4] for i in range(1200)],
        "sure": ["abcd"[i % 4] for i in range(1200)],
        "z": [(-0.0, 0.0, 1.0)[i % 3] for i in range(1200)],
        "note": ["n"] * 1200,
    }
)


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    with dpsql.connect({"t": FRAME}, policy=POLICY, ledger=":memory:") as opened:
        yield opened


def rows(result: dpsql.Result) -> dict[Any, Any]:
    return {row[0]: row[1:] for row in result.fetchall()}


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("count(*), sum(x)", "count(*)"),
        ("count(*), sum(x)", "sum(x)"),
        ("count(*), sum(x), avg(y)", "sum(x), count(*)"),
        ("avg(x)", "sum(x)"),
        ("avg(y)", "count(y)"),
        ("avg(x), sum(y)", "count(*), avg(x)"),
        ("sum(x), count(DISTINCT person)", "count(DISTINCT person)"),
    ],
)
@pytest.mark.parametrize("key", ["k", "note"])
def test_fewer_aggregates_are_answered_from_more(
    db: dpsql.Connection, mechanism: str, whole: str, part: str, key: str
) -> None:
    db.query(f"SELECT {key}, {whole} FROM t GROUP BY {key}", mechanism=mechanism)
    spent = db.budget().dataset.spent
    found = db.query(f"SELECT {key}, {part} FROM t GROUP BY {key}", mechanism=mechanism)
    assert found.replayed and db.budget().dataset.spent == spent


def test_a_part_has_the_numbers_and_the_error_bars_of_the_whole(db: dpsql.Connection) -> None:
    whole = db.query("SELECT k, sum(y) AS s, sum(x) AS r, count(*) AS n FROM t GROUP BY k ORDER BY k")
    part = db.query("SELECT k, count(*) AS n, sum(y) AS s FROM t GROUP BY k ORDER BY k")
    assert part.df()[["k", "s", "n"]].equals(whole.df()[["k", "s", "n"]])
    ends = ["s_low", "s_high", "n_low", "n_high"]
    assert part.intervals()[ends].equals(whole.intervals()[ends])
    assert OF_MORE in part.notes and OF_MORE not in whole.notes
    fresh = db.query("SELECT k, count(*) AS n, sum(y) AS s FROM t GROUP BY k", epsilon=0.51)
    assert not fresh.replayed and OF_MORE not in fresh.notes


@pytest.mark.parametrize(
    "condition", ["k = 'a'", "'a' = k", "k IN ('a', 'b')", "k <> 'c'", "k IN ('a', 'b') AND k <> 'b'", "k < 'b'"]
)
def test_fewer_groups_are_answered_from_more(db: dpsql.Connection, condition: str) -> None:
    whole = rows(db.query("SELECT k, count(*), avg(x) FROM t WHERE x > 1 GROUP BY k"))
    part = db.query(f"SELECT k, count(*), avg(x) FROM t WHERE {condition} AND x > 1 GROUP BY k")
    assert part.replayed and OF_MORE_GROUPS in part.notes
    assert 0 < len(part) < 3
    assert all(whole[key] == values for key, values in rows(part).items())


def test_groups_by_an_expression_and_by_two_keys(db: dpsql.Connection) -> None:
    whole = {r[:2]: r[2] for r in db.query("SELECT qty + 1, sure, count(*) FROM t GROUP BY 1, 2").fetchall()}
    part = db.query("SELECT sure, 1 + qty AS q, count(*) FROM t WHERE qty + 1 >= 3 AND sure = 'b' GROUP BY 1, 2")
    assert part.replayed
    assert {(q, s): n for s, q, n in part.fetchall()} == {
        key: n for key, n in whole.items() if key[0] >= 3 and key[1] == "b"
    }


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE k IS NULL GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE k IS DISTINCT FROM 'a' GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE x > 1 GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE k = 'a' AND x > 1 GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE k = 'a' OR x > 1 GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t WHERE sure = 'a' GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT count(*) FROM t WHERE k = 'a'"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, sure, count(*) FROM t GROUP BY k, sure"),
        ("SELECT k, count(*) FROM t WHERE k <> 'b' GROUP BY k", "SELECT k, count(*) FROM t GROUP BY k"),
        ("SELECT note, count(*) FROM t GROUP BY note", "SELECT note, count(*) FROM t WHERE note = 'n' GROUP BY note"),
        (
            "SELECT round(z) AS r, count(*) FROM t GROUP BY 1",
            "SELECT round(z) AS r, count(*) FROM t WHERE 1 / round(z) > 0 GROUP BY 1",
        ),
        ("SELECT k, sum(x) FROM t GROUP BY k", "SELECT k, avg(x) FROM t GROUP BY k"),
        ("SELECT k, sum(x) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY k"),
        ("SELECT k, avg(y) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY k"),
        ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*), sum(x) FROM t GROUP BY k"),
        ("SELECT count(DISTINCT person) FROM t", "SELECT count(*) FROM t"),
    ],
)
def test_what_is_no_part_is_made(db: dpsql.Connection, whole: str, part: str) -> None:
    db.query(whole)
    assert not db.query(part).replayed


def test_a_higher_price_answers_a_lower_one_and_not_the_other_way_round(db: dpsql.Connection) -> None:
    sql = "SELECT k, count(*) FROM t GROUP BY k"
    cheap = rows(db.query(sql, epsilon=0.2))
    dear = db.query(sql, epsilon=1)
    assert not dear.replayed
    assert rows(db.query(sql, epsilon=0.2)) == cheap, "the very release is answered exactly as before"
    between = db.query(sql, epsilon=0.5)
    assert between.replayed and rows(between) == rows(dear)
    assert not db.query(sql, epsilon=0.5, mechanism="laplace").replayed
