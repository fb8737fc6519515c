"""Small worlds of wild rows, and what the rules `vector` and `norms` make of them, in Python's own integers."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import unlocked

import dpsql
from dpsql.audit.world import StoredTable, load
from dpsql.budget.pricing import Portion, Priced, parts_of, price_release
from dpsql.engines.sealed import Integers
from dpsql.sensitivity.argument import Argument
from dpsql.sensitivity.bound import Bounded, norm_search, settle
from dpsql.sensitivity.clip import BUCKETS, CELL_BITS, Clip, clip_at, norms_of
from dpsql.sensitivity.statistics import Part

SALT = b"a fixed salt"
Row = dict[str, Any]
Group = tuple[object, ...]
TYPES = {
    "id": "INTEGER", "k": "VARCHAR", "w": "VARCHAR", "x": "DOUBLE", "n": "INTEGER", "big": "BIGINT", "d": "DECIMAL(9,2)",
    "s": "SMALLINT",
}  # fmt: skip
LETTERS = ("a", "b", "c", "d", "e", "f")
POLICY: Mapping[str, Any] = {
    "dataset": "vectors", "search": True,
    "budget": {"epsilon": 1000, "delta": "1e-6"},
    "tables": {
        name: unit
        | {
            "columns": {
                "k": {"values": list(LETTERS)}, "w": {}, "x": {"min": -50, "max": 70}, "n": {"min": -3, "max": 9},
                "big": {"min": -(2**45), "max": 2**45}, "d": {"min": -10, "max": 99},
                "s": {"min": -40_000, "max": 40_000},
            }
        }
        for name, unit in {
            "trips": {"unit": "id", "max_groups_per_unit": 30},
            "people": {"unit": "id", "unique": True},
            "hits": {"unit": "row"},
        }.items()
    },
}  # fmt: skip
CONSTRAINTS = {"trips": (), "people": ("PRIMARY KEY (id)",), "hits": ()}
DOUBLES = (None, "nan", "inf", "-inf", "1e300", "-1e300", "5e-324", "-0.0", "0.1", "-49.99", "69.5", "3.25", "-7", "50")
WHOLES = (None, 0, 1, -1, 7, 2**45, -(2**45), 2**63 - 1, -(2**63), 123456789012)
CENTS = (None, "0.00", "-0.01", "12.34", "98.99", "7654321.99", "-10.00")


def drawn(rng: random.Random) -> Row:
    """A row without owner."""
    return {
        "k": rng.choice((*LETTERS, "unlisted", None)), "w": rng.choice(("p", "q", "r", "s", "", None)),
        "x": rng.choice(DOUBLES), "n": rng.choice((None, *range(-5, 12))), "big": rng.choice(WHOLES), "d": rng.choice(CENTS),
        "s": rng.choice((None, 0, -1, 5, -32_768, 32_767)),
    }  # fmt: skip


def world(rng: random.Random, units: int = 7) -> dict[str, list[Row]]:
    """Units with one row and with many, and rows without owner."""
    trips = [drawn(rng) | {"id": unit} for unit in range(units) for _ in range(rng.choice((1, 1, 2, 5, 40)))]
    return {
        "trips": [*trips, *(drawn(rng) for _ in range(4))],
        "people": [drawn(rng) | {"id": unit} for unit in range(3 * units)],
        "hits": [drawn(rng) for _ in range(3 * units)],
    }


def stored(tables: Mapping[str, Sequence[Row]], *, constraints: bool = True) -> dict[str, StoredTable]:
    """The tables as a database loads them."""
    return {
        name: StoredTable.of(TYPES, tables.get(name, ()), keys if constraints else ())
        for name, keys in CONSTRAINTS.items()
    }


@contextmanager
def opened(tables: Mapping[str, Sequence[Row]]) -> Iterator[dpsql.Connection]:
    """These tables in DuckDB, for the steward."""
    with load(stored(tables)) as raw, dpsql.connect(raw, policy=POLICY, ledger=":memory:", steward=True) as db:
        yield db


def bounded_by(db: dpsql.Connection, sql: str, mechanism: str) -> Bounded:
    """The only release of a query."""
    [priced] = db.prepare(sql, epsilon=1, delta=1e-7, mechanism=mechanism).bill.releases
    assert priced.bounded.rule == "vector", sql
    return priced.bounded


def priced_at(bounded: Bounded, mechanism: str, *, floored: bool = False) -> Priced:
    """A release with a price; without floor its integers are the very sums that the theorem is about."""
    parts = (Fraction(1, 100),) * parts_of(bounded)
    priced = price_release(bounded, Portion(mechanism, sum(parts, Fraction(0)), parts, Fraction(1, 10**8), exact=True))
    return priced if floored else replace(priced, noised=tuple(replace(n, shift=0) for n in priced.noised))


def run(db: dpsql.Connection, priced: Priced) -> Integers:
    """The integers of a release, as the engine adds them up."""
    return unlocked.integers(db.engine, priced, SALT)


def clipped_at(bounded: Bounded, norm: float) -> Bounded:
    """The release with a clip at a norm."""
    assert bounded.vector is not None
    return settle(bounded, clip_at(bounded.vector, norm))


def clipped_by(bounded: Bounded, bound: int, exponents: tuple[int | None, ...]) -> Bounded:
    """The release with a clip that is made by hand."""
    assert bounded.vector is not None
    return settle(bounded, Clip(bounded.vector.norm, bound, exponents))


def searched(bounded: Bounded) -> Bounded:
    """The search for the norms of a release."""
    assert bounded.vector is not None
    return norm_search(bounded, bounded.vector)


# in Python --------------------------------------------------------------------------------------------------------------


def step(argument: Argument, cell: object, type_: str) -> int | None:
    """What a cell of a column adds, in whole steps: rounded half to even, within the bounds; None for NULL and NaN."""
    if cell is None:
        return None
    number = float(str(cell)) if type_ == "DOUBLE" else Fraction(str(cell))
    if number != number:  # NaN
        return None
    if math.isinf(number):
        return argument.upper if number > 0 else argument.lower
    return max(argument.lower, min(argument.upper, round(Fraction(number) / argument.grid)))


KEYS: dict[str, Callable[[Row], object]] = {
    "k": lambda row: row["k"],
    "w": lambda row: row["w"],
    "n": lambda row: row["n"],
    "id % 3": lambda row: row["id"] % 3,
}
"""The keys of the queries, by how they are written."""


def group_of(bounded: Bounded, row: Row) -> Group | None:
    """The group of a row; None where its keys are not listed."""
    made: list[object] = []
    for key in bounded.keys:
        value = KEYS[str(key.expression)](row)
        if key.values is not None and value not in key.values:
            if None not in key.values:
                return None
            value = None
        made.append(value)
    return tuple(made)


def cells_of(
    bounded: Bounded, rows: Sequence[Row], exponents: Sequence[int | None], most: int
) -> dict[tuple[Group, int], int]:
    """The cells z of a unit's rows, by group and statistic; those that are zero are there as well."""
    groups: dict[Group, list[Row]] = defaultdict(list)
    for row in rows:
        if (group := group_of(bounded, row)) is not None:
            groups[group].append(row)
    made = {}
    for group, mine in groups.items():
        for place, exponent in enumerate(exponents):
            if exponent is not None:
                y = number_of(bounded, bounded.statistics[place].part, mine)
                z = y << exponent if exponent >= 0 else y >> -exponent
                made[group, place] = max(-most, min(most, z))
    return made


