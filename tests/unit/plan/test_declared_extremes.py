"""MIN and MAX that the policy answers: the declared bounds, under the names that the query gives, for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 3},
    "tables": {
        "t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9, "minmax": "policy"}, "y": {"min": 0, "max": 7}}},
    },
}


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT range AS u, 4 AS x, 5 AS y FROM range(9)")
    with dpsql.connect(data, policy=POLICY, ledger=":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT min(x), max(x) FROM t", {"min(x)": 0, "max(x)": 9}),
        ("SELECT max(x) AS top, 1 + min(x) AS least FROM t", {"top": 9, "least": 1}),
        ("SELECT max(z) FROM (SELECT x AS z FROM t) AS s", {"max(z)": 9}),
        ("SELECT max(x) AS top FROM t ORDER BY min(x)", {"top": 9}),
    ],
)
def test_declared_bounds_have_the_names_of_the_query_and_cost_nothing(
    db: dpsql.Connection, sql: str, named: dict[str, int]
) -> None:
    result = db.query(sql)
    assert dict(zip(result.columns, result.fetchall()[0], strict=True)) == named
    assert result.cost.epsilon == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(x) FROM t WHERE y > 3",
        "SELECT max(x + 1) FROM t",
        "SELECT max(y) FROM t",
        "SELECT max(x) FILTER (WHERE y > 3) FROM t",
        "SELECT max(x) FROM (SELECT x FROM t WHERE y > 3) AS s",
        "SELECT max(x), count(*) FROM t",
    ],
)
def test_what_asks_for_other_rows_or_more_than_the_bounds_is_paid(db: dpsql.Connection, sql: str) -> None:
    assert db.explain(sql).cost.epsilon > 0
