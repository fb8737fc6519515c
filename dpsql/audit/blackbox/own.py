"""Questions to a steward's own world: plain aggregates of each private table, about the unit that moves them most."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dpsql.audit.blackbox.audit import Case
from dpsql.audit.blackbox.observe import opened
from dpsql.audit.traces import ReleaseTrace, trace
from dpsql.audit.world import Unit, World
from dpsql.errors import Error
from dpsql.policy.catalog import quote
from dpsql.session import Connection

CANDIDATES = 6


def own_cases(world: World, most: int) -> list[Case]:
    """So many questions at most, each at the policy's own price, with the unit that shows best."""
    with opened(world, steward=True) as db:
        return list(islice((case for sql in _questions(world) if (case := _case(world, db, sql))), most))


def _questions(world: World) -> Iterator[str]:
    """A count of each private table, then aggregates of each bounded column."""
    private = [name for name in world.tables if name in world.policy.tables and world.policy.tables[name].private]
    for name in private:
        yield f"SELECT count(*) AS n FROM {quote(name)}"
    for name in private:
        for column, declared in (world.policy.tables[name].columns or {}).items():
            if declared.values is not None:
                yield f"SELECT {quote(column)}, count(*) AS n FROM {quote(name)} GROUP BY {quote(column)}"
            elif declared.min is not None and declared.max is not None:
                yield f"SELECT sum({quote(column)}) AS s, avg({quote(column)}) AS a FROM {quote(name)}"
                yield f"SELECT median({quote(column)}) AS m FROM {quote(name)}"


def _case(world: World, db: Connection, sql: str) -> Case | None:
    """None where the policy refuses the question."""
    try:
        before = trace(db, sql, salt=b"audit")
        moved = {unit: _moved(world.without(unit), sql, before) for unit in _heaviest(world)}
    except Error:
        return None
    return Case(sql, world, max(moved, key=lambda unit: moved[unit]), sql) if moved else None


def _heaviest(world: World) -> list[Unit]:
    """The units with the most rows."""
    rows = {unit: sum(map(len, world.rows_of(unit).values())) for unit in list(world.units())[:2000]}
    return sorted(rows, key=lambda unit: -rows[unit])[:CANDIDATES]


def _moved(without: World, sql: str, before: list[ReleaseTrace]) -> float:
    """How far the traced vectors move, as a share of what is claimed, summed up."""
    with opened(without, steward=True) as db:
        after = trace(db, sql, salt=b"audit")
    total = 0.0
    for one, two in zip(before, after, strict=True):
        for first, second in zip(one.statistics, two.statistics, strict=True):
            claim = first.l1 or first.linf
            if claim and len(first.values) == len(second.values):
                total += sum(abs(a - b) for a, b in zip(first.values, second.values, strict=True)) / claim
    return total
