"""Random joins over the world of `dpsql.audit` whose tables are joined, from shapes that are listed here.

`people` has one row per unit (verified), `orders` a unit column and a key, `items` belongs to whoever owns its order,
`stock` a key of its unit and its part (NULL now and then),
`visits` has a row as its unit; `stores` is public with a unique key, `prices` public without one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attack.worlds import JOIN_COLUMNS, JOIN_KEYS, joins, joins_of, joins_policy
from property_world import Database, Row, Tables, by_name, stored

from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.neighbour_search import examine
from dpsql.audit.outcome import Tally
from dpsql.audit.world import RowUnit, World

join_policy = joins_policy


def join_world(rng: random.Random, *, tame: bool) -> dict[str, list[Row]]:
    """Units with rows in some of the tables; unless tame, also rows, orders and items that nobody owns."""
    return by_name(joins(rng, tame=tame))


def _world(tables: Tables, policy: Mapping[str, Any] | None = None) -> World:
    columns = {name: (*keys, *JOIN_COLUMNS) for name, (keys, _) in JOIN_KEYS.items()}
    rows = {name: [tuple(row.get(c) for c in columns[name]) for row in each] for name, each in tables.items()}
    return joins_of(rows, policy or join_policy())


def without(tables: Tables, unit: int | None, visit: int | None, rng: random.Random) -> dict[str, list[Row]]:
    """All rows of one unit are gone (None: those that nobody owns), and one visit; the rest in another order."""
    world = _world(tables)
    if unit is None:
        return by_name(world.without_unowned().reordered(rng))
    return by_name(world.lacking([str(unit), *([] if visit is None else [RowUnit("visits", visit)])]).reordered(rng))


@contextmanager
def join_database(tables: Tables, policy: Mapping[str, Any]) -> Iterator[Database]:
    """The tables in memory, opened for the steward."""
    with stored(_world(tables).tables, policy) as database:
        yield database


# queries ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What stands after FROM (and in WHERE), and which names can be aggregated or grouped by."""

    source: str
    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    where: str = ""


