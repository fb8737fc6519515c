"""Joins: what names mean, whose rows are whose, and refusals whose hints work when they are followed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.engines.sql.relations import _only_equalities
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BOOLEAN, from_engine
from dpsql.interfaces.steward_tasks import check
from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import Field, JoinSide, PublicScan, Relation, Scan, Step, side_of
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Project
from dpsql.plan.normal_form import conjunction

INTEGER = from_engine("INTEGER")
assert INTEGER is not None
TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, area VARCHAR);
CREATE TABLE orders (id BIGINT, oid BIGINT UNIQUE, total DOUBLE, area VARCHAR);
CREATE TABLE items (oid BIGINT REFERENCES orders (oid), qty INTEGER);
CREATE TABLE texts (id VARCHAR, n INTEGER);
CREATE TABLE visits (page VARCHAR);
CREATE TABLE areas (area VARCHAR PRIMARY KEY, country VARCHAR);
CREATE TABLE stores (store VARCHAR, area VARCHAR);
INSERT INTO areas VALUES ('n', 'x'), ('s', 'x'), ('e', 'y');
INSERT INTO stores VALUES ('one', 'n'), ('two', 'n'), ('three', 'e');
INSERT INTO people SELECT i, 20 + i % 50, ['n', 's', 'e'][1 + i % 3] FROM range(100) r(i);
INSERT INTO orders SELECT i % 120, i, i % 7, 'n' FROM range(300) r(i);
INSERT INTO items SELECT i % 250, 1 + i % 3 FROM range(600) r(i);
"""
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 10_000, "delta": 1e-6},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 18, "max": 90}, "area": {"values": {"from": "areas.area"}}}},
        "orders": {"unit": "id", "max_rows_per_unit": 9, "columns": {"oid": {}, "total": {"min": 0, "max": 10}, "area": {}}},
        "items": {"unit": {"oid": "orders.oid"}, "max_rows_per_unit": 20, "columns": {"qty": {"min": 1, "max": 3}}},
        "texts": {"unit": "id", "columns": {"n": {"min": 0, "max": 9}}},
        "visits": {"unit": "row", "columns": {"page": {}}},
        "areas": {"public": True},
        "stores": {"public": True},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    data = duckdb.connect()
    data.execute(TABLES)
    with dpsql.connect(data, policy=POLICY, ledger=":memory:", steward=True) as connection:
        yield connection


def refusal(db: dpsql.Connection, sql: str) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        db.explain(sql)
    return caught.value


def source(db: dpsql.Connection, sql: str) -> Relation:
    return db.prepare(sql, epsilon=1.0, delta=1e-6, mechanism="laplace").plan.releases[0].source


def rule(db: dpsql.Connection, sql: str) -> tuple[str, int]:
    [release] = db.explain(sql).releases
    return release.rule, release.rows_per_unit


# names ------------------------------------------------------------------------------------------------------------------


def test_a_name_that_several_tables_have_is_ambiguous_and_the_hint_lists_them(db: dpsql.Connection) -> None:
    sql = "SELECT count(*) FROM people p JOIN orders o ON p.id = o.id WHERE {} = 'n'"
    error = refusal(db, sql.format("area"))
    assert "ambiguous" in str(error)
    candidates = re.findall(r"\w\.area", error.hint or "")
    assert candidates == ["p.area", "o.area"]
    for candidate in candidates:
        db.explain(sql.format(candidate))


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_using_merges_the_column_and_both_sides_can_still_be_named(db: dpsql.Connection, join: str) -> None:
    db.explain(f"SELECT count(id), count(p.id), count(o.id) FROM people p {join} orders o USING (id)")
    db.explain(f"SELECT count(*) FROM (SELECT id, count(*) AS n FROM people p {join} orders o USING (id) GROUP BY id)")


def test_a_star_has_a_merged_column_once_and_the_columns_in_their_order(db: dpsql.Connection) -> None:
    for star in ("*", "p.*, o.*"):
        error = refusal(db, f"SELECT nosuch FROM (SELECT {star} FROM people p JOIN orders o USING (id)) AS t")
        listed = (error.hint or "").partition("columns: ")[2].split(", ")
        merged = ["age", "area", "id", "oid", "total", "area:1"]
        assert listed == (merged if star == "*" else [*merged, "id:1"])


