"""Worlds made for black-box audits: one unit reaches what each query claims, where the noise can show it.

`people` has one row a unit, `orders` several; `few` has two units. A choice shows a unit most where it raises the scores of the likely cells on one side of the target, lowers
those on the other, and leaves few between. So the units of `even` lie at both ends but for one in the middle, and the
scores of `many` are a ladder: whichever rank is sought, a unit at the top moves it from one step to the next. `TOP` is
such that the rank sought is even for both prices, so that one step holds it. Both have so many units that their noisy
weight hardly ever makes the answer NULL. An average is above/(above +
below), both with noise; it shows what a unit adds above where the others add little there, so the other orders are
small. The counts of a ROLLUP are fitted to each other; with many groups, little is lost by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsql.audit.blackbox.rounds import BlackBoxCase
from dpsql.audit.blackbox_check import audit_cases
from dpsql.audit.outcome import AuditCheck, Outcome, Progress, Settings
from dpsql.audit.world import Row, StoredTable, World

HEAVY = "0"
OTHERS = 24
HALF, ENDS, TOP = 150, 63, 404
RARE = (14, 7, 8, 5)
"""How many units have the rare note, label, word and term: as many as the thresholds of their queries need."""
LAPLACE = "/*+ epsilon(1) mechanism(laplace) delta(1e-3) */"
PURE = "/*+ epsilon(1) mechanism(laplace) delta(0) */"
THREEFOLD = "/*+ epsilon(3) mechanism(laplace) delta(0) */"
GAUSSIAN = "/*+ epsilon(3) mechanism(gaussian) delta(1e-3) */"
APPROXIMATE = "/*+ epsilon(3) mechanism(gaussian) delta(2e-3) */"
"""Prices at which a test has most power: ε = 1 for Laplace noise, 3 where it is shared by three sums of which a part
shows, and about ρ = 0.4 for Gaussian noise.
"""
KINDS = ("a", "b", "c", "d")
SHORT = ("count, Laplace", "count, Gaussian", "private keys only, Gaussian", "median, Gaussian")
"""The queries of the short check."""

PEOPLE = {
    "id": "INTEGER",
    "income": "DOUBLE",
    "score": "INTEGER",
    "kind": "VARCHAR",
    "note": "VARCHAR",
    "label": "VARCHAR",
    "word": "VARCHAR",
    "term": "VARCHAR",
}
CROWD = {"id": "INTEGER", "income": "DOUBLE", "kind": "VARCHAR"}
FEW = {"id": "INTEGER", "score": "INTEGER", "kind": "VARCHAR"}
EVEN = {**FEW, "place": "VARCHAR"}
ORDERS = {"id": "INTEGER", "amount": "DECIMAL(8,2)", "kind": "VARCHAR", "shop": "VARCHAR"}

SPREAD = "stddev(income) AS s, avg(income) AS a, count(income) AS n"
TOTALS = "(SELECT id, sum(amount) AS s FROM orders GROUP BY id) AS t"
GROUPS = "(SELECT kind, count(*) AS n FROM crowd WHERE kind = 'a' OR income > 50 GROUP BY kind) AS t"
JOINED = (
    "p.kind, n, m FROM (SELECT kind, count(*) AS n FROM people GROUP BY kind) AS p"
    " JOIN (SELECT kind, sum(amount) AS m FROM orders GROUP BY kind) AS o ON o.kind = p.kind"
)
ABOVE = (
    "count(*) AS n, (SELECT sum(income) FROM crowd) AS s FROM crowd WHERE income > (SELECT sum(income) FROM crowd) / 50"
)
AMONG = (
    "kind, count(*) AS n FROM crowd WHERE kind IN (SELECT kind FROM crowd GROUP BY kind HAVING count(*) > 39.5)"
    " GROUP BY kind"
)
QUANTILES = ", ".join(f"quantile_disc(score, {share}) AS q{share * 10:.0f}" for share in (0.1, 0.3, 0.5, 0.7, 0.9))
QUERIES: dict[str, str] = {
    "count, Laplace": f"SELECT {PURE} count(*) AS n FROM people",
    "count, Gaussian": f"SELECT {GAUSSIAN} count(*) AS n FROM people",
    "sum, Laplace": f"SELECT {PURE} sum(income) AS s FROM people",
    "sum of many rows, Gaussian": f"SELECT {GAUSSIAN} sum(amount) AS s FROM orders",
    "average, Laplace": f"SELECT {PURE} avg(income) AS a, sum(income) AS s FROM people",
    "average, Gaussian": f"SELECT {GAUSSIAN} avg(income) AS a, sum(income) AS s FROM people",
    "standard deviation, Laplace": f"SELECT {THREEFOLD} {SPREAD} FROM crowd",
    "standard deviation, Gaussian": f"SELECT {GAUSSIAN} {SPREAD} FROM crowd",
    "by declared keys, Laplace": f"SELECT {PURE} kind, count(*) AS n FROM orders GROUP BY kind",
    "by declared keys, Gaussian": f"SELECT {GAUSSIAN} kind, sum(amount) AS s FROM orders GROUP BY kind ORDER BY s",
    "rollup": f"SELECT {PURE} score, count(*) AS n FROM people GROUP BY ROLLUP (score)",
    "join": f"SELECT {PURE} p.kind, sum(o.amount) AS s FROM orders o JOIN people p ON o.id = p.id GROUP BY p.kind",
    "join with public, Gaussian": (
        f"SELECT {GAUSSIAN} s.region, count(*) AS n FROM orders o JOIN shops s ON o.shop = s.shop GROUP BY s.region"
    ),
    "distinct": f"SELECT {PURE} count(DISTINCT shop) AS n FROM orders",
    "filtered, two statistics": (
        f"SELECT {PURE} count(*) FILTER (WHERE kind = 'a') AS n, sum(income) AS s FROM people WHERE score >= 2"
    ),
    # private keys: a unit shows by whether its key appears, and by the number beside it
    "private keys, Laplace": f"SELECT {LAPLACE} note, count(*) AS n FROM people GROUP BY note",
    "private keys, Gaussian": f"SELECT {APPROXIMATE} label, count(*) AS n FROM people GROUP BY label ORDER BY n DESC",
    "private keys with a sum, Laplace": f"SELECT {LAPLACE} note, sum(income) AS s FROM people GROUP BY note",
    "private keys with a sum, Gaussian": f"SELECT {APPROXIMATE} label, sum(income) AS s FROM people GROUP BY label",
    "private keys only, Laplace": f"SELECT {LAPLACE} DISTINCT word FROM people",
    "private keys only, Gaussian": f"SELECT {APPROXIMATE} DISTINCT term FROM people",
    # nested results: both stages are shown, or the outer one shows what the inner one decided
    "per-unit subquery": (
        f"SELECT {PURE} count(*) AS n FROM (SELECT id, sum(amount) AS s FROM orders GROUP BY id) AS t WHERE s > 6"
    ),
    "average of totals, Laplace": f"SELECT {PURE} avg(s) AS a, count(*) AS n FROM {TOTALS}",
    "average of totals, Gaussian": f"SELECT {GAUSSIAN} avg(s) AS a, count(*) AS n FROM {TOTALS}",
    "order and limit": (
        f"SELECT {PURE} kind, count(*) AS n FROM people GROUP BY kind HAVING count(*) > 3 ORDER BY n DESC LIMIT 2"
    ),
    "greatest of groups, Laplace": f"SELECT {PURE} max(n) AS m FROM {GROUPS}",
    "greatest of groups, Gaussian": f"SELECT {GAUSSIAN} max(n) AS m FROM {GROUPS}",
    "joined results, Laplace": f"SELECT {PURE} {JOINED}",
    "joined results, Gaussian": f"SELECT {GAUSSIAN} {JOINED}",
    "above a released average, Laplace": f"SELECT {PURE} {ABOVE}",
    "above a released average, Gaussian": f"SELECT {GAUSSIAN} {ABOVE}",
    "among released keys, Laplace": f"SELECT {PURE} {AMONG}",
    "among released keys, Gaussian": f"SELECT {GAUSSIAN} {AMONG}",
    # choices and trees: a unit turns the ranks over
    "median, Laplace": f"SELECT {PURE} median(score) AS m FROM even",
    "median, Gaussian": f"SELECT {GAUSSIAN} median(score) AS m FROM even",
    "median by group, Laplace": f"SELECT {PURE} place, median(score) AS m FROM even GROUP BY place",
    "median by group, Gaussian": f"SELECT {GAUSSIAN} place, median(score) AS m FROM even GROUP BY place",
    "greatest, Laplace": f"SELECT {PURE} max(score) AS m FROM many",
    "greatest, Gaussian": f"SELECT {GAUSSIAN} max(score) AS m FROM many",
    "least, Laplace": f"SELECT {PURE} min({TOP} - score) AS m FROM many",
    "least, Gaussian": f"SELECT {GAUSSIAN} min({TOP} - score) AS m FROM many",
    "mode, Laplace": f"SELECT {PURE} mode(kind) AS m FROM even",
    "mode, Gaussian": f"SELECT {GAUSSIAN} mode(kind) AS m FROM even",
    "tree of quantiles, Laplace": f"SELECT {PURE} {QUANTILES} FROM few",
    "tree of quantiles, Gaussian": f"SELECT {GAUSSIAN} {QUANTILES} FROM few",
}


def cases(names: tuple[str, ...] | None = None) -> tuple[BlackBoxCase, ...]:
    """All queries, or some by name, each about the world with and without the heavy unit."""
    world = crowd()
    return tuple(BlackBoxCase(name, world, HEAVY, QUERIES[name]) for name in names or tuple(QUERIES))


def crowd() -> World:
    """Units of which one is at the end of every bound, and far over the caps."""
    people: list[Row] = [(0, 100.0, 15, "a", *["rare"] * len(RARE))]
    for i in range(1, OTHERS):
        rare = ["rare" if i < count else "common" for count in RARE]
        people.append((i, float(i % 7 * 10), i % 12, KINDS[i % 4], *rare))
    orders: list[Row] = [(0, "50", KINDS[0], f"s{i}") for i in range(9)]
    orders += [(i, f"{i % 5}", KINDS[(i + j) % 4], "t0") for i in range(1, OTHERS) for j in range(3)]
    few: list[Row] = [(0, 0, "a"), (1, 8, "b")]
    even: list[Row] = [(HALF, ENDS // 2, "c", "a")]
    even += [
        (i, score, kind, "a") for score, kind, s in ((0, "a", 0), (ENDS, "b", HALF + 1)) for i in range(s, s + HALF)
    ]
    many: list[Row] = [(0, TOP), *((i, max(0, 10 * (i - HALF))) for i in range(1, HALF + 41))]
    crowd: list[Row] = [(i, 100.0 if i == 0 else float(i % 2 * 60), "a" if i < 40 else "b") for i in range(80)]
    shops = (("t0", "south"), *((f"s{i}", "north") for i in range(9)))
    tables = {
        "people": StoredTable(PEOPLE, tuple(people), ("PRIMARY KEY (id)",)),
        "orders": StoredTable(ORDERS, tuple(orders)),
        "crowd": StoredTable(CROWD, tuple(crowd), ("PRIMARY KEY (id)",)),
        "few": StoredTable(FEW, tuple(few), ("PRIMARY KEY (id)",)),
        "even": StoredTable(EVEN, tuple(even), ("PRIMARY KEY (id)",)),
        "many": StoredTable({"id": "INTEGER", "score": "INTEGER"}, tuple(many), ("PRIMARY KEY (id)",)),
        "shops": StoredTable({"shop": "VARCHAR", "region": "VARCHAR"}, shops, ("PRIMARY KEY (shop)",)),
    }
    return World.made("crowd", _policy(), tables)


def _policy() -> dict[str, Any]:
    score, kind = {"min": 0, "max": 15, "nulls": False}, {"values": list(KINDS), "nulls": False}
    people = {"income": {"min": 0, "max": 100}, "score": score, "kind": kind}
    people |= {name: {} for name in ("note", "label", "word", "term")}
    return {
        "dataset": "crowd",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "0.01"},
        "defaults": {"epsilon": 1, "max_rows_per_unit": 4, "max_groups_per_unit": 2},
        "limits": {"epsilon": 4, "delta": "0.01"},
        "tables": {
            "people": {"unit": "id", "unique": True, "columns": people},
            "orders": {"unit": "id", "columns": {"amount": {"min": 0, "max": 50}, "kind": kind, "shop": {}}},
            "crowd": {"unit": "id", "unique": True, "columns": {"income": {"min": 0, "max": 100}, "kind": kind}},
            "few": {"unit": "id", "unique": True, "columns": {"score": score, "kind": kind}},
            "even": {
                "unit": "id",
                "unique": True,
                "columns": {"score": {**score, "max": ENDS}, "kind": kind, "place": kind},
            },
            "many": {"unit": "id", "unique": True, "columns": {"score": {**score, "max": TOP}}},
            "shops": {"public": True},
        },
    }


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """A few of the queries, or in the long check all of them; the first one also through each door."""
    return audit_cases(cases(None if settings.long else SHORT), settings, progress)


BLACKBOX = AuditCheck("Fresh answers of two neighbours are no easier to tell apart than their price allows.", check)