def _private(*aliases: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    numbers = tuple(f"{a}.{c}" for a in aliases for c in ("x", "n"))
    return numbers, tuple(f"{a}.{c}" for a in aliases for c in ("kind", "note", "n", "kind"))


def _shape(source: str, *aliases: str, where: str = "", numbers: Sequence[str] = (), keys: Sequence[str] = ()) -> Shape:
    mine = _private(*aliases)
    return Shape(source, (*mine[0], *numbers), (*mine[1], *keys), where)


_STORE = {"numbers": ("s.size",), "keys": ("s.region", "s.size", "s.region")}
_PRICE = {"numbers": ("q.price",), "keys": ("q.price",)}
SHAPES: tuple[Shape, ...] = (
    _shape("items i", "i"),
    _shape("people p JOIN orders o ON p.id = o.id", "p", "o"),
    _shape("people p, orders o", "p", "o", where="o.id = p.id"),
    _shape("people p, orders o", "p", "o", where="o.id = p.id AND (p.n > 2 OR o.n < 4) AND p.kind = o.kind"),
    _shape("orders o JOIN items i ON i.oid = o.oid", "o", "i"),
    _shape("items i JOIN orders o USING (oid) JOIN people p USING (id)", "i", "o", "p"),
    _shape("people p, items i, orders o", "i", "o", "p", where="p.id = o.id AND o.oid = i.oid"),
    _shape("items a JOIN items b ON a.oid = b.oid", "a", "b"),
    _shape("orders a JOIN orders b ON a.id = b.id AND a.n < b.n", "a", "b"),
    _shape("orders o JOIN stock k ON k.id = o.id AND k.part = o.n", "o", "k"),
    _shape("people p JOIN orders o ON p.id = o.id JOIN stock k ON k.id = p.id AND k.part = o.n", "p", "o", "k"),
    _shape("people p JOIN stock k ON k.id = p.id AND k.part = p.n", "p", "k"),
    _shape("people p JOIN stock k ON k.id = p.id AND k.part = 3", "p", "k"),
    _shape("people p JOIN stock k ON k.id = p.id", "p", "k", where="k.part = p.n + 1"),
    _shape("items i JOIN orders o ON i.oid = o.oid JOIN stock k ON k.id = o.id AND k.part = i.n", "i", "o", "k"),
    _shape("stock a JOIN stock b ON a.id = b.id AND a.part = b.part", "a", "b"),
    _shape("stock a JOIN stock b ON a.id = b.id AND a.part < b.part", "a", "b"),
    _shape("orders o LEFT JOIN stock k ON k.id = o.id AND k.part = o.n", "o", "k"),
    _shape("stock k LEFT JOIN orders o ON k.id = o.id AND k.part = o.n", "o", "k"),
    _shape("orders o FULL JOIN stock k ON k.id = o.id AND k.part = o.n", "o", "k"),
    _shape("stock a FULL JOIN stock b ON a.id = b.id AND a.part = b.part + 1", "a", "b"),
    _shape("people p JOIN (SELECT k.id, k.part, o.n AS m, k.x, k.n, k.kind, k.note FROM orders o JOIN stock k ON k.id = o.id AND k.part = o.n) AS u ON u.id = p.id AND u.part = p.n", "p", "u"),
    _shape("people p JOIN (SELECT k.id, k.part, k.x, k.n, k.kind, k.note FROM stock k WHERE k.n > 1) AS u ON u.id = p.id AND u.part = p.n", "p", "u"),
    _shape("people p JOIN (SELECT id, part, x, n, kind, note FROM stock UNION ALL SELECT id, part, x, n, kind, note FROM stock) AS u ON u.id = p.id AND u.part = p.n", "p", "u"),
    _shape("orders o LEFT JOIN items i ON o.oid = i.oid AND i.n > 2", "o", "i"),
    _shape("items i LEFT JOIN orders o ON o.oid = i.oid AND o.n > 2", "o", "i"),
    _shape("orders o LEFT JOIN people p ON o.id = p.id AND o.kind = p.kind", "p", "o"),
    _shape("orders o RIGHT JOIN people p ON o.id = p.id AND o.n > p.n", "p", "o"),
    _shape("people p FULL JOIN orders o ON o.id = p.id AND o.n > 1", "p", "o"),
    _shape("people p FULL JOIN orders o USING (id)", "p", "o"),
    _shape("orders o FULL JOIN items i USING (oid)", "i", "o"),
    _shape("people p LEFT JOIN orders o ON p.id = o.id JOIN items i ON i.oid = o.oid", "p", "o", "i"),
    _shape("items i LEFT JOIN orders o ON o.oid = i.oid AND o.n > 2 LEFT JOIN people p ON p.id = o.id", "i", "o", "p"),
    _shape("people p FULL JOIN orders o ON p.id = o.id FULL JOIN items i ON i.oid = o.oid", "p", "o", "i"),
    _shape("people p LEFT JOIN orders o ON p.id = o.id", "p", "o", where="EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid) AND o.id IN (SELECT id FROM people WHERE n > 1)"),
    _shape("orders o JOIN stores s ON o.store = s.store", "o", **_STORE),
    _shape("people p JOIN stores s USING (store)", "p", **_STORE),
    _shape("people p LEFT JOIN stores s USING (store)", "p", **_STORE),
    _shape("visits v JOIN stores s ON v.store = s.store", "v", **_STORE),
    _shape("visits v LEFT JOIN stores s ON v.store = s.store AND s.size > 1", "v", **_STORE),
    _shape("people p, orders o, stores s", "p", "o", where="o.id = p.id AND p.store = s.store", **_STORE),
    _shape("people p JOIN orders o ON o.id = p.id LEFT JOIN stores s ON o.store = s.store", "p", "o", **_STORE),
    _shape("orders o LEFT JOIN prices q ON o.kind = q.kind", "o", **_PRICE),
    _shape("orders o, prices q", "o", where="o.n > q.price", **_PRICE),
    _shape("orders o CROSS JOIN prices q", "o", **_PRICE),
    _shape("people p, stores s", "p", where="p.n > s.size", **_STORE),
    _shape("items i JOIN prices q USING (kind)", "i", **_PRICE),
    _shape("orders o SEMI JOIN items i USING (oid)", "o"),
    _shape("orders o ANTI JOIN items i ON o.oid = i.oid AND i.n > o.n", "o"),
    _shape("people p ANTI JOIN orders o ON p.id = o.id", "p"),
    _shape("orders o SEMI JOIN prices q ON o.kind = q.kind AND q.price > 1", "o"),
    _shape("orders o", "o", where="EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND i.n > o.n)"),
    _shape("orders o", "o", where="o.n > 1 AND NOT EXISTS (SELECT * FROM items WHERE items.oid = o.oid AND items.kind = 'a')"),
    _shape("people p", "p", where="EXISTS (SELECT 1 FROM orders o, items i WHERE o.oid = i.oid AND o.id = p.id)"),
    _shape("people p", "p", where="NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = p.id AND EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND i.n > 2))"),
    _shape("items i", "i", where="EXISTS (SELECT 1 FROM items j WHERE j.oid = i.oid AND j.n <> i.n)"),
    _shape("items i", "i", where="i.oid IN (SELECT oid FROM orders WHERE n > 2)"),
    _shape("items i", "i", where="i.oid NOT IN (SELECT oid FROM orders WHERE n > 2 AND oid IS NOT NULL)"),
    _shape("orders o", "o", where="o.id IN (SELECT id FROM people WHERE kind = 'a')"),
    _shape("orders o", "o", where="o.id NOT IN (SELECT id FROM people WHERE n > 2)"),
    _shape("orders o", "o", where="o.oid IN (SELECT oid FROM items GROUP BY oid HAVING sum(n) > 3)"),
    _shape("orders o", "o", where="o.kind NOT IN (SELECT i.kind FROM items i WHERE i.oid = o.oid)"),
    _shape("orders o", "o", where="o.kind IN (SELECT kind FROM prices WHERE price > 1)"),
    _shape("orders o", "o", where="o.kind NOT IN (SELECT kind FROM prices WHERE price > 2)"),
    _shape("orders o", "o", where="o.kind NOT IN (SELECT kind FROM prices)"),
    _shape("orders o", "o", where="EXISTS (SELECT 1 FROM prices q WHERE q.kind = o.kind AND q.price < o.n)"),
    _shape("visits v", "v", where="v.store IN (SELECT store FROM stores WHERE region = 'north')"),
    _shape("visits v", "v", where="NOT EXISTS (SELECT 1 FROM stores s, prices q WHERE s.store = v.store AND q.price = s.size)"),
    Shape("(SELECT o.id, count(i.n) AS c, sum(i.x) AS t FROM orders o LEFT JOIN items i USING (oid) GROUP BY o.id) AS u", ("u.c", "u.t"), ("u.c",)),
    Shape("(SELECT i.oid, count(*) AS c, sum(i.x) AS t FROM items i GROUP BY i.oid) AS u", ("u.c", "u.t"), ("u.c",)),
    Shape("orders o JOIN (SELECT oid, count(*) AS c FROM items GROUP BY oid) AS u ON u.oid = o.oid", ("u.c", "o.x"), ("u.c", "o.kind")),
    Shape("people p LEFT JOIN (SELECT id, count(*) AS c, avg(x) AS m FROM orders GROUP BY id) AS u ON u.id = p.id", ("u.c", "u.m", "p.x"), ("u.c", "p.kind")),
    Shape("(SELECT id, count(*) AS c FROM orders GROUP BY id) AS u, (SELECT id, n FROM people) AS w", ("u.c", "w.n"), ("u.c", "w.n"), "u.id = w.id"),
    Shape("(SELECT s.region AS r, o.x AS y, o.n AS m FROM orders o, stores s WHERE o.store = s.store) AS d", ("d.y", "d.m"), ("d.r", "d.m")),
    Shape("(SELECT DISTINCT oid, kind FROM items) AS d", ("length(d.kind)",), ("d.kind",)),
    Shape("orders o JOIN (SELECT store, size * 2 AS big FROM stores WHERE size > 1) AS s ON s.store = o.store", ("s.big", "o.x"), ("s.big", "o.note")),
)  # fmt: skip


def write(rng: random.Random, shape: Shape | None = None) -> Query:
    """A random aggregate over a random join."""
    shape = shape or rng.choice(SHAPES)
    keys = rng.sample(sorted(set(shape.keys)), min(rng.choice((0, 1, 1, 2)), len(set(shape.keys))))
    number = rng.choice(shape.numbers)
    choices = ("count(*)", f"count({number})", f"sum({number})", f"avg({number})", f"sum({number} * 2)")
    aggregates = [rng.choice(choices) for _ in range(rng.choice((1, 2)))]
    items = [*(f"{key} AS k{i}" for i, key in enumerate(keys)), *(f"{a} AS a{i}" for i, a in enumerate(aggregates))]
    where = f" WHERE {shape.where}" if shape.where else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT {', '.join(items)} FROM {shape.source}{where}{group}"
    return Query(sql, len(keys), rng.choice(("laplace", "gaussian")), rng.choice((0.5, 1.0, 3.0)))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Draws queries over some of the shapes."""

    rng: random.Random
    shapes: Sequence[Shape]

    def any(self) -> Query:
        return write(self.rng, self.rng.choice(self.shapes))


def search_joins(seed: int, pairs: int, shapes: Sequence[Shape] = SHAPES) -> Tally:
    """Random worlds and joins until `pairs` pairs were touched by the unit that is removed."""
    rng, tally = random.Random(seed), Tally()
    while tally.touched["all"] < pairs and not tally.findings:
        tally = tally.plus(examine(joins(rng, tame=rng.random() < 0.2), rng, 12, 3, Drawn(rng, shapes)))
    return tally
