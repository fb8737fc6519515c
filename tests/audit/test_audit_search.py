"""The search of the audit: bugs that are planted are found and made small, parts add up, and what was done is resumed."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from attack.neighbours import search_memory
from attack.worlds import builtin_worlds, joins, kinds

from dpsql.audit import World
from dpsql.audit.comparison import MOVED, Case, violations
from dpsql.audit.counterexample import script, shrink
from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.neighbour_search import constructs_of, neighbours_of, part_of, with_extreme
from dpsql.audit.outcome import Settings
from dpsql.audit.world import RowUnit, load
from dpsql.engines.sql import emit
from dpsql.errors import InterfaceError
from dpsql.sensitivity.argument import Argument

Patch = pytest.MonkeyPatch


# worlds -----------------------------------------------------------------------------------------------------------------


def test_a_neighbour_lacks_all_rows_of_its_unit_also_along_a_path() -> None:
    world = joins(random.Random(4))
    unit = next(u for u in world.units() if world.rows_of(u)["items"])
    less = world.without(unit)
    assert not any(less.rows_of(unit).values())
    gone = {name: len(world.tables[name].rows) - len(less.tables[name].rows) for name in world.tables}
    assert gone == {**{name: len(rows) for name, rows in world.rows_of(unit).items()}, "stores": 0, "prices": 0}
    orders = {row[1] for row in less.tables["orders"].rows}
    assert all(row[0] is None or row[0] in orders for row in less.tables["items"].rows)


def test_a_row_can_be_a_unit() -> None:
    world = kinds(random.Random(1))
    less = world.without(RowUnit("visits", 2))
    assert less.tables["visits"].rows == world.tables["visits"].rows[:2] + world.tables["visits"].rows[3:]
    assert less.tables["orders"] == world.tables["orders"]


@pytest.mark.parametrize("world", builtin_worlds(5), ids=lambda world: world.name)
def test_a_unit_that_goes_too_far_is_one_unit_more(world: World) -> None:
    more = with_extreme(world, random.Random(2))
    assert more is not None
    [new] = set(more.units()) - set(world.units())
    assert more.without(new).tables == world.tables
    with more.open(steward=True) as db:
        assert db.query(f"SELECT count(*) FROM {next(iter(world.owners))}", epsilon=1).cost.epsilon == 1


def test_a_unit_that_goes_too_far_keeps_the_keys_of_several_columns() -> None:
    """`stock` is unique by unit and part; a repeated pair would stop the search."""
    for seed in range(12):
        more = with_extreme(joins(random.Random(seed)), random.Random(seed))
        assert more is not None
        load(more.tables).close()


def test_a_steward_s_database_is_copied_with_the_facts_that_hold(tmp_path: Path) -> None:
    world = joins(random.Random(3), tame=True)
    file = tmp_path / "own.duckdb"
    with duckdb.connect(str(file)) as raw:
        for name, table in world.tables.items():
            bare = replace(table, constraints=())
            raw.execute(bare.create(name))
            if table.rows:
                raw.execute(bare.insert(name))
    own = World.of(file, world.policy)
    assert own.units() == world.units()
    assert own.rows_of(own.units()[0]).keys() == own.owners.keys()
    with own.open() as db:
        assert db.explain("SELECT count(*) FROM items", epsilon=1).releases
        assert db.explain("SELECT count(*) FROM people", epsilon=1).releases[0].rule == "single_row"
    assert part_of(own, random.Random(1)).owners.keys() == own.owners.keys()
    assert len(neighbours_of(own, random.Random(1), 3)) == 3


# what is found ----------------------------------------------------------------------------------------------------------


def _no_clamp(patch: Patch) -> None:
    def raw(dialect: object, argument: Argument, value: str, *, otherwise: str = "NULL") -> str:
        on_grid = f"TRY_CAST(round(CAST({value} AS DOUBLE) * {float(1 / argument.grid)!r}) AS BIGINT)"
        return f"coalesce({on_grid}, {otherwise})"

    patch.setattr(emit, "clamped", raw)


def test_a_counter_example_is_made_small(monkeypatch: Patch) -> None:
    """Of a long query over a wild world a few rows and a short query are left, and they can be run again."""
    world = kinds(random.Random(2))
    sql = (
        "WITH c AS (SELECT * FROM orders WHERE n IS NOT NULL OR x > -1000) SELECT kind AS k, flag AS f, count(*) AS a, "
        "sum(CASE WHEN level > -5 THEN x * 2 ELSE x END) AS s FROM c WHERE size <> 'nothing' GROUP BY kind, flag"
    )
    rows = world.tables["orders"].rows
    place = world.tables["orders"].place("x")
    far = tuple((*row[:place], 1e9, *row[place + 1 :]) if row[0] == 3 else row for row in rows)
    world = replace(world, tables={**world.tables, "orders": replace(world.tables["orders"], rows=far)})
    case = Case(MOVED, Query(sql, 2, "laplace", 1.0), world, ("3",))
    assert violations(case) == []
    _no_clamp(monkeypatch)
    assert violations(case) != []
    small = shrink(case, seconds=120)
    assert violations(small) != []
    assert len(small.query.sql) < len(sql) / 2
    assert sum(len(small.world.tables[name].rows) for name in ("orders", "people", "members")) <= 2
    assert re.search(r"(?s)-- world kinds; the neighbour lacks unit 3\nINSERT INTO \"orders\" .*SELECT ", script(small))


# parts and resumption ---------------------------------------------------------------------------------------------------


def test_what_was_done_is_resumed_and_another_search_is_not(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    state = tmp_path / "state"
    settings = Settings(seed=3, pairs=1, resume=state)
    first = search_memory(settings, lambda done, total: told.append((done, total)))
    assert told == [(0, 1), (1, 1)]
    assert state.stat().st_mode & 0o077 == 0
    again = search_memory(settings, lambda done, total: told.append((done, total)))
    assert told[2:] == [(1, 1)]
    assert again == first
    with pytest.raises(InterfaceError, match="another audit"):
        search_memory(replace(settings, seed=4), lambda done, total: None)
    state.write_text("{}")
    with pytest.raises(InterfaceError, match="does not contain the state"):
        search_memory(settings, lambda done, total: None)


def test_constructs_are_read_off_the_query() -> None:
    found = constructs_of(
        "WITH c AS (SELECT DISTINCT id, x FROM t) SELECT sum(abs(x)) FILTER (WHERE x IN (1, 2)) FROM c LEFT JOIN d USING (id)"
    )
    assert {"WITH", "SELECT DISTINCT", "sum", "abs()", "FILTER", "IN (list)", "LEFT JOIN USING"} <= found