def test_names_in_a_subquery_are_its_own_first(db: dpsql.Connection) -> None:
    inner = "SELECT 1 FROM orders WHERE orders.id = people.id AND area = 'n'"
    sql = db.explain(f"SELECT count(*) FROM people WHERE EXISTS ({inner})").sql
    assert '"orders"ASjesWHERE(CAST((jes."area"' in "".join(sql.split())


def test_a_table_stands_under_one_name_once(db: dpsql.Connection) -> None:
    assert "appears twice" in str(refusal(db, "SELECT count(*) FROM orders, orders"))
    db.explain("SELECT count(*) FROM orders AS a, orders AS b WHERE a.id = b.id")


def test_names_are_compared_in_any_case(db: dpsql.Connection) -> None:
    db.explain("SELECT count(*) FROM People P join ORDERS o on p.ID = O.Id where P.AREA = 'n'")


# owners -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM people p JOIN areas a ON p.area = a.area", ("single_row", 1)),
        ("SELECT count(*) FROM people p JOIN stores s ON p.area = s.area", ("one_group", 1)),
        ("SELECT a.country, count(*) FROM people p JOIN orders o ON p.id = o.id JOIN areas a ON p.area = a.area GROUP BY 1", ("one_group", 9)),
        ("SELECT a.country, count(*) FROM people p JOIN orders o ON p.id = o.id JOIN areas a ON o.area = a.area GROUP BY 1", ("clip", 9)),
        ("SELECT s.store, count(*) FROM people p JOIN orders o ON p.id = o.id JOIN stores s ON p.area = s.area GROUP BY 1", ("clip", 9)),
        ("SELECT count(*) FROM items", ("one_group", 20)),
        ("SELECT count(*) FROM items i, orders o, people p WHERE i.oid = o.oid AND o.id = p.id", ("one_group", 20)),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.id = b.id", ("one_group", 81)),
        ("SELECT count(*) FROM visits v JOIN areas a ON v.page = a.area", ("row", 1)),
        ("SELECT count(*) FROM people p LEFT JOIN areas a ON p.area = a.area AND p.age > 30", ("single_row", 1)),
        ("SELECT count(*) FROM people p LEFT JOIN (SELECT id, count(*) AS n FROM orders GROUP BY id) AS o ON p.id = o.id", ("single_row", 1)),
        ("SELECT count(*) FROM people p FULL JOIN (SELECT id, count(*) AS n FROM orders GROUP BY id) AS o ON p.id = o.id", ("single_row", 1)),
        ("SELECT count(*) FROM people p FULL JOIN (SELECT id, count(*) AS n FROM orders GROUP BY id) AS o ON p.id = o.id AND o.n > 3", ("one_group", 2)),
    ],
)  # fmt: skip
def test_the_rule_of_a_join(db: dpsql.Connection, sql: str, expected: tuple[str, int]) -> None:
    assert rule(db, sql) == expected


def test_the_path_to_the_owner_is_joined_only_where_nothing_else_gives_the_owner(db: dpsql.Connection) -> None:
    assert db.explain("SELECT count(*) FROM items").sql.count('"orders"') == 1
    assert db.explain("SELECT count(*) FROM items i JOIN orders o ON i.oid = o.oid").sql.count('"orders"') == 1
    assert db.explain("SELECT count(*) FROM orders o SEMI JOIN items i ON i.oid = o.oid").sql.count('"orders"') == 1


def test_keys_of_a_public_table_are_those_that_the_public_part_of_the_join_has(db: dpsql.Connection) -> None:
    sql = "SELECT s.store, count(*) FROM orders o, stores s, areas a WHERE o.area = s.area AND s.area = a.area AND a.country = {} GROUP BY 1"
    for country, expected in (("'x'", ("one", "two")), ("'y'", ("three",)), ("'z'", ())):
        [release] = db.explain(sql.format(country)).releases
        assert release.keys[0].values == expected
    assert len(db.query(sql.format("'x'"), epsilon=1).fetchall()) == 2
    assert db.query(sql.format("'z'"), epsilon=1).fetchall() == []


