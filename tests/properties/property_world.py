"""The world of `dpsql.audit` with a table of each kind of ownership, with rows by name, and open for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
from attack.worlds import KIND_COLUMNS, KINDS, SIZES, kinds, kinds_of, kinds_policy, tame_kinds

import dpsql
from dpsql.audit.column_values import FIRST as FIRST_DAY
from dpsql.audit.comparison import SALT, Comparison, prepare, vectors
from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.traces import ReleaseTrace, trace
from dpsql.audit.world import RowUnit, StoredTable, World, load
from dpsql.errors import EngineError

TABLES = ("visits", "orders", "people", "members")
RULES = ("row", "single_row", "one_group", "clip", "selection")
Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]
make_policy = kinds_policy


def by_name(world: World) -> dict[str, list[Row]]:
    """The rows of a world's private tables, by the names of their columns."""
    return {
        n: [dict(zip(world.tables[n].columns, row, strict=True)) for row in world.tables[n].rows] for n in world.owners
    }


def world_of(tables: Tables, policy: Mapping[str, Any] | None = None) -> World:
    """The world with these rows; what a row leaves out is NULL."""
    columns = ("id", *KIND_COLUMNS)
    return kinds_of(
        {n: [tuple(row.get(c) for c in columns) for row in rows] for n, rows in tables.items()}, policy or make_policy()
    )


def wild_world(rng: random.Random) -> dict[str, list[Row]]:
    """Few units, some far over every bound, that share groups; rows without owner; nothing is obeyed."""
    return by_name(kinds(rng))


def tame_world(rng: random.Random, rows: int, *, nulls: bool = True) -> dict[str, list[Row]]:
    """Everything obeys the policy."""
    return by_name(tame_kinds(rng, rows, nulls=nulls))


def without_unit(tables: Tables, unit: int, visit: int, rng: random.Random) -> dict[str, list[Row]]:
    """The neighbour: all rows of one unit are gone, and (each row being a unit there) one visit; in another order."""
    return by_name(world_of(tables).lacking([str(unit), RowUnit("visits", visit)]).reordered(rng))


def without_unowned(tables: Tables) -> dict[str, list[Row]]:
    """The same without the rows that nobody owns: dpsql never saw them."""
    return by_name(world_of(tables).without_unowned())


def reordered(tables: Tables, rng: random.Random) -> dict[str, list[Row]]:
    """The same rows in another order."""
    return {name: rng.sample(list(rows), len(rows)) for name, rows in tables.items()}


@dataclass(frozen=True, slots=True)
class Database:
    """An in-memory database and the steward's connection to it."""

    raw: duckdb.DuckDBPyConnection
    db: dpsql.Connection


@contextmanager
def opened(tables: Tables, policy: Mapping[str, Any]) -> Iterator[Database]:
    """The tables in a fresh in-memory DuckDB, opened for the steward."""
    with stored(world_of(tables).tables, policy) as database:
        yield database


@contextmanager
def stored(tables: Mapping[str, StoredTable], policy: Mapping[str, Any]) -> Iterator[Database]:
    """Tables as a steward's own connection, which is never locked down."""
    with load(tables) as raw, dpsql.connect(raw, policy=policy, ledger=":memory:", steward=True) as db:
        yield Database(raw, db)


def traced(database: Database, query: Query, salt: bytes = SALT) -> list[ReleaseTrace] | None:
    """The integers before noise, as this database plans the query; None if the engine failed."""
    if salt == SALT:
        return vectors(database.db, prepare(database.db, query))[0]
    try:
        return trace(
            database.db, query.sql, salt=salt, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism,
            clipped=query.clipped,
        )  # fmt: skip
    except EngineError:
        return None


__all__ = ["FIRST_DAY", "KINDS", "RULES", "SALT", "SIZES", "TABLES", "Comparison", "Database", "Query", "Row", "traced"]
