"""Queries that read results of their own below an aggregate, over the world of joins, and what must hold of them.

Two neighbours are compared as they read the same inner results: what the outer release claims is about those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from property_world import SALT, Database

from dpsql.audit import nested, trace
from dpsql.audit.comparison import compare
from dpsql.audit.traces import exact_answer
from dpsql.errors import EngineError
from dpsql.plan.nodes.released_scan import Content
from dpsql.query_draft import PreparedQuery

EPSILON = 1e5

SCALARS = (
    "SELECT count(*) FROM people WHERE x > (SELECT avg(x) FROM people)",
    "SELECT kind, count(*), sum(n) FROM orders WHERE x > (SELECT avg(x) + 0.01 FROM orders WHERE n > 1) GROUP BY kind",
    "SELECT count(*) FROM visits WHERE n >= (SELECT avg(n) FROM visits WHERE kind = 'a')",
    "SELECT count(*) FROM items WHERE n * (SELECT count(*) FROM people) > 8",
    "SELECT sum(least(greatest(x - (SELECT avg(x) FROM people), -5), 5)) FROM orders",
    "SELECT n > (SELECT avg(n) FROM people) AS big, count(*) FROM people GROUP BY big",
    "SELECT count(*) FILTER (WHERE n > (SELECT avg(n) FROM orders)), count(*) FROM orders",
    "SELECT count(*) FROM people WHERE x > (SELECT avg(x) FROM people WHERE n > (SELECT avg(n) FROM orders))",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = p.id AND o.n > (SELECT avg(n) FROM items))",
    "SELECT avg(c) FROM (SELECT id, count(*) AS c FROM orders WHERE n > (SELECT avg(n) FROM orders) GROUP BY id)",
    "SELECT count(*) FROM people p JOIN orders o ON p.id = o.id WHERE p.x + o.x > (SELECT 2 * avg(x) FROM orders)",
    "SELECT (SELECT count(*) FROM people) + count(*) FROM orders WHERE n < (SELECT avg(n) FROM people)",
    "SELECT count(*) FROM orders WHERE n > (SELECT max(price) FROM prices) - 7",
    "WITH m AS (SELECT avg(x) AS mean FROM orders) SELECT count(*) FROM orders WHERE x > (SELECT mean FROM m)",
)
CORRELATED = (
    "SELECT count(*) FROM orders o WHERE x > (SELECT avg(x) + 0.01 FROM orders p WHERE p.kind = o.kind)",
    "SELECT o.kind, count(*) FROM orders o WHERE n > (SELECT avg(n) FROM people p WHERE p.kind = o.kind) GROUP BY o.kind",
    "SELECT count(*) FROM orders o WHERE 2 < (SELECT count(*) FROM items i WHERE i.note = o.note)",
    "SELECT count(*) FROM orders o WHERE 0 = (SELECT count(*) FROM items i WHERE i.kind = o.kind AND i.n > 9)",
    "SELECT count(*) FROM orders o WHERE n > (SELECT avg(n) FROM items i WHERE i.kind = o.kind AND i.note = o.note)",
    "SELECT count(*), sum(o.n) FROM orders o JOIN stores s ON o.store = s.store WHERE s.size < 3 AND o.n > (SELECT avg(n) FROM items i WHERE i.store = s.store)",
    "SELECT count(*) FROM visits v WHERE n > (SELECT avg(n) FROM visits w WHERE w.kind = v.kind)",
    "SELECT count(*) FROM people p WHERE x > (SELECT max(x) FROM orders o WHERE o.id = p.id)",
    "SELECT kind, avg(x) FROM people p WHERE 1 < (SELECT count(*) FROM orders o WHERE o.id = p.id) GROUP BY kind",
    "SELECT count(*) FROM orders o WHERE o.n >= (SELECT sum(n) FROM items i WHERE i.oid = o.oid)",
    "SELECT count(*) FROM people p WHERE 2 > (SELECT count(*) FROM orders o JOIN items i ON i.oid = o.oid WHERE o.id = p.id)",
    "SELECT count(*), sum(t) FROM (SELECT p.id, least((SELECT count(*) FROM orders o WHERE o.id = p.id AND o.n > 1), 9) AS t FROM people p)",
    "SELECT count(*) FROM orders o WHERE 2 <= (SELECT size FROM stores s WHERE s.store = o.store)",
    "SELECT count(*) FROM orders o WHERE o.n > (SELECT max(price) FROM prices q WHERE q.kind = o.kind)",
    "SELECT count(*) FROM visits v WHERE v.n > (SELECT max(price) FROM prices q WHERE q.kind = v.kind)",
)
TABLES = (
    "SELECT count(*) FROM orders WHERE kind IN (SELECT kind FROM orders GROUP BY kind HAVING count(*) > 2)",
    "SELECT count(*) FROM orders WHERE kind NOT IN (SELECT kind FROM people WHERE kind IS NOT NULL GROUP BY kind HAVING count(*) > 1)",
    "SELECT count(*), sum(n) FROM orders o JOIN (SELECT kind, avg(n) AS m FROM people GROUP BY kind) a ON a.kind = o.kind WHERE o.n > a.m",
    "SELECT count(*) FROM orders JOIN (SELECT kind, count(*) AS c FROM items GROUP BY kind) a USING (kind) WHERE c > n",
    "SELECT count(*), count(a.c) FROM people p LEFT JOIN (SELECT kind, count(*) AS c FROM items GROUP BY kind HAVING count(*) > 3) a ON a.kind = p.kind AND a.c > p.n",
    "SELECT count(*) FROM people p, (SELECT n, count(*) AS c FROM orders GROUP BY n) a WHERE a.n = p.n AND a.c > 1",
    "SELECT count(*) FROM visits v JOIN (SELECT kind, avg(n) AS m FROM visits GROUP BY kind) a ON a.kind = v.kind WHERE v.n > a.m",
    "WITH a AS (SELECT kind, avg(n) AS m FROM orders GROUP BY kind) SELECT count(*) FROM orders o JOIN a ON a.kind = o.kind WHERE o.n > a.m AND o.kind IN (SELECT kind FROM a WHERE m > 1)",
    "SELECT count(*) FROM orders o JOIN (SELECT region, max(size) AS big, min(store) AS store FROM stores GROUP BY region) s ON s.store = o.store WHERE o.n > s.big",
    "SELECT count(*) FROM orders WHERE kind IN (SELECT kind FROM prices GROUP BY kind HAVING count(*) > 1)",
    "SELECT count(*) FROM orders WHERE kind IN (SELECT kind FROM prices ORDER BY price DESC NULLS LAST LIMIT 2)",
)
ABOVE = (
    "SELECT store, (SELECT count(*) FROM orders o WHERE o.store = s.store) AS c FROM stores s ORDER BY store",
    "SELECT store FROM stores WHERE size < (SELECT avg(n) FROM orders o WHERE o.store = stores.store) ORDER BY store",
    "SELECT s.store FROM stores s, prices q WHERE s.size = q.price AND s.size < (SELECT sum(n) FROM items i WHERE i.store = s.store AND i.kind = q.kind) ORDER BY 1",
    "SELECT * FROM stores s WHERE size < (SELECT avg(n) FROM orders o WHERE o.store = s.store) ORDER BY store",
)  # fmt: skip
QUERIES = (*SCALARS, *CORRELATED, *TABLES, *ABOVE)
KEYED = (
    "SELECT c, count(*) FROM orders JOIN (SELECT kind, count(*) AS c FROM items GROUP BY kind) a USING (kind) GROUP BY c",
    "SELECT o.note, count(*) FROM orders o WHERE n > (SELECT avg(n) FROM items i WHERE i.note = o.note) GROUP BY o.note",
)
"""With private keys in the outer release."""


def answer(database: Database, prepared: PreparedQuery) -> list[tuple[Any, ...]]:
    """The answer of the product's own stages over integers to which no noise was added."""
    rows = exact_answer(database.db, prepared, salt=SALT)
    return [row[: len(prepared.plan.outputs)] for row in rows]


def inner(database: Database, sql: str, mechanism: str) -> Mapping[str, Content]:
    """The inner results of one database, without noise."""
    return nested(database.db, sql, salt=SALT, epsilon=1.0, delta=1e-6, mechanism=mechanism)


def moved_too_far(
    sql: str, whole: Database, neighbours: Sequence[Database], mechanism: str, tables: Mapping[str, Content]
) -> list[str]:
    """Violations between a database and its neighbours, all of which read the same inner results."""

    def traced(database: Database) -> Any:
        asked = {"salt": SALT, "epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism}
        try:
            return trace(database.db, sql, released=tables, **asked)  # type: ignore[arg-type]
        except EngineError:
            return None

    larger = traced(whole)
    return [f"{sql}: {found}" for each in neighbours for found in compare(larger, traced(each)).violations]


def seen(database: Database, sql: str, mechanism: str) -> tuple[object, ...]:
    """All that an analyst sees before anything is released."""
    told = database.db.explain(sql, epsilon=1.0, delta=1e-6, mechanism=mechanism)
    return str(told), told.sql, told.finishing, told.types, told.cost, [(n.name, n.sql) for n in told.nested]
