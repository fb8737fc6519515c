"""No unit moves a vector over set operations and windows by more than its claim; bugs that would let it are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from typing import Any

import pytest
from property_joins import join_database, join_policy, search_joins, without
from property_relations import BRACKETS, MARKS, SETS, TIED, WINDOWS
from property_world import Row, traced

import dpsql
from dpsql.audit.comparison import compare, compare_equal
from dpsql.audit.grammar.query_writer import Query
from dpsql.engines.sql import relations
from dpsql.engines.sql import unit_windows as window_functions
from dpsql.errors import InternalError
from dpsql.plan.nodes.relation import Relation
from dpsql.plan.nodes.windows import Windowed

bound: Any = import_module("dpsql.sensitivity.bound")
join: Any = import_module("dpsql.plan.nodes.joins")
refusals: Any = import_module("dpsql.plan.builder.join_refusals")
mark: Any = import_module("dpsql.plan.nodes.semi_joins")
relate: Any = import_module("dpsql.plan.nodes.unary")
relate_sets: Any = import_module("dpsql.plan.builder.set_operations")
set_operations: Any = import_module("dpsql.plan.nodes.union")
Patch = pytest.MonkeyPatch
SHAPES = (*SETS, *WINDOWS, *TIED, *MARKS, *BRACKETS)
CHUNKS, PAIRS = 4, 24


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_unit_moves_a_relation_further_than_claimed(chunk: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--pairs-seed") * CHUNKS + chunk
    tally = search_joins(seed, PAIRS, SHAPES)
    assert tally.findings == []
    assert tally.touched["all"] > tally.pairs["all"] / 5


# planted bugs -----------------------------------------------------------------------------------------------------------


def _rows(unit: int, kinds: str, first: int) -> dict[str, list[Row]]:
    """A person of the unit's own kind, an order for each kind, all with the same store but different values."""
    common = {"note": "p", "store": "s1"}
    return {
        "people": [{"id": unit, "kind": kinds[0], "x": 1.0, "n": 1, **common}],
        "orders": [
            {"id": unit, "oid": first + i, "kind": kind, "x": float(i), "n": i % 7, **common}
            for i, kind in enumerate(kinds)
        ],
        "items": [],
        "visits": [{"kind": "a", "x": 1.0, "n": 1, **common}],
    }


def _world() -> dict[str, list[Row]]:
    """Unit 1 has many orders of kind a, the others a few of kind b and one of kind a each."""
    parts = [_rows(1, "aaaaaaaaa", 10), _rows(2, "abb", 30), _rows(3, "ab", 40), _rows(4, "a", 50), _rows(5, "b", 60)]
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def _check(sql: str, unit: int) -> Callable[[], list[str]]:
    """What goes wrong when the unit is removed, or when rows are stored in another order."""

    def run() -> list[str]:
        tables, query, found = _world(), Query(sql, 0, "laplace", 1.0), []
        backwards = {name: rows[::-1] for name, rows in tables.items()}
        with (
            join_database(tables, join_policy()) as one,
            join_database(without(tables, unit, 0, Random(0)), join_policy()) as two,
            join_database(backwards, join_policy()) as three,
        ):
            try:
                larger = traced(one, query)
                found += compare(larger, traced(two, query)).violations
                found += compare_equal(larger, traced(three, query))
            except dpsql.UnsupportedQuery:
                return []
        return found

    return run


def _owner_of_a_side(patch: Patch) -> None:
    original = relations.relation_sql

    def changed(relation: Relation, *rest: Any, **named: Any) -> Any:
        made = original(relation, *rest, **named)
        second = len(rest) > 2 and rest[2].endswith("u1")
        return replace(made, unit=f'{rest[2]}."oid"') if second else made

    patch.setattr(relations, "relation_sql", changed)


def _whole_rows_compared(patch: Patch) -> None:
    patch.setattr(relate_sets, "_check_owner", lambda *args: None)
    for module in (join, refusals, mark):
        patch.setattr(module, "share_owner", lambda *args: True)


def _anybodys_rows(patch: Patch) -> None:
    for module in (join, refusals, mark):
        patch.setattr(module, "share_owner", lambda *args: True)


def _rows_twice(patch: Patch) -> None:
    for module in (relate_sets, set_operations):
        patch.setattr(module, "shared_rows", lambda parts: False)


def _ties_left(patch: Patch) -> None:
    patch.setattr(Windowed, "ties", property(lambda self: ()))


def _global_window(patch: Patch) -> None:
    original = window_functions._window
    patch.setattr(Relation, "owner_of", lambda self, expression: "somebody")

    def everybody(over: Any, relation: Any, below: Any) -> str:
        return original(over, relation, below).replace(f"PARTITION BY {below.unit}, ", "PARTITION BY ")

    patch.setattr(window_functions, "_window", everybody)


def _numbered_within_groups(patch: Patch) -> None:
    patch.setattr(relate, "rows_left", lambda source, conditions: 1 if conditions else None)


@dataclass(frozen=True, slots=True)
class Bug:
    """How a bug is planted, and the query (without one unit) on which it shows; `locked`: the plan's check stops it."""

    name: str
    plant: Callable[[Patch], None]
    sql: str
    unit: int = 1
    locked: bool = False


_NUMBERED = "SELECT id, x, kind, row_number() OVER (PARTITION BY id{} ORDER BY store) AS rn FROM orders"
BUGS = (
    Bug("the owner of one side dropped", _owner_of_a_side, "SELECT count(*) FROM (SELECT id, n FROM people UNION ALL SELECT id, n FROM orders) AS u"),
    Bug("INTERSECT without the unit", _whole_rows_compared, "SELECT count(*) FROM (SELECT kind, n FROM people INTERSECT SELECT kind, n FROM orders) AS u"),
    Bug("EXCEPT without the unit", _whole_rows_compared, "SELECT count(*) FROM (SELECT kind FROM people EXCEPT SELECT kind FROM orders WHERE x > 5) AS u"),
    Bug("a mark that other people's rows set", _anybodys_rows, "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM orders o WHERE o.kind = p.kind AND o.x > 5)) FROM people p"),
    Bug("a row that is a unit read twice", _rows_twice, "SELECT count(*) FROM (SELECT n FROM visits UNION ALL SELECT n FROM visits) AS u"),
    Bug("ties left to the engine", _ties_left, f"SELECT sum(x) FROM ({_NUMBERED.format('')}) AS u WHERE rn = 1"),
    Bug("ties of lag left to the engine", _ties_left, "SELECT sum(w) FROM (SELECT id, x, lag(x) OVER (PARTITION BY id ORDER BY store) AS w FROM orders) AS u"),
    Bug("partition without the unit", _global_window, "SELECT count(*) FROM (SELECT kind, n FROM orders QUALIFY count(*) OVER (PARTITION BY kind) > 6) AS u"),
    Bug("numbered within groups", _numbered_within_groups, f"SELECT count(*) FROM ({_NUMBERED.format(', oid')}) AS u WHERE rn = 1", locked=True),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_in_a_relation_is_reported(bug: Bug, monkeypatch: Patch) -> None:
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
            where = f" WHERE {shape.where}" if shape.where else ""
            database.db.prepare(
                f"SELECT count(*) FROM {shape.source}{where}", epsilon=1.0, delta=1e-6, mechanism="laplace"
            )
