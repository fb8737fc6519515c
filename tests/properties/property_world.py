"""Small databases for property tests: one policy, the four kinds of private table, and values of every bad kind.

`visits` has a row as its unit, `orders` a unit column, `people` a unit column that a PRIMARY KEY makes unique, and
`members` one that is only declared so (and is not). All four have the same columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import dpsql

MAX_ROWS, MAX_GROUPS = 4, 3
FIRST_DAY, LAST_DAY = date(2024, 1, 1), date(2024, 3, 31)
KINDS, SIZES = ("a", "b", "c", "d", "e", "f"), ("s", "m", "l")
TABLES = ("visits", "orders", "people", "members")
OWNED = ("orders", "people", "members")

COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "x": ("DOUBLE", {"min": -10, "max": 20}),
    "debt": ("DOUBLE", {"min": -30, "max": -5}),
    "n": ("INTEGER", {"min": -3, "max": 8}),
    "amount": ("DECIMAL(10,2)", {"min": 0, "max": 50}),
    "kind": ("VARCHAR", {"values": list(KINDS)}),
    "size": ("VARCHAR", {"values": list(SIZES), "nulls": False}),
    "flag": ("BOOLEAN", {}),
    "day": ("DATE", {"min": FIRST_DAY, "max": LAST_DAY}),
    "seen": ("TIMESTAMP", {"min": FIRST_DAY, "max": LAST_DAY}),
    "level": ("INTEGER", {"min": 1, "max": 4, "nulls": False}),
    "note": ("VARCHAR", {}),
    "big": ("BIGINT", {}),
    "huge": ("BIGINT", {"min": -(2**61), "max": 2**61}),
    "wide": ("DOUBLE", {"min": -1e200, "max": 1e200}),
    "fine": ("DECIMAL(38,10)", {"min": 0, "max": 1}),
    "temp": ("FLOAT", {"min": -20, "max": 40}),
    "mood": ("ENUM('bad', 'fine', 'good')", {"values": ["good", "bad"]}),
}
_ARROW = {
    "DOUBLE": pa.float64(), "INTEGER": pa.int32(), "DECIMAL(10,2)": pa.decimal128(10, 2), "VARCHAR": pa.string(),
    "DECIMAL(38,10)": pa.decimal128(38, 10), "FLOAT": pa.float32(), "ENUM('bad', 'fine', 'good')": pa.string(),
    "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "BIGINT": pa.int64(),
}  # fmt: skip
SCHEMA = pa.schema([("id", pa.int32()), *((name, _ARROW[type_]) for name, (type_, _) in COLUMNS.items())])
Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]


def make_policy(rows: int = MAX_ROWS, groups: int = MAX_GROUPS, unit: object = "id") -> dict[str, Any]:
    """The policy of all worlds, with the contribution bounds of `orders` and its unit, which may be a path."""
    columns = {name: dict(spec) for name, (_, spec) in COLUMNS.items()}
    return {
        "dataset": "world",
        "budget": {"epsilon": 10**6, "delta": "1e-3"},
        "tables": {
            "visits": {"unit": "row", "columns": columns},
            "orders": {"unit": unit, "max_rows_per_unit": rows, "max_groups_per_unit": groups, "columns": columns},
            "people": {"unit": "id", "unique": True, "columns": columns},
            "members": {"unit": "id", "unique": True, "columns": columns},
        },
    }


# values -----------------------------------------------------------------------------------------------------------------


def _inside(rng: random.Random) -> Row:
    """Values that obey the policy; doubles on a binary grid, so that sums of them are exact everywhere."""
    day = FIRST_DAY + timedelta(days=rng.randrange((LAST_DAY - FIRST_DAY).days + 1))
    return {
        "x": rng.randint(-40, 80) / 4,
        "debt": rng.randint(-120, -20) / 4,
        "n": rng.randint(-3, 8),
        "amount": Decimal(rng.randint(0, 5000)) / 100,
        "kind": rng.choice(KINDS),
        "size": rng.choice(SIZES),
        "flag": rng.random() < 0.5,
        "day": day,
        "seen": datetime(2024, 1, 1) + timedelta(minutes=rng.randrange(90 * 24 * 60)),
        "level": rng.randint(1, 4),
        "note": rng.choice(("n1", "n2", "n3", "N3", "x")),
        "big": rng.randint(-9, 9),
        "huge": rng.randint(-(2**20), 2**20) << 33,
        "wide": rng.randint(-16, 16) * 2.0**660,
        "fine": Decimal(rng.randint(0, 1024)) / 1024,
        "temp": rng.randint(-80, 160) / 4,
        "mood": rng.choice(("good", "bad")),
    }


_EDGES: Row = {
    "x": (-10.0, 20.0), "debt": (-30.0, -5.0), "n": (-3, 8), "amount": (Decimal(0), Decimal(50)), "kind": KINDS[:1],
    "size": SIZES[:1], "flag": (True,), "day": (FIRST_DAY, LAST_DAY), "seen": (datetime(2024, 1, 1), datetime(2024, 3, 31)),
    "level": (1, 4), "note": ("n1",), "big": (0, 1), "huge": (-(2**61), 2**61), "wide": (-1e200, 1e200),
    "fine": (Decimal(0), Decimal(1)), "temp": (-20.0, 40.0), "mood": ("good",),
}  # fmt: skip
_OUTSIDE: Row = {
    "x": (-1e300, 1e300, float("nan"), float("inf"), float("-inf"), -0.0, 20.000001, 5e-324),
    "debt": (0.0, 1e9, -1e9, float("nan"), float("inf"), float("-inf")),
    "n": (-4, 9, 2**31 - 1, -(2**31)),
    "amount": (Decimal("-0.01"), Decimal("50.01"), Decimal("99999999.99"), Decimal("-99999999.99")),
    "kind": ("z", "A", "", "a ", "é"),
    "size": ("xl", "", "S"),
    "flag": (False,),
    "day": (date(2023, 12, 31), date(2024, 4, 1), date(1, 1, 1), date(9999, 12, 31)),
    "seen": (datetime(2023, 12, 31, 23, 59, 59), datetime(2024, 3, 31, 0, 0, 1), datetime(1700, 1, 1)),
    "level": (0, 5, -7, 2**31 - 1),
    "note": ("", "a|b", "b|c", "é", "\x00", "n" * 60),
    "big": (2**63 - 1, -(2**63), 0),
    "huge": (2**63 - 1, -(2**63), 2**61 + 1),
    "wide": (1.7e308, -1.7e308, float("inf"), float("nan")),
    "fine": (Decimal("1.0000000001"), Decimal("-1"), Decimal(10) ** 27),
    "temp": (float("nan"), float("-inf"), 3e38, -0.0),
    "mood": ("fine",),
}


def _wild(rng: random.Random) -> Row:
    """A row in which any value may lie at or beyond its bounds, or be NULL."""
    row = _inside(rng)
    for name in row:
        chance = rng.random()
        if chance < 0.10:
            row[name] = None
        elif chance < 0.22:
            row[name] = rng.choice(_OUTSIDE[name])
        elif chance < 0.34:
            row[name] = rng.choice(_EDGES[name])
    return row


# worlds -----------------------------------------------------------------------------------------------------------------


def wild_world(rng: random.Random) -> dict[str, list[Row]]:
    """Few units, some far over every bound, that share groups; rows without owner; nothing is obeyed."""
    units = list(range(1, 8))
    orders = []
    for unit in units:
        many = rng.choice((1, 2, 4, 5, 12, 25))
        orders += [{"id": unit, **_wild(rng)} for _ in range(many)]
    orders += [{"id": None, **_wild(rng)} for _ in range(rng.randint(1, 6))]
    members = [{"id": rng.choice([*units, None]), **_wild(rng)} for _ in range(14)]
    people = [{"id": unit, **_wild(rng)} for unit in units]
    visits = [{"id": None, **_wild(rng)} for _ in range(9)]
    return {"visits": visits, "orders": orders, "people": people, "members": members}


def tame_world(rng: random.Random, rows: int, *, nulls: bool = True) -> dict[str, list[Row]]:
    """Everything obeys the policy: values within bounds, at most `rows` rows per unit, one where that is declared."""

    def row(unit: int | None) -> Row:
        made = _inside(rng)
        if nulls:
            made |= {name: None for name in made if rng.random() < 0.08 and COLUMNS[name][1].get("nulls", True)}
        return {"id": unit, **made}

    units = list(range(1, 10))
    return {
        "visits": [row(None) for _ in range(40)],
        "orders": [row(unit) for unit in units for _ in range(rng.randint(0, rows))],
        "people": [row(unit) for unit in units],
        "members": [row(unit) for unit in units],
    }


def without_unit(tables: Tables, unit: int, visit: int, rng: random.Random) -> dict[str, list[Row]]:
    """The neighbour: all rows of one unit are gone, and (each row being a unit there) one visit; in another order."""
    kept = {name: [row for row in tables[name] if row["id"] != unit] for name in OWNED}
    kept["visits"] = [row for index, row in enumerate(tables["visits"]) if index != visit]
    return reordered(kept, rng)


def without_unowned(tables: Tables) -> dict[str, list[Row]]:
    """The same without the rows that nobody owns: dpsql never saw them."""
    return {name: [r for r in rows if name == "visits" or r["id"] is not None] for name, rows in tables.items()}


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
    with duckdb.connect(":memory:", config={"threads": 1}) as raw:
        for name in TABLES:
            _load(raw, name, tables.get(name, ()))
        with dpsql.connect(raw, policy=policy, ledger=":memory:", steward=True) as db:
            yield Database(raw, db)


def _load(raw: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Row]) -> None:
    columns = ", ".join(f'"{column}" {type_}' for column, (type_, _) in COLUMNS.items())
    key = " PRIMARY KEY" if name == "people" else ""
    raw.execute(f"CREATE TABLE {name} (id INTEGER{key}, {columns})")
    filled = [{"id": None, **dict.fromkeys(COLUMNS), **row} for row in rows]
    raw.register("incoming", pa.Table.from_pylist(filled, schema=SCHEMA))
    raw.execute(f"INSERT INTO {name} SELECT * FROM incoming")
    raw.unregister("incoming")
