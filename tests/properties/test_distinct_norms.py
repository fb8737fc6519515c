"""COUNT(DISTINCT x) clipped to a norm: no unit moves it further, and the norms that are searched for are Python's own."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import property_vectors as worlds
import pytest
from property_vectors import Group, Row
from test_vector_clip import counted, moved, neighbours, shown

import dpsql
from dpsql.engines.sql import distinct_counts
from dpsql.sensitivity.bound import Bounded, norm_search, settle
from dpsql.sensitivity.clip import BUCKETS, Vector, clip_at, norms_of
from dpsql.sensitivity.distinct import most_values

Patch = pytest.MonkeyPatch
MECHANISMS = ("gaussian", "laplace")
QUERIES = (
    "SELECT count(DISTINCT n) FROM trips",
    "SELECT k, count(DISTINCT n) FROM trips GROUP BY k",
    "SELECT w, count(DISTINCT n) FROM trips GROUP BY w",
    "SELECT id % 3, count(DISTINCT big) FROM trips GROUP BY 1",
    "SELECT k, w, count(DISTINCT big) FROM trips GROUP BY k, w",
    "SELECT k, sum(x), count(DISTINCT big), count(DISTINCT n) FROM trips GROUP BY k",
)
NORMS = (1.0, 1.5, 2.0**1.5, 3.0, 5.0, 2.0**3.5)


def bounded_by(db: dpsql.Connection, sql: str, mechanism: str) -> Bounded:
    """The only release of a query, with a clip for each COUNT(DISTINCT)."""
    [priced] = db.prepare(sql, epsilon=1, delta=1e-7, mechanism=mechanism).bill.releases
    assert len(vectors(priced.bounded)) == sql.count("DISTINCT"), sql
    return priced.bounded


def vectors(bounded: Bounded) -> list[Vector]:
    return [each.vector for each in bounded.clipped if each.vector.distinct]


def clipped_at(bounded: Bounded, norm: float) -> Bounded:
    for vector in vectors(bounded):
        bounded = settle(bounded, clip_at(vector, norm))
    return bounded


# in Python --------------------------------------------------------------------------------------------------------------


def pairs_of(bounded: Bounded, vector: Vector, rows: Sequence[Row]) -> set[tuple[Group, object]]:
    """The different pairs of group and value of some rows."""
    name = str(bounded.arguments[bounded.statistics[vector.members[0]].part.argument].expression)
    groups = [(worlds.group_of(bounded, row), row[name]) for row in rows]
    return {(group, value) for group, value in groups if group is not None and value is not None}


def bucket_of(vector: Vector, numbers: Mapping[Group, int]) -> tuple[int, int, int] | None:
    """The bucket of a unit with these numbers of values, and what it adds there."""
    length, square = sum(numbers.values()), sum(n * n for n in numbers.values())
    if not length:
        return None
    size = square if vector.norm == "l2" else length**2
    place = next(h for h in range(BUCKETS) if size <= 1 << h)
    adds = norms_of(vector.norm, vector.cells)
    share = 0.0 if not adds.spread else (length / math.sqrt(square) - 1) * adds.spread / (math.sqrt(vector.cells) - 1)
    return place, adds.count, math.floor(max(0.0, min(float(adds.spread), share)))


def histogram(bounded: Bounded, vector: Vector, units: Sequence[Sequence[Row]]) -> dict[int, tuple[int, int]]:
    made: dict[int, tuple[int, int]] = {}
    for rows in units:
        found = bucket_of(vector, Counter(group for group, _ in pairs_of(bounded, vector, rows)))
        if found is not None:
            count, spread = made.get(found[0], (0, 0))
            made[found[0]] = count + found[1], spread + found[2]
    return made


def steps_of(bounded: Bounded, place: int) -> int:
    """How many steps a value is."""
    return int(1 / bounded.statistics[place].grid)


# equal integers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_norms_are_those_of_python_whatever_is_asked_beside(mechanism: str) -> None:
    tables = worlds.world(random.Random(1))
    units = worlds.units_of("trips", tables["trips"])
    with worlds.opened(tables) as db:
        for sql in QUERIES:
            bounded = bounded_by(db, sql, mechanism)
            for vector in vectors(bounded):
                search = worlds.priced_at(norm_search(bounded, vector), mechanism)
                assert counted(worlds.run(db, search)) == histogram(bounded, vector, units), sql


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_norm_above_all_units_leaves_every_value(mechanism: str) -> None:
    tables = worlds.world(random.Random(2))
    owned = [row for row in tables["trips"] if row.get("id") is not None]
    with worlds.opened(tables) as db:
        for sql in QUERIES:
            bounded = clipped_at(bounded_by(db, sql, mechanism), 1000.0)
            made = worlds.run(db, worlds.priced_at(bounded, mechanism))
            for vector in vectors(bounded):
                [place] = vector.members
                numbers = Counter(group for group, _ in pairs_of(bounded, vector, owned))
                wanted = {(group, place): n * steps_of(bounded, place) for group, n in numbers.items()}
                assert shown(made, [place]) == wanted, sql


def _alone(rows: Sequence[Row], norm: float, mechanism: str) -> tuple[dict[Group, int], int]:
    """The numbers that are left of a unit that is alone, and the most that their norm, squared under L2, may be."""
    with worlds.opened({"trips": list(rows)}) as db:
        bounded = clipped_at(bounded_by(db, QUERIES[4], mechanism), norm)
        [of] = [each for each in bounded.clipped if each.vector.distinct]
        made = shown(worlds.run(db, worlds.priced_at(bounded, mechanism)), of.vector.members)
        assert of.clip is not None
        steps = steps_of(bounded, of.vector.members[0])
        return {group: n // steps for (group, _), n in made.items()}, most_values(of.clip)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("norm", NORMS)
def test_a_unit_keeps_as_many_pairs_as_fit(norm: float, mechanism: str) -> None:
    for seed in range(3):
        rng = random.Random(seed)
        rows = [{"id": 1, "k": rng.choice("aaab"), "w": rng.choice("pq"), "big": rng.randrange(99)} for _ in range(60)]
        numbers, most = _alone(rows, norm, mechanism)
        used = sum(n * n for n in numbers.values()) if mechanism == "gaussian" else sum(numbers.values())
        assert used <= most <= norm ** (2 if mechanism == "gaussian" else 1) + 1e-6
        assert most - used <= (2 * max(numbers.values()) if mechanism == "gaussian" else 0)
        shuffled = rng.sample(rows, len(rows))
        assert _alone(shuffled, norm, mechanism)[0] == numbers


# neighbours ---------------------------------------------------------------------------------------------------------------


def examined(
    tables: Mapping[str, list[Row]], queries: Sequence[str], norms: Sequence[float], mechanism: str
) -> tuple[list[str], float]:
    """What is wrong between neighbours, and the largest part of a clip that one of them used."""
    found, most = [], 0.0
    with ExitStack() as stack:
        whole = stack.enter_context(worlds.opened(tables))
        fewer = [stack.enter_context(worlds.opened(each)) for each in neighbours(tables, "trips")]
        for sql, norm in ((sql, norm) for sql in queries for norm in norms):
            bounded = clipped_at(bounded_by(whole, sql, mechanism), norm)
            priced = worlds.priced_at(bounded, mechanism)
            larger = worlds.run(whole, priced)
            for other in fewer:
                smaller = worlds.run(other, priced)
                for of in (each for each in bounded.clipped if each.vector.distinct):
                    assert of.clip is not None
                    [place], power = of.vector.members, 2 if of.clip.norm == "l2" else 1
                    one, two = (shown(each, [place]) for each in (larger, smaller))
                    distance, reach = moved(one, two, of.clip.norm)
                    claim = bounded.statistics[place].claim
                    most = max(most, (distance / of.clip.bound**power) ** (1 / power))
                    if distance > of.clip.bound**power or reach > claim.reach or moved(one, two, "l1")[0] > claim.l1:
                        found.append(f"{sql} at {norm} moved by {distance} in {reach} groups, claimed {claim}")
    return found, most


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", range(2))
def test_no_unit_moves_the_counts_further_than_the_norm(seed: int, mechanism: str) -> None:
    tables = worlds.world(random.Random(f"values {seed} {mechanism}"), units=4)
    found, most = examined(tables, QUERIES, NORMS[::2], mechanism)
    assert found == []
    assert most >= 0.9


# planted bugs -------------------------------------------------------------------------------------------------------------


def _crowded() -> dict[str, list[Row]]:
    """A unit with many values in one group and a few in another, beside one that shares some of them."""
    mine = [{"id": 1, "k": "a" if i else "b", "big": i} for i in range(30)]
    return {"trips": [*mine, *({"id": 2, "k": "a", "big": i} for i in range(0, 30, 7))]}


def _violations() -> list[str]:
    return examined(_crowded(), [QUERIES[1].replace("n)", "big)")], [4.0], "gaussian")[0]


def _kept_before_the_norm(patch: Patch) -> None:
    """As many pairs as fit where each is in a group of its own."""

    def by_squares(dialect: Any, hashed: str, names: Sequence[str]) -> str:
        listed = ", ".join([*names, "x"])
        return f"SELECT {listed}, row_number() OVER (PARTITION BY u ORDER BY h, {listed}) AS place FROM ({hashed}) AS h"

    patch.setattr(distinct_counts, "_by_squares", by_squares)


def _values_of_units_that_fit_are_taken_for_all(patch: Patch) -> None:
    patch.setattr(distinct_counts, "_kept", lambda dialect, pairs, names, most, salt: pairs)


def _a_pair_is_given_to_one_unit(patch: Patch) -> None:
    original: Any = distinct_counts._kept

    def kept(dialect: Any, pairs: str, names: Any, most: Any, salt: str) -> str:
        listed = ", ".join([*names, "x"])
        given = f"SELECT min(u) AS u, {listed} FROM ({pairs}) GROUP BY {listed}"
        return str(original(dialect, given, names, most, salt))

    patch.setattr(distinct_counts, "_kept", kept)


def _shared() -> list[str]:
    """Unit 0 has the values of everybody else, too, and nobody else has more than one."""
    others = [{"id": i, "k": "a", "big": i} for i in range(1, 40)]
    tables = {"trips": [*({"id": 0, "k": "a", "big": i} for i in range(1, 40)), *others]}
    return examined(tables, [QUERIES[1].replace("n)", "big)")], [4.0], "gaussian")[0]


@pytest.mark.parametrize(("plant", "check"), [
    (_kept_before_the_norm, _violations),
    (_values_of_units_that_fit_are_taken_for_all, _violations),
    (_a_pair_is_given_to_one_unit, _shared),
], ids=["distinct pairs are kept before the norm", "the norm of distinct values is forgotten", "a pair is given to one unit"])  # fmt: skip
def test_a_planted_bug_is_reported(
    plant: Callable[[Patch], None], check: Callable[[], list[str]], monkeypatch: Patch
) -> None:
    assert check() == []
    plant(monkeypatch)
    assert check()


# limits -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "gaussian", "laplace"), [
    ("SELECT count(DISTINCT big) FROM trips", 50, 50),
    ("SELECT k, count(DISTINCT big) FROM trips GROUP BY k", 50, 50),
    ("SELECT k, count(DISTINCT n) FROM trips GROUP BY k", math.sqrt(50 * 13), 50),
    ("SELECT k, count(DISTINCT n > 3) FROM trips GROUP BY k", math.sqrt(4 * 7), 14),
    ("SELECT w, count(DISTINCT n > 3) FROM trips GROUP BY w", math.sqrt(2 * 50), 50),
    ("SELECT k, count(DISTINCT id) FILTER (WHERE n > 3) FROM trips GROUP BY k", math.sqrt(7), 7),
])  # fmt: skip
def test_the_limit_is_what_rows_and_listed_values_leave(sql: str, gaussian: float, laplace: float) -> None:
    """The key k has six values and NULL; a unit has at most 50 rows, and 13 different n, or two answers."""
    with worlds.opened({}) as db:
        for mechanism, limit in (("gaussian", gaussian), ("laplace", laplace)):
            [vector] = vectors(bounded_by(db, sql, mechanism))
            assert vector.limit == pytest.approx(limit)
