"""A count per unit is bounded by how many rows of a unit count: what is beyond shows, and is said."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

INNER = "(SELECT p, count(*) AS n, sum(m) AS s FROM v GROUP BY p)"


@pytest.fixture
def db() -> dpsql.Connection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT i % 400 AS p, i % 7 AS m FROM range(2000) r(i)")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 1e6, "delta": 1e-6},
        "tables": {"v": {"unit": "p", "max_rows_per_unit": 3, "columns": {"m": {"min": 0, "max": 6}}}},
    }
    return dpsql.connect(connection, policy=policy, ledger=":memory:")


def test_units_beyond_the_limit_are_the_null_group(db: dpsql.Connection) -> None:
    made = db.query(f"SELECT n, count(*) FROM {INNER} GROUP BY n", epsilon=1000)
    assert made.fetchall() == [(1, 0), (2, 0), (3, 0), (None, 400)]
    assert any("at most 3 rows count, and a group beyond that is NULL" in note for note in made.notes)


@pytest.mark.parametrize("what", ["avg(n)", "avg(CASE WHEN n >= 5 THEN 1 ELSE 0 END)", "avg(s)", "sum(n + s)"])
def test_what_rests_on_the_limit_says_so(db: dpsql.Connection, what: str) -> None:
    notes = db.query(f"SELECT {what} FROM {INNER}", epsilon=1000).notes
    assert any("of one person: at most 3 rows count" in note for note in notes)


def test_a_filter_on_the_count_does_not_rest_on_it(db: dpsql.Connection) -> None:
    made = db.query(f"SELECT count(*) FROM {INNER} WHERE n >= 5", epsilon=1000)
    assert made.fetchall() == [(400,)] and not any("count" in note for note in made.notes if "not counted" not in note)
