"""The same release under other spellings is free and exactly the same; near misses are releases of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql

ORDERS = {
    "unit": "person",
    "max_rows_per_unit": 5,
    "columns": {
        "x": {"min": 0, "max": 10},
        "y": {"min": 0, "max": 10},
        "qty": {"min": 0, "max": 9},
        "k": {"values": ["a", "b", "c"]},
        "flag": {},
        "note": {},
    },
}


def policy(**orders: object) -> dict[str, object]:
    return {
        "dataset": "shop",
        "search": False,
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "defaults": {"epsilon": 0.5, "delta": 1e-8},
        "tables": {"orders": {**ORDERS, **orders}, "others": ORDERS},
    }


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            "CREATE TABLE orders AS SELECT i % 2000 AS person, (i % 11)::DOUBLE AS x, (i % 7)::DOUBLE AS y,"
            " (i % 9)::INTEGER AS qty, ['a', 'b', 'c'][1 + i % 3] AS k, i % 2 = 0 AS flag, 'n' || i % 5 AS note"
            " FROM range(6000) AS r(i)"
        )
        db.execute("CREATE TABLE others AS FROM orders")
    return path


@pytest.fixture
def db(database: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(database, policy=policy(), ledger=":memory:") as opened:
        yield opened


ONE = "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k"
VARIANTS = [
    "select  K , COUNT( * ) n,\n\tSUM( X ) AS s from ORDERS where x>2 and (y<5 or flag) and qty in (1,2,3) group by k",
    "SELECT k, count(*) AS n, sum(x) AS s -- a comment\nFROM orders /* another */ WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k",
    "SELECT o.k, count(*) AS n, sum(o.x) AS s FROM orders AS o WHERE o.x > 2 AND (o.y < 5 OR o.flag) AND o.qty IN (1, 2, 3) GROUP BY o.k",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE 1=1 AND x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) AND TRUE AND 'a' = 'a' GROUP BY k",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE qty IN (3, 1, 2, 2) AND (flag OR y < 5 OR FALSE) AND x > 2 AND x > 2 GROUP BY k",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE 2 < x AND (5 > y OR flag) AND qty IN (1, 2, 3) GROUP BY k",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE NOT x <= 2 AND NOT NOT (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k",
    "SELECT k, count(*) AS n, sum(x) AS s FROM (SELECT * FROM orders WHERE x > 2) WHERE (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k",
    "WITH w AS (SELECT k AS kk, x + 0 AS unused, x AS v, y, flag, qty FROM orders WHERE qty IN (1, 2, 3)) SELECT kk AS k, count(*) AS n, sum(v) AS s FROM w WHERE v > 2 AND (y < 5 OR flag) GROUP BY kk",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY ALL ORDER BY n DESC, s LIMIT 100",
    "SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY 1 HAVING count(*) > -1e9",
]  # fmt: skip
OUTER = [
    "SELECT k, 2 * sum(x) / count(*) + 1 AS r, count(*) / sum(count(*)) OVER () FROM orders WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k",
    "SELECT k, s FROM (SELECT k, count(*) AS n, sum(x) AS s FROM orders WHERE x > 2 AND (y < 5 OR flag) AND qty IN (1, 2, 3) GROUP BY k) WHERE n > 0 ORDER BY n DESC LIMIT 1",
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_free_and_exactly_the_same(db: dpsql.Connection, variant: str) -> None:
    first = db.query(ONE)
    spent = db.budget().dataset.spent
    again = db.query(variant)
    assert again.replayed and again.cost.epsilon == 0
    assert sorted(again.fetchall(), key=repr) == sorted(first.fetchall(), key=repr)
    assert db.budget().dataset.spent == spent


@pytest.mark.parametrize("outer", OUTER)
def test_other_outer_sql_is_free(db: dpsql.Connection, outer: str) -> None:
    db.query(ONE)
    assert db.query(outer).replayed


def test_which_groups_exist_is_paid_for_once(db: dpsql.Connection) -> None:
    """A table of all groups does not tell; one that does serves whatever is computed from its groups."""
    db.query(ONE)
    paid = [db.query(f"SELECT {what} FROM ({ONE}) AS g").replayed for what in ("max(n)", "count(*)", "median(n)")]
    assert paid == [False, True, True]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("sum(x + y)", "sum(y + x)"),
        ("sum(x * 2)", "sum(2 * x)"),
        ("sum(x), sum(y)", "sum(y), sum(x)"),
        ("avg(x), count(*)", "count(*), avg(x)"),
        ("count(*) FILTER (x > 2 AND flag)", "count(*) FILTER (flag AND 2 < x)"),
        ("sum(CASE WHEN x > y THEN 1 ELSE 0 END)", "sum(CASE WHEN y < x THEN 1 ELSE 0 END)"),
        ("count(*) FILTER (k IN ('a'))", "count(*) FILTER ('a' = k)"),
    ],
)
def test_operands_and_aggregates_in_another_order_are_free(db: dpsql.Connection, one: str, two: str) -> None:
    db.query(f"SELECT {one} FROM orders")
    assert db.query(f"SELECT {two} FROM orders").replayed


@pytest.mark.parametrize("keys", ["k, flag", "flag, note", "note, k, flag"])
def test_keys_in_another_order_are_free_and_stay_with_their_values(db: dpsql.Connection, keys: str) -> None:
    first = db.query(f"SELECT {keys}, count(*) AS n FROM orders GROUP BY {keys}", epsilon=50)
    turned = ", ".join(reversed(keys.split(", ")))
    again = db.query(f"SELECT {keys}, count(*) AS n FROM orders GROUP BY {turned}", epsilon=50)
    assert again.replayed
    assert sorted(again.fetchall(), key=repr) == sorted(first.fetchall(), key=repr)
    assert len(again) > 0


def test_a_grouping_by_unit_is_recognised_in_another_order(db: dpsql.Connection) -> None:
    one = "SELECT avg(a), avg(b) FROM (SELECT person, sum(x) AS a, count(*) AS b, max(y) AS c FROM orders WHERE x > 1 GROUP BY person)"
    two = "SELECT avg(s), avg(n) FROM (SELECT count(*) AS n, person AS p, sum(x) AS s FROM orders WHERE 1 < x GROUP BY person)"
    first = db.query(one).fetchall()
    again = db.query(two)
    assert again.replayed and again.fetchall() == first


NEAR = [
    ("x > 2", "x >= 2"),
    ("x > 2", "x > 3"),
    ("x > 2", "y > 2"),
    ("x > y", "y > x"),
    ("x < y OR flag", "x < y AND flag"),
    ("x = x", "TRUE"),
    ("x = x", "x IS NOT DISTINCT FROM x"),
    ("NOT flag", "flag IS NOT TRUE"),
    ("k <> 'a'", "k IS DISTINCT FROM 'a'"),
    ("qty IN (1, 2)", "qty IN (1, 2, NULL, 3)"),
    ("NOT qty IN (1, 2)", "NOT qty IN (1, 2, NULL)"),
    ("flag AND NULL", "flag"),
    ("x - y > 1", "y - x > 1"),
    ("x / 0.0e0 > 1", "x / -0.0e0 > 1"),
    ("note = '1'", "note = '1 '"),
    ("note LIKE 'n%'", "note LIKE 'N%'"),
    ("(x > 1 AND flag) OR y > 2", "x > 1 AND (flag OR y > 2)"),
]


@pytest.mark.parametrize(("one", "two"), NEAR)
def test_a_near_miss_is_a_release_of_its_own(db: dpsql.Connection, one: str, two: str) -> None:
    db.query(f"SELECT count(*) FROM orders WHERE {one}")
    assert not db.query(f"SELECT count(*) FROM orders WHERE {two}").replayed
    assert not db.query(f"SELECT count(*) FROM others WHERE {one}").replayed


@pytest.mark.parametrize(
    ("one", "two"), [("sum(x)", "sum(y)"), ("sum(x - y)", "sum(y - x)"), ("count(*)", "count(x)"),
                     ("sum(x)", "avg(x)"), ("count(*)", "count(DISTINCT person)"), ("count(x)", "sum(x)")]
)  # fmt: skip
def test_another_aggregate_is_a_release_of_its_own(db: dpsql.Connection, one: str, two: str) -> None:
    db.query(f"SELECT {one} FROM orders")
    assert not db.query(f"SELECT {two} FROM orders").replayed


@pytest.mark.parametrize(
    "changed",
    [
        {"max_rows_per_unit": 4},
        {"columns": {**ORDERS["columns"], "x": {"min": 0, "max": 9}}},  # type: ignore[dict-item]
        {"columns": {**ORDERS["columns"], "k": {"values": ["a", "b"]}}},  # type: ignore[dict-item]
    ],
)
def test_a_changed_policy_is_another_release(database: Path, tmp_path: Path, changed: dict[str, object]) -> None:
    ledger = tmp_path / "shop.ledger"
    whole, part = "SELECT k, count(*), sum(x) FROM orders GROUP BY k", "SELECT k, sum(x) FROM orders GROUP BY k"
    with dpsql.connect(database, policy=policy(), ledger=ledger) as db:
        db.query(whole)
        assert db.query(part).replayed
    with dpsql.connect(database, policy=policy(**changed), ledger=ledger) as db:
        assert not db.query(part).replayed
        assert not db.query(whole).replayed