def test_a_column_takes_its_values_from_a_public_table(db: dpsql.Connection) -> None:
    [release] = db.explain("SELECT area, count(*) FROM people GROUP BY area").releases
    assert release.keys[0].values == ("e", "n", "s", None)
    assert any("values of areas.area" in origin for origin in release.keys[0].origin)


def test_a_public_table_joined_below_is_not_loaded_above(db: dpsql.Connection) -> None:
    below = "SELECT count(*) FROM orders o JOIN areas a ON o.area = a.area"
    assert db.prepare(below).plan.public == ()
    both = f"SELECT (SELECT count(*) FROM areas), n FROM ({below.replace('count(*)', 'count(*) AS n')}) AS r"
    assert db.prepare(both).plan.public == ("areas",)


@pytest.mark.parametrize(
    "value",
    [
        "(SELECT max(s.store) FROM stores s WHERE s.area = a.area)",
        "a.area IN (SELECT s.area FROM stores s WHERE s.area = a.area)",
        "EXISTS (SELECT 1 FROM stores s WHERE s.area = a.area)",
        "(SELECT 1 FROM stores s WHERE s.area = a.area UNION SELECT 1)",
    ],
)
def test_a_value_of_public_rows_above_stays_the_subquery_that_it_is(db: dpsql.Connection, value: str) -> None:
    plan = db.prepare(f"SELECT a.area, {value} FROM areas a").plan
    assert plan.releases == () and "JOIN" not in plan.finishing.sql("duckdb")


# refusals ---------------------------------------------------------------------------------------------------------------

FOLLOWED = [
    ("SELECT count(*) FROM people, orders", " WHERE {}"),
    ("SELECT count(*) FROM people p JOIN orders o ON p.area = o.area", " AND {}"),
    ("SELECT count(*) FROM people p, orders o WHERE p.id = o.id + 0", " AND {}"),
    ("SELECT count(*) FROM people p LEFT JOIN orders o ON p.area = o.area", " AND {}"),
    ("SELECT count(*) FROM items i JOIN items j ON i.qty = j.qty", " AND {}"),
    ("SELECT count(*) FROM (SELECT * FROM people), (SELECT * FROM orders)", " WHERE {}"),
    ("SELECT count(*) FROM people WHERE area IN (SELECT area FROM orders", " WHERE {}"),
    ("SELECT count(*) FROM people WHERE area NOT IN (SELECT o.area FROM orders AS o WHERE o.total > 3", " AND {}"),
    ("SELECT count(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders WHERE total > 3", " AND {}"),
    ("SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM items WHERE qty > 2", " AND {}"),
]


@pytest.mark.parametrize(("sql", "added"), FOLLOWED)
def test_the_hint_of_a_join_across_owners_works_when_it_is_followed(db: dpsql.Connection, sql: str, added: str) -> None:
    bracket = ")" if sql.count("(") > sql.count(")") else ""
    error = refusal(db, sql + bracket)
    assert isinstance(error, dpsql.UnsupportedQuery)
    assert error.span is not None
    equality = (error.hint or "").rpartition(": ")[2]
    assert " = " in equality
    db.explain(sql + added.format(equality) + bracket)


