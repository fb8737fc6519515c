"""What a relation claims of its rows holds in its rows: every node of many joins, over random worlds, looked up in DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from property_joins import SHAPES, Shape, join_database, join_policy, join_world, write
from property_world import Database

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.relations import relation_sql
from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import UNIT, Field, JoinSide, Relation, Scan

WORLDS = 3
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Database]]:
    """Wild ones: rows without owner, NULL keys, NaN, many rows."""
    policy = join_policy()
    made = [join_world(Random(seed), tame=False) for seed in range(WORLDS)]
    with (
        join_database(made[0], policy) as one,
        join_database(made[1], policy) as two,
        join_database(made[2], policy) as three,
    ):
        yield [one, two, three]


def nodes(relation: Relation) -> Iterator[Relation]:
    """The relation and all that it is made of."""
    yield relation
    for each in fields(relation):
        held = getattr(relation, each.name)
        for part in held if isinstance(held, tuple) else (held,):
            below = part.relation if isinstance(part, JoinSide) else part
            if isinstance(below, Relation):
                yield from nodes(below)


def rows_of(database: Database, relation: Relation) -> list[Row]:
    """The owner of each row, and its fields."""
    names = [f.name for f in relation.fields]
    made = relation_sql(relation, frozenset(names), Site(database.db.engine.schema(), DUCKDB))
    assert made.unit is not None
    listed = ", ".join([made.unit, *(made.columns[n] for n in names)])
    return [
        tuple(map(_same, row))
        for row in database.raw.execute(f"SELECT {listed} FROM {made.source}{made.conditions}").fetchall()
    ]


def _same(value: object) -> object:
    return "NaN" if value != value else value


def broken(database: Database, relation: Relation) -> list[str]:
    """The claims that do not hold."""
    rows = rows_of(database, relation)
    owners = dict(database.raw.execute("SELECT oid, id FROM orders WHERE oid IS NOT NULL").fetchall())
    found = ["a row without owner"] if any(row[0] is None for row in rows) else []
    units = [row[0] for row in rows]
    if relation.single and len(set(units)) != len(units):
        found.append("two rows of one unit")
    base = _multiplies_not(relation)
    if base is not None and Counter(units) - Counter(row[0] for row in rows_of(database, base)):
        found.append("more rows than were looked up from")
    places = {field.name: place for place, field in enumerate(relation.fields, start=1)}
    for key in relation.unique_keys():
        named = [tuple(row[places[name]] for name in key) for row in rows]
        if max(Counter(each for each in named if None not in each).values(), default=0) > 1:
            found.append(f"two rows with one value of {sorted(key)}")
    for place, field in enumerate(relation.fields, start=1):
        values = [(row[0], row[place]) for row in rows]
        found += [f"{field.name}: {claim}" for claim in _broken(field, values, owners)]
    return found


def _multiplies_not(relation: Relation) -> Relation | None:
    """The relation that has at least as many rows of each unit, if there is one by lookup."""
    if isinstance(relation, Outer) and relation.once and not relation.full and relation.left is not None:
        return relation.left.relation
    if isinstance(relation, Inner) and relation.lookups:
        roots = [part.relation for i, part in enumerate(relation.parts) if i not in relation.lookups]
        return roots[0] if len(roots) == 1 else None
    return None


def _broken(field: Field, values: list[tuple[Any, Any]], owners: dict[Any, Any]) -> Iterator[str]:
    if field.attribute and len(set(values)) != len({unit for unit, _ in values}):
        yield "not an attribute"
    if field.owner is None:
        return
    of = {value: value for _, value in values} if field.owner == UNIT else owners
    if any(value is not None and of.get(value) != unit for unit, value in values):
        yield "not the owner's"
    if field.unit and any(value is None for _, value in values):
        yield "a unit that is NULL"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.source} {shape.where}".strip())
def test_every_claim_of_every_node_holds_in_the_rows(shape: Shape, worlds: list[Database]) -> None:
    rng = Random(str(shape))
    for database in worlds:
        for _ in range(2):
            query = write(rng, shape)
            prepared = database.db.prepare(
                query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism
            )
            for release in prepared.plan.releases:
                for node in nodes(release.source):
                    if not node.public and not node.by_row:
                        assert broken(database, node) == [], (query.sql, type(node).__name__)


def test_there_are_claims_to_look_up(worlds: list[Database]) -> None:
    """Each kind of claim is made by some node, so that the test above is not empty."""
    made = {"single": 0, "attribute": 0, "unit": 0, "key": 0, "padded": 0, "lookups": 0, "once": 0, "keys": 0}
    for shape in SHAPES:
        prepared = worlds[0].db.prepare(write(Random(1), shape).sql, epsilon=1, delta=1e-6, mechanism="laplace")
        for node in (n for r in prepared.plan.releases for n in nodes(r.source) if not isinstance(n, Scan)):
            made["single"] += node.single
            made["lookups"] += isinstance(node, Inner) and bool(node.lookups)
            made["keys"] += any(len(key) > 1 for key in node.unique_keys())
            made["once"] += isinstance(node, Outer) and node.once
            for field in node.fields:
                made["attribute"] += field.attribute
                made["unit"] += field.unit
                made["key"] += field.owner not in (None, UNIT)
                made["padded"] += field.padded
    assert min(made.values()) > 5, made


def _lying(relation: Relation) -> Iterator[Relation]:
    """The relation with one claim too many, each in turn."""
    yield replace(relation, single=True)
    for place, field in enumerate(relation.fields):
        for lie in (replace(field, attribute=True), replace(field, owner=UNIT), replace(field, owner="orders.oid")):
            if lie != field:
                yield replace(relation, fields=(*relation.fields[:place], lie, *relation.fields[place + 1 :]))


def test_claims_that_are_false_are_found(worlds: list[Database]) -> None:
    """On a scan of orders: of all claims that could be added, only those that are true go unnoticed."""
    prepared = worlds[0].db.prepare("SELECT count(*) FROM orders", epsilon=1, delta=1e-6, mechanism="laplace")
    [scan] = [n for r in prepared.plan.releases for n in nodes(r.source) if isinstance(n, Scan)]
    assert broken(worlds[0], scan) == []
    lies = list(_lying(scan))
    assert len(lies) > 15 and all(broken(worlds[0], lie) for lie in lies)
    prepared = worlds[0].db.prepare(
        "SELECT count(*) FROM orders o LEFT JOIN prices q USING (kind)", epsilon=1, delta=1e-6, mechanism="laplace"
    )
    [join] = [n for r in prepared.plan.releases for n in nodes(r.source) if isinstance(n, Outer)]
    assert broken(worlds[0], join) == [] != broken(worlds[0], replace(join, once=True))
