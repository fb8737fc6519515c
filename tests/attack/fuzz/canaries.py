"""A world that obeys its policy and whose every private value can be recognised wherever it turns up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpsql.audit.world import Row, StoredTable, World, load
from dpsql.session import Connection, connect

UNITS = 24
ROWS = 200
"""More than any unit has, in any query of this world."""
FIRST_ID = 7340017
CANARY = re.compile(r"zqx\w{2}|73400[1-4]\d|\d*\.0?60[37]91\d*|1987-0[67]-\d\d")
"""The texts, owners, numbers and days that the private tables hold, and that no query and no policy names."""
REGIONS, KINDS = ("north", "south", "east", "west"), ("paid", "open", "lost")


def policy() -> dict[str, Any]:
    """Declared values, bounds, a path, rows that are units, a public table; `secret` and `ghosts` do not exist."""
    return {
        "dataset": "canaries",
        "search": False,
        "budget": {"epsilon": 10**9, "delta": "1e-3"},
        "limits": {"epsilon": 10**6},
        "defaults": {"max_rows_per_unit": ROWS, "max_groups_per_unit": 50},
        "tables": {
            "people": {
                "unit": "id",
                "unique": True,
                "columns": {
                    "age": {"min": 18, "max": 110},
                    "region": {"values": list(REGIONS), "nulls": False},
                    "income": {"min": 0, "max": 1000},
                    "vip": {},
                    "note": {},
                    "born": {"min": "1980-01-01", "max": "1999-12-31"},
                },
            },
            "orders": {
                "unit": {"person": "people.id"},
                "columns": {
                    "number": {},
                    "amount": {"min": 0, "max": 500},
                    "price": {"min": 0, "max": 100},
                    "qty": {"min": 1, "max": 12, "nulls": False},
                    "kind": {"values": list(KINDS)},
                    "placed": {"min": "1980-01-01", "max": "1999-12-31"},
                    "remark": {},
                },
            },
            "visits": {"unit": "row", "columns": {"duration": {"min": 0, "max": 100}, "page": {}}},
            "stores": {"public": True},
        },
    }


def world() -> World:
    """Every declared value occurs, so that no group is there only because it was declared."""
    return World.made(
        "canaries", policy(), {"people": _people(), "orders": _orders(), "visits": _visits(), **_others()}
    )


def _people() -> StoredTable:
    types = {
        "id": "INTEGER PRIMARY KEY", "age": "INTEGER", "region": "VARCHAR", "income": "DOUBLE", "vip": "BOOLEAN",
        "note": "VARCHAR", "born": "DATE", "secret": "VARCHAR",
    }  # fmt: skip
    rows: list[Row] = [
        (FIRST_ID + i, 20 + i, REGIONS[i % 4], None if i == 5 else i * 32 + 0.603912, i % 3 == 0, f"zqx{i:02}",
         f"1987-06-{i + 1:02}", f"zqxs{i}")
        for i in range(UNITS)
    ]  # fmt: skip
    return StoredTable(types, tuple(rows))


def _orders() -> StoredTable:
    types = {
        "person": "INTEGER", "number": "INTEGER", "amount": "DOUBLE", "price": "DECIMAL(9,6)", "qty": "INTEGER",
        "kind": "VARCHAR", "placed": "TIMESTAMP", "remark": "VARCHAR",
    }  # fmt: skip
    rows: list[Row] = [
        (FIRST_ID + i % UNITS, i, None if i % 17 == 0 else i * 4 + 0.607915, Decimal(i) + Decimal("0.060791"),
        1 + i % 12,
         None if i % 7 == 6 else KINDS[i % 3], f"1987-07-{1 + i % 28:02} 10:11:12", f"zqx{i % 40:02}")
        for i in range(70)
    ]  # fmt: skip
    return StoredTable(types, tuple(rows), ("FOREIGN KEY (person) REFERENCES people (id)",))


def _visits() -> StoredTable:
    return StoredTable(
        {"duration": "DOUBLE", "page": "VARCHAR"}, tuple((i + 0.603911, f"zqx{i:02}") for i in range(30))
    )


def _others() -> dict[str, StoredTable]:
    rows = tuple((i, f"store {i}", REGIONS[i], i * 10) for i in range(4))
    stores = StoredTable(
        {"store": "INTEGER PRIMARY KEY", "name": "VARCHAR", "area": "VARCHAR UNIQUE", "size": "INTEGER"}, rows
    )
    return {"stores": stores, "ghosts": StoredTable({"id": "INTEGER", "name": "VARCHAR"}, ((FIRST_ID, "zqxgh"),))}


@contextmanager
def stored() -> Iterator[Path]:
    """The world as a database file, which is described once and not anew for each query."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "canaries.duckdb"
        with load(world().tables) as raw:
            raw.execute(f"ATTACH '{path}' AS kept")
            raw.execute("COPY FROM DATABASE memory TO kept")
        yield path


def opened(path: Path, *, steward: bool = False) -> Connection:
    """A connection to the file, with a ledger in memory and replay off."""
    return connect(path, policy={**policy(), "replay": False}, ledger=":memory:", steward=steward)