@pytest.mark.parametrize(
    ("sql", "says", "instead"),
    [
        ("SELECT count(*) FROM people p JOIN items i ON p.age = i.qty", "join orders as well", "SELECT count(*) FROM people p JOIN items i ON p.age = i.qty JOIN orders ON i.oid = orders.oid WHERE orders.id = p.id"),
        ("SELECT a.area, count(*) FROM areas a LEFT JOIN orders o ON a.area = o.area GROUP BY 1", "use INNER JOIN", "SELECT a.area, count(*) FROM areas a INNER JOIN orders o ON a.area = o.area GROUP BY 1"),
        ("SELECT count(*) FROM orders o FULL JOIN areas a ON a.area = o.area", "use INNER JOIN", "SELECT count(*) FROM orders o INNER JOIN areas a ON a.area = o.area"),
        ("SELECT count(*) FROM visits v JOIN stores s ON v.page = s.area", "unique in the public table", "SELECT count(*) FROM visits v JOIN areas s ON v.page = s.area"),
        ("SELECT count(*) FROM (people p JOIN orders o USING (id)) AS t", "leave out the name", "SELECT count(*) FROM (people p JOIN orders o USING (id))"),
        ("SELECT count(*) FROM people p ASOF JOIN orders o ON p.id >= o.id", "compare with", "SELECT count(*) FROM people p JOIN orders o ON p.id = o.id AND p.id >= o.id"),
        ("SELECT o.oid, count(*) FROM orders o JOIN items i USING (oid) GROUP BY o.oid", "aggregate once more", "SELECT avg(n) FROM (SELECT o.oid, count(*) AS n FROM orders o JOIN items i USING (oid) GROUP BY o.oid)"),
        ("SELECT count(*) FROM people WHERE area IN (SELECT id FROM orders GROUP BY id)", "", "SELECT count(*) FROM people WHERE people.id IN (SELECT id FROM orders GROUP BY id)"),
        ("SELECT count(*) FROM visits v, orders o WHERE v.page = o.area", "join the results",
         "SELECT * FROM (SELECT page, count(*) FROM visits GROUP BY page) AS a JOIN (SELECT area, count(*) FROM orders GROUP BY area) AS b ON a.page = b.area"),
    ],
)  # fmt: skip
def test_a_refused_join_has_a_way_out(db: dpsql.Connection, sql: str, says: str, instead: str) -> None:
    assert says in (refusal(db, sql).hint or "")
    db.explain(instead)


@pytest.mark.parametrize("condition", ["EXISTS (SELECT 1)", "age IN (SELECT 30)", "age NOT IN (SELECT 30)"])
def test_a_subquery_without_tables_is_refused(db: dpsql.Connection, condition: str) -> None:
    assert "has no FROM" in str(refusal(db, f"SELECT count(*) FROM people WHERE {condition}"))


def test_units_of_different_types_are_not_compared(db: dpsql.Connection) -> None:
    assert "cannot be compared" in str(refusal(db, "SELECT count(*) FROM people p JOIN texts t ON p.id = t.id"))
    error = refusal(db, "SELECT count(*) FROM people p JOIN texts t ON p.age = t.n")
    assert "different types" in (error.hint or "")
    assert "not by their owner" in str(
        refusal(db, "SELECT count(*) FROM people p JOIN texts t ON CAST(p.id AS VARCHAR) = t.id")
    )


# verified facts ---------------------------------------------------------------------------------------------------------


def _file(path: Path, *, repeated: bool) -> Path:
    with duckdb.connect(str(path)) as stored:
        stored.execute(TABLES.replace(" UNIQUE", "").replace(" REFERENCES orders (oid)", ""))
        if repeated:
            stored.execute("INSERT INTO orders VALUES (1, 5, 1, 'n'), (2, 5, 1, 'n')")
    return path


@pytest.mark.parametrize("repeated", [False, True])
def test_a_path_needs_a_verified_foreign_key(tmp_path: Path, repeated: bool) -> None:
    path, ledger = _file(tmp_path / "d.duckdb", repeated=repeated), tmp_path / "d.ledger"
    with dpsql.connect(path, policy=POLICY, ledger=ledger, steward=True) as db:
        error = refusal(db, "SELECT count(*) FROM items")
        assert "through another table" in str(error)
        assert "dpsql check" in (error.hint or "")
        assert "not by their owner" not in str(
            refusal(db, "SELECT count(*) FROM items i JOIN orders o ON i.oid = o.oid")
        )
        check(db)
    with dpsql.connect(path, policy=POLICY, ledger=ledger, steward=True) as db:
        if repeated:
            assert "through another table" in str(refusal(db, "SELECT count(*) FROM items"))
        else:
            assert rule(db, "SELECT count(*) FROM items") == ("one_group", 20)


