"""No unit moves a vector over a join by more than its claim; and bugs that would let it are caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from typing import Any

import pytest
from property_joins import SHAPES, Shape, join_database, join_policy, search_joins, without
from property_world import Row, traced

import dpsql
from dpsql.audit.comparison import compare
from dpsql.audit.grammar.query_writer import Query
from dpsql.engines.sql import relations
from dpsql.errors import InternalError
from dpsql.plan.nodes.relation import Field, Scan

bound: Any = import_module("dpsql.sensitivity.bound")
join: Any = import_module("dpsql.plan.nodes.joins")
refusals: Any = import_module("dpsql.plan.builder.join_refusals")
relate: Any = import_module("dpsql.plan.nodes.joins")
lookup: Any = import_module("dpsql.plan.nodes.joins")
semi_joins: Any = import_module("dpsql.plan.nodes.semi_joins")
membership: Any = import_module("dpsql.plan.builder.exists")
Patch = pytest.MonkeyPatch
CHUNKS, PAIRS = 6, 40


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_unit_moves_a_join_further_than_claimed(chunk: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--pairs-seed") * CHUNKS + chunk
    tally = search_joins(seed, PAIRS)
    assert tally.findings == []
    assert tally.touched["all"] > tally.pairs["all"] / 4


# planted bugs -----------------------------------------------------------------------------------------------------------


def _rows(unit: int, kinds: str, first: int | None) -> dict[str, list[Row]]:
    """A person; an order for each kind, numbered from `first` (None: without number); an item for each order.

    All people have the note of unit 2's orders.
    """
    common = {"x": 10.0, "n": 6, "note": "q" if unit == 2 else "p", "store": "s1"}
    keys = [None if first is None else first + i for i in range(len(kinds))]
    return {
        "people": [{"id": unit, "kind": "a", **common, "note": "q"}],
        "orders": [{"id": unit, "oid": k, "kind": kind, **common} for k, kind in zip(keys, kinds, strict=True)],
        "items": [{"oid": k, "kind": kind, **common} for k, kind in zip(keys, kinds, strict=True) if k is not None],
        "stock": [{"id": unit, "part": 6 + i, "kind": kind, **common} for i, kind in enumerate(kinds)],
        "visits": [{"kind": "a", **common}],
    }


def _world() -> dict[str, list[Row]]:
    """Unit 1 has many orders of all kinds, unit 2 some, unit 3 orders without number, units 4 and 5 few."""
    parts = [
        _rows(1, "abcabcabc", 10),
        _rows(2, "aabb", 30),
        _rows(3, "ab", None),
        _rows(4, "a", 50),
        _rows(5, "b", 60),
    ]
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def _check(sql: str, unit: int) -> Callable[[], list[str]]:
    """What goes wrong when the unit is removed; nothing, if the query is refused."""

    def run() -> list[str]:
        tables, query = _world(), Query(sql, 0, "laplace", 1.0)
        with (
            join_database(tables, join_policy()) as one,
            join_database(without(tables, unit, 0, Random(0)), join_policy()) as two,
        ):
            try:
                return compare(traced(one, query), traced(two, query)).violations
            except dpsql.UnsupportedQuery:
                return []

    return run


def _any_column(patch: Patch) -> None:
    patch.setattr(join, "same_owner", lambda one, two: True)


def _own_column_as_owner(patch: Patch) -> None:
    original = relations._scan

    def scan(scan: Scan, *rest: Any) -> Any:
        return original(replace(scan, unit=scan.path[0].column, path=()) if scan.path else scan, *rest)

    patch.setattr(relations, "_scan", scan)


def _padded_attributes(patch: Patch) -> None:
    def padded(field: Field, matched: Field) -> Field:
        return replace(field, domain=replace(matched.domain, nullable=True), attribute=True, padded=True)

    patch.setattr(relate, "_padded", padded)


def _nulls_of_others(patch: Patch) -> None:
    patch.setattr(membership, "_nullable", lambda field: True)
    for module in (join, refusals, semi_joins):
        patch.setattr(module, "share_owner", lambda *args: True)


def _fan_out_ignored(patch: Patch) -> None:
    patch.setattr(lookup, "is_key", lambda *args: True)


def _half_of_a_key(patch: Patch) -> None:
    patch.setattr(
        lookup, "is_key", lambda relation, columns, unique: any(key & columns for key in relation.unique_keys())
    )


def _keys_of_every_side(patch: Patch) -> None:
    def together(keys: Sequence[frozenset[frozenset[str]]]) -> frozenset[frozenset[str]]:
        return frozenset().union(*keys)

    patch.setattr(join, "combined_keys", together)


def _fan_out_as_attribute(patch: Patch) -> None:
    patch.setattr(relate, "is_key", lambda *args: True)


@dataclass(frozen=True, slots=True)
class Bug:
    """How a bug is planted, and the query (without one unit) on which it shows; `locked`: the plan's check stops it."""

    name: str
    plant: Callable[[Patch], None]
    sql: str
    unit: int = 1
    locked: bool = False


