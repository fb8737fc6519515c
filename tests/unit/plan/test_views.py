"""Views of the policy: planned like subqueries, and out of sight for whoever may not see all that they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.interfaces.steward_tasks import check
from dpsql.interfaces.visible_tables import visible_tables
from dpsql.policy import Policy

TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, secret INTEGER);
CREATE TABLE orders (id INTEGER, total DOUBLE, area VARCHAR);
CREATE TABLE areas (area VARCHAR, country VARCHAR);
INSERT INTO people SELECT i, 20 + i, i FROM range(50) r(i);
INSERT INTO orders SELECT i % 50, i % 10, ['n', 's'][1 + i % 2] FROM range(200) r(i);
INSERT INTO areas VALUES ('n', 'x'), ('s', 'y');
"""
VIEWS = {
    "big": "SELECT id, total, area FROM orders WHERE total > 5",
    "latest": {"sql": "SELECT id, total FROM orders QUALIFY row_number() OVER (PARTITION BY id ORDER BY total) = 1"},
    "bigger": "SELECT * FROM big WHERE total > 7",
    "whispered": "SELECT id, secret FROM people",
    "places": "SELECT area, country FROM areas WHERE country = 'x'",
    "counts": "SELECT area, count(*) AS n FROM orders GROUP BY area",
    "looped": "SELECT * FROM loop_too",
    "loop_too": "SELECT * FROM looped",
    "wrong": "SELECT median(total) FROM nowhere",
}
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 10_000, "delta": 1e-6, "analysts": {"ana": {"epsilon": 100, "tables": {"people": ["id", "age"], "orders": "all", "areas": "all"}}, "bob": {"epsilon": 100, "tables": ["areas"]}}},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 18, "max": 90}, "secret": {"min": 0, "max": 99}}},
        "orders": {"unit": "id", "max_rows_per_unit": 4, "columns": {"total": {"min": 0, "max": 10}, "area": {"values": ["n", "s"]}}},
        "areas": {"public": True},
    },
    "views": VIEWS,
}  # fmt: skip


def connected(**who: Any) -> dpsql.Connection:
    data = duckdb.connect()
    data.execute(TABLES)
    return dpsql.connect(data, policy=POLICY, ledger=":memory:", **who)


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with connected(steward=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT count(*) FROM big", "SELECT count(*) FROM (SELECT id, total, area FROM orders WHERE total > 5)"),
        ("SELECT b.area, sum(b.total) FROM big AS b JOIN people p USING (id) GROUP BY 1", "SELECT b.area, sum(b.total) FROM (SELECT id, total, area FROM orders WHERE total > 5) AS b JOIN people p USING (id) GROUP BY 1"),
        ("SELECT avg(x) FROM Latest AS l(i, x)", "SELECT avg(total) FROM (SELECT total FROM orders QUALIFY row_number() OVER (PARTITION BY id ORDER BY total) = 1)"),
        ("SELECT count(*) FROM bigger", "SELECT count(*) FROM orders WHERE total > 5 AND total > 7"),
        ("SELECT count(*) FROM orders JOIN places USING (area)", "SELECT count(*) FROM orders JOIN (SELECT area, country FROM areas WHERE country = 'x') AS places USING (area)"),
        ("WITH orders AS (SELECT * FROM people) SELECT count(*) FROM big", "SELECT count(*) FROM orders WHERE total > 5"),
        ("WITH big AS (SELECT * FROM big WHERE total > 8) SELECT count(*) FROM big", "SELECT count(*) FROM orders WHERE total > 5 AND total > 8"),
        ("WITH big AS (SELECT * FROM people) SELECT count(*) FROM big", "SELECT count(*) FROM people"),
        ("SELECT count(*) FROM people WHERE id IN (SELECT id FROM big)", "SELECT count(*) FROM people WHERE id IN (SELECT id FROM orders WHERE total > 5)"),
    ],
)  # fmt: skip
def test_a_view_is_what_it_stands_for(db: dpsql.Connection, sql: str, same: str) -> None:
    one, two = (db.prepare(each, epsilon=1.0, delta=1e-7, mechanism="laplace") for each in (sql, same))
    assert [str(r.cost) for r in (one.bill,)] == [str(r.cost) for r in (two.bill,)]
    sources = [each.plan.releases[0].source for each in (one, two)]
    assert sources[0].rows_per_unit == sources[1].rows_per_unit and sources[0].single == sources[1].single
    assert db.explain(sql, epsilon=1).sql is not None


def test_a_view_of_a_release_is_released(db: dpsql.Connection) -> None:
    made = db.query("SELECT area FROM counts WHERE area <> 'w' ORDER BY area", epsilon=1)
    assert [row[0] for row in made.fetchall()] == ["n", "s"]


def test_a_view_exists_only_for_who_may_see_all_of_it() -> None:
    with connected(analyst="ana") as ana, connected(analyst="bob") as bob:
        assert [t.name for t in visible_tables(ana)] == ["people", "orders", "areas", "big", "latest", "places", "counts", "bigger"]  # fmt: skip
        assert [t.name for t in visible_tables(bob)] == ["areas", "places"]
        for db, name in ((ana, "whispered"), (bob, "big"), (bob, "counts"), (ana, "wrong"), (ana, "looped")):
            with pytest.raises(dpsql.ParseError) as caught:
                db.explain(f"SELECT count(*) FROM {name}")
            assert str(caught.value).startswith(f"there is no table {name}")
            said = str(caught.value).replace(name, "")
            assert "secret" not in said and "nowhere" not in said and "median" not in said
            assert db is ana or ("orders" not in said and "big" not in said)


def test_an_error_about_a_view_points_at_its_name(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.Error) as caught:
        db.explain("SELECT count(*) FROM big JOIN latest ON big.total = latest.total")
    assert "not by their owner" in str(caught.value)


def test_check_tells_the_steward_which_views_cannot_be_planned(db: dpsql.Connection) -> None:
    found = {f.table: f for f in check(db).findings if f.fact == "view"}
    assert {name for name, f in found.items() if not f.ok} == {"looped", "loop_too", "wrong"}
    assert "id, total, area" in found["big"].text and "nowhere" in found["wrong"].text


@pytest.mark.parametrize(
    ("views", "says"),
    [
        ({"orders": "SELECT 1"}, "is a table already"),
        ({"v": {"sqll": "SELECT 1"}}, "sql"),
        ({"v": 7}, "views.v"),
        ({"v": "SELECT 1", "V": "SELECT 2"}, "same name"),
    ],
)
def test_mistakes_in_views_are_told(views: dict[str, Any], says: str) -> None:
    with pytest.raises(dpsql.PolicyError, match=says):
        dpsql.connect({}, policy={**POLICY, "views": views}, ledger=":memory:", steward=True)


def test_a_policy_without_views_has_none() -> None:
    policy = Policy.model_validate({k: v for k, v in POLICY.items() if k != "views"})
    assert policy.view_queries == {}
