"""The whole-vector clip: Python's own integers, no further than the norm between neighbours, and bugs are found."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import property_vectors as worlds
import pytest
from property_vectors import Group, Row

import dpsql
from dpsql.budget.pricing import Priced
from dpsql.engines.sealed import Integers
from dpsql.engines.sql import vector_clip
from dpsql.engines.sql.dialect import Dialect
from dpsql.errors import EngineError
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import BUCKETS

Patch = pytest.MonkeyPatch
MECHANISMS = ("gaussian", "laplace")
QUERIES = (
    ("trips", "SELECT k, sum(x) FROM trips GROUP BY k"),
    ("trips", "SELECT k, sum(x), count(*), sum(n) FROM trips GROUP BY k"),
    ("trips", "SELECT n, k, avg(x), count(DISTINCT id) FROM trips GROUP BY n, k"),
    ("trips", "SELECT k, count(DISTINCT id) FROM trips GROUP BY k"),
    ("trips", "SELECT k, count(x), count(big) FROM trips GROUP BY k"),
    ("trips", "SELECT w, sum(big), avg(d) FROM trips GROUP BY w"),
    ("trips", "SELECT w, k, count(*), sum(x) FROM trips GROUP BY w, k"),
    ("trips", "SELECT k, sum(s) FROM trips GROUP BY k"),
    ("trips", "SELECT sum(x) FROM trips"),
    ("trips", "SELECT avg(x), sum(big), count(*) FROM trips"),
    ("trips", "SELECT id % 3, sum(n), avg(d) FROM trips GROUP BY 1"),
    ("people", "SELECT sum(x) FROM people"),
    ("people", "SELECT k, sum(x), count(*), avg(d) FROM people GROUP BY k"),
    ("people", "SELECT w, sum(big), count(DISTINCT id) FROM people GROUP BY w"),
    ("hits", "SELECT sum(x) FROM hits"),
    ("hits", "SELECT sum(s), count(*) FROM hits"),
    ("hits", "SELECT sum(big), avg(n) FROM hits"),
    ("hits", "SELECT k, sum(x), count(*) FROM hits GROUP BY k"),
    ("hits", "SELECT w, avg(d) FROM hits GROUP BY w"),
)
NORMS = (1.0, 3.0, 700.0, 2.0**20, 1e9, 2.0**36, 2.0**52)


def shown(exact: Integers, members: Sequence[int]) -> dict[tuple[Group, int], int]:
    """The totals that are not zero, by group and statistic."""
    values = {(key, place): int(exact.values[place][i]) for i, key in enumerate(exact.keys) for place in members}
    return {at: value for at, value in values.items() if value}


def counted(exact: Integers) -> dict[int, tuple[int, int]]:
    """The buckets that are not empty: what was added to their count and their spread."""
    counts, spreads = exact.values[0], exact.values[1] if len(exact.values) > 1 else [0] * BUCKETS
    return {h: (int(counts[h]), int(spreads[h])) for h in range(BUCKETS) if counts[h] or spreads[h]}


def members(bounded: Bounded) -> tuple[int, ...]:
    assert bounded.vector is not None
    return bounded.vector.members


# equal integers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", range(2))
def test_totals_and_norms_are_those_of_python(seed: int, mechanism: str) -> None:
    tables = worlds.world(random.Random(seed))
    with worlds.opened(tables) as db:
        for table, sql in QUERIES:
            bounded, units = worlds.bounded_by(db, sql, mechanism), worlds.units_of(table, tables[table])
            found = counted(worlds.run(db, worlds.priced_at(worlds.searched(bounded), mechanism)))
            assert found == worlds.histogram(bounded, units), sql
            for norm in NORMS:
                clipped = worlds.clipped_at(bounded, norm)
                made = shown(worlds.run(db, worlds.priced_at(clipped, mechanism)), members(bounded))
                wanted = {at: value for at, value in worlds.totals(clipped, units).items() if value}
                assert made == wanted, (sql, norm)


def test_totals_are_rounded_down_to_the_grid_of_the_noise() -> None:
    tables = worlds.world(random.Random(3))
    with worlds.opened(tables) as db:
        for table, sql in QUERIES:
            clipped = worlds.clipped_at(worlds.bounded_by(db, sql, "gaussian"), 2.0**30)
            priced = worlds.priced_at(clipped, "gaussian", floored=True)
            shifts = [noised.shift for noised in priced.noised]
            assert all(shifts)
            totals = worlds.totals(clipped, worlds.units_of(table, tables[table]))
            wanted = {at: value >> shifts[at[1]] for at, value in totals.items() if value >> shifts[at[1]]}
            assert shown(worlds.run(db, priced), members(clipped)) == wanted, sql


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_private_keys_are_selected_as_ever(mechanism: str) -> None:
    """A unit in g groups gives each of them its g-th weight, whatever its vector is."""
    tables = worlds.world(random.Random(4))
    with worlds.opened(tables) as db:
        for table, sql in QUERIES:
            bounded = worlds.bounded_by(db, sql, mechanism)
            if bounded.selection is None:
                continue
            wanted: dict[Group, int] = {}
            for rows in worlds.units_of(table, tables[table]):
                groups = {worlds.group_of(bounded, row) for row in rows}
                for group in groups:
                    assert group is not None and len(groups) <= bounded.selection.groups
                    wanted[group] = wanted.get(group, 0) + bounded.selection.weights[len(groups) - 1]
            exact = worlds.run(db, worlds.priced_at(worlds.clipped_at(bounded, 5), mechanism))
            assert exact.selection is not None
            assert dict(zip(exact.keys, exact.selection.tolist(), strict=True)) == wanted, sql


def test_different_values_are_counted_beside_the_vector() -> None:
    tables = worlds.world(random.Random(5))
    with worlds.opened(tables) as db:
        for keys, table in (("k, ", "trips"), ("", "trips"), ("w, ", "trips"), ("k, ", "people"), ("w, ", "hits")):
            group = f" GROUP BY {keys[0]}" if keys else ""
            alone = f"SELECT {keys}count(DISTINCT n) FROM {table}{group}"
            [priced] = db.prepare(alone, epsilon=1, delta=1e-7, mechanism="gaussian").bill.releases
            wanted = worlds.run(db, priced)
            both = worlds.bounded_by(db, f"SELECT {keys}sum(x), count(DISTINCT n) FROM {table}{group}", "gaussian")
            made = worlds.run(db, worlds.priced_at(worlds.clipped_at(both, 100), "gaussian"))
            assert made.keys == wanted.keys
            assert made.values[1].tolist() == (wanted.values[0] << priced.noised[0].shift).tolist()
            assert any(made.values[1])


@pytest.mark.parametrize("table", ["trips", "people", "hits"])
@pytest.mark.parametrize("keys", ["", "k", "w", "id % 3"])
def test_choices_beside_the_vector_are_those_without_it(table: str, keys: str) -> None:
    """The histograms of MEDIAN, MIN and MODE are the same, and cost the same, whether or not a sum stands beside."""
    if table == "hits" and "id" in keys:
        return
    tables = worlds.world(random.Random(6))
    asked, group = f"{keys}, " if keys else "", " GROUP BY 1" if keys else ""
    with worlds.opened(tables) as db:
        for choice in ("median(x)", "min(n)", "mode(n)"):
            [alone] = db.prepare(
                f"SELECT {asked}{choice} FROM {table}{group}", epsilon=1, delta=1e-7, mechanism="laplace"
            ).bill.releases
            both = worlds.bounded_by(db, f"SELECT {asked}{choice}, sum(x) FROM {table}{group}", "laplace")
            assert (both.histograms, both.choices) == (alone.bounded.histograms, alone.bounded.choices)
            one, two = worlds.run(db, alone), worlds.run(db, worlds.priced_at(worlds.clipped_at(both, 9), "laplace"))
            assert repr(one.histograms) == repr(two.histograms)
            assert any(len(h.cells) for h in two.histograms)


# neighbours -----------------------------------------------------------------------------------------------------------------


def moved(one: Mapping[tuple[Group, int], int], two: Mapping[tuple[Group, int], int], norm: str) -> tuple[int, int]:
    """How far a vector moved, in the norm, squared under L2; and in how many coordinates."""
    differences = [d for at in {*one, *two} if (d := one.get(at, 0) - two.get(at, 0))]
    return sum(d * d for d in differences) if norm == "l2" else sum(map(abs, differences)), len(differences)


def neighbours(tables: Mapping[str, list[Row]], table: str) -> Iterator[dict[str, list[Row]]]:
    """The world without each of the units of a table."""
    gone = range(len(tables[table])) if table == "hits" else dict.fromkeys(r["id"] for r in tables[table] if "id" in r)
    for unit in gone:
        yield {
            name: [r for i, r in enumerate(rows) if (i != unit if name == "hits" else r.get("id") != unit)]
            for name, rows in tables.items()
        }


def tried(db: dpsql.Connection, priced: Priced) -> Integers | None:
    """The integers, or None where the engine failed: no data may do that."""
    try:
        return worlds.run(db, priced)
    except EngineError:
        return None


def examined(
    tables: Mapping[str, list[Row]],
    table: str,
    clipped: Sequence[Callable[[dpsql.Connection], Bounded]],
    mechanism: str,
) -> tuple[list[str], float]:
    """What is wrong between neighbours, and the largest part of a clip that one of them used."""
    found, most = [], 0.0
    with ExitStack() as stack:
        whole = stack.enter_context(worlds.opened(tables))
        fewer = [stack.enter_context(worlds.opened(each)) for each in neighbours(tables, table)]
        for make in clipped:
            bounded = make(whole)
            assert bounded.clip is not None
            priced, bound = worlds.priced_at(bounded, mechanism), bounded.clip.bound
            norm, limit = bounded.clip.norm, bound**2 if bounded.clip.norm == "l2" else bound
            larger = tried(whole, priced)
            for other in fewer:
                smaller = tried(other, priced)
                if larger is None or smaller is None:
                    found.append("the engine failed")
                    continue
                distance, _ = moved(shown(larger, members(bounded)), shown(smaller, members(bounded)), norm)
                most = max(most, math.sqrt(distance) / bound if norm == "l2" else distance / bound)
                if distance > limit:
                    found.append(f"{bounded.statistics} moved by {distance}, and the limit is {limit}")
    return found, most


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("table", ["trips", "people", "hits"])
def test_no_unit_moves_the_vector_further_than_its_norm(table: str, mechanism: str) -> None:
    tables = worlds.world(random.Random(f"{table} {mechanism}"), units=4)
    asked = [sql for name, sql in QUERIES if name == table]
    makes = [
        lambda db, sql=sql, norm=norm: worlds.clipped_at(worlds.bounded_by(db, sql, mechanism), norm)
        for sql in asked
        for norm in (1.0, 40.0, 1e8, 2.0**36)
    ]
    found, most = examined(tables, table, makes, mechanism)
    assert found == []
    assert most >= 0.9


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("table", ["trips", "people", "hits"])
def test_a_unit_is_in_one_bucket_of_norms(table: str, mechanism: str) -> None:
    tables, used = worlds.world(random.Random(f"norms {table} {mechanism}"), units=4), 0.0
    with ExitStack() as stack:
        whole = stack.enter_context(worlds.opened(tables))
        fewer = [stack.enter_context(worlds.opened(each)) for each in neighbours(tables, table)]
        for name, sql in QUERIES:
            if name != table:
                continue
            search = worlds.searched(worlds.bounded_by(whole, sql, mechanism))
            priced, claim = worlds.priced_at(search, mechanism), search.shares[0][1]
            larger = counted(worlds.run(whole, priced))
            for other in fewer:
                smaller = counted(worlds.run(other, priced))
                changes = [
                    (a - c, b - d)
                    for h in {*larger, *smaller}
                    for (a, b), (c, d) in [(larger.get(h, (0, 0)), smaller.get(h, (0, 0)))]
                    if (a, b) != (c, d)
                ]
                assert len(changes) <= 1, sql
                for count, spread in changes:
                    assert count == search.statistics[0].part.row and spread >= 0, sql
                    assert count**2 + spread**2 <= claim.l2**2 and count + spread <= claim.l1, sql
                    used = max(used, math.hypot(count, spread) / claim.l2)
    assert used >= 0.9


# planted bugs -----------------------------------------------------------------------------------------------------------


def _big(*numbers: int) -> dict[str, list[Row]]:
    """One unit with these numbers, each in a group of its own, beside another."""
    rows = [{"id": 1, "k": k, "big": number} for k, number in zip(worlds.LETTERS, numbers, strict=False)]
    return {"trips": [*rows, {"id": 2, "k": "a", "big": 5}]}


BOUND = (1 << 20) + 1


def _raw(db: dpsql.Connection) -> Bounded:
    """Sums of whole numbers as they are, clipped to a bound just above 2**20."""
    return worlds.clipped_by(worlds.bounded_by(db, "SELECT k, sum(big) FROM trips GROUP BY k", "gaussian"), BOUND, (0,))


def _scaled(db: dpsql.Connection) -> Bounded:
    return worlds.clipped_at(worlds.bounded_by(db, "SELECT k, sum(big) FROM trips GROUP BY k", "gaussian"), 5.0)


def _found(sign: int, clipped: Callable[[int, float], int]) -> dict[str, list[Row]]:
    """Two numbers that a wrong clip of each, by the root of their squares, leaves with a norm above the bound."""
    rng = random.Random(0)
    while True:
        pair = [rng.randrange(BOUND // 2, BOUND) for _ in range(2)]
        root = math.sqrt(sum(z * z for z in pair))
        if root > BOUND and sum(clipped(sign * z, root) ** 2 for z in pair) > BOUND**2:
            return _big(*(sign * z for z in pair))


def _violations(tables: dict[str, list[Row]], make: Callable[[dpsql.Connection], Bounded]) -> list[str]:
    return examined(tables, "trips", [make], "gaussian")[0]


def _differences(tables: dict[str, list[Row]], make: Callable[[dpsql.Connection], Bounded]) -> list[str]:
    """Where the totals are not Python's."""
    with worlds.opened(tables) as db:
        bounded = make(db)
        made = tried(db, worlds.priced_at(bounded, "gaussian"))
        totals = worlds.totals(bounded, worlds.units_of("trips", tables["trips"]))
    wanted = {at: value for at, value in totals.items() if value}
    return [] if made is not None and shown(made, members(bounded)) == wanted else [f"{made} is not {wanted}"]


