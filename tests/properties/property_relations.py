"""Set operations, DISTINCT and windows below the aggregate, as shapes over the world of joins."""

from __future__ import annotations

from property_joins import Shape

_LISTED = "id, x, n, kind, note"
_NUMBERS, _KEYS = ("u.x", "u.n"), ("u.kind", "u.note", "u.n", "u.kind")


def over(query: str) -> Shape:
    """A query with the columns x, n, kind and note, as a relation."""
    return Shape(f"({query}) AS u", _NUMBERS, _KEYS)


def column(query: str, *, keys: tuple[str, ...] = ("u.kind",), number: str = "u.w") -> Shape:
    """A query with one number that is computed for each row."""
    return Shape(f"({query}) AS u", (number,), keys)


_O, _P = f"SELECT {_LISTED} FROM orders", f"SELECT {_LISTED} FROM people"
_I = "SELECT oid, x, n, kind, note FROM items"
_OO = "SELECT oid, x, n, kind, note FROM orders"
_FEW = "SELECT id, kind FROM"
SETS: tuple[Shape, ...] = (
    over(f"{_O} UNION ALL {_P}"),
    over(f"{_O} UNION ALL {_O}"),
    over(f"{_P} UNION ALL {_P}"),
    over(f"{_I} UNION ALL {_OO}"),
    over(f"{_O} UNION ALL {_P} UNION ALL {_O} WHERE n > 2"),
    over("SELECT x, n, kind, note FROM orders UNION ALL SELECT x, n, kind, note FROM items"),
    over("SELECT n AS x, n, kind, note FROM orders UNION ALL SELECT x, n, note, kind FROM people"),
    over("SELECT NULL AS x, n, kind, note FROM orders UNION ALL SELECT x, n + 1, upper(kind), NULL FROM people"),
    over("SELECT x, n, kind, note FROM orders WHERE n > 3 UNION ALL BY NAME SELECT kind, n, note, x FROM people"),
    over("SELECT x, n, kind, note FROM orders UNION ALL BY NAME SELECT note, id, kind, n FROM people"),
    over(f"{_O} UNION {_P}"),
    over(f"{_O} UNION {_O}"),
    over(f"{_I} UNION {_OO}"),
    over(f"{_O} INTERSECT {_P}"),
    over(f"{_O} INTERSECT SELECT {_LISTED} FROM orders WHERE n > 2"),
    over(f"{_O} EXCEPT SELECT {_LISTED} FROM orders WHERE n > 2"),
    over(f"{_O} EXCEPT {_P}"),
    over(f"{_O} UNION (SELECT {_LISTED} FROM people EXCEPT {_O})"),
    over(f"({_O} UNION {_P}) EXCEPT SELECT {_LISTED} FROM orders WHERE kind = 'a'"),
    over(f"{_O} UNION {_P} INTERSECT SELECT {_LISTED} FROM people WHERE n > 1"),
    over(f"{_O} UNION ALL ({_P} UNION {_P})"),
    over(f"WITH b AS ({_O}) SELECT * FROM b UNION ALL SELECT * FROM b WHERE n > 2"),
    over(f"{_O} INTERSECT ALL (SELECT {_LISTED} FROM orders WHERE n > 1 UNION ALL {_P})"),
    over(f"({_O} UNION ALL {_O}) EXCEPT ALL SELECT {_LISTED} FROM orders WHERE n < 4"),
    over(f"SELECT o.id, o.x, p.n, o.kind, p.note FROM orders o JOIN people p USING (id) UNION ALL {_O}"),
    column(f"SELECT id, kind, count(*) AS w FROM ({_FEW} orders UNION ALL {_FEW} people) AS t GROUP BY id, kind"),
    column(f"SELECT id, count(*) AS w FROM ({_FEW} orders UNION {_FEW} people) AS t GROUP BY id", keys=("u.w",)),
    column(f"SELECT *, length(kind) AS w FROM ({_FEW} orders INTERSECT {_FEW} people) AS t"),
    column(f"SELECT *, length(kind) AS w FROM ({_FEW} orders EXCEPT {_FEW} people) AS t"),
    column(f"SELECT *, length(kind) AS w FROM ({_FEW} orders INTERSECT ALL {_FEW} people) AS t"),
    column(f"SELECT *, length(kind) AS w FROM ({_FEW} orders EXCEPT ALL {_FEW} people) AS t"),
    column("SELECT *, length(kind) AS w FROM (SELECT oid, kind FROM items EXCEPT SELECT oid, kind FROM orders) AS t"),
    column("SELECT *, n AS w FROM (SELECT id, kind, n FROM orders INTERSECT SELECT id, kind, x FROM people) AS t"),
    Shape(f"people p JOIN ({_O} UNION ALL {_P}) AS u ON u.id = p.id", ("u.x", "p.n"), ("u.kind", "p.kind")),
    Shape("people p", ("p.x", "p.n"), ("p.kind",), "p.id IN (SELECT id FROM orders UNION SELECT id FROM people WHERE n > 2)"),
    Shape("people p", ("p.x", "p.n"), ("p.kind",), "EXISTS (SELECT 1 FROM (SELECT id, n FROM orders UNION ALL SELECT id, n FROM people) AS t WHERE t.id = p.id AND t.n > 4)"),
    over(f"SELECT DISTINCT {_LISTED} FROM orders"),
    column("SELECT DISTINCT id, kind, n AS w FROM orders"),
    column("SELECT DISTINCT id, kind, count(*) AS w FROM orders GROUP BY id, kind, note"),
    column("SELECT DISTINCT id, sum(n) AS w FROM orders GROUP BY id, kind", keys=("u.w",)),
    column("SELECT DISTINCT o.id, i.kind, i.n AS w FROM orders o JOIN items i USING (oid)"),
)  # fmt: skip

