"""The built-in worlds: small, wild, and with every feature of a policy.

`kinds` has one table of each kind of ownership, all with the same columns; `joins` has tables that are joined, along a
foreign key and with public ones; `shop` has views, a search for bounds, and MIN and MAX that the policy answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpsql.audit.column_values import FIRST, LAST, Values, values_of
from dpsql.audit.world import Cell, Row, StoredTable, World
from dpsql.policy.model import DeclaredColumn

UNITS = 7
BUDGET = {"epsilon": 10**6, "delta": "1e-3"}
Columns = Mapping[str, tuple[str, dict[str, Any]]]


def builtin_worlds(seed: int = 0) -> tuple[World, ...]:
    """One of each, with rows that the seed draws."""
    rng = random.Random(seed)
    return kinds(rng), joins(rng), shop(rng)


# kinds of ownership ---------------------------------------------------------------------------------------------------

KINDS, SIZES = ("a", "b", "c", "d", "e", "f"), ("s", "m", "l")
KIND_COLUMNS: Columns = {
    "x": ("DOUBLE", {"min": -10, "max": 20}),
    "debt": ("DOUBLE", {"min": -30, "max": -5}),
    "n": ("INTEGER", {"min": -3, "max": 8}),
    "amount": ("DECIMAL(10,2)", {"min": 0, "max": 50}),
    "kind": ("VARCHAR", {"values": list(KINDS)}),
    "size": ("VARCHAR", {"values": list(SIZES), "nulls": False}),
    "flag": ("BOOLEAN", {}),
    "day": ("DATE", {"min": FIRST, "max": LAST}),
    "seen": ("TIMESTAMP", {"min": FIRST, "max": LAST}),
    "level": ("INTEGER", {"min": 1, "max": 4, "nulls": False}),
    "note": ("VARCHAR", {}),
    "big": ("BIGINT", {}),
    "huge": ("BIGINT", {"min": -(2**61), "max": 2**61}),
    "wide": ("DOUBLE", {"min": -1e200, "max": 1e200}),
    "fine": ("DECIMAL(38,10)", {"min": 0, "max": 1}),
    "temp": ("FLOAT", {"min": -20, "max": 40}),
    "mood": ("ENUM('bad', 'fine', 'good')", {"values": ["good", "bad"]}),
}
KIND_CONSTRAINTS: dict[str, tuple[str, ...]] = {
    "people": ("PRIMARY KEY (id)",),
    "visits": (),
    "orders": (),
    "members": (),
}
"""Parents first, as a path may lead to them."""


def kinds_policy(rows: int = 4, groups: int = 3, unit: object = "id") -> dict[str, Any]:
    """`visits` by row, `orders` by a column or a path, `people` unique by a key, `members` only said to be so."""
    columns = {name: dict(spec) for name, (_, spec) in KIND_COLUMNS.items()}
    return {
        "dataset": "kinds",
        "search": False,
        "budget": BUDGET,
        "tables": {
            "visits": {"unit": "row", "columns": columns},
            "orders": {"unit": unit, "max_rows_per_unit": rows, "max_groups_per_unit": groups, "columns": columns},
            "people": {"unit": "id", "unique": True, "columns": columns},
            "members": {"unit": "id", "unique": True, "columns": columns},
        },
    }


def kinds(rng: random.Random) -> World:
    """Few units, some far over every bound, that share groups; rows without owner; nothing is obeyed."""
    units = range(1, UNITS + 1)
    draw = _drawing(KIND_COLUMNS, rng)
    orders = [(unit, *draw()) for unit in units for _ in range(rng.choice((1, 2, 4, 5, 12, 25)))]
    orders += [(None, *draw()) for _ in range(rng.randint(1, 6))]
    rows: dict[str, list[Row]] = {
        "people": [(unit, *draw()) for unit in units],
        "visits": [(None, *draw()) for _ in range(9)],
        "orders": orders,
        "members": [(rng.choice([*units, None]), *draw()) for _ in range(14)],
    }
    return kinds_of(rows, kinds_policy())


def tame_kinds(rng: random.Random, rows: int, *, nulls: bool = True) -> World:
    """Everything obeys the policy: values within bounds, at most `rows` rows per unit, one where that is declared."""
    units, draw = range(1, 10), _drawing(KIND_COLUMNS, rng, nulls=0.08 if nulls else 0.0)
    made: dict[str, list[Row]] = {
        "people": [(unit, *draw()) for unit in units],
        "visits": [(None, *draw()) for _ in range(40)],
        "orders": [(unit, *draw()) for unit in units for _ in range(rng.randint(0, rows))],
        "members": [(unit, *draw()) for unit in units],
    }
    return kinds_of(made, kinds_policy(rows))


def kinds_of(rows: Mapping[str, Sequence[Row]], policy: Mapping[str, Any]) -> World:
    """The tables with these rows."""
    types = {"id": "INTEGER", **_types(KIND_COLUMNS)}
    tables = {name: StoredTable(types, tuple(rows.get(name, ())), keys) for name, keys in KIND_CONSTRAINTS.items()}
    return World.made("kinds", policy, tables)


def _drawing(columns: Columns, rng: random.Random, nulls: float | None = None) -> Callable[[], Row]:
    """Draws wild rows; with a share of NULLs, tame ones."""
    made: list[Values] = [values_of(type_, DeclaredColumn(**spec)) for type_, spec in columns.values()]

    def tame(values: Values, share: float) -> Cell:
        return None if values.nullable and rng.random() < share else values.tame(rng)

    if nulls is None:
        return lambda: tuple(values.wild(rng) for values in made)
    return lambda: tuple(tame(values, nulls) for values in made)


# joins ----------------------------------------------------------------------------------------------------------------

JOIN_COLUMNS: Columns = {
    "x": ("DOUBLE", {"min": -5, "max": 10}),
    "n": ("INTEGER", {"min": 0, "max": 6}),
    "kind": ("VARCHAR", {"values": ["a", "b", "c"]}),
    "note": ("VARCHAR", {}),
    "store": ("VARCHAR", {}),
}
PUBLIC: dict[str, StoredTable] = {
    "stores": StoredTable(
        {"store": "VARCHAR", "region": "VARCHAR", "size": "INTEGER"},
        (("s1", "north", 1), ("s2", "south", 2), ("s3", "north", 3), ("s4", None, None)),
        ("PRIMARY KEY (store)",),
    ),
    "prices": StoredTable(
        {"kind": "VARCHAR", "price": "INTEGER"},
        (("a", 1), ("a", 3), ("b", 2), (None, 2), ("z", 9), ("b", None)),
    ),
}


def joins_policy(rows: int = 4, groups: int = 3) -> dict[str, Any]:
    """`items` belong to whoever owns their order; `stock` has a key of two columns; `stores`, `prices` are public."""
    columns = {name: dict(spec) for name, (_, spec) in JOIN_COLUMNS.items()}
    caps = {"max_rows_per_unit": rows, "max_groups_per_unit": groups}
    return {
        "dataset": "joins",
        "search": False,
        "budget": BUDGET,
        "tables": {
            "people": {"unit": "id", "unique": True, "columns": columns},
            "orders": {"unit": "id", **caps, "columns": {"oid": {}, **columns}},
            "items": {"unit": {"oid": "orders.oid"}, **caps, "columns": columns},
            "stock": {"unit": "id", "unique": ["id", "part"], **caps, "columns": {"part": {}, **columns}},
            "visits": {"unit": "row", "columns": columns},
            "stores": {"public": True},
            "prices": {"public": True},
        },
    }


def joins(rng: random.Random, *, tame: bool = False) -> World:
    """Units with rows in some of the tables; unless tame, also rows, orders and items that nobody owns."""
    draw, stores = _drawing(JOIN_COLUMNS, rng, 0.1 if tame else None), ("s1", "s2", "s3", "s4", "s9")

    def row() -> Row:
        return (*draw()[:-1], rng.choice((*stores, None)))

    rows: dict[str, list[Row]] = {name: [] for name in ("people", "orders", "items", "stock")}
    rows["visits"] = [row() for _ in range(8)]
    number = 100
    for unit in (*range(1, UNITS), *(() if tame else (None,))):
        if unit is not None and rng.random() < 0.8:
            rows["people"].append((unit, *row()))
        for _ in range(rng.choice((0, 1, 2, 3, 5) if tame else (0, 1, 2, 5, 9))):
            number += 1
            order = number if tame or rng.random() < 0.85 else None
            rows["orders"].append((unit, order, *row()))
            if order is not None:
                rows["items"] += [(order, *row()) for _ in range(rng.choice((0, 1, 2, 3)))]
    rows["items"] += [] if tame else [(None, *row()) for _ in range(3)]
    for unit in (*range(1, UNITS), *(() if tame else (None,))):
        parts = rng.sample(range(1, 8), rng.choice((0, 1, 2, 3, 5)))
        rows["stock"] += [(unit, part, *row()) for part in (*parts, *(() if tame else (None, None)))]
    return joins_of(rows, joins_policy())


JOIN_KEYS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "people": ({"id": "INTEGER"}, ("PRIMARY KEY (id)",)),
    "orders": ({"id": "INTEGER", "oid": "BIGINT"}, ("UNIQUE (oid)",)),
    "items": ({"oid": "BIGINT"}, ("FOREIGN KEY (oid) REFERENCES orders (oid)",)),
    "stock": ({"id": "INTEGER", "part": "INTEGER"}, ("UNIQUE (id, part)",)),
    "visits": ({}, ()),
}


def joins_of(rows: Mapping[str, Sequence[Row]], policy: Mapping[str, Any]) -> World:
    """The tables with these rows, and the public ones."""
    types = _types(JOIN_COLUMNS)
    tables = {
        n: StoredTable({**keys, **types}, tuple(rows.get(n, ())), facts) for n, (keys, facts) in JOIN_KEYS.items()
    }
    return World.made("joins", policy, {**tables, **PUBLIC})


# shop -----------------------------------------------------------------------------------------------------------------

CUSTOMER_COLUMNS: Columns = {
    "age": ("SMALLINT", {"min": 18, "max": 110, "minmax": "policy"}),
    "income": ("DECIMAL(12,2)", {"min": 0, "max": 200000}),
    "region": ("VARCHAR", {"values": ["north", "south", "east"]}),
}
BUYING_COLUMNS: Columns = {
    "amount": ("DOUBLE", {"min": 0, "max": 500}),
    "pieces": ("INTEGER", {"bounds": "auto"}),
    "status": ("VARCHAR", {"values": ["paid", "open", "lost"]}),
    "placed": ("TIMESTAMP", {"min": FIRST, "max": LAST}),
    "product": ("INTEGER", {"values": {"from": "products.product"}}),
}


def shop_policy() -> dict[str, Any]:
    """Views, bounds that are searched for, MIN and MAX by the policy, values from a public table."""
    return {
        "dataset": "shop",
        "search": False,
        "budget": BUDGET,
        "defaults": {"max_rows_per_unit": 5, "max_groups_per_unit": 2},
        "tables": {
            "customers": {
                "unit": "id",
                "unique": True,
                "columns": {name: dict(spec) for name, (_, spec) in CUSTOMER_COLUMNS.items()},
            },
            "buyings": {
                "unit": {"customer": "customers.id"},
                "columns": {name: dict(spec) for name, (_, spec) in BUYING_COLUMNS.items()},
            },
            "products": {"public": True},
        },
        "views": {
            "paid": "SELECT customer, amount, placed, product FROM buyings WHERE status = 'paid'",
            "spent": "SELECT customer, count(*) AS buyings, sum(amount) AS total FROM buyings GROUP BY customer",
        },
    }


def shop(rng: random.Random) -> World:
    """Customers with too many buyings, buyings of nobody, products that do not exist."""
    customer, buying = (
        _drawing(CUSTOMER_COLUMNS, rng),
        _drawing({k: v for k, v in BUYING_COLUMNS.items() if k != "product"}, rng),
    )
    units = range(1, UNITS)
    bought = [u for u in units for _ in range(rng.choice((0, 1, 3, 6, 14)))] + [None] * 3
    rows = [(unit, *buying(), rng.choice((1, 2, 3, 4, 9, None))) for unit in bought]
    tables = {
        "customers": StoredTable(
            {"id": "BIGINT", **_types(CUSTOMER_COLUMNS)}, tuple((u, *customer()) for u in units), ("PRIMARY KEY (id)",)
        ),
        "buyings": StoredTable(
            {"customer": "BIGINT", **_types(BUYING_COLUMNS)},
            tuple(rows),
            ("FOREIGN KEY (customer) REFERENCES customers (id)",),
        ),
        "products": StoredTable(
            {"product": "INTEGER", "label": "VARCHAR", "price": "DECIMAL(6,2)"},
            ((1, "pen", "1.20"), (2, "ink", "7.00"), (3, "pad", None), (4, None, "2.50")),
            ("PRIMARY KEY (product)",),
        ),
    }
    return World.made("shop", shop_policy(), tables)


def _types(columns: Columns) -> dict[str, str]:
    return {name: type_ for name, (type_, _) in columns.items()}