BUGS = (
    Bug("joined on another column", _any_column, "SELECT count(*) FROM people p JOIN items i ON p.note = i.note", 2),
    Bug("EXISTS on another column", _any_column, "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.note = p.note)", 2),
    Bug("outer join on another column", _any_column, "SELECT count(*) FROM people p LEFT JOIN orders o ON p.note = o.note", 2),
    Bug("owner taken from another table", _own_column_as_owner, "SELECT count(*) FROM items"),
    Bug("padded columns as attributes", _padded_attributes, "SELECT p.kind, count(*) FROM orders o LEFT JOIN people p ON o.id = p.id AND o.kind = p.kind GROUP BY p.kind", locked=True),
    Bug("NOT IN over other people's NULLs", _nulls_of_others, "SELECT count(*) FROM items WHERE oid NOT IN (SELECT oid FROM orders WHERE kind = 'b')", 3),
    Bug("single in spite of fan-out", _fan_out_ignored, "SELECT count(*) FROM people p JOIN prices q ON p.kind = q.kind", locked=True),
    Bug("a row that is a unit multiplied", _fan_out_ignored, "SELECT count(*) FROM visits v JOIN prices q ON v.kind = q.kind", locked=True),
    Bug("a join believes half of a key", _half_of_a_key, "SELECT count(*) FROM people p JOIN stock k ON p.id = k.id AND k.n = p.n", locked=True),
    Bug("a key outlives the join that repeats it", _keys_of_every_side, "SELECT count(*) FROM people p JOIN (SELECT k.id, k.part FROM stock k JOIN orders o ON o.id = k.id) AS u ON u.id = p.id AND u.part = p.n", locked=True),
    Bug("fan-out kept as attribute", _fan_out_as_attribute, "SELECT q.price, count(*) FROM orders o JOIN people p ON o.id = p.id JOIN prices q ON q.kind = p.kind GROUP BY q.price", locked=True),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_in_a_join_is_reported(bug: Bug, monkeypatch: Patch) -> None:
    check = _check(bug.sql, bug.unit)
    assert check() == []
    bug.plant(monkeypatch)
    if bug.locked:
        with pytest.raises(InternalError, match=r"not proved|not looked up|more than once|rows per unit"):
            check()
        monkeypatch.setattr(bound, "check_facts", lambda *args: None)
    assert check() != []


def test_every_shape_is_taken_by_the_planner() -> None:
    """The search would skip a shape that is refused."""
    with join_database(_world(), join_policy()) as database:
        for shape in SHAPES:
            database.db.prepare(_count(shape), epsilon=1.0, delta=1e-6, mechanism="laplace")


def _count(shape: Shape) -> str:
    return f"SELECT count(*) FROM {shape.source}{f' WHERE {shape.where}' if shape.where else ''}"