_W = "PARTITION BY id ORDER BY n, x, kind, note, oid"
_C = "SELECT id, kind, n, x,"
WINDOWS: tuple[Shape, ...] = (
    column(f"{_C} row_number() OVER ({_W}) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} rank() OVER (PARTITION BY id ORDER BY n) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} dense_rank() OVER (PARTITION BY id ORDER BY n DESC, kind NULLS FIRST) AS w FROM orders", keys=("u.w",)),
    column(f"{_C} percent_rank() OVER (PARTITION BY id ORDER BY n) AS w FROM orders"),
    column(f"{_C} cume_dist() OVER (PARTITION BY kind, id ORDER BY n DESC NULLS FIRST) AS w FROM orders"),
    column(f"{_C} ntile(3) OVER ({_W}) AS w FROM orders", keys=("u.w",)),
    column(f"{_C} lag(n) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} n - lag(n, 1, 0) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} lead(x, 2) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} lag(x, 1, 2.5) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} lead(n IGNORE NULLS) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} length(lag(kind) OVER ({_W})) AS w FROM orders"),
    column(f"{_C} first_value(x) OVER ({_W}) AS w FROM orders"),
    column(f"{_C} first_value(x) OVER (PARTITION BY id ORDER BY oid) AS w FROM orders"),
    column(f"{_C} last_value(n) OVER ({_W} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} last_value(n IGNORE NULLS) OVER ({_W} ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS w FROM orders"),
    column(f"{_C} nth_value(x, 2) OVER ({_W} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM orders"),
    column(f"{_C} count(*) OVER (PARTITION BY id) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} count(note) OVER (PARTITION BY id, kind) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} count(DISTINCT kind) OVER (PARTITION BY id) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} sum(n) OVER (PARTITION BY id ORDER BY n) AS w FROM orders"),
    column(f"{_C} sum(x) OVER ({_W} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS w FROM orders"),
    column(f"{_C} avg(x) OVER (PARTITION BY id ORDER BY kind) AS w FROM orders"),
    column(f"{_C} avg(n) OVER (PARTITION BY id) AS w FROM orders"),
    column(f"{_C} min(x) OVER ({_W} ROWS UNBOUNDED PRECEDING) AS w FROM orders"),
    column(f"{_C} max(n) OVER (PARTITION BY id ORDER BY n RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS w FROM orders"),
    column(f"{_C} sum(n) FILTER (WHERE kind = 'a') OVER (PARTITION BY id) AS w FROM orders"),
    column(f"{_C} count(*) OVER ({_W} ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS w FROM orders", keys=("u.w",)),
    column(f"{_C} sum(n) OVER v + rank() OVER (v ORDER BY n) AS w FROM orders WINDOW v AS (PARTITION BY id)"),
    column(f"{_C} x AS w FROM orders QUALIFY row_number() OVER ({_W}) = 1"),
    column(f"{_C} n AS w, row_number() OVER ({_W}) AS rn FROM orders QUALIFY rn <= 2", keys=("u.kind", "u.rn")),
    column(f"{_C} n AS w FROM orders QUALIFY count(*) OVER (PARTITION BY id) > 1 AND n > 1"),
    column(f"SELECT * FROM ({_C} n AS w, row_number() OVER ({_W}) AS rn FROM orders) AS t WHERE rn = 1"),
    column("SELECT id, kind, rank() OVER (PARTITION BY id ORDER BY count(*) DESC) AS w FROM orders GROUP BY id, kind", keys=("u.w", "u.kind")),
    column("SELECT id, kind, sum(n) AS w FROM orders GROUP BY id, kind QUALIFY row_number() OVER (PARTITION BY id ORDER BY sum(n) DESC, kind) = 1"),
    column("SELECT id, kind, count(*) AS c, sum(count(*)) OVER (PARTITION BY id) AS w FROM orders GROUP BY id, kind HAVING count(*) > 1"),
    column("SELECT DISTINCT id, kind, max(n) OVER (PARTITION BY id, kind) AS w FROM orders"),
    column("SELECT i.oid, i.kind, i.n - lag(i.n) OVER (PARTITION BY i.oid ORDER BY i.n, i.kind, i.x, i.note) AS w FROM items i"),
    column("SELECT o.id, i.kind, sum(i.n) OVER (PARTITION BY o.id ORDER BY o.n) AS w FROM orders o JOIN items i USING (oid)"),
    column("SELECT p.id, p.kind, count(o.n) OVER (PARTITION BY p.id) AS w FROM people p LEFT JOIN orders o ON o.id = p.id"),
    column("SELECT id, kind, row_number() OVER (PARTITION BY id ORDER BY n, x, kind, note) AS w FROM (SELECT id, x, n, kind, note FROM orders UNION ALL SELECT id, x, n, kind, note FROM people) AS t", keys=("u.w", "u.kind")),
    Shape(f"people p JOIN (SELECT id, n AS w FROM orders QUALIFY row_number() OVER ({_W}) = 1) AS u USING (id)", ("u.w", "p.x"), ("p.kind", "u.w")),
)  # fmt: skip