def _norm_of_floats(patch: Patch) -> None:
    def divisor(dialect: Dialect, cells: vector_clip.Cells) -> str:
        return f"CASE WHEN power > {cells.most**2} THEN CAST(sqrt(CAST(power AS DOUBLE)) AS BIGINT) END"

    patch.setattr(vector_clip, "_divisor", divisor)


def _rounded_down_below_zero(patch: Patch) -> None:
    patch.setattr(
        vector_clip,
        "_shrunk",
        lambda _, most, z: f"CASE WHEN n IS NULL THEN {z} ELSE CAST(floor({z} * {most} / n) AS BIGINT) END",
    )


def _forgotten(patch: Patch) -> None:
    patch.setattr(vector_clip, "_shrunk", lambda dialect, most, z: z)


def _uncut(patch: Patch) -> None:
    original: Any = vector_clip.cell

    def cell(dialect: Dialect, y: str, exponent: int, most: int, within: Any = None) -> str:
        return str(original(dialect, y, exponent, most, (0, 0)))

    patch.setattr(vector_clip, "cell", cell)


def _raw_scales(patch: Patch) -> None:
    original: Any = vector_clip._cells
    patch.setattr(
        vector_clip, "_cells", lambda bounded, of, exponents, most: original(bounded, of, [0] * len(exponents), most)
    )


@pytest.mark.parametrize(("plant", "tables", "make", "check"), [
    (_norm_of_floats, _found(1, lambda z, root: z * BOUND // round(root)), _raw, _violations),
    (_rounded_down_below_zero, _found(-1, lambda z, root: z * BOUND // (int(root) + 1)), _raw, _violations),
    (_forgotten, _big(900_000, 900_000), _raw, _violations),
    (_uncut, _big(2**45, -(2**45), 2**45, 2**45), _raw, _violations),
    (_uncut, _big(2**45, 3), _scaled, _differences),
    (_raw_scales, _big(2**45, 3), _scaled, _differences),
], ids=[
    "a norm of floats", "the clip rounds down below zero", "the clip is forgotten", "cells are not cut", "a cell overflows", "raw scales",
])  # fmt: skip
def test_a_planted_bug_is_reported(
    plant: Callable[[Patch], None],
    tables: dict[str, list[Row]],
    make: Callable[[dpsql.Connection], Bounded],
    check: Callable[[dict[str, list[Row]], Callable[[dpsql.Connection], Bounded]], list[str]],
    monkeypatch: Patch,
) -> None:
    assert check(tables, make) == []
    plant(monkeypatch)
    assert check(tables, make)
