"""A node that states more of its rows than follows from those below it is refused, whatever kind of node it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import InternalError
from dpsql.plan.builder.subplan import widest
from dpsql.plan.catalog import Catalog
from dpsql.plan.invariants import check_facts
from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import UNIT, Field, JoinSide, PublicScan, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists, ExistsColumn
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup
from dpsql.plan.nodes.union import UnionAll
from dpsql.plan.nodes.windows import Windowed
from dpsql.sensitivity.bound import bound

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 99}, "town": {"values": ["a", "b"]}}},
        "visits": {"unit": "id", "max_rows_per_unit": 9, "columns": {"x": {"min": 0, "max": 9}, "town": {"values": ["a", "b"]}}},
        "rows": {"unit": "row", "columns": {"x": {"min": 0, "max": 9}}},
        "towns": {"public": True},
    },
}  # fmt: skip
SETUP = """
CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, town VARCHAR);
CREATE TABLE visits (id INTEGER, x INTEGER, town VARCHAR);
CREATE TABLE rows (x INTEGER);
CREATE TABLE towns (town VARCHAR PRIMARY KEY, region VARCHAR, size INTEGER);
INSERT INTO towns VALUES ('a', 'north', 1), ('b', 'south', 1);
"""
NUMBERED = "SELECT id, x, row_number() OVER (PARTITION BY id ORDER BY x) AS n FROM visits"
QUERIES = {
    Scan: "SELECT count(*) FROM visits",
    Filter: "SELECT count(*) FROM visits WHERE x > 3",
    Project: "SELECT count(*) FROM (SELECT id, x + 1 AS y FROM visits) AS v JOIN towns t ON v.y = t.size",
    UnitGroup: "SELECT avg(n) FROM (SELECT id, town, count(*) AS n FROM visits GROUP BY id, town) AS s",
    Inner: "SELECT count(*) FROM visits v JOIN towns t ON v.town = t.town",
    Outer: "SELECT count(t.region) FROM visits v LEFT JOIN towns t ON v.town = t.town",
    Exists: "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = v.id AND p.age > 3)",
    ExistsColumn: "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = v.id AND p.age > v.x)) FROM visits v",
    Windowed: f"SELECT sum(n) FROM ({NUMBERED}) AS s",
    UnionAll: "SELECT count(*) FROM (SELECT id, x FROM visits UNION ALL SELECT id, age FROM people) AS s",
}  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    own = duckdb.connect()
    own.execute(SETUP)
    with dpsql.connect(own, policy=POLICY, ledger=":memory:") as connection:
        yield connection


def release_of(db: dpsql.Connection, sql: str) -> Any:
    return db.prepare(sql, epsilon=1.0, delta=1e-7, mechanism="laplace").plan.releases[0]


def catalog(db: dpsql.Connection) -> Catalog:
    return db.dataset.catalog


def holds(node: Relation, kind: type[Relation]) -> bool:
    return isinstance(node, kind) or any(holds(below, kind) for below in children(node))


def children(node: Relation) -> list[Relation]:
    held = [getattr(node, each.name) for each in fields(node)]
    flat = [each for part in held for each in (part if isinstance(part, tuple) else (part,))]
    return [
        each.relation if isinstance(each, JoinSide) else each for each in flat if isinstance(each, JoinSide | Relation)
    ]


def changed(node: Any, kind: type[Relation], change: Callable[[Any], Relation]) -> Any:
    """The plan with every node of that kind changed."""
    if isinstance(node, tuple):
        return tuple(changed(each, kind, change) for each in node)
    if isinstance(node, JoinSide):
        return replace(node, relation=changed(node.relation, kind, change))
    if not isinstance(node, Relation):
        return node
    below = {each.name: getattr(node, each.name) for each in fields(node)}
    made = {name: changed(held, kind, change) for name, held in below.items()}
    node = replace(node, **{name: held for name, held in made.items() if held is not below[name]})
    return change(node) if isinstance(node, kind) else node


def _attribute(node: Relation) -> Relation:
    return replace(node, fields=tuple(replace(f, attribute=True) for f in node.fields))


def _owner(node: Relation) -> Relation:
    return replace(node, fields=tuple(replace(f, owner=UNIT, padded=False) for f in node.fields))


LIES: dict[str, Callable[[Any], Relation]] = {
    "one row per unit": lambda node: replace(node, single=True),
    "attributes": _attribute,
    "owners": _owner,
    "rows that are units": lambda node: replace(node, by_row=True),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", QUERIES, ids=lambda kind: kind.__name__)
def test_a_false_fact_is_refused_in_every_kind_of_node(db: dpsql.Connection, kind: type[Relation], lie: str) -> None:
    release = release_of(db, QUERIES[kind])
    assert holds(release.source, kind)
    bound(release, "laplace", catalog(db))
    with pytest.raises(InternalError, match="invariant broken"):
        false = replace(release, source=changed(release.source, kind, LIES[lie]))
        bound(false, "laplace", catalog(db))


@pytest.mark.parametrize(
    ("window", "alike"),
    [
        ("sum(x) OVER (PARTITION BY id)", True),
        ("max(x) OVER (PARTITION BY id ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)", True),
        ("sum(x) OVER (PARTITION BY id, town)", False),
        ("sum(x) OVER (PARTITION BY id ORDER BY x)", False),
        ("sum(x) OVER (PARTITION BY id ORDER BY x ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", False),
        ("sum(x) OVER (PARTITION BY id ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", False),
        ("row_number() OVER (PARTITION BY id ORDER BY x)", False),
        ("rank() OVER (PARTITION BY id ORDER BY x)", False),
        ("lag(x) OVER (PARTITION BY id ORDER BY x)", False),
    ],
)
def test_only_a_window_over_all_rows_of_a_unit_gives_them_one_value(
    db: dpsql.Connection, window: str, alike: bool
) -> None:
    release = release_of(db, f"SELECT sum(n) FROM (SELECT id, x, {window} AS n FROM visits) AS s")

    def told(node: Windowed) -> Relation:
        [(name, _)] = node.calls
        return replace(node, fields=tuple(replace(f, attribute=f.attribute or f.name == name) for f in node.fields))

    said = changed(release.source, Windowed, told)
    if alike:
        check_facts(said, catalog(db))
    else:
        with pytest.raises(InternalError, match="invariant broken"):
            check_facts(said, catalog(db))


@pytest.mark.parametrize("kind", [k for k in QUERIES if k is not Scan], ids=lambda kind: kind.__name__)
def test_fewer_rows_per_unit_than_those_below_are_refused(db: dpsql.Connection, kind: type[Relation]) -> None:
    release = release_of(db, QUERIES[kind])
    false = changed(release.source, kind, lambda node: replace(node, rows_per_unit=1))
    with pytest.raises(InternalError, match="rows per unit"):
        check_facts(false, catalog(db))


@pytest.mark.parametrize(
    ("sql", "lie"),
    [
        ("SELECT count(*) FROM visits v JOIN towns t ON v.x = t.size", {"lookups": frozenset({0, 1})}),
        ("SELECT count(*) FROM visits v JOIN towns t ON v.x = t.size", {"lookups": frozenset({1})}),
        ("SELECT count(*) FROM visits v JOIN visits w ON v.id = w.id", {"lookups": frozenset({1}), "rows_per_unit": 9}),
        (
            "SELECT count(*) FROM people p JOIN towns t ON p.town = t.region",
            {"lookups": frozenset({1}), "single": True},
        ),
    ],
)
def test_a_part_of_a_join_that_no_key_finds_is_not_looked_up(
    db: dpsql.Connection, sql: str, lie: dict[str, Any]
) -> None:
    release = release_of(db, sql)
    with pytest.raises(InternalError, match=r"looked up|without roots"):
        check_facts(changed(release.source, Inner, lambda node: replace(node, **lie)), catalog(db))


def test_a_side_of_an_outer_join_that_no_key_finds_matches_more_than_once(db: dpsql.Connection) -> None:
    release = release_of(db, "SELECT count(t.region) FROM people p LEFT JOIN towns t ON p.town = t.region")
    assert release.source.rows_per_unit == 1 and not release.source.single
    false = changed(release.source, Outer, lambda node: replace(node, once=True, single=True))
    with pytest.raises(InternalError, match="more than once"):
        check_facts(false, catalog(db))


@pytest.mark.parametrize(
    "lie",
    [
        {"keys": frozenset({frozenset({"x"})})},
        {"unit": "x"},
        {"table": "people"},
        {"table": "towns"},
        {"table": "nowhere"},
    ],
    ids=str,
)
def test_a_private_table_is_what_the_catalogue_says(db: dpsql.Connection, lie: dict[str, Any]) -> None:
    release = release_of(db, QUERIES[Scan])
    with pytest.raises(InternalError, match="private table"):
        check_facts(replace(release.source, **lie), catalog(db))


def test_a_private_table_is_never_read_as_a_public_one(db: dpsql.Connection) -> None:
    release = release_of(db, QUERIES[Inner])
    false = changed(release.source, PublicScan, lambda node: replace(node, table="people"))
    with pytest.raises(InternalError, match="read as public"):
        check_facts(false, catalog(db))


@pytest.mark.parametrize(
    ("condition", "rows"), [("n = 1", 1), ("n <= 3", 3), ("n < 3", 2), ("n IN (1, 5)", 2), ("x <= 3", 9)]
)
def test_a_number_that_rows_of_a_unit_do_not_share_bounds_them(db: dpsql.Connection, condition: str, rows: int) -> None:
    release = release_of(db, f"SELECT sum(x) FROM ({NUMBERED}) AS s WHERE {condition}")
    assert release.source.rows_per_unit == rows
    check_facts(release.source, catalog(db))
    if rows > 1:
        with pytest.raises(InternalError, match="rows per unit"):
            check_facts(replace(release.source, rows_per_unit=rows - 1), catalog(db))


def test_a_number_within_groups_bounds_nothing(db: dpsql.Connection) -> None:
    numbered = "SELECT id, x, row_number() OVER (PARTITION BY id, town ORDER BY x) AS n FROM visits"
    release = release_of(db, f"SELECT sum(x) FROM ({numbered}) AS s WHERE n = 1")
    assert release.source.rows_per_unit == 9
    with pytest.raises(InternalError, match="one row per unit"):
        check_facts(replace(release.source, single=True), catalog(db))


def test_a_padded_column_is_not_the_owner_of_every_row(db: dpsql.Connection) -> None:
    sql = "SELECT count(DISTINCT p.id) FROM visits v LEFT JOIN people p ON p.id = v.id AND p.age > v.x"
    release = release_of(db, sql)
    assert any(f.padded and f.owner == UNIT for f in release.source.fields)
    whole: Callable[[Field], Field] = lambda f: replace(f, padded=False)  # noqa: E731
    with pytest.raises(InternalError, match="may be missing"):
        check_facts(replace(release.source, fields=tuple(map(whole, release.source.fields))), catalog(db))


def test_the_planner_and_the_check_agree_on_a_chain_of_lookups(db: dpsql.Connection) -> None:
    release = release_of(
        db, "SELECT count(*) FROM visits v JOIN towns t ON v.town = t.town JOIN towns u ON u.town = t.region"
    )
    assert release.source.rows_per_unit == 9 and len(release.source.lookups) == 2
    check_facts(release.source, catalog(db))


def test_the_widest_expression_is_found_in_conditions_and_in_what_is_read(db: dpsql.Connection) -> None:
    """Whichever of the two it is in."""
    long = " + ".join(["x"] * 20)
    for sql in (f"SELECT sum(x) FROM visits WHERE {long} > 3", f"SELECT sum({long}) FROM visits WHERE x > 3"):
        release = release_of(db, sql)
        read = [each.argument for each in release.aggregates if each.argument is not None]
        assert 20 < widest(release.source, read) < 100


def test_rows_grouped_by_owner_and_more_are_found_by_both(db: dpsql.Connection) -> None:
    """Each is one row of its owner with its town: the pair finds one row at most, and the town alone does not."""
    per_town = "SELECT id, town, count(*) AS n FROM visits GROUP BY id, town"
    sql = f"SELECT sum(v.x) FROM visits v JOIN ({per_town}) AS s ON v.id = s.id AND v.town = s.town"
    release = release_of(db, sql)
    assert release.source.rows_per_unit == 9
    check_facts(release.source, catalog(db))


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_each_row_of_a_unit_may_meet_all_of_the_other_side(db: dpsql.Connection, kind: str) -> None:
    """Nine visits beside nine visits are 81 rows, whatever the condition leaves of them, and 80 are too few to state."""
    source = release_of(db, f"SELECT count(*) FROM visits v {kind} visits w ON v.id = w.id AND v.x < w.x").source
    assert source.rows_per_unit >= 81
    check_facts(source, catalog(db))
    with pytest.raises(InternalError):
        check_facts(replace(source, rows_per_unit=80), catalog(db))


def joins(node: Relation) -> list[Inner]:
    return [each for below in children(node) for each in joins(below)] + ([node] if isinstance(node, Inner) else [])


@pytest.mark.parametrize(
    ("sql", "lookups"),
    [
        ("SELECT count(*) FROM people p JOIN towns t ON p.town = t.town", {1}),
        ("SELECT count(*) FROM people p JOIN towns t ON p.id = t.size", set()),
        (
            "SELECT sum(n) FROM (SELECT id, count(*) AS n FROM visits GROUP BY id) s JOIN towns t ON s.id = t.size",
            set(),
        ),
        ("SELECT count(*) FROM people p JOIN visits v ON p.id = v.id", {0}),
    ],
)
def test_the_last_private_part_of_a_join_is_never_looked_up(db: dpsql.Connection, sql: str, lookups: set[int]) -> None:
    """A person may be found by a key in each of many public rows, and then has as many rows in the join."""
    [join] = joins(release_of(db, sql).source)
    assert join.lookups == lookups