def test_uniqueness_of_public_rows_counts_in_a_file_and_on_a_live_connection_only_by_constraint(tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM visits v JOIN stores s ON v.page = s.store"
    with dpsql.connect(_file(tmp_path / "d.duckdb", repeated=False), policy=POLICY, ledger=":memory:") as db:
        assert rule(db, sql) == ("row", 1)
    data = duckdb.connect()
    data.execute(TABLES)
    with dpsql.connect(data, policy=POLICY, ledger=":memory:") as db:
        assert "multiply" in str(refusal(db, sql))


# invariants -------------------------------------------------------------------------------------------------------------


def test_a_node_that_would_mix_owners_cannot_be_made(db: dpsql.Connection) -> None:
    tables = db.dataset.catalog.tables
    people, orders, visits = (tables[name].scan for name in ("people", "orders", "visits"))  # type: ignore[union-attr]
    areas = tables["areas"].scan({})  # type: ignore[union-attr, call-arg]
    true = conjunction([])
    renamed = JoinSide(orders, tuple(f"o.{f.name}" for f in orders.fields))
    named = JoinSide(areas, tuple(f"a.{f.name}" for f in areas.fields))
    fields = (*side_of(people).fields, *renamed.fields)
    for made in (
        lambda: Inner(fields, False, 1, False, (side_of(people), renamed), ()),
        lambda: Outer(fields, False, 1, False, side_of(people), renamed, False, true),
        lambda: Exists(people.fields, False, 1, True, people, renamed, true),
        lambda: Inner((*visits.fields, *areas.fields), True, 1, True, (side_of(visits), side_of(areas)), ()),
        lambda: Outer((*areas.fields, *renamed.fields), False, 1, False, side_of(areas), renamed, False, true),
        lambda: Inner(people.fields, False, 1, True, (side_of(people),), (Column(BOOLEAN, name="nowhere"),)),
        lambda: Inner(people.fields, False, 1, True, (side_of(people),), (Column(INTEGER, name="age"),)),
        lambda: Outer(people.fields, False, 1, True, None, side_of(people), False, true),
        lambda: Exists(people.fields, False, 1, True, people, None, true),
        lambda: Outer((*visits.fields, *areas.fields), True, 1, True, side_of(visits), side_of(areas), False, true),
        lambda: Outer((*side_of(people).fields, *named.fields), False, 1, False, side_of(people), named, True, true),
    ):
        with pytest.raises(InternalError):
            made()


def test_a_label_leads_to_one_owner_along_the_whole_path(db: dpsql.Connection) -> None:
    items = db.dataset.catalog.tables["items"].scan  # type: ignore[union-attr]
    assert isinstance(items, Scan)
    assert items.path == (Step("oid", "orders", "oid"),)
    assert items.unit == "id"
    owners = {f.name: f.owner for f in items.fields if isinstance(f, Field)}
    assert owners == {"oid": "orders.oid", "qty": None}
    assert not items.public
    assert PublicScan((), False, 1, False, "areas").public


# other parts of the session -----------------------------------------------------------------------------------------------


def test_a_join_that_was_answered_is_replayed(db: dpsql.Connection) -> None:
    sql = "SELECT a.country, count(*) AS n FROM people p, orders o, areas a WHERE {} AND {} GROUP BY 1"
    conditions = ("o.id = p.id", "p.area = a.area")
    first = db.query(sql.format(*conditions), epsilon=1)
    again = db.query(sql.format(*reversed(conditions)) + " ORDER BY n DESC", epsilon=1)
    assert not first.replayed
    assert again.replayed
    assert sorted(first.fetchall()) == sorted(again.fetchall())
    assert not db.query(sql.format(*conditions).replace("p.area = a.area", "o.area = a.area"), epsilon=1).replayed


def test_names_on_the_way_to_the_owner_stay_hidden_from_those_who_may_not_see_them() -> None:
    data = duckdb.connect()
    data.execute(TABLES)
    budget = {**POLICY["budget"], "analysts": {"ana": {"tables": {"items": ["qty"]}}}}
    with dpsql.connect(data, policy={**POLICY, "budget": budget}, ledger=":memory:", analyst="ana") as db:
        shown = db.explain("SELECT sum(qty) FROM items").sql
        assert not re.search(r'"(orders|oid|id)"', shown)
        assert '"<unit>"' in shown
        assert db.query("SELECT sum(qty) FROM items", epsilon=100).fetchall()[0][0] > 0
        assert "no table orders" in str(refusal(db, "SELECT count(*) FROM items JOIN orders USING (oid)"))


GROUPED = "(SELECT id, count(*) AS n FROM orders GROUP BY id)"
JOINED = f"(SELECT p.id, q.n FROM people p LEFT JOIN {GROUPED} AS q ON p.id = q.id)"


@pytest.mark.parametrize("right", [GROUPED, JOINED, "(SELECT id, area FROM people)"])
def test_one_row_of_each_owner_meets_one_row_of_the_other_side(db: dpsql.Connection, right: str) -> None:
    assert rule(db, f"SELECT count(*) FROM people p LEFT JOIN {right} AS r ON p.id = r.id") == ("single_row", 1)
    assert rule(db, f"SELECT count(*) FROM orders o LEFT JOIN {right} AS r ON o.id = r.id") == ("one_group", 9)


@pytest.mark.parametrize(
    ("join", "left", "right"), [("LEFT", False, True), ("RIGHT", True, False), ("FULL", True, True)]
)
def test_the_side_that_may_be_missing_has_nulls_and_no_attributes(
    db: dpsql.Connection, join: str, left: bool, right: bool
) -> None:
    sql = f"SELECT sum(a), sum(n) FROM (SELECT p.age AS a, o.n FROM people p {join} JOIN {GROUPED} AS o ON p.id = o.id)"
    made = source(db, sql)
    while not isinstance(made, Outer):
        assert isinstance(made, Project) and made.source is not None
        made = made.source
    flags = {f.name: (f.padded, f.domain.nullable and f.padded, f.attribute) for f in made.fields}
    age, count = (next(flags[name] for name in flags if name.startswith(start)) for start in ("age", "n"))
    assert age == (left, left, not left) and count == (right, right, not right)


@pytest.mark.parametrize("condition", ["p.id = o.id", "o.id = p.id", "o.id = p.id AND p.area = o.area"])
def test_equal_columns_are_such_on_either_side_of_the_sign(db: dpsql.Connection, condition: str) -> None:
    for more, only in (("", True), (" AND o.total > 3", False), (" AND p.area = p.area", False)):
        join = source(db, f"SELECT count(*) FROM people p FULL JOIN orders o ON {condition}{more}")
        assert isinstance(join, Outer) and join.left is not None and join.right is not None
        assert _only_equalities(join.condition, (join.left, join.right)) == only


STORES, PEOPLE = "(SELECT store, area AS place FROM stores)", "(SELECT id AS person, age FROM people)"


@pytest.mark.parametrize(
    ("join", "kept"),
    [
        (f"JOIN {STORES} AS s ON o.area = s.place", True),
        (f"LEFT JOIN {STORES} AS s ON o.area = s.place", True),
        (f"FULL JOIN {PEOPLE} AS p ON o.id = p.person", False),
    ],
)
def test_what_a_filter_says_of_an_expression_holds_where_each_joined_row_has_a_row_of_it(
    db: dpsql.Connection, join: str, kept: bool
) -> None:
    said = source(db, "SELECT count(*) FROM orders WHERE oid * 2 BETWEEN 4 AND 8")
    made = source(db, f"SELECT count(*) FROM orders AS o {join}")
    if isinstance(made, Inner):
        made = replace(made, parts=tuple(side_of(said) if part.private else part for part in made.parts))
    else:
        assert isinstance(made, Outer)
        made = replace(made, left=side_of(said))
    assert said.row_domains().refinements
    assert made.row_domains().refinements == (said.row_domains().refinements if kept else {})


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_row_that_is_a_unit_meets_no_row_of_another_private_side(db: dpsql.Connection, side: str) -> None:
    made = source(db, "SELECT count(*) FROM people p LEFT JOIN orders o ON p.id = o.id")
    part = getattr(made, side)
    with pytest.raises(InternalError, match="a row that is a unit joined"):
        replace(made, **{side: replace(part, relation=replace(part.relation, by_row=True))})