def number_of(bounded: Bounded, part: Part, rows: Sequence[Row]) -> int:
    """The number y of a unit's rows in one group."""
    argument = bounded.arguments[part.argument]
    if part.units:
        return 1
    if argument.expression is None:
        return part.beta * len(rows)
    name = str(argument.expression)
    values = [v for row in rows if (v := step(argument, row.get(name), TYPES[name])) is not None]
    return part.alpha * sum(values) + part.beta * len(values)


def units_of(table: str, rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each unit."""
    if table == "hits":
        return [[row] for row in rows]
    owned: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("id") is not None:
            owned[row["id"]].append(row)
    return list(owned.values())


def clip(bounded: Bounded, rows: Sequence[Row]) -> dict[tuple[Group, int], int]:
    """What a unit adds to the totals."""
    it = bounded.clip
    assert it is not None
    cells = cells_of(bounded, rows, it.exponents, it.bound)
    power = sum(z * z for z in cells.values()) if it.norm == "l2" else sum(map(abs, cells.values()))
    if power <= (it.bound**2 if it.norm == "l2" else it.bound):
        return cells
    divisor = math.floor(math.sqrt(power) * (1 + 2.0**-40)) + 1 if it.norm == "l2" else power
    return {at: int(math.copysign(abs(z) * it.bound // divisor, z)) for at, z in cells.items()}


def totals(bounded: Bounded, units: Sequence[Sequence[Row]]) -> dict[tuple[Group, int], int]:
    """The totals of the vector, by group and statistic."""
    made: dict[tuple[Group, int], int] = defaultdict(int)
    for rows in units:
        for at, z in clip(bounded, rows).items():
            made[at] += z
    return made


def bucket_of(bounded: Bounded, rows: Sequence[Row]) -> tuple[int, int, int] | None:
    """The bucket of a unit's norm, and what it adds to its count and spread; None for a vector of zeros."""
    vector = bounded.vector
    assert vector is not None
    cells = cells_of(bounded, rows, vector.scales, 1 << CELL_BITS).values()
    length, square = sum(map(abs, cells)), sum(z * z for z in cells)
    if length == 0:
        return None
    size = square if vector.norm == "l2" else length**2
    place = next((h for h in range(BUCKETS - 1) if size <= 1 << h), BUCKETS - 1)
    adds = norms_of(vector.norm, vector.cells)
    if not adds.spread:
        return place, adds.count, 0
    share = (length / math.sqrt(square) - 1) * (adds.spread / (math.sqrt(vector.cells) - 1))
    return place, adds.count, math.floor(max(0.0, min(float(adds.spread), share)))


def histogram(bounded: Bounded, units: Sequence[Sequence[Row]]) -> dict[int, tuple[int, int]]:
    """The units by the bucket of their norm: what they add to its count and its spread."""
    made: dict[int, tuple[int, int]] = {}
    for rows in units:
        if (found := bucket_of(bounded, rows)) is not None:
            count, spread = made.get(found[0], (0, 0))
            made[found[0]] = count + found[1], spread + found[2]
    return made
