"""Worlds made for black-box audits: one unit reaches what each query claims, where the noise can show it.

`people` has one row a unit, `orders` several; `few` has next to no units, and `many` so many that MAX does not answer
with the median: there a choice shows one unit most.
"""

from __future__ import annotations

from typing import Any

from dpsql.audit.blackbox.audit import Case
from dpsql.audit.database import Row, Stored
from dpsql.audit.world import World

HEAVY = "0"
OTHERS = 24
RARE = (13, 16)
"""How many units have the rare note, and the rare label: about as many as their thresholds ask for."""
LAPLACE = "/*+ epsilon(1) mechanism(laplace) delta(1e-3) */"
PURE = "/*+ epsilon(1) mechanism(laplace) delta(0) */"
GAUSSIAN = "/*+ epsilon(1) mechanism(gaussian) delta(1e-3) */"
KINDS = ("a", "b", "c", "d")

PEOPLE = {
    "id": "INTEGER",
    "income": "DOUBLE",
    "score": "INTEGER",
    "kind": "VARCHAR",
    "note": "VARCHAR",
    "label": "VARCHAR",
}
ORDERS = {"id": "INTEGER", "amount": "DECIMAL(8,2)", "kind": "VARCHAR", "shop": "VARCHAR"}

QUERIES: dict[str, str] = {
    "count, Laplace": f"SELECT {PURE} count(*) AS n FROM people",
    "count, Gaussian": f"SELECT {GAUSSIAN} count(*) AS n FROM people",
    "sum, Laplace": f"SELECT {PURE} sum(income) AS s FROM people",
    "sum of many rows, Gaussian": f"SELECT {GAUSSIAN} sum(amount) AS s FROM orders",
    "average, Laplace": f"SELECT {PURE} avg(income) AS a, sum(income) AS s FROM people",
    "average, Gaussian": f"SELECT {GAUSSIAN} avg(income) AS a, sum(income) AS s FROM people",
    "by declared keys, Laplace": f"SELECT {PURE} kind, count(*) AS n FROM orders GROUP BY kind",
    "by declared keys, Gaussian": f"SELECT {GAUSSIAN} kind, sum(amount) AS s FROM orders GROUP BY kind ORDER BY s",
    "private keys, Laplace": f"SELECT {LAPLACE} note, count(*) AS n FROM people GROUP BY note",
    "private keys, Gaussian": f"SELECT {GAUSSIAN} label, count(*) AS n FROM people GROUP BY label ORDER BY n DESC",
    "median": f"SELECT {PURE} median(score) AS m FROM few",
    "greatest": f"SELECT {GAUSSIAN} max(score) AS m FROM many",
    "mode": f"SELECT {PURE} mode(kind) AS m FROM few",
    "tree of quantiles": (
        f"SELECT {PURE} quantile_disc(score, 0.1) AS a, quantile_disc(score, 0.3) AS b, quantile_disc(score, 0.5) AS c,"
        " quantile_disc(score, 0.7) AS d, quantile_disc(score, 0.9) AS e FROM few"
    ),
    "join": (f"SELECT {PURE} p.kind, sum(o.amount) AS s FROM orders o JOIN people p ON o.id = p.id GROUP BY p.kind"),
    "join with public, Gaussian": (
        f"SELECT {GAUSSIAN} s.region, count(*) AS n FROM orders o JOIN shops s ON o.shop = s.shop GROUP BY s.region"
    ),
    "per-unit subquery": (
        f"SELECT {PURE} count(*) AS n FROM (SELECT id, sum(amount) AS s FROM orders GROUP BY id) AS t WHERE s > 60"
    ),
    "distinct": f"SELECT {PURE} count(DISTINCT shop) AS n FROM orders",
    "standard deviation": f"SELECT {PURE} stddev(income) AS s, avg(income) AS a, count(income) AS n FROM people",
    "rollup": f"SELECT {PURE} kind, count(*) AS n FROM people GROUP BY ROLLUP (kind)",
    "order and limit": (
        f"SELECT {PURE} kind, count(*) AS n FROM people GROUP BY kind HAVING count(*) > 3 ORDER BY n DESC LIMIT 2"
    ),
    "filtered, two statistics": (
        f"SELECT {PURE} count(*) FILTER (WHERE kind = 'a') AS n, sum(income) AS s FROM people WHERE score >= 2"
    ),
}


def cases(names: tuple[str, ...] | None = None) -> tuple[Case, ...]:
    """All queries, or some by name, each about the world with and without the heavy unit."""
    world = crowd()
    return tuple(Case(name, world, HEAVY, QUERIES[name]) for name in names or tuple(QUERIES))


def crowd() -> World:
    """Units of which one is at the end of every bound, and far over the caps."""
    people: list[Row] = [(0, 100.0, 15, "a", "rare", "rare")]
    for i in range(1, OTHERS):
        rare = ["rare" if i < count else "common" for count in RARE]
        people.append((i, float(i % 7 * 10), i % 12, KINDS[i % 4], *rare))
    orders: list[Row] = [(0, "50", KINDS[0], f"s{i}") for i in range(9)]
    orders += [(i, f"{i % 5 * 9}", KINDS[(i + j) % 4], "t0") for i in range(1, OTHERS) for j in range(3)]
    few: list[Row] = [(0, 0, "a"), (1, 8, "b")]
    many: list[Row] = [(0, 15), *((i, 0 if i < 23 else 8 if i < 25 else 15) for i in range(1, 41))]
    shops = (("t0", "south"), *((f"s{i}", "north") for i in range(9)))
    tables = {
        "people": Stored(PEOPLE, tuple(people), ("PRIMARY KEY (id)",)),
        "orders": Stored(ORDERS, tuple(orders)),
        "few": Stored({"id": "INTEGER", "score": "INTEGER", "kind": "VARCHAR"}, tuple(few), ("PRIMARY KEY (id)",)),
        "many": Stored({"id": "INTEGER", "score": "INTEGER"}, tuple(many), ("PRIMARY KEY (id)",)),
        "shops": Stored({"shop": "VARCHAR", "region": "VARCHAR"}, shops, ("PRIMARY KEY (shop)",)),
    }
    return World.made("crowd", _policy(), tables)


def _policy() -> dict[str, Any]:
    score, kind = {"min": 0, "max": 15, "nulls": False}, {"values": list(KINDS), "nulls": False}
    people = {"income": {"min": 0, "max": 100}, "score": score, "kind": kind, "note": {}, "label": {}}
    return {
        "dataset": "crowd",
        "budget": {"epsilon": 10**6, "delta": "0.01"},
        "defaults": {"epsilon": 1, "max_rows_per_unit": 4, "max_groups_per_unit": 2},
        "limits": {"epsilon": 2, "delta": "0.01"},
        "tables": {
            "people": {"unit": "id", "unique": True, "columns": people},
            "orders": {"unit": "id", "columns": {"amount": {"min": 0, "max": 50}, "kind": kind, "shop": {}}},
            "few": {"unit": "id", "unique": True, "columns": {"score": score, "kind": kind}},
            "many": {"unit": "id", "unique": True, "columns": {"score": score}},
            "shops": {"public": True},
        },
    }