TIED: tuple[Shape, ...] = (
    column(f"{_C} row_number() OVER (PARTITION BY id ORDER BY kind) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} row_number() OVER (PARTITION BY id) AS w FROM orders", keys=("u.kind", "u.w", "u.n")),
    column(f"{_C} ntile(2) OVER (PARTITION BY id ORDER BY note) AS w FROM orders", keys=("u.kind", "u.w")),
    column(f"{_C} x - lag(x) OVER (PARTITION BY id ORDER BY kind) AS w FROM orders", keys=("u.kind", "u.n")),
    column(f"{_C} lead(n, 1, n) OVER (PARTITION BY id, kind) AS w FROM orders", keys=("u.w", "u.n")),
    column(f"{_C} first_value(n) OVER (PARTITION BY id ORDER BY store) AS w FROM orders"),
    column(f"{_C} sum(n) OVER (PARTITION BY id ORDER BY kind ROWS 1 PRECEDING) AS w FROM orders"),
    column(f"{_C} x AS w FROM orders QUALIFY row_number() OVER (PARTITION BY id ORDER BY kind) = 1", keys=("u.kind", "u.n")),
    column(f"{_C} x AS w FROM orders QUALIFY row_number() OVER (PARTITION BY id, kind ORDER BY store) < 3", keys=("u.kind", "u.n")),
    column("SELECT i.oid, i.kind, lag(i.x) OVER (PARTITION BY i.oid ORDER BY i.n) AS w FROM items i"),
)  # fmt: skip
"""Windows whose ORDER BY leaves ties: DuckDB itself may give any of several answers, dpsql gives one."""


def _mark(test: str, table: str = "orders o", alias: str = "o") -> Shape:
    """A condition with a subquery, as a column of each row."""
    listed = ", ".join(f"{alias}.{c}" for c in ("x", "n", "kind", "note"))
    return Shape(f"(SELECT {listed}, {test} AS m FROM {table}) AS u", ("u.x", "u.n"), ("u.m", "u.kind", "u.m"))


