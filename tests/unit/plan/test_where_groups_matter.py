"""Above how many possible groups a query asks which of them exist; None where it may list them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql

COLUMNS: dict[str, Any] = {
    "k": {"values": ["a", "b", "c"], "nulls": False}, "l": {"values": ["x", "y"], "nulls": False},
    "x": {"min": 0, "max": 10},
}  # fmt: skip
POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-3},
    "tables": {"t": {"unit": "id", "max_rows_per_unit": 5, "columns": COLUMNS}, "p": {"public": True}},
}  # fmt: skip
GROUPS = "SELECT k, count(*) AS n, sum(x) AS s, avg(x) AS m FROM t GROUP BY k"


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE t AS SELECT i % 7 AS id, 'a' AS k, 'x' AS l, 1::DOUBLE AS x FROM range(20) r(i)")
        raw.execute("CREATE TABLE p AS SELECT 'a' AS k, 1 AS v")
        with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as made:
            yield made


LISTED = [
    GROUPS,
    f"{GROUPS} ORDER BY k",
    f"{GROUPS} HAVING count(*) > 100",
    f"{GROUPS} HAVING k <> 'b' AND count(*) < 5",
    f"{GROUPS} ORDER BY n DESC, k LIMIT 2",
    f"{GROUPS} ORDER BY 3 DESC LIMIT 2",
    f"SELECT * FROM ({GROUPS}) AS g",
    f"SELECT k, n FROM ({GROUPS}) AS g WHERE n >= 5 AND k < 'c'",
    f"WITH g AS ({GROUPS}) SELECT k AS key, n / 2 FROM g ORDER BY n DESC LIMIT 1",
    f"({GROUPS}) UNION ALL (SELECT k, n, s, m FROM ({GROUPS}) AS g)",
    "SELECT k, count(*), count(*) / sum(count(*)) OVER () FROM t GROUP BY k",
    "SELECT k, l, count(*) FROM t GROUP BY ROLLUP (k, l)",
    "SELECT DISTINCT k FROM t",
    "SELECT DISTINCT l, k FROM t WHERE x > 5 ORDER BY l",
]
CUT = [
    (f"{GROUPS} LIMIT 2", 2),
    (f"{GROUPS} ORDER BY k LIMIT 2", 2),
    (f"{GROUPS} ORDER BY n LIMIT 2", 2),
    (f"{GROUPS} ORDER BY m DESC LIMIT 2", 2),
    (f"SELECT * FROM ({GROUPS} LIMIT 9) AS g LIMIT 4", 4),
    (f"{GROUPS} LIMIT 2 OFFSET 1", 0),
]
ALWAYS = [
    f"SELECT count(*) FROM ({GROUPS}) AS g",
    f"SELECT avg(n), sum(n) FROM ({GROUPS}) AS g",
    f"SELECT DISTINCT n FROM ({GROUPS}) AS g",
    f"SELECT k, rank() OVER (ORDER BY n) FROM ({GROUPS}) AS g",
    f"{GROUPS} QUALIFY row_number() OVER (ORDER BY k) = 1",
    f"SELECT g.k, p.v FROM ({GROUPS}) AS g JOIN p ON g.k = p.k",
    f"SELECT p.k FROM p LEFT JOIN ({GROUPS}) AS g ON g.k = p.k WHERE g.k IS NULL",
    f"SELECT k FROM p WHERE k NOT IN (SELECT k FROM ({GROUPS}) AS g)",
    "SELECT DISTINCT k FROM t EXCEPT SELECT k FROM p",
    "SELECT * FROM (SELECT DISTINCT k FROM t) AS g WHERE k NOT IN (SELECT k FROM p)",
    f"{GROUPS} HAVING count(*) > (SELECT avg(v) FROM p)",
    f"WITH g AS ({GROUPS}) SELECT (SELECT max(n) FROM g)",
    f"WITH g AS ({GROUPS}), h AS (SELECT * FROM g) SELECT h.k FROM h, p",
    f"SELECT count(*) FROM t WHERE k IN (SELECT k FROM ({GROUPS}) AS g)",
]


def _beyond(db: dpsql.Connection, sql: str) -> set[int | None]:
    releases = db.prepare(sql, epsilon=1).plan.releases
    return {each.existing_beyond for each in releases if each.keys}


@pytest.mark.parametrize("sql", LISTED)
def test_groups_that_are_only_listed_are_all_shown(db: dpsql.Connection, sql: str) -> None:
    assert _beyond(db, sql) == {None}


@pytest.mark.parametrize(("sql", "most"), CUT)
def test_a_limit_matters_if_it_may_cut_groups_off(db: dpsql.Connection, sql: str, most: int) -> None:
    assert _beyond(db, sql) == {most}


@pytest.mark.parametrize("sql", ALWAYS)
def test_what_is_computed_from_groups_reads_those_that_exist(db: dpsql.Connection, sql: str) -> None:
    assert _beyond(db, sql) == {0}


def test_units_are_counted_only_if_a_limit_may_cut_groups_off(db: dpsql.Connection) -> None:
    counted = [db.prepare(f"{GROUPS} LIMIT {n}", epsilon=1).bill.releases[0].selection is not None for n in (2, 3)]
    assert counted == [True, False]


def test_equal_groups_count_alike_wherever_they_are_read(db: dpsql.Connection) -> None:
    plan = db.prepare(f"({GROUPS}) UNION ALL (SELECT 'all', count(*), sum(n), 0 FROM ({GROUPS}) AS g)", epsilon=1).plan
    assert [each.existing_beyond for each in plan.releases] == [0, 0]