_ITEM = "EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND i.n > o.n)"
MARKS: tuple[Shape, ...] = (
    _mark(_ITEM),
    _mark(f"CASE WHEN {_ITEM} THEN 'yes' WHEN o.n > 3 THEN 'big' ELSE o.kind END"),
    _mark(f"NOT {_ITEM} AND o.n > 1"),
    _mark("EXISTS (SELECT 1 FROM orders o WHERE o.id = p.id AND o.kind = 'a')", "people p", "p"),
    _mark("p.id IN (SELECT id FROM orders WHERE n > 3)", "people p", "p"),
    _mark("o.id NOT IN (SELECT id FROM people WHERE n > 3)"),
    _mark("o.kind IN (SELECT i.kind FROM items i WHERE i.oid = o.oid)"),
    _mark("o.kind NOT IN (SELECT i.kind FROM items i WHERE i.oid = o.oid)"),
    _mark("o.note IN (SELECT i.note FROM items i WHERE i.oid = o.oid)"),
    _mark("o.note NOT IN (SELECT i.note FROM items i WHERE i.oid = o.oid) IS NULL"),
    _mark("o.kind IN (SELECT kind FROM prices WHERE price > 1)"),
    _mark("o.kind NOT IN (SELECT kind FROM prices)"),
    _mark("(o.note IN (SELECT kind FROM prices WHERE price > 100)) IS NULL"),
    _mark("v.store IN (SELECT store FROM stores WHERE size > 1)", "visits v", "v"),
    _mark("o.n = ANY (SELECT price FROM prices)"),
    _mark(f"{_ITEM} OR o.id IN (SELECT id FROM people WHERE kind = 'b')"),
    Shape("orders o", ("o.x", "o.n"), ("o.kind",), f"{_ITEM} OR o.n = 2"),
    Shape("people p, orders o", ("o.x", "p.n"), ("o.kind",), "p.id = o.id AND (o.n > 5 OR o.kind IN (SELECT kind FROM items i WHERE i.oid = o.oid))"),
    Shape("orders o", ("o.x", "o.n"), ("o.kind",), "CASE WHEN o.kind = 'a' THEN EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid) ELSE o.id IN (SELECT id FROM people) END"),
    Shape("visits v", ("v.x", "v.n"), ("v.kind",), "v.n > 4 OR EXISTS (SELECT 1 FROM stores s WHERE s.store = v.store AND s.size < v.n)"),
    Shape("orders o", ("o.x", f"CASE WHEN {_ITEM} THEN o.x END", f"CASE WHEN {_ITEM} THEN 1 ELSE 0 END"), ("o.kind", f"CASE WHEN {_ITEM} THEN 1 ELSE 0 END")),
    column(f"SELECT o.id, o.kind, count_if({_ITEM}) AS w FROM orders o GROUP BY o.id, o.kind"),
    column(f"SELECT o.id, {_ITEM} AS kind, sum(o.n) FILTER (WHERE o.n > 1 OR {_ITEM}) AS w FROM orders o GROUP BY o.id, 2"),
    column(f"SELECT DISTINCT o.id, o.kind, CASE WHEN {_ITEM} THEN 3 END AS w FROM orders o"),
    column(f"SELECT o.id, o.kind, row_number() OVER (PARTITION BY o.id ORDER BY o.oid) + CASE WHEN {_ITEM} THEN 1 ELSE 0 END AS w FROM orders o"),
)  # fmt: skip

_PO = ("p.x", "o.n"), ("o.kind", "p.kind")
BRACKETS: tuple[Shape, ...] = (
    Shape("(people p JOIN orders o ON p.id = o.id) JOIN items i ON i.oid = o.oid", *_PO),
    Shape("people p JOIN (orders o JOIN items i ON i.oid = o.oid) ON p.id = o.id", *_PO),
    Shape("people p LEFT JOIN (orders o JOIN items i ON i.oid = o.oid) ON p.id = o.id AND p.n < i.n", *_PO),
    Shape("people p LEFT JOIN orders o JOIN items i ON i.oid = o.oid ON p.id = o.id", *_PO),
    Shape("(people p LEFT JOIN orders o ON p.id = o.id) LEFT JOIN (items i JOIN prices q ON i.kind = q.kind) ON i.oid = o.oid", *_PO),
    Shape("((orders o)) JOIN (people p) ON p.id = o.id", *_PO),
    Shape("(orders o JOIN stores s USING (store)) FULL JOIN people p ON p.id = o.id", *_PO),
    Shape("people p ANTI JOIN (orders o JOIN items i ON i.oid = o.oid) ON o.id = p.id", ("p.x",), ("p.kind",)),
    Shape("(SELECT id, x FROM people) AS p NATURAL JOIN (SELECT id, n, kind FROM orders) AS o", ("x", "n"), ("kind",)),
    Shape("(SELECT id, n, kind FROM orders) AS o NATURAL LEFT JOIN (SELECT id, x FROM people) AS p", ("x", "n"), ("kind",)),
    Shape("(SELECT id, n, kind FROM orders) AS o NATURAL FULL JOIN (SELECT id, n, x FROM people) AS p", ("x", "n"), ("kind",)),
)  # fmt: skip
